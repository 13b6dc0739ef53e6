"""Memory for what lives no longer than a flush: one block, handed out by lifetimes."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

import numpy as np

from wend.runtime.native import _bind_select
from wend.runtime.native.launcher import launcher as _launch

_bind: Any = _bind_select.select()
ALIGNMENT = 64
#: Where all temporaries of a plan take so few bytes, it does not matter how well they are packed.
LITTLE = 1 << 20
#: Orders of blocks that are kept for one plan, blocks of which one is made, and how much more of
#: the sum of all sizes than at first they may take.
MOST_ORDERS, MOST_ORDERED, SLACK = 4, 400, 1.05


def aligned(size: int) -> int:
    """So many bytes, or the address of the first, rounded up."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Arena:
    """A block of memory, in use by one execution at a time."""

    __slots__ = ("address", "memory", "size")

    def __init__(self, size: int) -> None:
        self.memory = np.empty(size + ALIGNMENT, np.uint8)
        self.address = aligned(self.memory.ctypes.data)
        self.size = size

    def free(self) -> None:
        """Let the next execution have it."""
        _launch.free_arena(self)

    def view(self, place: int, function: Any, i: int, value: Any) -> Any:
        """The elements of a value, not none, whose base lies at a place."""
        dtype = function.dtypes[i].numpy
        layout = function.layout(i)
        shape = tuple([value(n) for n in function.shape(i)])
        offset = self.address - self.memory.ctypes.data + place
        offset += value(layout.offset) * dtype.itemsize
        strides = tuple([value(s) * dtype.itemsize for s in layout.strides])
        return np.ndarray(shape, dtype, self.memory, offset, strides)


def place_all(wanted: Iterable[tuple[Any, int, int, int]]) -> tuple[dict[Any, int], int]:
    """Places for (name, bytes, first step, last step), so that none overlap while they live.

    Returns (places by name, bytes in all).
    """
    rounded = [(name, aligned(size), *life) for name, size, *life in wanted]
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


class Placing:
    """Places for blocks that live as long as ever, for any sizes.

    lives: (first step, last step) of each block

    Once places have been found for some sizes, what lies above what is known. The same order gives
    places for other sizes in a few additions, and good ones where all blocks grow alike.
    """

    def __init__(self, lives: list[tuple[int, int]]) -> None:
        self.lives = lives
        self.orders: list[tuple[Any, int, float]] = []  # see `_bind.lay`
        self.searched = 0

    def place(self, sizes: list[int]) -> tuple[list[int], int]:
        """(places in the order of `lives`, bytes in all) for blocks of so many bytes."""
        n = len(sizes)
        words = np.empty((3, n), np.int64)
        words[1] = [aligned(size) for size in sizes]
        row = _launch.address_of(words)
        total = _bind.lay(self.orders, n, row, row + 8 * n, row + 16 * n)
        if total < 0:
            total = self.search(row, words[1].tolist())
        return words[0].tolist(), total

    def search(self, row: int, sizes: list[int]) -> int:
        """Write places to a row of words, found anew; returns the bytes in all.

        sizes: rounded up, and not all of them 0
        """
        rows = [(k, size, *life) for k, (size, life) in enumerate(zip(sizes, self.lives))]
        found, total = place_all(rows)
        places = [found[k] for k in range(len(rows))]
        for k, place in enumerate(places):
            _launch.write_word(row + 8 * k, place)
        # The first sizes may be the only ones: an order is made when others come.
        self.searched += 1
        if 1 < self.searched <= MOST_ORDERS and 0 < len(rows) <= MOST_ORDERED:
            order = _order(self.lives, places)
            self.orders.append((order, _launch.address_of(order), SLACK * total / sum(sizes)))
        return total


def _order(lives: list[tuple[int, int]], places: list[int]) -> np.ndarray:
    """What `lay_in_order` needs: each block lies where what is below it ends."""
    below: dict[int, int] = {}  # what must lie below, at whatever distance: a bit for each block
    words: list[int] = []
    for k in sorted(range(len(places)), key=lambda k: (places[k], k)):
        first, last = lives[k]
        near = [j for j in below if lives[j][0] <= last and first <= lives[j][1]]
        further = 0
        for j in near:
            further |= below[j]
        below[k] = further | sum([1 << j for j in near if not further >> j & 1])
        right_below = [j for j in near if not further >> j & 1]
        words += [k, len(right_below), *right_below]
    return np.array(words, np.int64)


_launch.fill("arena", Arena)
