"""Places of a sparse tensor's elements, as arrays: sorted, joined, looked up and compressed.

An array of places has the shape (dims, elements): column k says where element k lies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = [
    "apart_from",
    "bag_numbers",
    "block_places",
    "compressed",
    "end_to_end",
    "expanded",
    "first_outside",
    "lookup",
    "matches",
    "merged",
    "negative_zeros",
    "nonzero",
    "one_of_each",
    "stacked",
    "unkeyed",
]

Array = np.ndarray[Any, Any]


def integers(data: object) -> Array:
    """The data as a contiguous array of int64."""
    return np.ascontiguousarray(data, np.int64)


def keys(places: Array, size: tuple[int, ...]) -> Array:
    """A number for each place, in row-major order."""
    if len(size) == 1:
        return np.asarray(places[0])
    numbers = np.zeros(places.shape[1], np.int64)
    for row, extent in zip(places, size, strict=True):
        numbers = numbers * extent + row
    return numbers


def unkeyed(numbers: Array, size: tuple[int, ...]) -> Array:
    """The places that `keys` gives these numbers."""
    if len(size) == 1:
        return integers(numbers)[None]
    rows = []
    for extent in reversed(size):
        numbers, row = np.divmod(numbers, max(extent, 1))
        rows.append(row)
    rows.reverse()
    return stacked(rows, numbers.size)


def merged(places: Array, size: tuple[int, ...]) -> tuple[Array, Array | None, bool]:
    """(places in order, each once; the new number of each old place; whether any came twice).

    The numbers are None where the places are in order already.
    """
    numbers = keys(places, size)
    if bool((numbers[1:] > numbers[:-1]).all()):
        return places, None, False
    order = np.argsort(numbers, kind="stable")  # `np.unique` takes twice as long for a few places
    ordered = numbers[order]
    first = np.ones(numbers.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    unique, inverse = ordered[first], np.empty(numbers.size, np.int64)
    inverse[order] = np.cumsum(first) - 1
    return unkeyed(unique, size), inverse, unique.size < numbers.size


def one_of_each(inverse: Array, count: int) -> Array:
    """For each of `count` places an element that goes there."""
    elements = np.zeros(count, np.int64)
    elements[inverse] = np.arange(inverse.size)
    return elements


def lookup(wanted: Array, ordered: Array, size: tuple[int, ...]) -> tuple[Array, Array]:
    """(numbers of wanted places that are among the ordered places, their numbers there)."""
    want, have = keys(wanted, size), keys(ordered, size)
    at = np.minimum(np.searchsorted(have, want), max(have.size - 1, 0))
    hits = np.nonzero(have[at] == want)[0] if have.size else np.zeros(0, np.int64)
    return hits, at[hits] if have.size else hits


def matches(left: Array, right: Array) -> tuple[Array, Array]:
    """All pairs (i, j) with left[i] == right[j], as two arrays of numbers."""
    order = np.argsort(right, kind="stable")
    there = right[order]
    begin = np.searchsorted(there, left, "left")
    counts = np.searchsorted(there, left, "right") - begin
    i = np.repeat(np.arange(left.size), counts)
    offset = np.arange(i.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return i, order[np.repeat(begin, counts) + offset]


def compressed(rows: Array, count: int) -> Array:
    """Where the elements of each row begin, and the end of the last; rows in order."""
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int64)


def bag_numbers(begins: Array, size: int, bags: int) -> tuple[Array, Array]:
    """(the bag of each of `size` elements, the number of elements of each bag).

    begins: where each bag begins, and perhaps the end of the last   bags: how many there are

    Elements behind the end belong to bag number `bags`.
    """
    ends = np.full(bags + 1, size, np.int64)
    ends[: min(begins.size, bags + 1)] = begins[: bags + 1]
    numbers = np.searchsorted(ends, np.arange(size), "right") - 1
    return integers(numbers), np.diff(ends)


def expanded(begins: Array) -> Array:
    """The row of each element: `compressed`, undone."""
    begins = integers(begins)
    return np.repeat(np.arange(begins.size - 1), np.diff(begins))


def block_places(rows: Array, columns: Array, block: tuple[int, int]) -> Array:
    """Places of all elements of blocks, block after block."""
    high, wide = block
    i = rows[:, None, None] * high + np.arange(high)[:, None]
    j = columns[:, None, None] * wide + np.arange(wide)
    return np.stack([np.broadcast_to(x, (rows.size, high, wide)).reshape(-1) for x in (i, j)])


def nonzero(values: Array, dims: int) -> Array:
    """Places, by the first dims, where any value is not 0."""
    there = values != 0
    if there.ndim > dims:
        there = there.any(axis=tuple(range(dims, there.ndim)))
    return np.stack(np.nonzero(there)).astype(np.int64) if dims else np.zeros((0, 1), np.int64)


def stacked(rows: list[Any], count: int) -> Array:
    """Rows of places (arrays, or a number for all elements) as an array of places."""
    full = [np.broadcast_to(np.asarray(row, np.int64), (count,)) for row in rows]
    return np.stack(full) if full else np.zeros((0, count), np.int64)


def first_outside(places: Array, size: tuple[int, ...]) -> tuple[int, int] | None:
    """(dim, place) of a place outside the size, or None."""
    for dim, (row, extent) in enumerate(zip(places, size, strict=True)):
        if row.size and (row.min() < 0 or row.max() >= extent):
            return dim, int(row[(row < 0) | (row >= extent)][0])
    return None


def joined(parts: list[Array]) -> Array:
    """Arrays of places as a single array."""
    return np.concatenate(parts, axis=1)


def negative_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array that changes no other by being added, not even the sign of a zero."""
    return -np.zeros(shape, dtype)


def end_to_end(parts: list[Array], item: tuple[int, ...]) -> Array:
    """The items of all arrays in a row, each of the shape `item`."""
    counts = [math.prod(part.shape[: part.ndim - len(item)]) for part in parts]
    flat = [part.reshape(n, *item) for n, part in zip(counts, parts, strict=True)]
    return np.concatenate(flat) if len(flat) > 1 else flat[0].copy()


def apart_from(numbers: Array, parts: list[Array], left_out: list[int]) -> Array | None:
    """Where the numbers of no part are the one that is left out there; None for everywhere.

    numbers: those of all parts in a row     left_out: by part, negative for none
    """
    if max(left_out) < 0:
        return None
    out = np.repeat(np.asarray(left_out), [part.size for part in parts])
    kept = np.flatnonzero(numbers != out)
    return None if kept.size == numbers.size else kept
