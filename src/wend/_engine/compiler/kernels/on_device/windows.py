"""Windows on an accelerator: the greatest element of each, and the adjoint of taking windows.

A work item finds the greatest element of a window, or adds up what the windows hold of an element.
"""

from __future__ import annotations

from functools import cache

from wend._engine.base import dtypes
from wend._engine.base.dtypes import FLOAT, DType
from wend._engine.compiler.codegen.device_nest import ALONE
from wend._engine.compiler.codegen.scalar_ops import identity_of
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, mul, product, scale
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.kernels.pooling import window_words
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type
from wend._engine.ops.elementwise.family import widened

NAME = "windows"
#: Facts of each dim of a window.
_SIDES = ("taps", "stride", "pad", "dilation", "counts", "sizes")


def words_of(sides: int) -> list[str]:
    """The words of the argument block, for windows of so many dims."""
    return ["values", "indices", "input", "turns", "row",
            *(f"{name}{d}" for name in _SIDES for d in range(sides))]  # fmt: skip


def device_windows(f: Function, op: Op) -> Kernel:
    """Return the kernel of a max pooling, or of the adjoint of taking windows."""
    if len(op.outputs) == 1:
        return device_unpatches(f, op)
    x, (values, indices) = op.reads[0].value, op.outputs
    dtype = f.dtypes[x]
    words = window_words(f, op)
    sides = len(words) // 4
    kernel = Kernel(NAME, windows_text(written_for(), dtype, sides), f"max_windows {values}")
    kernel.reads, kernel.writes = [f.base(x)], [values, indices]
    kernel.is_whole = True
    layout = f.layout(x)
    sizes, counts = f.shape(x)[-sides:], f.shape(values)[-sides:]
    row = mul(product(counts), product(f.shape(values)[:-sides]))
    extents: list[Poly] = [row, product(sizes), *words, *counts, *sizes]
    kernel.slots = [
        Slot("pointer", values, ZERO),
        Slot("pointer", indices, ZERO),
        Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize)),
        *(Slot("extent", p) for p in extents),
    ]
    return kernel


@cache
def windows_text(target: Target, dtype: DType, sides: int) -> str:
    """Return the module of a max pooling of so many dims."""
    return WindowsCode(target, dtype, sides).write()


class WindowsCode(DeviceCode):
    """Writes the kernel of a max pooling."""

    def __init__(self, target: Target, dtype: DType, sides: int) -> None:
        super().__init__(target, NAME, words_of(sides), ("values", "indices", "input"))
        self.dtype, self.sides = dtype, sides
        self.wide = widened(dtype)
        self.best, self.at = self.variable(self.b.type_of(self.wide)), self.variable("i64")
        #: Where a window begins along each dim, and the address of its plane.
        self.begins: list[str] = []
        self.plane = ""

    def write(self) -> str:
        """Return the text of the module."""
        text, b, w = self.text, self.b, self.w
        lowest = b.number(identity_of("lowest", self.wide), self.wide)
        with self.turns(w["turns"]) as turn:
            counts = [w[f"counts{d}"] for d in range(self.sides)]
            plane, *places = self.parted(turn, ["", *counts])
            self.begins = []
            for d, place in enumerate(places):
                begin = text.let(f"mul i64 {place}, {w[f'stride{d}']}")
                self.begins.append(text.let(f"sub i64 {begin}, {w[f'pad{d}']}"))
            self.plane = self.moved(w["input"], memory_type(self.dtype), (plane, w["row"]))
            self.hold(lowest, self.best)
            self.hold(b.number(-1, dtypes.int64), self.at)
            self.look(0, "0", "true")
            self.put(
                b.convert(self.held(self.best, self.wide), self.dtype), w["values"], (turn, "1")
            )
            self.put(self.held(self.at, dtypes.int64), w["indices"], (turn, "1"))
        return self.module_text(False, ALONE, [("turns", 1)])

    def look(self, d: int, index: str, inside: str) -> None:
        """Look at the elements of a window along dim d and the following dims."""
        text, w = self.text, self.w
        if d == self.sides:
            with text.when(inside):
                self.compare(index)
            return
        with self.loop("0", w[f"taps{d}"]) as tap:
            place = self.place((tap, w[f"dilation{d}"]), (self.begins[d], "1"))
            # Places before the first are large numbers without a sign.
            here = text.let(f"icmp ult i64 {place}, {w[f'sizes{d}']}")
            here = text.let(f"and i1 {inside}, {here}")
            self.look(d + 1, self.place((index, w[f"sizes{d}"]), (place, "1")), here)

    def compare(self, index: str) -> None:
        """Compare an element of the plane with the best so far."""
        text, b = self.text, self.b
        x = b.convert(self.element(self.plane, self.dtype, (index, "1")), self.wide)
        better = b.gt(x, self.held(self.best, self.wide))
        if self.wide.category == FLOAT:
            better = b.bitwise_or(better, b.ne(x, x))
        none = b.lt(self.held(self.at, dtypes.int64), b.number(0, dtypes.int64))
        with text.when(b.bitwise_or(better, none).name):
            self.hold(x, self.best)
            self.hold(SsaValue(index, dtypes.int64), self.at)


