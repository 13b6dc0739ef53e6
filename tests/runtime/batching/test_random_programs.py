"""Random programs give the same numbers recorded, off the trie, op by op, and under PyTorch."""

from __future__ import annotations

import importlib
import importlib.util
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from tries import own_trie
from wend._engine.base import config

HAS_TORCH = importlib.util.find_spec("torch") is not None

UNARY = ("tanh", "sigmoid", "exp", "abs", "neg", "relu", "sin")
BINARY = ("add", "sub", "mul", "maximum", "minimum")


class Program:
    """A random program over a few tensors: ops, views, in-place writes, branches on values."""

    def __init__(self, seed: int, length: int, size: int) -> None:
        self.seed, self.length, self.size = seed, length, size

    def run(self, api: Any) -> list[np.ndarray]:
        """Values and gradients at the end."""
        rng = random.Random(self.seed)
        draw = np.random.default_rng(self.seed)
        n = self.size
        leaves = [
            api.tensor(draw.normal(size=(n, 3)), dtype=api.float64, requires_grad=k != 1)
            for k in range(3)
        ]
        values = [leaf * 1.0 for leaf in leaves]
        for _ in range(self.length):
            self.step(api, rng, values)
        total = sum((v * v).mean() for v in [*values[:3], *values[-3:]])
        total.backward()
        grads = [leaf.grad for leaf in leaves if leaf.requires_grad]
        outs = [total, *values, *[g for g in grads if g is not None]]
        return [out.detach().numpy().copy() for out in outs]

    def step(self, api: Any, rng: random.Random, values: list[Any]) -> None:
        """One random statement."""
        x, y = rng.choice(values), rng.choice(values)
        kind = rng.randrange(10)
        if kind < 3:
            values.append(getattr(api, rng.choice(UNARY))(x * 0.5))
        elif kind < 5:
            values.append(getattr(api, rng.choice(BINARY))(x, y) * 0.5)
        elif kind == 5:
            fresh = x * 1.0
            fresh[:, rng.randrange(3)] = y[:, 0] * 0.5
            values.append(fresh)
        elif kind == 6:
            fresh = x + 0.0
            row = fresh[rng.randrange(self.size)]
            row.mul_(0.5)
            values.append(fresh)
        elif kind == 7:
            values.append(x.t().reshape(self.size, 3) + y.sum(dim=0))
        elif kind == 8:
            values.append(x * 2.0 if float(x.detach().sum()) > 0 else x - y.detach())
        else:
            fresh = x * 0.5
            fresh += y * 0.25
            values.append(fresh)


programs = st.builds(
    Program,
    seed=st.integers(0, 10**9),
    length=st.integers(1, 25),
    size=st.integers(1, 4),
)


@given(programs)
@settings(max_examples=60, deadline=None)
def test_all_ways_agree(program):
    # Machine code rounds in its own way: on a busy machine it would be there by the third run.
    with own_trie(), config.override(compile=config.settings.wait):
        first = program.run(wend)
        again = program.run(wend)
        known = program.run(wend)
    with own_trie(sealed=True):
        apart = program.run(wend)
    with wend.eager():
        single = program.run(wend)
    for a, b, c, d, e in zip(first, again, known, apart, single, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
        np.testing.assert_allclose(a, d, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed: nothing to compare with")
@given(programs)
@settings(max_examples=60, deadline=None)
def test_pytorch_agrees(program):
    torch = importlib.import_module("torch")
    for a, b in zip(program.run(wend), program.run(torch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
