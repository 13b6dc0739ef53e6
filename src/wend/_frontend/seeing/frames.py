"""Boxes in frames in frames: places of all, and the ways of edges through the frames."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from wend._frontend.seeing.folding import Fold
from wend._frontend.seeing.layers import LANE, Layered, Point
from wend._frontend.seeing.op_graph import OpNode
from wend._frontend.seeing.shelves import MOST_FANNED, layered
from wend._frontend.seeing.visible import View

__all__ = ["PADDING", "TITLE", "Picture", "Way", "arranged"]

#: Pixels between columns, around the items of a frame, the title of a frame, between lanes back.
BETWEEN, PADDING, TITLE, BACK = 60.0, 12.0, 20.0, 12.0
#: A column narrower than this stands below the column before, if the picture is narrow.
NARROW = 560.0
#: Most edges that pass through the rim of a frame in lanes of their own.
MOST_PORTS = 32
#: Where an edge enters or leaves a frame: ("in" or "out", number of the box that it comes from).
Port = tuple[str, int]


@dataclass(eq=False, repr=False)
class Picture:
    """A box, or a frame with pictures inside.

    x, y: of the upper left corner; counted from the corner of the frame around, until `move`
    links: (picture or port, picture or port) -> whether the edges inside lead to the next turn
    spans: where edges enter and leave, of pictures and ports inside, as y
    ports: x of each     lanes: points of the edges inside     back: the edges that lead back
    """

    item: OpNode | Fold
    number: int
    phase: str
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0
    parent: Picture | None = None
    is_open: bool = False
    upward: bool = False
    inner: list[Picture] = field(default_factory=list)
    links: dict[tuple[Picture | Port, Picture | Port], bool] = field(default_factory=dict)
    spans: dict[Picture | Port, Point] = field(default_factory=dict)
    ports: dict[Port, float] = field(default_factory=dict)
    lanes: dict[tuple[Picture | Port, Picture | Port], list[Point]] = field(default_factory=dict)
    back: dict[tuple[Picture | Port, Picture | Port], float] = field(default_factory=dict)

    def shift(self, x: float, y: float) -> None:
        """Move the picture, and all in it, whose places are counted from the whole's corner."""
        for picture in self.inside():
            picture.x += x
            picture.y += y

    def move(self, x: float, y: float) -> None:
        """Count all places from the corner of the whole."""
        self.x += x
        self.y += y
        x, y = self.x, self.y
        self.spans = {k: (y + a, y + b) for k, (a, b) in self.spans.items()}
        self.ports = {k: x + at for k, at in self.ports.items()}
        self.lanes = {k: [(x + u, y + v) for u, v in way] for k, way in self.lanes.items()}
        self.back = {k: x + at for k, at in self.back.items()}
        for picture in self.inner:
            picture.move(x, y)

    def around(self) -> list[Picture]:
        """The picture and all frames around it, from the inside."""
        chain = [self]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        return chain

    def inside(self) -> Iterator[Picture]:
        """The picture and all pictures in it."""
        stack = [self]
        while stack:
            picture = stack.pop()
            yield picture
            stack.extend(reversed(picture.inner))


@dataclass
class Way:
    """An edge as drawn.

    points: from rim to rim     count: number of edges of the graph     label: a word, or ""
    kind: "", "back" for a value of the turn before, "loose" for an edge that passes below boxes
    """

    start: Picture
    end: Picture
    points: list[Point]
    count: int
    label: str
    kind: str = ""


def arranged(
    seen: View,
    size_of: Callable[[OpNode | Fold], Point],
    title_width: Callable[[Fold], float],
    wide: float,
) -> tuple[list[Picture], list[Way], float, float]:
    """The columns of a picture, its edges, its width and height.

    wide: width of the picture, unless a box is wider
    """
    by_number: dict[int, Picture] = {}
    columns = [pictures(seen, root, by_number, size_of) for root in seen.folding.roots]
    meetings = {}
    for start, end in seen.links:
        turns = (start, end) in seen.turns
        meetings[start, end] = linked(by_number[start], by_number[end], turns)
    half = (wide - BETWEEN) / 2
    room = half if len(columns) > 1 and half >= NARROW else wide
    x = y = shelf = width = 0.0
    for column in columns:
        column.upward = column.phase == "backward"
        arrange(column, room, title_width)
        if x and x + column.width > wide:
            x, y, shelf = 0.0, y + shelf + BETWEEN, 0.0
        if not x and column.upward:  # below the column before
            column.upward = False
            arrange(column, room, title_width)
        column.x, column.y = x, y
        x += column.width + BETWEEN
        shelf, width = max(shelf, column.height), max(width, x - BETWEEN)
    for column in columns:
        column.move(0.0, 0.0)
    ways = [
        way_of(by_number[start], by_number[end], *meetings[start, end]) for start, end in seen.links
    ]
    for way, (pair, count) in zip(ways, seen.links.items(), strict=True):
        way.count, way.label = count, seen.labels.get(pair, "")
    return columns, ways, width, y + shelf


def pictures(
    seen: View,
    item: OpNode | Fold,
    by_number: dict[int, Picture],
    size_of: Callable[[OpNode | Fold], Point],
) -> Picture:
    """The picture of an item with all pictures inside; `by_number` gets each."""
    number = seen.number(item)
    picture = by_number[number] = Picture(item, number, item.phase)
    if isinstance(item, Fold) and item.index in seen.opened:
        picture.is_open = True
        picture.inner = [pictures(seen, x, by_number, size_of) for x in seen.shown(item)]
        for inner in picture.inner:
            inner.parent = picture
    else:
        picture.width, picture.height = size_of(item)
    return picture


