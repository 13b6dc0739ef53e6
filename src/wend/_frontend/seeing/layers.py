"""A layered layout: rows by depth, few crossings, straight edges, columns for many rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

__all__ = ["Layered", "Point", "layers_of"]

#: Pixels between rows and between neighbours of a row; width of a lane, for an edge past a row.
ROWS, NEIGHBOURS, LANE = 34.0, 20.0, 8.0
#: Pixels between the lanes of edges that go from a column to the next, and around these.
STEP, GUTTER = 6.0, 14.0
#: Rows above this height may stand in columns, which are about this wide for their height.
TALL, ASPECT = 1000.0, 1.3
SWEEPS = 6

Point = tuple[float, float]
Link = tuple[int, int]


@dataclass
class Layered:
    """Places of items.

    corners: the upper left corner of each item
    spans: where edges enter and leave the row of each item, as y
    routes: (from, to) -> points on the way     back: the edges that close a circle
    """

    corners: list[Point]
    spans: list[Point]
    routes: dict[Link, list[Point]]
    width: float
    height: float
    back: set[Link] = field(default_factory=set)


@dataclass
class Grid:
    """Rows of items and lanes.

    order: the items of each row     near: neighbours of an item, in the rows above and below
    lanes: of the edges of an item, its lanes from row to row
    columns: number of the column of each row
    """

    order: list[list[int]]
    near: list[tuple[list[int], list[int]]]
    widths: list[float]
    lanes: dict[int, list[int]] = field(default_factory=dict)
    columns: list[int] = field(default_factory=list)

    def gap(self, before: int, after: int) -> float:
        """Pixels between the centres of neighbours."""
        wide = self.widths[before], self.widths[after]
        return sum(wide) / 2 + (NEIGHBOURS if max(wide) > LANE else 0.0)

    def width(self, row: Sequence[int]) -> float:
        """Pixels of a row."""
        gaps = sum(self.gap(a, b) for a, b in itertools.pairwise(row))
        return gaps + (self.widths[row[0]] + self.widths[row[-1]]) / 2 if row else 0.0


def layers_of(
    sizes: Sequence[Point],
    links: Sequence[Link],
    most: float = math.inf,
    first: Collection[int] = (),
    last: Collection[int] = (),
) -> Layered:
    """Places for linked items of given widths and heights, each below the operands.

    most: width; longer rows are several, and rows stand in columns where that is not too wide
    first, last: items in the first, in the last row

    Edges that close a circle do not count. Sugiyama, Tagawa and Toda (1981): rows, dummies,
    barycentres, and then coordinates. The edges of an item share a lane.
    """
    down = without_circles(len(sizes), links)
    grid = grid_of(rows_of(len(sizes), down, first, last), sizes, down, most)
    heights = [max((sizes[i][1] for i in r if i < len(sizes)), default=0.0) for r in grid.order]
    grid.columns = columns_of(grid, heights, most)
    for sweep in range(SWEEPS):
        sort_rows(grid, from_above=sweep % 2 == 0)
    centres = centres_of(grid, most)
    layout = placed(grid, sizes, down, heights, centres)
    layout.back = set(links).difference(down)
    return layout


def placed(
    grid: Grid, sizes: Sequence[Point], down: list[Link], heights: list[float], x: list[float]
) -> Layered:
    """Coordinates from centres within each column."""
    crossing = crossings(grid)
    above = max((len(items) for items in crossing), default=0) * STEP
    above += GUTTER if above else 0.0
    shifts, tops = [], [0.0] * len(grid.order)
    ends, left, lowest = [], 0.0, 0.0
    for column in range(grid.columns[-1] + 1 if grid.columns else 0):
        members = [r for r, c in enumerate(grid.columns) if c == column]
        inside = [i for r in members for i in grid.order[r]]
        least = min(x[i] - grid.widths[i] / 2 for i in inside)
        widest = max(x[i] + grid.widths[i] / 2 for i in inside) - least
        y = above if column else 0.0
        for before, r in zip([None, *members], members, strict=False):
            if before is not None:
                y += heights[before] + gap_between(heights[before], heights[r])
            tops[r] = y
        bottom = y + heights[members[-1]]
        shifts.append(left - least)
        ends.append((left + widest, bottom))
        lanes = len(crossing[column]) if column < len(crossing) else 0
        lowest = max(lowest, bottom + (GUTTER + STEP * lanes if lanes else 0.0))
        left += widest + (2 * GUTTER + STEP * lanes if lanes else NEIGHBOURS)
    row_of = [0] * len(grid.near)
    for r, row in enumerate(grid.order):
        for i in row:
            row_of[i] = r
            x[i] += shifts[grid.columns[r]]
    corners, spans = [], []
    for i, (width, height) in enumerate(sizes):
        top, tall = tops[row_of[i]], heights[row_of[i]]
        corners.append((x[i] - width / 2, top + (tall - height) / 2))
        spans.append((top, top + tall))
    routes = {}
    for start, end in down:
        points: list[Point] = []
        before = start
        for i in [*grid.lanes[start][: row_of[end] - row_of[start] - 1], end]:
            r = row_of[i]
            column = grid.columns[r]
            if column != grid.columns[r - 1]:
                right, bottom = ends[column - 1]
                place = crossing[column - 1].index(start)
                aside = right + GUTTER + STEP * place
                under = bottom + GUTTER + STEP * place
                over = GUTTER / 2 + STEP * place
                points += [(x[before], under), (aside, under), (aside, over), (x[i], over)]
            if i != end:
                points += [(x[i], tops[r]), (x[i], tops[r] + heights[r])]
            before = i
        routes[start, end] = points
    width = max((right for right, _ in ends), default=0.0)
    return Layered(corners, spans, routes, width, max(lowest, 0.0))


def gap_between(above: float, under: float) -> float:
    """Pixels between rows of these heights: fewer beside a row of ports only."""
    return ROWS / 2 if min(above, under) <= 1.0 else ROWS


def crossings(grid: Grid) -> list[list[int]]:
    """The items whose edges go from each column to the next."""
    source_of = {lane: start for start, lanes in grid.lanes.items() for lane in lanes}
    items: list[list[int]] = []
    for r, (here, there) in enumerate(zip(grid.columns, grid.columns[1:], strict=False)):
        if here != there:
            over = [i for i in grid.order[r] if grid.near[i][1]]
            items.append([source_of.get(i, i) for i in over])
    return items


def without_circles(count: int, links: Sequence[Link]) -> list[Link]:
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
    return list(dict.fromkeys(kept))


def rows_of(
    count: int, links: Sequence[Link], first: Collection[int] = (), last: Collection[int] = ()
) -> list[list[int]]:
    """The items of each row; the row of an item is the longest path to the item."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for start, end in links:
        before[end].append(start)
        after[start].append(end)
    depth, waiting = [0] * count, [len(x) for x in before]
    ready = [i for i in range(count) if not waiting[i]]
    for item in ready:
        for end in after[item]:
            depth[end] = max(depth[end], depth[item] + 1)
            waiting[end] -= 1
            if not waiting[end]:
                ready.append(end)
    for item in range(count):  # a source lies right above the first user
        if not before[item] and after[item] and item not in first:
            depth[item] = min(depth[end] for end in after[item]) - 1
    if first:
        down = int(any(d == 0 and i not in first for i, d in enumerate(depth)))
        depth = [0 if i in first else d + down for i, d in enumerate(depth)]
    if last:
        lowest = max((d for i, d in enumerate(depth) if i not in last), default=0)
        depth = [lowest + 1 if i in last else d for i, d in enumerate(depth)]
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for item, d in enumerate(depth):
        rows[d].append(item)
    return [row for row in rows if row]


