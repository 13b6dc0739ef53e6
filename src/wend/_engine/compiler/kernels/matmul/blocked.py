"""The blocked product: panels of the right operand, for every product that nothing else computes.

Panels are read where they lie if they have been packed before, or if few rows use them. Otherwise
they are packed block by block (`matmul.operands`, `matmul.packing`).
"""

from __future__ import annotations

from wend._engine.compiler.kernels.matmul.choice import ProductChoice, ProductSite
from wend._engine.compiler.kernels.matmul.macrokernel import Multiply
from wend._engine.compiler.kernels.matmul.operands import Operands
from wend._engine.compiler.llvm_ir.integers import Bool
from wend._engine.compiler.llvm_ir.variants import Variant, variant


@variant("product", after="ColumnDots")
class Blocked(Variant):
    """All else, and the whole panels in front of columns that are left over."""

    @staticmethod
    def applies(p: ProductChoice) -> Bool:
        """Whether panels are multiplied, block by block."""
        return ~(p.taken | p.takes("Streamed"))

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the loops around the tiles."""
        f, p, a, rest = site.f, site.p, site.a, site.p.rest
        few = str(p.in_place)
        fields = site.left, site.right, str(rest.columns), few
        operands = Operands(f, p.shape, p.dtype, site.room, *fields)
        Multiply(
            f,
            p.shape,
            right=lambda block: operands.packed(a["depth"], str(p.packed), block),
            left=operands.left_rows,
            room=site.room,
            part_rows=(a["first_row"], a["last_row"]),
            part_columns=(a["first_column"], str(rest.last)),
            columns=str(rest.columns),
            depth=a["depth"],
            out=site.out,
            out_row=a["out_row"],
            accumulate=str(p.accumulate),
            epilogue=a["epilogue"],
            state=a["state"],
            place=site.told,
            chunk=str(p.chunk),
            stands=operands.stands,
            strips=True,
        ).write()
