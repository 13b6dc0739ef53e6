"""Chains whose groups have a single member each: the members run as stacks of height 1."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.llvm_ir import jit

STEPS = 24
BODIES = {
    "whole sum": lambda x, w: x * w / (1 + (x * x).sum()),
    "mean": lambda x, w: torch.tanh(x - x.mean() + w),
    "products": lambda x, w: torch.tanh(x @ (w.T @ x) * 0.1 + x.mean()),
    "columns": lambda x, w: torch.cumsum(x, 0) / x.shape[0] + x.max(0).values * w,
    "sorted": lambda x, w: x.flatten().sort().values.reshape(x.shape) * w,
    "padded": lambda x, w: torch.nn.functional.pad(x, (1, 0))[:, :-1] + x * w,
    "norm": lambda x, w: x / x.norm() + w,
}
SHAPES = [(1, 1), (1, 5), (4, 1), (3, 4)]


def chain(body, x, w, n=STEPS):
    for _ in range(n):
        x = body(x, w)
    return x


def gradients(body, starts, w):
    """The sum of the chains from all starts, and the gradients."""
    xs = [torch.tensor(x, requires_grad=True) for x in starts]
    w = torch.tensor(w, requires_grad=True)
    total = 0.0
    for x in xs:
        total = total + chain(body, x, w).sum()
    total.backward()
    return [total.item(), w.grad.numpy(), *[x.grad.numpy() for x in xs]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", BODIES)
def test_stacks_of_one_are_right(name, shape):
    """Alone, then three at once, then alone: each equals what is computed op by op."""
    rng = np.random.default_rng(3)
    w = rng.normal(size=shape)
    with own_trie(sealed=True), config.override(compile=True, wait=False):
        for count in (1, 3, 1):
            for _ in range(4):
                starts = [rng.normal(size=shape) for _ in range(count)]
                found = gradients(BODIES[name], starts, w)
                with torch.autobatch(False):
                    expected = gradients(BODIES[name], starts, w)
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
                jit.drain()