def linked(start: Picture, end: Picture, turns: bool) -> tuple[list[Picture], list[Picture]]:
    """Enter an edge in the frames on its way.  turns: whether it leads to the next turn of a loop

    Returns the pictures from the start, and from the end, out to the innermost frame around both.
    """
    above, under = start.around(), end.around()
    while above and under and above[-1] is under[-1]:
        frame = above.pop()
        under.pop()
    port: Port = ("out", start.number)
    for inner, outer in itertools.pairwise(above):
        outer.links[inner, port] = False
    port = ("in", start.number)
    for inner, outer in itertools.pairwise(under):
        outer.links[port, inner] = False
    frame.links[above[-1], under[-1]] = frame.links.get((above[-1], under[-1]), True) and turns
    return above, under


def arrange(frame: Picture, most: float, title_width: Callable[[Fold], float]) -> None:
    """Sizes and places of the pictures in a frame, from the inside.  most: width"""
    for picture in frame.inner:
        if picture.is_open:
            picture.upward = frame.upward
            arrange(picture, max(most - 2 * PADDING, 0.0), title_width)
    fans: dict[Picture | Port, int] = {}
    for start, _ in frame.links:
        fans[start] = fans.get(start, 0) + 1
    ports = list(dict.fromkeys(x for link in frame.links for x in link if isinstance(x, tuple)))
    ports = [port for port in ports if port[0] == "out" or fans[port] <= MOST_FANNED][:MOST_PORTS]
    items: list[Picture | Port] = [*frame.inner, *ports]
    places = {item: place for place, item in enumerate(items)}
    known = [(link, turns) for link, turns in frame.links.items() if places.keys() >= {*link}]
    links = [(places[a], places[b]) for (a, b), turns in known if not turns]
    sizes = [(x.width, x.height) if isinstance(x, Picture) else (LANE, 1.0) for x in items]
    first = {places[port] for port in ports if port[0] == "in"}
    last = {places[port] for port in ports if port[0] == "out"}
    done = layered(sizes, links, frame.upward, most - 2 * PADDING, first, last)
    done.back.update((places[a], places[b]) for (a, b), turns in known if turns)
    take(frame, items, done)
    assert isinstance(frame.item, Fold)
    frame.width = max(done.width + BACK * len(done.back), title_width(frame.item)) + 2 * PADDING
    frame.height = done.height + TITLE + 1.5 * PADDING


def take(frame: Picture, items: list[Picture | Port], done: Layered) -> None:
    """Put the places of a layout into a frame."""
    left, top = PADDING, TITLE + PADDING / 2
    frame.spans, frame.ports = {}, {}
    for item, (x, y), (enter, leave) in zip(items, done.corners, done.spans, strict=True):
        frame.spans[item] = (enter + top, leave + top)
        if isinstance(item, Picture):
            item.x, item.y = x + left, y + top
        else:
            frame.ports[item] = x + left + LANE / 2
    frame.lanes = {
        (items[a], items[b]): [(x + left, y + top) for x, y in points]
        for (a, b), points in done.routes.items()
    }
    frame.back = {
        (items[a], items[b]): left + done.width + BACK * (k + 0.6)
        for k, (a, b) in enumerate(sorted(done.back))
    }


def way_of(start: Picture, end: Picture, above: list[Picture], under: list[Picture]) -> Way:
    """The way of an edge through the frames."""
    way = Way(start, end, [rim(start, leaves=True)], 1, "")
    for inner, outer in itertools.pairwise(above):
        go(way, outer, inner, ("out", start.number))
    frame = above[-1].parent
    assert frame is not None
    go(way, frame, above[-1], under[-1])
    for outer, inner in reversed(list(zip(under[1:], under, strict=False))):
        go(way, outer, ("in", start.number), inner)
    way.points.append(rim(end, leaves=False))
    return way


def rim(picture: Picture, leaves: bool) -> Point:
    """The middle of the side at which edges leave, or enter."""
    below = leaves != (picture.parent or picture).upward
    return picture.x + picture.width / 2, picture.y + (picture.height if below else 0.0)


def is_at_rim(frame: Picture, y: float) -> bool:
    """Whether a port lies just within the upper or the lower side of a frame."""
    return min(y - frame.y, frame.y + frame.height - y) < TITLE + PADDING


def go(way: Way, frame: Picture, a: Picture | Port, b: Picture | Port) -> None:
    """The points of an edge within a frame."""
    source = way.start.number

    def x_of(item: Picture | Port, kind: str) -> float:
        if not isinstance(item, Picture):
            return frame.ports[item]
        port = (kind, source)
        return item.ports.get(port, item.x + item.width / 2)

    if a not in frame.spans or b not in frame.spans:
        way.kind = way.kind or "loose"
        return
    here = (x_of(a, "out"), frame.spans[a][1])
    there = (x_of(b, "in"), frame.spans[b][0])
    for item, (_, y) in ((a, here), (b, there)):  # a port of a group that is not at the rim
        if not isinstance(item, Picture) and not is_at_rim(frame, y):
            way.kind = way.kind or "loose"
    if (a, b) in frame.back:
        aside, step = frame.back[a, b], -8.0 if frame.upward else 8.0
        way.kind = "back"
        under, over = here[1] + step, there[1] - step
        way.points += [here, (here[0], under), (aside, under), (aside, over), (there[0], over)]
    elif (a, b) in frame.lanes:
        way.points += [here, *frame.lanes[a, b]]
    else:
        way.kind = way.kind or "loose"
        return
    way.points.append(there)
