"""The arena: a block of memory for the temporaries of a flush, shared out by lifetimes."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

import numpy as np

from wend._engine.runtime.native import _bind_select
from wend._engine.runtime.native.launcher import launcher as _launch
from wend._engine.runtime.native.temporaries import aligned

_bind: Any = _bind_select.select()
#: Up to this many bytes of temporaries in a plan, places are found fast instead of tightly.
LITTLE = 1 << 20
#: The number of orders of blocks that are kept for a plan, and the most blocks in an order.
#: An order is used for other sizes if the arena's share of the sum of all sizes grows by no more
#: than the factor SLACK.
MOST_ORDERS, MOST_ORDERED, SLACK = 4, 400, 1.05


def place_all(wanted: Iterable[tuple[Any, int, int, int]]) -> tuple[dict[Any, int], int]:
    """Find places for blocks, so that no two overlap while both live.

    wanted: (name, bytes, first step, last step) of each block
    Returns (places by name, bytes in all).
    """
    rounded = [(name, aligned(size), *life) for name, size, *life in wanted]
    if sum([row[1] for row in rounded]) <= LITTLE:
        return place_in_turn(rounded)
    return place_by_size(rounded)


def place_in_turn(rows: list[Any]) -> tuple[dict[Any, int], int]:
    """Give each block, in order of first steps, the place of a dead block of the same size.

    Returns (places by name, bytes in all).
    """
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
    """Give each block the lowest gap that fits, the largest block first.

    Takes time with the square of the number of blocks.  Returns (places by name, bytes in all).
    """
    rows = sorted(rows, key=lambda row: -row[1])
    words = np.array([(0, *row[1:]) for row in rows], np.int64).reshape(-1, 4)
    taken = np.empty_like(words)
    total = _bind.fill_gaps(len(rows), _launch.address_of(words), _launch.address_of(taken))
    return {row[0]: place for row, place in zip(rows, words[:, 0].tolist(), strict=True)}, total


class Placing:
    """Finds places for blocks with fixed lifetimes, for any sizes.

    lives: (first step, last step) of each block

    A search for some sizes also gives an order: which block lies above which. The same order gives
    places for other sizes in a few additions. These places are good where all blocks grow alike.
    """

    def __init__(self, lives: list[tuple[int, int]]) -> None:
        self.lives = lives
        self.orders: list[tuple[Any, int, float]] = []  # see `_bind.lay`
        self.searched = 0

    def place(self, sizes: list[int]) -> tuple[list[int], int]:
        """Return (places in the order of `lives`, bytes in all) for blocks of these sizes."""
        n = len(sizes)
        words = np.empty((3, n), np.int64)
        words[1] = [aligned(size) for size in sizes]
        row = _launch.address_of(words)
        total = _bind.lay(self.orders, n, row, row + 8 * n, row + 16 * n)
        if total < 0:
            total = self.search(row, words[1].tolist())
        return words[0].tolist(), total

    def search(self, row: int, sizes: list[int]) -> int:
        """Search for places and write them to a row of words; return the bytes in all.

        row: address of the words
        sizes: bytes of the blocks, rounded up, and not all 0
        """
        rows = [(k, size, *life) for k, (size, life) in enumerate(zip(sizes, self.lives))]
        place_of, total = place_all(rows)
        places = [place_of[k] for k in range(len(rows))]
        for k, place in enumerate(places):
            _launch.write_word(row + 8 * k, place)
        # The first sizes may be the only ones: an order is made from the second search on.
        self.searched += 1
        if 1 < self.searched <= MOST_ORDERS and 0 < len(rows) <= MOST_ORDERED:
            order = _order(self.lives, places)
            self.orders.append((order, _launch.address_of(order), SLACK * total / sum(sizes)))
        return total


def _order(lives: list[tuple[int, int]], places: list[int]) -> np.ndarray:
    """Return the words of an order, by which a block begins where the blocks below it end.

    The words of each block are its number, how many blocks lie right below, and these blocks.
    """
    below: dict[int, int] = {}  # all blocks that must lie below a block, as a set of bits
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
