"""The elements of arrays, block by block: what a function computes between stays in the cache."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = Any  #: an ndarray
_BLOCK = 4096


def blockwise(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """Make a function of arrays of one that takes vectors of float64.

    The result has the type of the operands, float32 or float64. No warning is given.
    """

    @functools.wraps(kernel)
    def function(*operands: Array) -> Array:
        dtype = np.result_type(*operands, np.float32)
        shape = np.broadcast_shapes(*[np.shape(x) for x in operands])
        flat = [np.broadcast_to(x, shape).reshape(-1) for x in operands]
        y = np.empty(flat[0].size, dtype)
        with np.errstate(all="ignore"):
            for start in range(0, y.size, _BLOCK):
                part = slice(start, start + _BLOCK)
                y[part] = kernel(*[x[part].astype(np.float64) for x in flat])
        return y.reshape(shape)

    return function


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """The sum of coefficients[k] * x**k, by Horner's rule."""
    y = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        y *= x
        y += coefficient
    return y


def where_so(y: Array, condition: Array, kernel: Callable[..., Array], *operands: Array) -> None:
    """Put kernel(*operands) into y where the condition holds; it sees no other elements."""
    places = np.flatnonzero(condition)
    if places.size == y.size:
        y[...] = kernel(*operands)
    elif places.size:
        y[places] = kernel(*[x[places] for x in operands])
