"""Recurrences between neighbours on an accelerator: a group goes from row to row of an example.

The work items of a group share the places of a row, and wait for those of the row before.
"""

from __future__ import annotations

from functools import cache

from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.device_nest import ROW
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.ir.symbolic_extents import scale
from wend._engine.compiler.kernels.band_scan import sum_of
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.ops.band_scan import WIDTH

NAME = "band_scan"
_POINTERS = ("weights", "terms", "out")
#: Extents of the result, and the strides of both operands.
_WORDS = "rows examples places weight_way weight_row weight_example term_row term_example".split()


def device_band_scan(f: Function, op: Op) -> Kernel:
    """Return the kernel of a recurrence."""
    out, prim = op.out, op.node.prim
    back, dtype = bool(getattr(prim, "back", False)), f.dtypes[out]
    text = band_text(written_for(), prim.name == "log_band_scan", back, dtype)
    kernel = Kernel(NAME, text, f"{prim.name} {out}")
    kernel.reads = [f.layout(read.value).base for read in op.reads]
    kernel.writes = [out]
    kernel.is_whole = True
    extents = list(f.shape(out))
    for read in op.reads:
        extents += f.layout(read.value).strides[:-1]
    kernel.slots = []
    for value in (*(read.value for read in op.reads), out):
        layout = f.layout(value)
        kernel.slots.append(Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize)))
    kernel.slots += [Slot("extent", n) for n in extents]
    return kernel


@cache
def band_text(target: Target, logarithms: bool, back: bool, dtype: DType) -> str:
    """Return the module of a recurrence."""
    return BandCode(target, logarithms, back, dtype).write()


class BandCode(DeviceCode):
    """Writes the kernel of a recurrence."""

    def __init__(self, target: Target, logarithms: bool, back: bool, dtype: DType) -> None:
        super().__init__(target, NAME, [*_POINTERS, *_WORDS], _POINTERS)
        self.logarithms, self.back, self.dtype = logarithms, back, dtype
        self.total = self.variable(self.b.type_of(dtype))

    def write(self) -> str:
        """Return the text of the module."""
        text, w = self.text, self.w
        apart = self.entry.let(f"mul i64 {w['examples']}, {w['places']}")
        last = self.entry.let(f"sub i64 {w['rows']}, 1")
        with self.shared_turns(w["examples"]) as n, self.loop("0", w["rows"]) as i:
            t = text.let(f"sub i64 {last}, {i}") if self.back else i
            step = "1" if self.back else "-1"
            before = text.let(f"add i64 {t}, {step}")
            of = before if self.back else t
            with self.shares("0", w["places"]) as s:
                term = (t, w["term_row"]), (n, w["term_example"]), (s, "1")
                self.hold(self.element(w["terms"], self.dtype, *term), self.total)
                with text.when(text.let(f"icmp sgt i64 {i}, 0")):
                    for way in range(WIDTH):
                        self.add_way(way, of, before, n, s, apart)
                out = (t, apart), (n, w["places"]), (s, "1")
                self.put(self.held(self.total, self.dtype), w["out"], *out)
            self.verbs.barrier(everywhere=True)
        return self.module_text(True, ROW, [("examples", 1)])

    def add_way(self, way: int, of: str, before: str, n: str, s: str, apart: str) -> None:
        """Add what comes from a place of the row before.

        of, before: the row of the weights, and the row before; apart: elements from row to row
        """
        text, w = self.text, self.w
        there = text.let(f"add i64 {s}, {way if self.back else -way}")
        inside = text.let(f"icmp ult i64 {there}, {w['places']}")
        with text.when(inside):
            own = there if self.back else s
            weight = self.element(
                w["weights"], self.dtype, (str(way), w["weight_way"]), (of, w["weight_row"]),
                (n, w["weight_example"]), (own, "1"),
            )  # fmt: skip
            former = (before, apart), (n, w["places"]), (there, "1")
            x = self.element(w["out"], self.dtype, *former)
            total = self.held(self.total, self.dtype)
            self.hold(sum_of(self.b, self.logarithms, total, weight, x), self.total)
