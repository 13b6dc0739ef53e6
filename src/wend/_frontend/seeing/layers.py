"""A layered layout: rows by depth, few crossings, straight edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Layered", "layered"]

#: Pixels between rows and between neighbours of a row; width of an edge that crosses a row.
ROWS, NEIGHBOURS, LANE = 34.0, 20.0, 10.0
SWEEPS = 8

Point = tuple[float, float]


@dataclass
class Layered:
    """Places of items.

    corners: the upper left corner of each item
    routes: (from, to) -> points between the rows that an edge crosses
    """

    corners: list[Point]
    routes: dict[tuple[int, int], list[Point]]
    width: float
    height: float


def layered(
    sizes: Sequence[Point], links: Sequence[tuple[int, int]], upward: bool = False
) -> Layered:
    """Places for items of given widths and heights, each below the operands.

    upward: above the operands instead. Edges that close a circle do not count.
    Sugiyama, Tagawa and Toda (1981): rows, dummies, barycentres, and then coordinates.
    """
    down = without_circles(len(sizes), links)
    rows = rows_of(len(sizes), down)
    chains, order, neighbours = with_dummies(rows, down)
    widths = [width for width, _ in sizes] + [LANE] * (len(neighbours) - len(sizes))
    for sweep in range(SWEEPS):
        sort_rows(order, neighbours, from_above=sweep % 2 == 0)
    centres = centres_of(order, neighbours, widths)
    left = min((centres[i] - widths[i] / 2 for row in order for i in row), default=0.0)
    right = max((centres[i] + widths[i] / 2 for row in order for i in row), default=0.0)
    y, middles = 0.0, {}
    corners: list[Point] = [(0.0, 0.0)] * len(sizes)
    for row in reversed(order) if upward else order:
        height = max((sizes[i][1] for i in row if i < len(sizes)), default=0.0)
        for i in row:
            middles[i] = y + height / 2
            if i < len(sizes):
                corners[i] = (centres[i] - widths[i] / 2 - left, middles[i] - sizes[i][1] / 2)
        y += height + ROWS
    routes = {pair: [(centres[i] - left, middles[i]) for i in c] for pair, c in chains.items()}
    return Layered(corners, routes, right - left, max(y - ROWS, 0.0))


def without_circles(count: int, links: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges without those that lead back to an item that is being visited."""
    after: list[list[int]] = [[] for _ in range(count)]
    for start, end in links:
        after[start].append(end)
    state, kept = [0] * count, []
    for root in range(count):
        if state[root]:
            continue
        state[root] = 1
        stack = [(root, iter(after[root]))]
        while stack:
            item, rest = stack[-1]
            for end in rest:
                if state[end] == 1:
                    continue
                kept.append((item, end))
                if state[end] == 0:
                    state[end] = 1
                    stack.append((end, iter(after[end])))
                    break
            else:
                state[item] = 2
                stack.pop()
    return kept


def rows_of(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each item: the longest path to the item; items without edges in a block."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for start, end in links:
        before[end].append(start)
        after[start].append(end)
    rows, waiting = [0] * count, [len(x) for x in before]
    ready = [i for i in range(count) if not waiting[i]]
    for item in ready:
        for end in after[item]:
            rows[end] = max(rows[end], rows[item] + 1)
            waiting[end] -= 1
            if not waiting[end]:
                ready.append(end)
    for item in range(count):  # a source lies right above the first user
        if not before[item] and after[item]:
            rows[item] = min(rows[end] for end in after[item]) - 1
    alone = [i for i in range(count) if not before[i] and not after[i]]
    columns = max(1, round(math.sqrt(len(alone) / 2.5)))
    for place, item in enumerate(alone):
        rows[item] = place // columns
    return rows


def with_dummies(
    rows: list[int], links: Sequence[tuple[int, int]]
) -> tuple[dict[tuple[int, int], list[int]], list[list[int]], list[tuple[list[int], list[int]]]]:
    """An item in each row that an edge crosses; rows of items; neighbours above and below."""
    neighbours: list[tuple[list[int], list[int]]] = [([], []) for _ in rows]
    order: list[list[int]] = [[] for _ in range(max(rows, default=-1) + 1)]
    for item, row in enumerate(rows):
        order[row].append(item)
    chains = {}
    for start, end in links:
        chain, last = [], start
        for row in range(rows[start] + 1, rows[end]):
            dummy = len(neighbours)
            neighbours.append(([last], []))
            neighbours[last][1].append(dummy)
            order[row].append(dummy)
            chain.append(dummy)
            last = dummy
        neighbours[last][1].append(end)
        neighbours[end][0].append(last)
        chains[start, end] = chain
    return chains, order, neighbours


def sort_rows(
    order: list[list[int]], neighbours: list[tuple[list[int], list[int]]], from_above: bool
) -> None:
    """Sort each row by the mean place of the neighbours in the row before."""
    place = {item: i for row in order for i, item in enumerate(row)}
    for row in order if from_above else reversed(order):
        means = {}
        for item in row:
            near = neighbours[item][0 if from_above else 1]
            means[item] = sum(place[i] for i in near) / len(near) if near else place[item]
        row.sort(key=means.__getitem__)
        place.update((item, i) for i, item in enumerate(row))


def centres_of(
    order: list[list[int]], neighbours: list[tuple[list[int], list[int]]], widths: list[float]
) -> dict[int, float]:
    """Horizontal centres: near those of the neighbours, without overlaps."""
    centres: dict[int, float] = {}
    for row in order:
        x = -sum(widths[i] + NEIGHBOURS for i in row) / 2
        for item in row:
            centres[item] = x + (widths[item] + NEIGHBOURS) / 2
            x += widths[item] + NEIGHBOURS
    for sweep in range(SWEEPS):
        side = sweep % 2
        for row in order if side == 0 else reversed(order):
            wanted = []
            for item in row:
                near = neighbours[item][side]
                wanted.append(sum(centres[i] for i in near) / len(near) if near else centres[item])
            place_row(row, wanted, centres, widths)
    return centres


def place_row(
    row: list[int], wanted: list[float], centres: dict[int, float], widths: list[float]
) -> None:
    """Centres as near to those wanted as the widths allow, in the least-squares sense.

    Neighbours that would overlap move together, to the mean of the wishes (pool adjacent
    violators).
    """
    blocks: list[tuple[float, int]] = []  # (mean of the wishes less the offsets, items)
    offsets, x = [], 0.0
    for place, item in enumerate(row):
        if place:
            x += (widths[row[place - 1]] + widths[item]) / 2 + NEIGHBOURS
        offsets.append(x)
        mean, count = wanted[place] - x, 1
        while blocks and blocks[-1][0] > mean:
            other, others = blocks.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    for item, mean, offset in zip(row, means, offsets, strict=True):
        centres[item] = mean + offset
