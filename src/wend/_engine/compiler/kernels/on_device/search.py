"""Looking up places in sorted rows on an accelerator: a work item bisects a row for a value."""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base.dtypes import DType, int64
from wend._engine.compiler.codegen.device_nest import ALONE
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import SEARCH, Function, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, scale
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type
from wend._engine.compiler.lower.order import compared_as
from wend._engine.compiler.lower.registry import makes_kernel

NAME = "search"
_OPERANDS = ("rows", "values")


@makes_kernel(SEARCH)
def search(f: Function, op: Op) -> Kernel:
    """Return the kernel of a search, with its slots."""
    out, prim = op.out, op.node.prim
    dtypes = tuple([f.dtypes[i] for i in (*(read.value for read in op.reads), out)])
    rank = len(f.shape(out))
    depth = len(f.shape(op.reads[0].value))
    text = search_text(written_for(), dtypes, rank, depth, prim.after_equals())
    kernel = Kernel(NAME, text, f"searchsorted {out}")
    kernel.reads = sorted({f.base(read.value) for read in op.reads})
    kernel.writes = [out]
    kernel.is_whole = True
    kernel.slots = [Slot("pointer", out, ZERO)]
    extents = [f.shape(op.reads[0].value)[-1], *f.shape(out)]
    for read in op.reads:
        layout = f.layout(read.value)
        size = f.dtypes[read.value].itemsize
        kernel.slots.append(Slot("pointer", layout.base, scale(layout.offset, size)))
        extents += layout.strides
    kernel.slots += [Slot("extent", n) for n in extents]
    return kernel


@cache
def search_text(target: Target, dtypes: Any, rank: int, depth: int, behind: bool) -> str:
    """Return the module of a search.

    dtypes: of the rows, the values and the result     rank, depth: dims of the values and the rows
    behind: whether a value goes behind equal elements
    """
    return SearchCode(target, dtypes, rank, depth, behind).write()


class SearchCode(DeviceCode):
    """Writes the kernel of a search."""

    def __init__(
        self, target: Target, dtypes: tuple[DType, ...], rank: int, depth: int, behind: bool
    ) -> None:
        words = ["out", *_OPERANDS, "length", *(f"size{d}" for d in range(rank))]
        words += [f"row_step{d}" for d in range(depth)]
        words += [f"step{d}" for d in range(rank)]
        super().__init__(target, NAME, words, ("out", *_OPERANDS))
        self.dtypes, self.rank, self.depth, self.behind = dtypes, rank, depth, behind

    def write(self) -> str:
        """Return the text of the module."""
        w, b = self.w, self.b
        of_rows, of_values, of_out = self.dtypes
        wide = compared_as(of_rows, of_values)
        sizes = [w[f"size{d}"] for d in range(self.rank)]
        *fronts, near = [w[f"row_step{d}"] for d in range(self.depth)]
        with self.turns(self.product_of(sizes)) as turn:
            places = self.parted(turn, sizes) if sizes else []
            steps = [w[f"step{d}"] for d in range(self.rank)]
            value = self.element(w["values"], of_values, *zip(places, steps, strict=True))
            value = b.convert(value, wide)
            pairs = zip(places, fronts, strict=False)
            row = self.moved(w["rows"], memory_type(of_rows), *pairs)

            def is_passed(place: str) -> str:
                x = b.convert(self.element(row, of_rows, (place, near)), wide)
                # NaN in a row is passed, and NaN as a value passes all.
                stays = b.gt(x, value) if self.behind else b.ge(x, value)
                return b.bitwise_not(stays).name

            place = SsaValue(self.bisected("0", w["length"], is_passed), int64)
            self.put(b.convert(place, of_out), w["out"], (turn, "1"))
        return self.module_text(False, ALONE, [(f"size{d}", 1) for d in range(self.rank)])
