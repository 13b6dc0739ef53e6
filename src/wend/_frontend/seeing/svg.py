"""A graph as a static picture: SVG without scripts, folded until readable."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable

from wend._frontend.seeing.folding import Fold, fold
from wend._frontend.seeing.frames import PADDING, Picture, Way, arranged
from wend._frontend.seeing.layers import Point
from wend._frontend.seeing.op_graph import OpGraph, OpNode
from wend._frontend.seeing.visible import View, caption, hint, printable, view

__all__ = ["picture_of", "svg_of"]

#: Most boxes of a picture.
MOST_BOXES = 60
#: Pixels of a picture: the width, unless a box is wider, and the margin.
WIDE, MARGIN = 1400.0, 20.0
#: Pixels of a box and of a character, bold and small.
HEIGHT, BOLD, SMALL = 40.0, 8.7, 6.5
#: Signs of marked boxes, for those who do not see the colours.
SIGNS = {"gone": "− only here", "new": "+ only here", "resized": "≠ size"}
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
.wend-graph .loose{opacity:.25}
.wend-graph .back{stroke-dasharray:5 3}
.wend-graph .region{stroke-dasharray:6 3}
.wend-graph .tip{fill:var(--wend-edge)}
.wend-graph .box{fill:var(--wend-face);stroke:var(--wend-rim)}
.wend-graph .fold{stroke-width:1.8}
.wend-graph .leaf{stroke-dasharray:3 2}
.wend-graph .gone{stroke:#d1242f;stroke-width:2.6}
.wend-graph .new{stroke:#2da44e;stroke-width:2.6}
.wend-graph .resized{stroke:#bf8700;stroke-width:2.6}
.wend-graph .forward{fill:var(--wend-forward)}
.wend-graph .backward{fill:var(--wend-backward)}
.wend-graph .update{fill:var(--wend-update)}
"""


def svg_of(graph: OpGraph, most: int = MOST_BOXES, wide: float = WIDE) -> str:
    """A picture of a graph: forward, backward and update side by side or in a column.

    most: number of boxes; modules are folded until there are no more, repeats always.
    wide: width in pixels, unless a box is wider

    Rows are depths. A pointer over a box shows module, shape and the user's line.
    """
    return picture_of(view(fold(graph), most), graph.title or "graph", wide)


def picture_of(
    seen: View, title: str, wide: float, marked: Callable[[OpNode | Fold], str] = lambda item: ""
) -> str:
    """A picture of the boxes of a graph.  marked: a class of each box, or "" """
    columns, ways, width, height = arranged(
        seen, size_of, lambda item: width_of(title_of(item), BOLD), wide - 2 * MARGIN
    )
    for column in columns:
        column.shift(MARGIN, MARGIN)
    for way in ways:
        way.points = [(x + MARGIN, y + MARGIN) for x, y in way.points]
    drawn = [picture for column in columns for picture in column.inside()]
    pieces = [frame_of(picture) for picture in drawn if picture.is_open]
    pieces += [edge(way) for way in ways]
    pieces += [name_of(picture) for picture in drawn if picture.is_open]  # edges pass below
    pieces += [label(way) for way in ways if way.label]
    pieces += [box_of(picture, marked) for picture in drawn if not picture.is_open]
    width, height = max(width, 100.0) + 2 * MARGIN, height + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wend-graph" role="img" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">'
        f"<title>{escaped(title)}</title><style>{style()}</style>"
        f'<rect class="ground" width="100%" height="100%" rx="8"/>{"".join(pieces)}</svg>\n'
    )


def style() -> str:
    def variables(colours: str) -> str:
        return ";".join(f"--wend-{n}:{c}" for n, c in zip(NAMES, colours.split(), strict=True))

    text = STYLE.replace("LIGHT", variables(LIGHT)).replace("DARK", variables(DARK))
    return text.replace("\n", "")


def size_of(item: OpNode | Fold) -> Point:
    """Width and height of a box."""
    texts = caption(item)
    head = width_of(texts.head, BOLD) + width_of(texts.mark, BOLD) + 12 * bool(texts.mark)
    return max(head, width_of(texts.below, SMALL), 40.0) + 24, HEIGHT


