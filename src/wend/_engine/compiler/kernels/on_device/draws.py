"""Draws by weight on an accelerator, with replacement: a group makes the draws of a row.

The first work item adds the weights up in order, as a processor does: so the draws are the same.
Then the work items share the draws of the row.
"""

from __future__ import annotations

from functools import cache

from wend._engine.base.dtypes import DType, bool_, float64, int64
from wend._engine.compiler.codegen import philox
from wend._engine.compiler.codegen.device_nest import ROW
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, add, mul, scale
from wend._engine.compiler.kernels.draws import NO_SUM, NO_WEIGHTS
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type

NAME = "draws"
_POINTERS = ("weights", "out", "sums", "fault")
_WORDS = "rows size count step seed offset".split()


def device_draws(f: Function, op: Op) -> Kernel:
    """Return the kernel of draws by weight."""
    out, source = op.out, op.reads[0].value
    layout, shape, dtype = f.layout(source), f.shape(source), f.dtypes[source]
    text, faults = draws_text(written_for(), dtype)
    kernel = Kernel(NAME, text, f"multinomial_draw {out}")
    kernel.reads, kernel.writes, kernel.faults = [layout.base], [out], list(faults)
    kernel.is_whole = True
    many = len(shape) > 1
    rows = shape[0] if many else ONE
    extents = [rows, shape[-1], f.shape(out)[-1], layout.strides[0] if many else ZERO]
    kernel.slots = [
        Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize)),
        Slot("pointer", out, ZERO),
        Slot("scratch", scale(mul(rows, add(shape[-1], ONE)), 8), "sums"),
        Slot("fault"),
        *(Slot("extent", n) for n in extents),
        *(Slot("number", e, 1) if type(e) is tuple else Slot("word", e) for e in op.numbers[1:]),
    ]
    return kernel


@cache
def draws_text(target: Target, dtype: DType) -> tuple[str, tuple[str, ...]]:
    """Return the module of draws for weights of a dtype, and the failures."""
    code = DrawsCode(target, dtype)
    return code.write(), tuple(code.faults.messages)


class DrawsCode(DeviceCode):
    """Writes the kernel of draws by weight."""

    def __init__(self, target: Target, dtype: DType) -> None:
        super().__init__(target, NAME, [*_POINTERS, *_WORDS], _POINTERS)
        self.dtype = dtype
        self.total, self.last = self.variable("double"), self.variable("i64")
        self.fits = self.variable("i1")

    def write(self) -> str:
        """Return the text of the module."""
        text, w, b = self.text, self.w, self.b
        is_first = self.entry.let(f"icmp eq i64 {self.verbs.number('item')}, 0")
        lines = self.entry.let(f"add i64 {w['size']}, 1")
        seed, end = SsaValue(w["seed"], int64), (w["size"], "1")
        with self.shared_turns(w["rows"]) as row:
            sums = self.moved(w["sums"], "i64", (row, lines))
            with text.when(is_first):
                self.add_up(
                    self.moved(w["weights"], memory_type(self.dtype), (row, w["step"])), sums
                )
            self.verbs.barrier(everywhere=True)
            total = self.element(sums, float64, end, ("-1", "1"))
            last = self.element(sums, int64, end).name
            with self.shares("0", w["count"]) as k:
                here = self.place((row, w["count"]), (k, "1"))
                at = SsaValue(text.let(f"add i64 {w['offset']}, {here}"), int64)
                height = b.mul(philox.uniform(b, seed, at, float64), total)

                def is_passed(place: str, sums: str = sums, height: SsaValue = height) -> str:
                    return b.le(self.element(sums, float64, (place, "1")), height).name

                place = self.bisected("0", w["size"], is_passed)
                # Rounding may pass the last sum.
                place = text.let(f"call i64 @llvm.smin.i64(i64 {place}, i64 {last})")
                self.put(SsaValue(place, int64), w["out"], (here, "1"))
        return self.module_text(True, ROW, [("rows", 1)])

    def add_up(self, weights: str, sums: str) -> None:
        """Write the sums of the weights of a row, then the place of the last that is not 0."""
        b, w = self.b, self.w
        zero, infinity = b.number(0.0, float64), b.number(float("inf"), float64)
        self.hold(zero, self.total)
        self.hold(b.number(0, int64), self.last)
        self.hold(b.number(True, bool_), self.fits)
        with self.loop("0", w["size"]) as k:
            x = b.convert(self.element(weights, self.dtype, (k, "1")), float64)
            bound = b.add(self.held(self.total, float64), x)
            self.put(bound, sums, (k, "1"))
            self.hold(bound, self.total)
            inside = b.bitwise_and(b.le(zero, x), b.lt(x, infinity))
            self.hold(b.bitwise_and(self.held(self.fits, bool_), inside), self.fits)
            last = b.select(b.ne(x, zero), SsaValue(k, int64), self.held(self.last, int64))
            self.hold(last, self.last)
        self.put(self.held(self.last, int64), sums, (w["size"], "1"))
        b.require(self.held(self.fits, bool_), NO_WEIGHTS)
        b.require(b.lt(zero, self.held(self.total, float64)), NO_SUM)
