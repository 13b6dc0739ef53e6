"""Memory for what lives no longer than a flush: one block, handed out by lifetimes."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

import numpy as np

from wend.runtime.launcher import launcher as _launch

ALIGNMENT = 64
#: Where all temporaries of a plan take so few bytes, it does not matter how well they are packed.
LITTLE = 1 << 20


class Arena:
    """A block of memory, in use by one execution at a time."""

    __slots__ = ("address", "memory", "size")

    def __init__(self, size: int) -> None:
        self.memory = np.empty(size + ALIGNMENT, np.uint8)
        self.address = -(-self.memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        self.size = size

    def free(self) -> None:
        """Let the next execution have it."""
        _launch.free_arena(self)

    def view(self, place: int, function: Any, i: int, value: Any) -> Any:
        """The elements of a value whose base lies at a place."""
        dtype = function.dtypes[i].numpy
        layout = function.layout(i)
        shape = tuple([value(n) for n in function.shape(i)])
        if 0 in shape:
            return np.empty(shape, dtype)
        offset = self.address - self.memory.ctypes.data + place
        offset += value(layout.offset) * dtype.itemsize
        strides = tuple([value(s) * dtype.itemsize for s in layout.strides])
        return np.ndarray(shape, dtype, self.memory, offset, strides)


def place_all(wanted: Iterable[tuple[Any, int, int, int]]) -> tuple[dict[Any, int], int]:
    """Places for (name, bytes, first step, last step), so that none overlap while they live.

    Returns (places by name, bytes in all).
    """
    rounded = [(name, -(-size // ALIGNMENT) * ALIGNMENT, *life) for name, size, *life in wanted]
    if sum([row[1] for row in rounded]) <= LITTLE:
        return place_in_turn(rounded)
    return place_by_size(rounded)


def place_in_turn(rows: list[Any]) -> tuple[dict[Any, int], int]:
    """Each, as it begins to live, to the place of one of its size that lives no more."""
    places: dict[Any, int] = {}
    free: dict[int, list[int]] = {}
    alive: list[tuple[int, int, int]] = []  # (last, size, place)
    total = 0
    for name, size, first, last in sorted(rows, key=lambda row: row[2]):
        while alive and alive[0][0] < first:
            _, length, place = heappop(alive)
            free.setdefault(length, []).append(place)
        spare = free.get(size)
        if spare:
            place = spare.pop()
        else:
            place = total
            total += size
        places[name] = place
        heappush(alive, (last, size, place))
    return places, total


def place_by_size(rows: list[Any]) -> tuple[dict[Any, int], int]:
    """The largest first, each to the lowest gap: takes time with the square of their number."""
    places: dict[Any, int] = {}
    taken: list[tuple[int, int, int, int]] = []  # (from, to, first, last), by place
    total = 0
    for name, size, first, last in sorted(rows, key=lambda row: -row[1]):
        at = 0
        for start, end, begin, finish in taken:
            if begin > last or finish < first:
                continue
            if start - at >= size:
                break
            at = max(at, end)
        places[name] = at
        insort(taken, (at, at + size, first, last))
        total = max(total, at + size)
    return places, total


_launch.fill("arena", Arena)
