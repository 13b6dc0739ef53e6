"""Tables as text and as HTML: the printer of all reports."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from itertools import zip_longest

__all__ = ["RULE", "Html", "html_table", "text_table"]

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


def html_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table for notebooks."""
    head = "".join([f"<th>{escape(name)}</th>" for name in heads])
    body = ""
    for row in rows:
        cells = [cell if isinstance(cell, Html) else escape(cell) for cell in row]
        body += f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    return f"<table><tr>{head}</tr>{body}</table>"
