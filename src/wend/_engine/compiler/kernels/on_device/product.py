"""Matrix products on an accelerator."""

from __future__ import annotations

from functools import cache

from wend._engine.base.dtypes import DType
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function, Layout
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, scale
from wend._engine.compiler.kernels.on_device.tail import add_tail
from wend._engine.compiler.kernels.on_device.tiles import COMMON, NAME, TileCode
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.lower.contraction import Axis
from wend._engine.compiler.schedule.epilogue_ops import head_of
from wend._engine.compiler.schedule.fusion_group import Region

#: The words of the argument block; strides in elements.
WORDS = [*COMMON, *"left_row left_step right_step right_column out_row".split()]
_UNIT = Axis(ONE, ZERO, ZERO, ZERO)


def device_product(f: Function, region: Region) -> Kernel:
    """Return the kernel of a contraction as a matrix product, with the ops behind it."""
    op = head_of(region)
    p = op.product
    dtype = f.dtypes[op.out]
    kernel = Kernel(NAME, product_text(written_for(), dtype), f"contract {op.out}")
    kernel.reads = sorted({p.x.base, p.y.base})
    kernel.writes = [op.out]
    kernel.is_whole = True
    outer, inner = (_UNIT, _UNIT, *p.batch)[-2:]

    def at(layout: Layout) -> Slot:
        return Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize))

    extents = (
        p.m.extent, p.n.extent, p.k.extent, outer.extent, inner.extent, outer.x, inner.x, outer.y,
        inner.y, outer.out, inner.out, p.m.x, p.k.x, p.k.y, p.n.y, p.m.out,
    )  # fmt: skip
    kernel.slots = [at(p.x), at(p.y), at(p.out), *(Slot("extent", e) for e in extents)]
    return add_tail(f, kernel, region, lambda: ProductCode(written_for(), dtype))


@cache
def product_text(target: Target, dtype: DType) -> str:
    """Return the module of a product of this dtype."""
    return ProductCode(target, dtype).write()


class ProductCode(TileCode):
    """Writes the kernel of a product."""

    def __init__(self, target: Target, dtype: DType) -> None:
        super().__init__(target, dtype, WORDS)
        self.left_near = self.entry.let(f"icmp eq i64 {self.w['left_step']}, 1")
        self.right_near = self.entry.let(f"icmp eq i64 {self.w['right_step']}, 1")

    def left_at(self, left: str, row: str, step: str) -> tuple[str, str]:
        """See `TileCode`."""
        pairs = (row, self.w["left_row"]), (step, self.w["left_step"])
        return self.moved(left, self.kind, *pairs), ""

    def right_at(self, right: str, column: str, step: str) -> tuple[str, str]:
        """See `TileCode`."""
        w = self.w
        return self.moved(
            right, self.kind, (column, w["right_column"]), (step, w["right_step"])
        ), ""

    def out_at(self, out: str, row: str, column: str) -> str:
        """See `TileCode`."""
        return self.moved(out, self.kind, (row, self.w["out_row"]), (column, "1"))
