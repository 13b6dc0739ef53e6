"""Tables as text and as HTML: the printer of all reports."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from itertools import zip_longest

__all__ = ["RULE", "Html", "html_report", "html_table", "html_text", "text_table"]

#: In place of a row: a line below each column.
RULE = None


class Html(str):
    """A cell that is HTML already; any other text is escaped."""

    __slots__ = ()


def text_table(
    rows: Sequence[Sequence[str] | None],
    right: Container[int] = (),
    indent: str = "",
    least: Sequence[int] = (),
) -> list[str]:
    """The lines of a table, with columns as wide as the widest cell.

    rows: cells, as many in each row, or `RULE`
    right: numbers of the columns whose cells stand at the right
    least: least widths of the first columns
    """
    columns = zip(*[row for row in rows if row is not RULE], strict=True)
    lengths = [max(map(len, column)) for column in columns]
    widths = [max(pair) for pair in zip_longest(lengths, least[: len(lengths)], fillvalue=0)]

    def line(row: Sequence[str] | None) -> str:
        cells = ["-" * n for n in widths] if row is RULE else row
        placed = zip(cells, widths, strict=True)
        texts = [c.rjust(n) if k in right else c.ljust(n) for k, (c, n) in enumerate(placed)]
        return f"{indent}{'  '.join(texts)}".rstrip()

    return [line(row) for row in rows]


def html_table(
    heads: Iterable[str], rows: Iterable[Iterable[str]], right: Container[int] | None = None
) -> str:
    """A table for notebooks.

    right: numbers of the columns whose cells stand at the right; None leaves it to the notebook
    """

    def cells(tag: str, row: Iterable[str]) -> str:
        texts = [cell if isinstance(cell, Html) else escape(cell) for cell in row]
        if right is None:
            return "".join(f"<{tag}>{text}</{tag}>" for text in texts)
        sides = ["right" if k in right else "left" for k in range(len(texts))]
        styled = zip(sides, texts, strict=True)
        return "".join(f'<{tag} style="text-align:{side}">{text}</{tag}>' for side, text in styled)

    body = "".join([f"<tr>{cells('td', row)}</tr>" for row in rows])
    return f"<table><tr>{cells('th', heads)}</tr>{body}</table>"


def html_text(text: str) -> Html:
    """A text for notebooks: lines stay lines."""
    return Html(escape(text).replace("\n", "<br>"))


def html_report(head: str, *parts: str) -> str:
    """A report for notebooks: a head in bold, and parts in HTML.

    Colours are those of the notebook, whether light or dark.
    """
    return f"<div><p><b>{html_text(head)}</b></p>{''.join(parts)}</div>"
