"""Linked items as groups on shelves: places for all items of a frame, no wider than wished."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from wend._frontend.seeing.layers import Layered, Link, Point, layers_of

__all__ = ["layered"]

#: Pixels between groups.
BETWEEN = 26.0
#: An item with more links than this holds no group together.
MOST_FANNED = 10
#: Width of groups on shelves for their height, about.
ASPECT = 1.6


def layered(
    sizes: Sequence[Point],
    links: Sequence[Link],
    upward: bool = False,
    most: float = math.inf,
    first: Collection[int] = (),
    last: Collection[int] = (),
) -> Layered:
    """Places for items of given widths and heights, each below the operands in its group.

    upward: above the operands instead     most: width, if no item is wider
    first, last: items in the first and in the last row of their group

    Items that are linked are a group; groups stand on shelves. Edges between groups, from items
    with very many users, have no route.
    """
    groups = groups_of(len(sizes), links)
    group_of = {item: g for g, group in enumerate(groups) for item in group}
    own: list[list[Link]] = [[] for _ in groups]
    numbers = {item: k for group in groups for k, item in enumerate(group)}
    for start, end in links:
        if group_of[start] == group_of[end]:
            own[group_of[start]].append((numbers[start], numbers[end]))
    pieces = []
    for group, inner in zip(groups, own, strict=True):
        lines = [numbers[i] for i in group if i in first], [numbers[i] for i in group if i in last]
        pieces.append(layers_of([sizes[i] for i in group], inner, most, *lines))
    wanted = {group_of[a] for a, b in links if group_of[a] != group_of[b]}
    wanted -= {group_of[b] for a, b in links if group_of[a] != group_of[b]}
    places, width, height = shelves([(p.width, p.height) for p in pieces], most, wanted)
    whole = Layered([(0.0, 0.0)] * len(sizes), [(0.0, 0.0)] * len(sizes), {}, width, height)
    for group, piece, (x, y) in zip(groups, pieces, places, strict=True):
        for item, (u, v), (a, b) in zip(group, piece.corners, piece.spans, strict=True):
            whole.corners[item] = (x + u, y + v)
            whole.spans[item] = (y + a, y + b)
        whole.back.update((group[start], group[end]) for start, end in piece.back)
        for (start, end), points in piece.routes.items():
            whole.routes[group[start], group[end]] = [(x + u, y + v) for u, v in points]
    return flipped(whole, sizes) if upward else whole


def flipped(whole: Layered, sizes: Sequence[Point]) -> Layered:
    """The same, upside down."""
    tall = whole.height
    whole.corners = [(x, tall - y - h) for (x, y), (_, h) in zip(whole.corners, sizes, strict=True)]
    whole.spans = [(tall - top, tall - bottom) for top, bottom in whole.spans]
    whole.routes = {k: [(x, tall - y) for x, y in points] for k, points in whole.routes.items()}
    return whole


def groups_of(count: int, links: Sequence[Link]) -> list[list[int]]:
    """Items by links, in order; links of items with very many users do not count."""
    users = [0] * count
    for start, _ in links:
        users[start] += 1
    leader = list(range(count))

    def lead(item: int) -> int:
        while leader[item] != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    for start, end in links:
        if users[start] <= MOST_FANNED:
            a, b = lead(start), lead(end)
            leader[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for item in range(count):
        groups.setdefault(lead(item), []).append(item)
    return list(groups.values())


def shelves(
    sizes: Sequence[Point], most: float, wanted: Collection[int] = ()
) -> tuple[list[Point], float, float]:
    """Places of rectangles on shelves, tall ones first; the width and the height of all.

    wanted: rectangles that have the first shelf for themselves
    """
    if len(sizes) == 1:
        return [(0.0, 0.0)], *sizes[0]
    area = sum((w + BETWEEN) * (h + BETWEEN) for w, h in sizes)
    wide = max(max((w for w, _ in sizes), default=0.0), min(most, math.sqrt(ASPECT * area)))
    places: list[Point] = [(0.0, 0.0)] * len(sizes)
    x = top = shelf = under = column = width = 0.0
    was_wanted = bool(wanted)
    for i in sorted(range(len(sizes)), key=lambda i: (i not in wanted, -sizes[i][1])):
        w, h = sizes[i]
        if was_wanted and i not in wanted:
            was_wanted, x, top, column, shelf = False, 0.0, top + shelf + BETWEEN, 0.0, 0.0
        if column and under + h <= top + shelf and w <= column:  # below the group before
            places[i] = (x, under)
            under += h + BETWEEN
            continue
        x += column + BETWEEN if column else 0.0
        if x and x + w > wide:
            x, top = 0.0, top + shelf + BETWEEN
            shelf = 0.0
        places[i] = (x, top)
        column, under, shelf = w, top + h + BETWEEN, max(shelf, h)
        width = max(width, x + w)
    return places, width, top + shelf