def grid_of(
    rows: list[list[int]], sizes: Sequence[Point], links: Sequence[Link], most: float
) -> Grid:
    """Rows and lanes, no wider than `most` where possible: rows are split, lanes become narrow."""
    grid = with_lanes(split_rows(rows, sizes, most), links, [width for width, _ in sizes])
    lanes = max([sum(i >= len(sizes) for i in row) for row in grid.order], default=0)
    if not lanes or max(grid.width(row) for row in grid.order) <= most:
        return grid
    lane = min(LANE, max(1.0, most / 3 / lanes))
    rest = most - lanes * lane - 2 * NEIGHBOURS
    grid = with_lanes(split_rows(rows, sizes, rest), links, [width for width, _ in sizes])
    grid.widths[len(sizes) :] = [lane] * (len(grid.widths) - len(sizes))
    return grid


def split_rows(rows: list[list[int]], sizes: Sequence[Point], most: float) -> list[list[int]]:
    """Rows of which none is too wide, unless an item is."""
    split: list[list[int]] = []
    for row in rows:
        x = 0.0
        for place, item in enumerate(row):
            if not place or x + sizes[item][0] > most:
                split.append([])
                x = 0.0
            split[-1].append(item)
            x += sizes[item][0] + (NEIGHBOURS if sizes[item][0] > LANE else 0.0)
    return split


