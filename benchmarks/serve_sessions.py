"""One side of ``sessions.py``: times a session and the program that it was made of, in turns.

python serve_sessions.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import numpy as np
import torch
import torch.nn.functional as F
from bench import serve
from resnet import ResNet
from torch import nn

torch.set_num_threads(1)
#: Seconds that a pass of a side takes, about.
PASS = 0.15


class Digits(nn.Module):
    """The CNN of examples/digits.py: (n, 1, 8, 8) -> (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1)
        self.second = nn.Conv2d(12, 24, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.output = nn.Linear(24 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.output(self.drop(x.flatten(1)))


class Tagger(nn.Module):
    """Reads words (n,) until the scores (1, 12) are sure, or, with a limit of 1, to the end."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit
        self.embedding = nn.Embedding(2000, 128)
        self.cell = nn.LSTMCell(128, 64)
        self.output = nn.Linear(64, 12)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        h = c = self.embedding.weight.new_zeros(1, 64)
        for row in self.embedding(words):
            h, c = self.cell(row[None], (h, c))
            if self.limit < 1 and F.softmax(self.output(h), -1).max() > self.limit:
                break
        return self.output(h)


def mlp() -> nn.Module:
    """784-256-256-10."""
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def normal(rng: Any, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Inputs of these shapes."""
    return [torch.from_numpy(rng.normal(size=shape).astype(np.float32)) for shape in shapes]


def sentences(rng: Any) -> list[torch.Tensor]:
    """Words of sentences of several lengths."""
    return [torch.from_numpy(rng.integers(0, 2000, n)) for n in (5, 12, 20, 33)]


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], list[torch.Tensor]]]] = {
    "digits, 16 images": (Digits, lambda rng: normal(rng, (16, 1, 8, 8))),
    "digits, an image": (Digits, lambda rng: normal(rng, (1, 1, 8, 8))),
    "MLP, batch 64": (mlp, lambda rng: normal(rng, (64, 784))),
    "ResNet, three sizes": (
        ResNet,
        lambda rng: normal(rng, (1, 3, 64, 64), (1, 3, 96, 80), (1, 3, 112, 112)),
    ),
    "tagger, early exit": (lambda: Tagger(0.13), sentences),
    "tagger, to the end": (lambda: Tagger(1.0), sentences),
}


def timed(call: Callable[[Any], Any], inputs: list[torch.Tensor], rounds: int) -> float:
    """Milliseconds of processor time of a call."""
    start = time.process_time()
    for _ in range(rounds):
        for x in inputs:
            call(x)
    return 1000 * (time.process_time() - start) / (rounds * len(inputs))


def steady(model: str, passes: int) -> dict[str, Any]:
    """Times of calls of the session and of the program, pass by pass."""
    torch.manual_seed(0)
    make, inputs_of = MODELS[model]
    net, inputs = make().eval(), inputs_of(np.random.default_rng(0))
    session = torch.session(net, inputs[0])

    def dynamic(x: torch.Tensor) -> Any:
        with torch.no_grad():
            return net(x).numpy()

    def fed(x: torch.Tensor) -> Any:
        return session(x).numpy()

    for _ in range(12):
        for x in inputs:
            np.testing.assert_allclose(fed(x), dynamic(x), rtol=1e-3, atol=1e-4)
        common.come_to_rest()
    rounds = max(1, round(PASS / len(inputs) / timed(dynamic, inputs, 20) * 1000))
    times: dict[str, list[float]] = {"session": [], "dynamic": []}
    for _ in range(passes):
        times["session"].append(timed(fed, inputs, rounds))
        times["dynamic"].append(timed(dynamic, inputs, rounds))
    return times


def save(path: str) -> list[Any]:
    """Save a session of the digits net; return an input and the result."""
    torch.manual_seed(0)
    x = normal(np.random.default_rng(0), (4, 1, 8, 8))[0]
    session = torch.session(Digits().eval(), x)
    session.save(path)
    return [x.tolist(), session(x).tolist()]


if __name__ == "__main__":
    ways = {"steady": steady, "save": save}
    serve(lambda do, **request: ways[do](**request))
