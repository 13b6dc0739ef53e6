"""Functions of the array API that search, sort, and find the elements that differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import wend
from wend._engine.base import dtypes
from wend._engine.base.errors import ArgumentTypeError
from wend.xp._operands import Array, converted, functions, together

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "nonzero",
    "searchsorted",
    "sort",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The place of the largest element along an axis, the first of equals."""
    return wend.argmax(x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The place of the smallest element along an axis, the first of equals."""
    return wend.argmin(x, axis, keepdims)


def count_nonzero(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The number of elements that are not 0."""
    truth = x != 0
    if axis is None:
        axis = tuple(range(x.ndim))
    return wend.sum(truth, axis, keepdims) if axis != () else converted(truth, dtypes.int64)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The places of the elements that are not 0: an array of indices per axis.

    Raises ArgumentTypeError for a 0-d x.
    """
    if not x.ndim:
        raise ArgumentTypeError("nonzero: takes arrays of one dim or more")
    return tuple(functions.nonzero(x, as_tuple=True))


def searchsorted(
    x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None
) -> Array:
    """Where elements of x2 belong in the sorted x1."""
    a, b = together("searchsorted", x1, x2)
    order = None if sorter is None else converted(sorter, dtypes.int64)
    return wend.searchsorted(a, b, side=side, sorter=order)


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition holds, else x2."""
    return wend.where(condition, *together("where", x1, x2))


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The order of the elements along an axis."""
    return wend.argsort(x, axis, descending, stable=stable)


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order along an axis."""
    return wend.sort(x, axis, descending, stable=stable).values


class UniqueAll(NamedTuple):
    """The results of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The results of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The results of `unique_inverse`."""

    values: Array
    inverse_indices: Array


def _starts(x: Array) -> tuple[Array, Array]:
    """(order that sorts the flat x, where another element begins). No two NaN are equal."""
    flat = x.reshape(-1)
    keys = converted(flat, dtypes.uint8) if flat.dtype is dtypes.bool_ else flat
    order = _order(keys)
    ordered = flat[order]
    new = wend.ones(flat.shape, dtype=dtypes.bool_)
    if flat.shape[0] > 1:
        new = wend.cat([new[:1], ordered[1:] != ordered[:-1]])
    return order, new


def _order(flat: Array) -> Array:
    if not flat.dtype.is_complex:
        return wend.argsort(flat, stable=True)
    order = wend.argsort(flat.imag, stable=True)
    return order[wend.argsort(flat.real[order], stable=True)]


def unique_all(x: Array, /) -> UniqueAll:
    """The different elements, where each is met first, where each element went, how many."""
    order, new = _starts(x)
    flat = x.reshape(-1)
    starts = functions.nonzero(new, as_tuple=True)[0]
    group = wend.cumsum(converted(new, dtypes.int64), 0) - 1
    inverse = wend.zeros_like(order)
    inverse[order] = group
    ends = wend.cat([starts[1:], wend.full((1,), flat.shape[0])])
    first = order[starts]
    return UniqueAll(flat[first], first, inverse.reshape(x.shape), ends[: len(starts)] - starts)


def unique_counts(x: Array, /) -> UniqueCounts:
    """The different elements, and how many there are of each."""
    unique = unique_all(x)
    return UniqueCounts(unique.values, unique.counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The different elements, and which of these each element is."""
    unique = unique_all(x)
    return UniqueInverse(unique.values, unique.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """The different elements."""
    order, new = _starts(x)
    return x.reshape(-1)[order][new]