def with_lanes(rows: list[list[int]], links: Sequence[Link], widths: list[float]) -> Grid:
    """The grid of rows, with a lane in each row that edges of an item cross."""
    count = len(widths)
    grid = Grid([list(row) for row in rows], [([], []) for _ in range(count)], list(widths))
    row_of = {item: r for r, row in enumerate(rows) for item in row}
    ends: dict[int, list[int]] = {}
    for start, end in links:
        ends.setdefault(start, []).append(end)
    for start, targets in ends.items():
        chain, last = [], start
        for row in range(row_of[start] + 1, max(row_of[end] for end in targets)):
            lane = len(grid.near)
            grid.near.append(([last], []))
            grid.widths.append(LANE)
            grid.near[last][1].append(lane)
            grid.order[row].append(lane)
            chain.append(lane)
            last = lane
        for end in targets:
            over = row_of[end] - row_of[start] - 2
            grid.near[chain[over] if over >= 0 else start][1].append(end)
            grid.near[end][0].append(chain[over] if over >= 0 else start)
        grid.lanes[start] = chain
    return grid


def columns_of(grid: Grid, heights: list[float], most: float) -> list[int]:
    """The column of each row.  A cut lies where few edges cross."""
    whole = sum(heights) + ROWS * (len(heights) - 1)
    if whole <= TALL or most == math.inf:
        return [0] * len(heights)
    widest = max(grid.width(row) for row in grid.order) + 2 * GUTTER + 4 * STEP
    number = min(round(math.sqrt(ASPECT * whole / widest)), int((most + NEIGHBOURS) // widest))
    number = max(min(number, int(whole / max(heights)), len(heights)), 1)
    columns: list[int] = []
    tall, y, column = whole / number, 0.0, 0
    for r, height in enumerate(heights):
        room = number - 1 - column
        if room and columns and columns[-1] == column and y > 0:
            crossing = sum(1 for i in grid.order[r - 1] if grid.near[i][1])
            late = y + height > tall * 1.1
            if late or (y > tall * 0.9 and crossing <= 1) or y + height / 2 > tall:
                column, y = column + 1, 0.0
        columns.append(column)
        y += height + ROWS
    return columns


def sort_rows(grid: Grid, from_above: bool) -> None:
    """Sort each row by the mean place of the neighbours in the row before."""
    place = [0.0] * len(grid.near)
    for row in grid.order:
        for k, item in enumerate(row):
            place[item] = k
    side = 0 if from_above else 1
    for row in grid.order if from_above else reversed(grid.order):
        means = {}
        for item in row:
            near = grid.near[item][side]
            means[item] = sum([place[i] for i in near]) / len(near) if near else place[item]
        row.sort(key=means.__getitem__)
        for k, item in enumerate(row):
            place[item] = k


def centres_of(grid: Grid, most: float) -> list[float]:
    """Horizontal centres in each column: near those of the neighbours, without overlaps."""
    centres, column_of = [0.0] * len(grid.near), [0] * len(grid.near)
    limits: dict[int, float] = {}
    offsets = []
    for row, column in zip(grid.order, grid.columns, strict=True):
        x, own = 0.0, [0.0]
        for a, b in itertools.pairwise(row):
            x += grid.gap(a, b)
            own.append(x)
        offsets.append(own)
        limits[column] = max(limits.get(column, 0.0), grid.width(row))
        for item, offset in zip(row, own, strict=True):
            centres[item] = offset - x / 2
            column_of[item] = column
    columns = len(limits)
    near = [
        tuple([i for i in side if column_of[i] == column_of[item]] for side in sides)
        for item, sides in enumerate(grid.near)
    ]
    for sweep in range(SWEEPS):
        side = sweep % 2
        rows = list(zip(grid.order, offsets, grid.columns, strict=True))
        for row, own, column in rows if side == 0 else reversed(rows):
            wanted = []
            for item in row:
                items = near[item][side]
                mean = sum([centres[i] for i in items]) / len(items) if items else centres[item]
                wanted.append(mean)
            room = max(limits[column], 0.0 if columns > 1 else min(most, 2 * limits[column]))
            place_row(row, wanted, own, centres, grid.widths, room)
    return centres


def place_row(
    row: list[int],
    wanted: list[float],
    offsets: list[float],
    centres: list[float],
    widths: list[float],
    room: float,
) -> None:
    """Centres as near to those wanted as the widths allow, in the least-squares sense.

    Neighbours that would overlap move together, to the mean of the wishes (pool adjacent
    violators).  room: width of the whole, around 0
    """
    blocks: list[tuple[float, int]] = []  # (mean of the wishes less the offsets, items)
    for place in range(len(row)):
        mean, count = wanted[place] - offsets[place], 1
        while blocks and blocks[-1][0] > mean:
            other, others = blocks.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        blocks.append((mean, count))
    least = widths[row[0]] / 2 - room / 2
    largest = max(least, room / 2 - offsets[-1] - widths[row[-1]] / 2)
    means = [min(max(mean, least), largest) for mean, count in blocks for _ in range(count)]
    for item, mean, offset in zip(row, means, offsets, strict=True):
        centres[item] = mean + offset
