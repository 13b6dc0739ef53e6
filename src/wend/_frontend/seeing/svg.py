"""A graph as a static picture: SVG without scripts, folded until readable."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from wend._frontend.seeing.folding import Fold, fold
from wend._frontend.seeing.layers import Point, layered
from wend._frontend.seeing.op_graph import OpGraph, OpNode
from wend._frontend.seeing.visible import View, caption, hint, printable, view

__all__ = ["svg_of"]

#: Most boxes of a picture.
MOST_BOXES = 60
#: Pixels: margin, between columns, around the items of a frame, the title of a frame.
MARGIN, BETWEEN, PADDING, TITLE = 20.0, 70.0, 12.0, 20.0
#: Pixels of a box and of a character, bold and small.
HEIGHT, BOLD, SMALL = 40.0, 8.7, 6.5
#: Colours in light and in dark.
NAMES = "ground face rim ink soft edge frame forward backward update".split()
LIGHT = "#f7f8fa #fff #b9c3d0 #1c2430 #5a6676 #9aa6b5 #1e3c6e0d #e0ecfb #fbeadf #e0f8ea"
DARK = "#14181e #1f252e #55616f #e4e9f0 #9ba8b8 #647183 #a0bef00f #23344a #46352a #22402f"
STYLE = """
.wend-graph{LIGHT}
@media (prefers-color-scheme:dark){.wend-graph{DARK}}
.wend-graph text{font:600 13px system-ui,sans-serif;fill:var(--wend-ink)}
.wend-graph text.soft{fill:var(--wend-soft);font-weight:400;font-size:11px}
.wend-graph text.name{fill:var(--wend-soft);font-size:11px;paint-order:stroke;stroke-width:5px;
stroke:var(--wend-ground);stroke-linejoin:round}
.wend-graph .ground{fill:var(--wend-ground)}
.wend-graph .frame{fill:var(--wend-frame);stroke:var(--wend-rim)}
.wend-graph .edge{fill:none;stroke:var(--wend-edge);stroke-width:1.2}
.wend-graph .tip{fill:var(--wend-edge)}
.wend-graph .box{fill:var(--wend-face);stroke:var(--wend-rim)}
.wend-graph .fold{stroke-width:1.8}
.wend-graph .leaf{stroke-dasharray:3 2}
.wend-graph .forward{fill:var(--wend-forward)}
.wend-graph .backward{fill:var(--wend-backward)}
.wend-graph .update{fill:var(--wend-update)}
"""


@dataclass(eq=False)
class Picture:
    """A box, or a frame with pictures inside.

    x, y: of the upper left corner; counted from the corner of the frame around, until `move`
    routes: (picture, picture) -> points of an edge between two pictures inside
    """

    item: OpNode | Fold
    phase: str
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0
    parent: Picture | None = None
    is_open: bool = False
    inner: list[Picture] = field(default_factory=list)
    routes: dict[tuple[Picture, Picture], list[Point]] = field(default_factory=dict)

    def move(self, x: float, y: float) -> None:
        """Count all places from the corner of the whole."""
        self.x, self.y = self.x + x, self.y + y
        for points in self.routes.values():
            points[:] = [(px + self.x, py + self.y) for px, py in points]
        for picture in self.inner:
            picture.move(self.x, self.y)

    def around(self) -> list[Picture]:
        """The picture and all frames around it, from the inside."""
        return [self, *self.parent.around()] if self.parent else [self]

    def inside(self) -> Iterator[Picture]:
        """The picture and all pictures in it."""
        yield self
        for picture in self.inner:
            yield from picture.inside()


def svg_of(graph: OpGraph, most: int = MOST_BOXES) -> str:
    """A picture of a graph: forward, backward and update side by side.

    most: number of boxes; modules are folded until there are no more, repeats always.
    Rows are depths. A pointer over a box shows module, shape and the user's line.
    """
    seen = view(fold(graph), most)
    by_number: dict[int, Picture] = {}
    columns = [pictures(seen, root, by_number) for root in seen.folding.roots]
    for start, end in seen.links:
        frame, pair = meeting(by_number[start], by_number[end])
        frame.routes[pair] = []
    for column in columns:
        arrange(column)
    x, tallest = MARGIN, max((column.height for column in columns), default=0.0)
    for column in columns:
        column.move(x, MARGIN)
        x += column.width + BETWEEN
    drawn = [picture for column in columns for picture in column.inside()]
    pieces = [frame_of(picture) for picture in drawn if picture.is_open]
    pieces += [
        edge(by_number[start], by_number[end], count) for (start, end), count in seen.links.items()
    ]
    pieces += [name_of(picture) for picture in drawn if picture.is_open]  # edges pass below
    pieces += [box_of(picture) for picture in drawn if not picture.is_open]
    width, height = max(x - BETWEEN, 100.0) + MARGIN, tallest + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wend-graph" role="img" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">'
        f"<title>{escaped(graph.title or 'graph')}</title><style>{style()}</style>"
        f'<rect class="ground" width="100%" height="100%" rx="8"/>{"".join(pieces)}</svg>\n'
    )


def style() -> str:
    def variables(colours: str) -> str:
        return ";".join(f"--wend-{n}:{c}" for n, c in zip(NAMES, colours.split(), strict=True))

    text = STYLE.replace("LIGHT", variables(LIGHT)).replace("DARK", variables(DARK))
    return text.replace("\n", "")


def pictures(seen: View, item: OpNode | Fold, by_number: dict[int, Picture]) -> Picture:
    """The picture of an item with all pictures inside; `by_number` gets each."""
    picture = by_number[seen.number(item)] = Picture(item, item.phase)
    if isinstance(item, Fold) and item.index in seen.opened:
        picture.is_open = True
        picture.inner = [pictures(seen, x, by_number) for x in seen.shown(item)]
        for inner in picture.inner:
            inner.parent = picture
    else:
        texts = caption(item)
        head = width_of(texts.head, BOLD) + width_of(texts.mark, BOLD) + 12 * bool(texts.mark)
        picture.width = max(head, width_of(texts.below, SMALL), 40.0) + 24
        picture.height = HEIGHT
    return picture


def meeting(start: Picture, end: Picture) -> tuple[Picture, tuple[Picture, Picture]]:
    """The innermost frame around two boxes, and the pictures in it around each box."""
    above = {b: a for a, b in zip(start.around(), start.around()[1:], strict=False)}
    inner = end
    for frame in end.around()[1:]:
        if frame in above:
            return frame, (above[frame], inner)
        inner = frame
    raise AssertionError("boxes of different phases have no edge")


def arrange(frame: Picture) -> None:
    """Sizes and places of the pictures in a frame, from the inside."""
    for picture in frame.inner:
        if picture.is_open:
            arrange(picture)
    places = {picture: place for place, picture in enumerate(frame.inner)}
    links = [(places[a], places[b]) for a, b in frame.routes]
    sizes = [(picture.width, picture.height) for picture in frame.inner]
    done = layered(sizes, links, upward=frame.phase == "backward")
    for picture, (x, y) in zip(frame.inner, done.corners, strict=True):
        picture.x, picture.y = x + PADDING, y + TITLE + PADDING / 2
    for pair in frame.routes:
        points = done.routes.get((places[pair[0]], places[pair[1]]), [])
        frame.routes[pair] = [(x + PADDING, y + TITLE + PADDING / 2) for x, y in points]
    frame.width = max(done.width, width_of(title_of(frame), BOLD)) + 2 * PADDING
    frame.height = done.height + TITLE + 1.5 * PADDING


def title_of(frame: Picture) -> str:
    if isinstance(frame.item, OpNode):
        return ""
    texts = caption(frame.item)
    label = frame.item.label
    named = frame.item.kind == "module" and frame.item.class_name not in ("", label)
    return printable(f"{label}: {texts.head}" if named else label)


def frame_of(picture: Picture) -> str:
    if picture.parent is None:
        return ""
    size = f'width="{picture.width:.1f}" height="{picture.height:.1f}"'
    return f'<rect class="frame" x="{picture.x:.1f}" y="{picture.y:.1f}" {size} rx="9"/>'


def name_of(picture: Picture) -> str:
    """The name of a frame, or of a column."""
    x, y = picture.x + PADDING, picture.y
    if picture.parent is None:
        return text_of(x, y + 12, picture.phase, "name")
    return text_of(x, y + 15, title_of(picture), "name")


def text_of(x: float, y: float, text: str, kind: str = "") -> str:
    """A text that begins at a place; a mark ends there."""
    named = f' class="{kind}"' if kind else ""
    named += ' text-anchor="end"' if kind == "mark" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escaped(text)}</text>'


def edge(start: Picture, end: Picture, count: int) -> str:
    """A curve from the rim of a box to that of another, with a tip."""
    frame, pair = meeting(start, end)
    way = 1.0 if end.y + end.height / 2 >= start.y + start.height / 2 else -1.0
    x, y = start.x + start.width / 2, start.y + (start.height if way > 0 else 0.0)
    last = (end.x + end.width / 2, end.y - 5 if way > 0 else end.y + end.height + 5)
    path = f"M{x:.1f},{y:.1f}"
    for px, py in [*frame.routes[pair], last]:
        bend = (py - y) / 2
        path += f"C{x:.1f},{y + bend:.1f} {px:.1f},{py - bend:.1f} {px:.1f},{py:.1f}"
        x, y = px, py
    wide = ' stroke-width="1.8"' if count > 1 else ""
    tip = f"M{x - 3.5:.1f},{y - way * 2:.1f}h7l-3.5,{way * 7:.1f}z"
    return f'<path class="edge" d="{path}"{wide}/><path class="tip" d="{tip}"/>'


def box_of(picture: Picture) -> str:
    x, y, wide, item = picture.x, picture.y, picture.width, picture.item
    texts = caption(item)
    is_leaf = isinstance(item, OpNode) and item.is_leaf
    kind = "leaf" if is_leaf else "fold" if isinstance(item, Fold) else "op"
    size = f'width="{wide:.1f}" height="{HEIGHT:.0f}" rx="{20 if is_leaf else 7}"'
    repeated = isinstance(item, Fold) and item.kind == "repeat"
    faces = [
        f'<rect class="box {picture.phase} {kind}" x="{x + d:.1f}" y="{y + d:.1f}" {size}/>'
        for d in ((6, 3, 0) if repeated else (0,))
    ]
    lines = [text_of(x + 12, y + 17, texts.head), text_of(x + 12, y + 32, texts.below, "soft")]
    if texts.mark:
        lines.append(text_of(x + wide - 12, y + 17, texts.mark, "mark"))
    return f"<g><title>{escaped(hint(item))}</title>{''.join(faces + lines)}</g>"


def width_of(text: str, character: float) -> float:
    """An estimate of the width of a text, in pixels: wide characters count twice."""
    return character * sum(1 + (unicodedata.east_asian_width(c) in "FW") for c in text)


def escaped(text: str) -> str:
    return html.escape(printable(text))
