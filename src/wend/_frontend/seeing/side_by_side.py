"""Two graphs side by side, with the difference marked: for notebooks, as a page and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from wend._frontend.seeing.folding import Fold, fold
from wend._frontend.seeing.op_graph import OpGraph, OpNode
from wend._frontend.seeing.svg import picture_of
from wend._frontend.seeing.tables import html_text
from wend._frontend.seeing.visible import printable, view_of

__all__ = ["Side", "page_of_sides", "sides_html"]

#: Boxes of a side at first, differing ops whose modules are unfolded, pixels of a side.
MOST_BOXES, MOST_UNFOLDED, WIDE = 40, 24, 760.0
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>:root{{color-scheme:light dark}}
body{{margin:16px;font:14px/1.4 system-ui,sans-serif}}</style>
</head><body><h1 style="font-size:17px">{title}</h1>{body}</body></html>
"""


@dataclass
class Side:
    """A graph of two.

    marks: id of an op -> "gone", "new" or "resized"     note: about the side, in a few words
    """

    name: str
    graph: OpGraph
    marks: dict[int, str]
    note: str

    def picture(self) -> str:
        """The graph, folded but for what differs."""
        folding = fold(self.graph)
        opened = folding.opened(MOST_BOXES)
        apart = [i for i, mark in self.marks.items() if mark != "resized"] or [*self.marks][:1]
        for i in apart[:MOST_UNFOLDED]:
            around: Fold | None = folding.homes[i]
            while around is not None:
                opened.add(around.index)
                around = around.parent
        marks: dict[int, str] = {}
        for i, mark in self.marks.items():
            around = folding.homes[i]
            while around is not None:
                marks.setdefault(around.index, mark)
                around = around.parent

        def marked(item: OpNode | Fold) -> str:
            if isinstance(item, Fold):
                return marks.get(item.index, "")
            return self.marks.get(item.id, "")

        return picture_of(view_of(folding, opened), self.name, WIDE, marked)


def sides_html(sides: Sequence[Side], text: str) -> str:
    """Graphs side by side, or in a column where that is too wide, and a text."""
    figures = "".join(
        '<figure style="flex:1 1 340px;min-width:0;margin:0;overflow-x:auto">'
        f"<figcaption><b>{html_text(printable(side.name))}</b> {escape(side.note)}</figcaption>"
        f"{side.picture()}</figure>"
        for side in sides
    )
    return (
        f'<div><div style="display:flex;flex-wrap:wrap;gap:12px;align-items:flex-start">{figures}'
        f"</div><details><summary>as text</summary><pre>{escape(printable(text))}</pre></details>"
        "</div>"
    )


def page_of_sides(title: str, sides: Sequence[Side], text: str) -> str:
    """A page that needs no network and no further file."""
    return PAGE.format(title=escape(printable(title)), body=sides_html(sides, text))
