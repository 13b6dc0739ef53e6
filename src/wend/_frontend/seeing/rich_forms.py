"""Answers of `wend.debug` as notebooks show them: tables in place of indented text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from wend._frontend.seeing.tables import Html, html_report, html_table, html_text

__all__ = ["html_of_paths", "html_of_reasons", "indented"]


def indented(depth: int, text: str) -> Html:
    """A cell of a tree."""
    return Html(f'<div style="padding-left:{1.2 * depth:.1f}em">{html_text(text)}</div>')


def html_of_paths(stretches: Iterable[Any], most: int) -> str:
    """A map of paths as a table.  most: number of rows"""
    rows = [row for stretch in stretches for row in stretch.walk()]
    cells = []
    for depth, x in rows[:most]:
        name = f"{x.first} … {x.last}" if x.ops > 1 else x.first
        ends = f"{x.ended:,}" if x.ended or x.plans else ""
        cells.append(
            (indented(depth, name), f"{x.taken:,}", f"{x.ops:,}", ends, "; ".join(x.plans), x.place)
        )
    heads = ("path", "taken", "ops", "ended", "run by", "line")
    paths = sum(bool(x.ended) for _, x in rows)
    stretches_text = f"{len(rows):,} stretch{'es' if len(rows) != 1 else ''}"
    more = f"<p>… {len(rows) - most:,} more</p>" if len(rows) > most else ""
    head = f"{paths:,} path{'s' if paths != 1 else ''}, {stretches_text}"
    return html_report(head, html_table(heads, cells, right=(1, 2, 3)), more)


def html_of_reasons(head: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """Reasons as a list.  rows: the kind, the text and the remedy of each"""
    items = [
        f"<dt><b>{escape(kind)}</b></dt><dd>{html_text(text)}"
        + (f'<div style="opacity:.75">{html_text(remedy)}</div>' if remedy else "")
        + "</dd>"
        for kind, text, remedy in rows
    ]
    return html_report(head, f"<dl>{''.join(items)}</dl>" if items else "")
