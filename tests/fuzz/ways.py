"""What a random program is given to run with: data, decisions, reads, a function of its own.

A printed program carries the text of this file, so that it runs by itself.
"""

from __future__ import annotations

import random

import numpy as np


class Undecided(Exception):
    """A branch hangs on a rounding error."""


def product_of(torch):
    """A product as a user would write it, with its own backward."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            y = torch.tanh(a * b)
            ctx.save_for_backward(a, b, y)
            return y

        @staticmethod
        def backward(ctx, g):
            a, b, y = ctx.saved_tensors
            g = g * (1 - y * y)
            return g * b, g * a

    return Product


def data_of(torch, seed):
    """data(key, shape, dtype, requires_grad): the same numbers for the same key and seed."""

    def data(key, shape, dtype, requires_grad=False):
        draw = np.random.default_rng((seed, key))
        if dtype == torch.bool:
            return torch.tensor(draw.random(shape) < 0.5)
        if dtype in (torch.int64, torch.int32, torch.uint8):
            low = 0 if dtype == torch.uint8 else -3
            return torch.tensor(draw.integers(low, 4, shape)).to(dtype)
        made = torch.tensor(draw.uniform(-2, 2, shape)).to(dtype)
        return made.requires_grad_() if requires_grad else made

    return data


def decide_of(margin):
    """decide(value, limit): whether a value is greater.

    Raises Undecided where it is too close, and in a loop that does not end.
    """
    left = [100]

    def decide(value, limit):
        found = value.item()
        left[0] -= 1
        if not left[0] or abs(found - limit) <= margin * max(1.0, abs(found)):
            raise Undecided
        return found > limit

    return decide


def read_of(seed, results):
    """read(key, value): looks at a value or not, in one way or another; never with seed 0."""
    place = random.Random(seed)

    def read(key, value):
        if seed and place.random() < 0.6:
            kind = place.randrange(3)
            if kind == 0:
                repr(value)
            elif kind == 1:
                value.tolist()
            else:
                results[f"read {key}, {len(results)}"] = plain(value)

    return read


def plain(value):
    """dtype, requires_grad and the numbers of a tensor."""
    dtype = str(value.dtype).rpartition(".")[2]
    array = value.detach()
    if dtype in ("float16", "bfloat16"):
        array = array.float()
    return dtype, value.requires_grad, array.numpy().copy()


def call(torch, program, product, margin, n, m, data, reads):
    """Run a program; returns its results by name and what its hooks saw."""
    results, seen = {}, []
    found = program(
        torch, torch.nn.functional, product, data_of(torch, data), decide_of(margin),
        read_of(reads, results), seen, n, m,
    )  # fmt: skip
    for name in list(found):
        value = found.pop(name)
        results[name] = plain(value)
        if value.is_leaf or value.retains_grad:
            results[f"{name}.grad"] = None if value.grad is None else plain(value.grad)
    return results, seen