# -- the adjoint --------------------------------------------------------------------------------


def device_unpatches(f: Function, op: Op) -> Kernel:
    """Return the kernel of the adjoint of taking windows."""
    x, out = op.reads[0].value, op.out
    sides = len(op.node.args) // 3
    rank = len(f.shape(out))
    code = unpatches_text(written_for(), f.dtypes[x], rank, sides)
    kernel = Kernel("unpatches", code, f"unpatches {out}")
    kernel.reads, kernel.writes = [f.base(x)], [out]
    kernel.is_whole = True
    layout = f.layout(x)
    steps = [f.extents.path_expr(a) for a in op.node.args[sides:]]
    extents: list[Poly] = [*f.shape(out), *f.shape(x)[rank - sides :], *layout.strides, *steps]
    kernel.slots = [
        Slot("pointer", out, ZERO),
        Slot("pointer", layout.base, scale(layout.offset, f.dtypes[x].itemsize)),
        *(Slot("extent", p) for p in extents),
    ]
    return kernel


@cache
def unpatches_text(target: Target, dtype: DType, rank: int, sides: int) -> str:
    """Return the module of the adjoint: a result of so many dims, windows over the last of them."""
    return UnpatchesCode(target, dtype, rank, sides).write()


class UnpatchesCode(DeviceCode):
    """Writes the kernel of the adjoint of taking windows."""

    def __init__(self, target: Target, dtype: DType, rank: int, sides: int) -> None:
        words = ["out", "input", *(f"size{d}" for d in range(rank))]
        words += [f"{name}{d}" for name in ("taps", "counts") for d in range(sides)]
        words += [f"step{d}" for d in range(rank + sides)]
        words += [f"{name}{d}" for name in ("stride", "dilation") for d in range(sides)]
        super().__init__(target, "unpatches", words, ("out", "input"))
        self.dtype, self.rank, self.sides = dtype, rank, sides
        self.wide = widened(dtype)

    def write(self) -> str:
        """Return the text of the module."""
        w, b = self.w, self.b
        sizes = [w[f"size{d}"] for d in range(self.rank)]
        front = self.rank - self.sides
        total = self.variable(b.type_of(self.wide))
        with self.turns(self.product_of(sizes)) as turn:
            places = self.parted(turn, sizes)
            begin = self.place(*((places[d], w[f"step{d}"]) for d in range(front)))
            self.hold(b.number(0, self.wide), total)
            self.look(0, places[front:], begin, total)
            self.put(self.held(total, self.wide), w["out"], (turn, "1"))
        return self.module_text(False, ALONE, [(f"size{d}", 1) for d in range(self.rank)])

    def look(self, d: int, places: list[str], at: str, total: str) -> None:
        """Add what the windows hold of an element, along dim d and the following dims.

        places: of the element, along all dims of windows
        at: the place in the operand, as far as is known     total: the variable of the sum
        """
        w, b, text = self.w, self.b, self.text
        if d == self.sides:
            x = b.convert(self.element(w["input"], self.dtype, (at, "1")), self.wide)
            self.hold(b.add(self.held(total, self.wide), x), total)
            return
        front = self.rank - self.sides
        with self.loop("0", w[f"taps{d}"]) as tap:
            apart = text.let(f"mul i64 {tap}, {w[f'dilation{d}']}")
            begin = text.let(f"sub i64 {places[d]}, {apart}")
            with text.when(text.let(f"icmp sge i64 {begin}, 0")):
                rest, window = self.divided(begin, w[f"stride{d}"])
                whole = text.let(f"icmp eq i64 {rest}, 0")
                there = text.let(f"icmp slt i64 {window}, {w[f'counts{d}']}")
                with text.when(text.let(f"and i1 {whole}, {there}")):
                    steps = w[f"step{front + d}"], w[f"step{self.rank + d}"]
                    place = self.place((at, "1"), (tap, steps[0]), (window, steps[1]))
                    self.look(d + 1, places, place, total)