def title_of(item: Fold) -> str:
    if item.kind in ("region", "branch"):
        return caption(item).head
    named = item.kind == "module" and item.class_name not in ("", item.label)
    return printable(f"{item.label}: {caption(item).head}" if named else item.label)


def frame_of(picture: Picture) -> str:
    if picture.parent is None:
        return ""
    size = f'width="{picture.width:.1f}" height="{picture.height:.1f}"'
    kind = picture.item.kind if isinstance(picture.item, Fold) else ""
    kind = f"frame {kind}" if kind in ("region", "branch") else "frame"
    return f'<rect class="{kind}" x="{picture.x:.1f}" y="{picture.y:.1f}" {size} rx="9"/>'


def name_of(picture: Picture) -> str:
    """The name of a frame, or of a column."""
    x, y = picture.x + PADDING, picture.y
    if picture.parent is None:
        return text_of(x, y + 12, picture.phase, "name")
    assert isinstance(picture.item, Fold)
    return text_of(x, y + 15, title_of(picture.item), "name")


def text_of(x: float, y: float, text: str, kind: str = "") -> str:
    """A text that begins at a place; a mark ends there."""
    named = f' class="{kind}"' if kind else ""
    named += ' text-anchor="end"' if kind.startswith("mark") else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escaped(text)}</text>'


def edge(way: Way) -> str:
    """A curve from the rim of a box to that of another, with a tip."""
    (x, y), *rest = way.points
    ahead = -1.0 if (way.end.parent or way.end).upward else 1.0
    rest[-1] = (rest[-1][0], rest[-1][1] - 5 * ahead)
    path, straight = f"M{x:.1f},{y:.1f}", way.kind == "back"
    for px, py in rest:
        if abs(px - x) < 0.5 or abs(py - y) < 0.5 or straight:
            path += "" if abs(px - x) + abs(py - y) < 0.1 else f"L{px:.1f},{py:.1f}"
        else:
            bend = (py - y) / 2
            path += f"C{x:.1f},{y + bend:.1f} {px:.1f},{py - bend:.1f} {px:.1f},{py:.1f}"
        x, y = px, py
    kind = f"edge {way.kind or ('answer' if way.label else '')}".strip()
    wide = ' stroke-width="1.8"' if way.count > 1 else ""
    tip = f"M{x - 3.5:.1f},{y - ahead * 2:.1f}h7l-3.5,{ahead * 7:.1f}z"
    ends = f'data-a="{way.start.number}" data-b="{way.end.number}"'
    return f'<path class="{kind}" d="{path}"{wide} {ends}/><path class="tip" d="{tip}"/>'


def label(way: Way) -> str:
    """The word at an edge: an answer at the end, a value of a loop where the edge comes back."""
    (x, y) = way.points[-1]
    return text_of(x + 6, y - 7, way.label, "name")


def box_of(picture: Picture, marked: Callable[[OpNode | Fold], str]) -> str:
    x, y, wide, item = picture.x, picture.y, picture.width, picture.item
    texts = caption(item)
    is_leaf = isinstance(item, OpNode) and item.is_leaf
    kind = "leaf" if is_leaf else "fold" if isinstance(item, Fold) else "op"
    mark = marked(item)
    kind = f"{kind} {mark}".strip()
    size = f'width="{wide:.1f}" height="{HEIGHT:.0f}" rx="{20 if is_leaf else 7}"'
    repeated = isinstance(item, Fold) and item.kind == "repeat"
    faces = [
        f'<rect class="box {picture.phase} {kind}" x="{x + d:.1f}" y="{y + d:.1f}" {size}/>'
        for d in ((6, 3, 0) if repeated else (0,))
    ]
    lines = [text_of(x + 12, y + 17, texts.head), text_of(x + 12, y + 32, texts.below, "soft")]
    if mark:
        lines.append(text_of(x + wide, y - 4, SIGNS[mark], "mark name"))
    if texts.mark:
        lines.append(text_of(x + wide - 12, y + 17, texts.mark, "mark"))
    return f"<g><title>{escaped(hint(item))}</title>{''.join(faces + lines)}</g>"


def width_of(text: str, character: float) -> float:
    """An estimate of the width of a text, in pixels: wide characters count twice."""
    return character * sum(1 + (unicodedata.east_asian_width(c) in "FW") for c in text)


def escaped(text: str) -> str:
    return html.escape(printable(text))
