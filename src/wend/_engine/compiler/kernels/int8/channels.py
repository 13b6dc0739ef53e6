"""Kernels of `ops/quantized/channels.py`: depthwise convolutions of bytes.

    void channels_of_bytes(ptr args)

`args` holds WORDS, then the addresses of the operands and of the result, all dense.

    void channels_{full, part}(ptr args, ptr x, ptr weight, ptr out, ptr of, ptr limits, i64 left)

computes a vector of channels of all images, or the last `left` channels.  The weights stay in
registers, unless a kernel has many taps.  A tap beyond the image reads a vector of zero points
instead, so that images need no padded copy.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from wend._engine.base.dtypes import float32, int8, int32, uint8
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.kernels.int8.dots import Dots
from wend._engine.compiler.kernels.int8.rounding import limits_of, rounded
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import cached_by_processor, written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue

#: Extents of the result and of the image; steps and padding, by rows and columns.
WORDS = (
    "groups images rows columns channels height width "
    "row_stride column_stride row_dilation column_dilation top left"
).split()
_OPERANDS = "x weight offset factor shift limits out".split()
PLACES = {name: 8 * k for k, name in enumerate([*WORDS, *_OPERANDS])}
#: Taps that are written one after the other.
_UNROLLED = 25

#: The address of an image's element for a tap, by the distances of rows and columns from the first.
Place = Callable[[str, str], str]


class ChannelsKernel:
    """Writes the module for the rows and columns of a kernel."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.target = written_for()
        self.dots = Dots(self.target)
        self.lanes, self.kind = self.dots.lanes, self.dots.kind
        self.module = Module()

    def write(self) -> str:
        """Return the text of the module."""
        parts = [self.vector("full", False), self.vector("part", True), self.function()]
        return "\n".join([*parts, self.module.render()])

    def words(self, f: Routine) -> dict[str, str]:
        """The words of the argument block."""
        return {
            name: f.load("ptr" if name in _OPERANDS else "i64", f.at("%args", place), 8)
            for name, place in PLACES.items()
        }

    def function(self) -> str:
        """The loops over groups and vectors of channels."""
        f = Routine("channels_of_bytes", [("ptr", "args")])
        a = self.words(f)
        channels = a["channels"]
        image = f.mul(a["images"], f.mul(f.mul(a["height"], a["width"]), channels))
        result = f.mul(a["images"], f.mul(f.mul(a["rows"], a["columns"]), channels))
        weight = f.mul(channels, str(self.rows * self.columns))
        with f.loop("0", a["groups"]) as g:
            x, w = f.at(a["x"], f.mul(g, image)), f.at(a["weight"], f.mul(g, weight))
            out, first = f.at(a["out"], f.mul(g, result)), f.mul(g, channels)
            limits = f.at(a["limits"], f.mul(g, "16"))
            with f.loop("0", channels, str(self.lanes)) as c:
                left = f.sub(channels, c)
                of = f.at(a["offset"], f.mul(f.add(first, c), "4"))
                pointers = (f.at(x, c), f.at(w, c), f.at(out, c), of, limits)
                tail = ", ".join(f"ptr {p}" for p in pointers)
                full = f.is_("sge", left, str(self.lanes))
                for name, fits in (("full", full), ("part", f.let(f"xor i1 {full}, true"))):
                    with f.when(fits):
                        f.line(f"call void @channels_{name}(ptr %args, {tail}, i64 {left})")
        return f.text()

    def vector(self, name: str, masked: bool) -> str:
        """The text of the function for a vector of channels."""
        pointers = "args x weight out of limits".split()
        parameters = [*(("ptr", word) for word in pointers), ("i64", "left")]
        f = Routine(f"channels_{name}", parameters, internal=True)
        a = self.words(f)
        mask = lane_mask(f, self.lanes, "%left") if masked else None
        b = VectorBuilder(f, self.module, self.lanes, self.target, None, mask)
        apart = f.sub(*(f.let(f"ptrtoint ptr {p} to i64") for p in ("%of", a["offset"])))
        factor, shift = (b.load(f.at(a[x], apart), float32) for x in ("factor", "shift"))
        zero = b.number(0, int32)
        start = b.sub(zero, b.load("%of", int32)).name
        limits = [b.spread(x.name, x.dtype) for x in limits_of(f)]
        beyond = f.let(f"alloca <{self.lanes} x i8>, align 16")
        point = f.let(f"trunc i32 {f.load('i32', f.at('%limits', 12), 4)} to i8")
        whole = VectorBuilder(f, self.module, self.lanes, self.target)
        whole.store(whole.spread(point, uint8), beyond)
        taps = _Taps(self, f, b, a, start)
        line = f.mul(a["width"], a["channels"])
        across = self.inside(f, a, "column", a["left"], a["width"], self.columns, a["columns"])
        tall = f.mul(str(self.rows - 1), a["row_dilation"])
        with f.loop("0", a["images"]) as n, f.loop("0", a["rows"]) as i:
            y = f.sub(f.mul(i, a["row_stride"]), a["top"])
            inside = f.both(f.is_("sge", y, "0"), f.is_("slt", f.add(y, tall), a["height"]))
            first, last = (f.select(inside, edge, a["columns"]) for edge in across)
            above = f.at("%x", f.mul(f.add(f.mul(n, a["height"]), y), line))
            goal = f.add(f.mul(n, a["rows"]), i)
            goal = f.at("%out", f.mul(f.mul(goal, a["columns"]), a["channels"]))

            def pixel(j: str, checked: bool) -> None:
                x = f.sub(f.mul(j, a["column_stride"]), a["left"])
                source = f.at(above, f.mul(x, a["channels"]))
                sums = SsaValue(taps.sums(source, (y, x), beyond if checked else ""), int32)
                value = b.add(b.mul(b.convert(sums, float32), factor), shift)
                b.store(rounded(b, value, limits), f.at(goal, f.mul(j, a["channels"])))

            with f.loop(first, last) as j:
                pixel(j, False)
            between = f.sub(last, first)
            with f.loop("0", f.sub(a["columns"], between)) as j:  # the columns on both sides
                behind = f.is_("sge", j, first)
                pixel(f.select(behind, f.add(j, between), j), True)
        return f.text()

    def inside(
        self, f: Routine, a: dict[str, str], side: str, pad: str, size: str, taps: int, count: str
    ) -> tuple[str, str]:
        """The first window that lies within the image, and the first behind these."""
        stride, dilation = a[f"{side}_stride"], a[f"{side}_dilation"]
        first = f.minimum(f.ceil_quotient(pad, stride), count)
        room = f.sub(f.add(size, pad), f.add(f.mul(str(taps - 1), dilation), "1"))
        fits = f.add(f.div(f.maximum(room, "0"), stride), "1")
        last = f.select(f.is_("sge", room, "0"), f.minimum(fits, count), "0")
        return first, f.maximum(first, last)


