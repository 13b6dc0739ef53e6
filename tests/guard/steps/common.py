"""Small trainings with one feature each: the table, and the net that most of them train.

A feature is a function that builds what it needs, and returns a function that makes one step. The
programs are what users of PyTorch write; nothing in them is written for Wend but the first import.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import wend as torch
from wend import nn
from wend.nn import functional as F

Step = Callable[[], Any]
WIDTH, ROWS, CLASSES, WORDS = 16, 4, 3, 40
#: Lengths of the sentences of successive steps.
LENGTHS = (3, 4)

#: Visits of each length before those that are counted: machine code is there after the third one.
BEFORE = 5
#: Where structures do not come back, more steps go by until groups of like regions are ready.
LONG_BEFORE = 15
#: By name: a function that builds a program, and returns its step.
STEPS: dict[str, Callable[[], Step]] = {}
#: The features with `LONG_BEFORE`.
LONG: set[str] = set()


def feature(make: Callable[[], Step]) -> Callable[[], Step]:
    """Enter a feature into the table."""
    assert make.__name__ not in STEPS
    STEPS[make.__name__] = make
    return make


def slow_start(make: Callable[[], Step]) -> Callable[[], Step]:
    """Enter a feature whose structures do not come back."""
    LONG.add(make.__name__)
    return feature(make)


class Data:
    """Sentences whose lengths come in turn, and draws that are always the same."""

    def __init__(self) -> None:
        self.arrays = np.random.default_rng(11)
        self.draw = random.Random(12)
        self.taken = 0

    def length(self) -> int:
        self.taken += 1
        return LENGTHS[self.taken % len(LENGTHS)]

    def normal(self, *shape: int) -> Any:
        return torch.from_numpy(self.arrays.normal(size=shape).astype(np.float32))

    def integers(self, most: int, *shape: int) -> Any:
        return torch.from_numpy(self.arrays.integers(0, most, shape))

    def sentences(self) -> tuple[Any, Any]:
        """(words (length, rows, width), classes (rows))"""
        return self.normal(self.length(), ROWS, WIDTH), self.integers(CLASSES, ROWS)


class Chain(nn.Module):
    """A recurrent net, a word at a time; `change(net, state)` is called on each state."""

    def __init__(self, change: Callable[[Any, Any], Any] | None = None, part: Any = None) -> None:
        super().__init__()
        self.of_word, self.of_state = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, CLASSES)
        self.change = change
        self.part = part

    def next(self, h: Any, x: Any) -> Any:
        return torch.tanh(self.of_word(x) + self.of_state(h))

    def forward(self, words: Any) -> Any:
        h = words.new_zeros(words.shape[1], WIDTH)
        for x in words:
            h = self.next(h, x)
            if self.change is not None:
                h = self.change(self, h)
        return self.output(h)


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.02)


def entropy(net: Any, words: Any, classes: Any) -> Any:
    return F.cross_entropy(net(words), classes)


def training(
    net: Any = None,
    loss: Callable[[Any, Any, Any], Any] = entropy,
    optimizer: Callable[[Any], Any] = sgd,
    before_update: Callable[[Any], Any] | None = None,
    after_update: Callable[[Any], Any] | None = None,
) -> Step:
    """A step of ordinary training; what is done before and after the update is called on the net"""
    net = Chain() if net is None else net
    chosen, data = optimizer(net.parameters()), Data()

    def step() -> Any:
        found = loss(net, *data.sentences())
        chosen.zero_grad()
        found.backward()
        if before_update is not None:
            before_update(net)
        chosen.step()
        if after_update is not None:
            after_update(net)
        return found.item()

    return step


def of_states(change: Callable[[Any], Any]) -> Callable[[], Step]:
    """Enter a feature: a function of the state (rows, width) after each word."""

    def make() -> Step:
        return training(Chain(lambda net, h: change(h)))

    make.__name__ = change.__name__
    return feature(make)
