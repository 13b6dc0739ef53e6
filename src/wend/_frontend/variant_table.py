"""`wend.debug.variants()`: the ways in which kernels compute products and convolutions."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from wend._frontend.seeing.tables import html_table, text_table

__all__ = ["VariantRow", "VariantTable", "variants"]


class VariantRow(NamedTuple):
    """A variant of a kernel.

    family: the computation
    name: the name of the class
    when: the sizes and strides for which the variant applies, in words
    file: the file in the package with the condition and the code
    """

    family: str
    name: str
    when: str
    file: str


def variants(family: str = "") -> VariantTable:
    """The variants of the kernels for products and convolutions, in the order of the table.

    family: only this one, such as "product"; all by default

    A family is one computation. Whenever its kernel runs, the variants are asked about sizes and
    strides. Printing shows a table, also in notebooks; `rows` has the rows. Raises ValueError for a
    family that does not exist.
    """
    # Importing the kernels registers their variants.
    from wend._engine.compiler.kernels.conv import forward  # noqa: F401
    from wend._engine.compiler.llvm_ir.variants import families, variants_of

    known = sorted(families())
    if family and family not in known:
        raise ValueError(f"variants: {family!r} is none of {', '.join(map(repr, known))}")
    rows = []
    for one in [family] if family else known:
        for variant in variants_of(one):
            when, *_ = (variant.__doc__ or "").splitlines()
            file = variant.__module__.removeprefix("wend._engine.").replace(".", "/") + ".py"
            rows.append(VariantRow(one, variant.__name__, when.rstrip("."), file))
    return VariantTable(rows)


class VariantTable:
    """Variants of kernels; `rows` has one for each."""

    def __init__(self, rows: list[VariantRow]) -> None:
        self.rows = rows

    def __str__(self) -> str:
        lines = []
        wide = max(len(row.name) for row in self.rows)
        for family, rows in groupby(self.rows, key=attrgetter("family")):
            cells = [pair for row in rows for pair in ((row.name, row.when), ("", row.file))]
            lines += [family, *text_table(cells, indent="  ", least=(wide,))]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(VariantRow._fields, self.rows)