class _Taps:
    """Writes sums over the taps of a kernel, for a vector of channels.

    start: the sums before the first tap
    """

    def __init__(
        self, kernel: ChannelsKernel, f: Routine, b: VectorBuilder, a: dict[str, str], start: str
    ) -> None:
        self.kernel, self.f, self.b, self.a, self.start = kernel, f, b, a, start
        self.unrolled = kernel.rows * kernel.columns <= _UNROLLED
        self.weights: list[str] = []
        if self.unrolled:
            places = list(product(range(kernel.rows), range(kernel.columns)))
            self.weights = [self.weight(str(t)) for t in range(len(places))]
            self.away = [self.distance(str(k), str(m)) for k, m in places]

    def weight(self, tap: str) -> str:
        """The weights of a tap, in 32 bits."""
        f, b = self.f, self.b
        return b.convert(b.load(f.at("%weight", f.mul(tap, self.a["channels"])), int8), int32).name

    def distance(self, row: str, column: str) -> tuple[str, str, str]:
        """How far a tap is from the first: in rows, in columns, and in bytes."""
        f, a = self.f, self.a
        rows, columns = f.mul(row, a["row_dilation"]), f.mul(column, a["column_dilation"])
        return rows, columns, f.mul(f.add(f.mul(rows, a["width"]), columns), a["channels"])

    def sums(self, source: str, first: tuple[str, str], beyond: str) -> str:
        """The sums over all taps.

        source, first: the address of the first tap's element, and its row and column
        beyond: the address of zero points, where taps may lie beyond the image; else empty
        """
        f, kernel = self.f, self.kernel
        if self.unrolled:
            sums = self.start
            for weight, away in zip(self.weights, self.away, strict=True):
                sums = self.tap(sums, weight, source, away, first, beyond)
            return sums
        with f.turns("0", str(kernel.rows)) as rows:
            total = rows.carry(kernel.kind, self.start)
            with f.turns("0", str(kernel.columns)) as columns:
                sums = columns.carry(kernel.kind, total)
                tap = f.add(f.mul(rows.index, str(kernel.columns)), columns.index)
                away = self.distance(rows.index, columns.index)
                added = self.tap(sums, self.weight(tap), source, away, first, beyond)
                columns.become(sums, added)
            rows.become(total, sums)
        return total

    def tap(
        self, sums: str, weight: str, source: str, away: tuple[str, str, str],
        first: tuple[str, str], beyond: str,
    ) -> str:  # fmt: skip
        """The sums with a further tap."""
        f, b, a = self.f, self.b, self.a
        place = f.at(source, away[2])
        if beyond:
            y, x = (f.add(start, more) for start, more in zip(first, away[:2], strict=True))
            seen = f.both(f.is_("ult", y, a["height"]), f.is_("ult", x, a["width"]))
            place = f.select(seen, place, beyond, "ptr")
        element = b.convert(b.load(place, uint8), int32).name
        return self.kernel.dots.add_single(f, sums, element, weight)


@cached_by_processor
def text(rows: int, columns: int) -> str:
    """The text of the module for the rows and columns of a kernel."""
    return ChannelsKernel(rows, columns).write()
