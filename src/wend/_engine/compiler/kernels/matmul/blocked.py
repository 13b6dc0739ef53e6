"""The blocked product: panels of the right operand, for every product that nothing else computes.

Panels are read where they lie if they have been packed before, or if few rows use them. Otherwise
they are packed block by block (`matmul.operands`, `matmul.packing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wend._engine.compiler.kernels.matmul.macrokernel import (
    DEPTH,
    DIRECT_SPLIT,
    Multiply,
    column_panels,
    direct_rows,
    has_narrow_panels,
)
from wend._engine.compiler.kernels.matmul.microkernel import LINE
from wend._engine.compiler.kernels.matmul.operands import Operands
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variant

if TYPE_CHECKING:
    from wend._engine.compiler.kernels.matmul.sizes import ProductSite, ProductSizes

# The bytes of a chunk where the next chunk is prefetched into the second-level cache during its
# use. Left rows are read once for each chunk, so chunks of narrow panels have more bytes.
_CHUNK_BYTES, _NARROW_CHUNK_BYTES = 1 << 17, 3 << 17
# The most rows, and the least steps, for chunks of a panel that stays in the first-level cache.
# measured: command not recorded, 2026-11-24, 32x113x2048 nt takes 0.89 of the time with AVX-512
_NEAR_ROWS, _NEAR_STEPS = 64, 48


@variant("product", after="ColumnDots")
class Blocked(Variant):
    """All else, and the whole panels in front of columns that are left over."""

    @staticmethod
    def applies(p: ProductSizes) -> Bool:
        """Whether panels are multiplied, block by block."""
        return ~(p.taken | p.takes("Streamed"))

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the loops around the tiles."""
        f, p, a, rest = site.f, site.p, site.a, site.p.rest
        few = str(p.in_place)
        given = site.left, site.right, str(rest.columns), few
        operands = Operands(f, p.shape, p.dtype, site.room, *given)
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


def reads_in_place(p: ProductSizes) -> Bool:
    """Whether rows are so few that they read the right operand where it lies, if they can."""
    most, shape = direct_rows(p.shape, large=False), p.shape
    large = p.large
    split = (p.right_step & (LINE - 1)) != 0
    few = split.choose(min(DIRECT_SPLIT, most), most)
    return p.rows <= large.choose(direct_rows(shape, large=True), few)


def chunk_columns(p: ProductSizes) -> Int:
    """The number of columns in a chunk.

    Left rows are read, or packed, once for each chunk. Where the depth is small, many panels fit.
    """
    shape = p.shape
    # A chunk has no more panels than can be prefetched in time. Left rows that must be packed are
    # packed once for each chunk, so small chunks would cost more.
    ahead = p.packed & (p.left_step == p.size)
    # A few rows, read in place, multiply each panel while it is in the first-level cache.
    near = p.both_along & (p.depth >= _NEAR_STEPS)
    near = near & (p.rows <= _NEAR_ROWS)
    if p.widened:
        near = p.never  # left rows are widened once for each chunk
    steps = p.depth.at_most(DEPTH)
    panel = steps * (shape.panel * shape.size)
    most = _NARROW_CHUNK_BYTES if has_narrow_panels(shape) else _CHUNK_BYTES
    fewer = most // (panel + 1) + 1
    steps = (steps == 0).choose(1, steps)
    more = column_panels(shape) * DEPTH // steps
    if not has_narrow_panels(shape):
        more = near.choose(1, more)
    return ahead.choose(fewer, more) * shape.panel
