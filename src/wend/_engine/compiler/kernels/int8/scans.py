"""Kernels of the scans by int8 weights: steps of bytes, see `kernels/recurrent/scans.py`.

    void bytes_RxG(ptr a, i64 row, ptr panel, i64 apart, i64 steps, ptr sums)

multiplies R rows by G panels, `apart` bytes from each other; `sums` get 16 int32 a panel.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import float32, float64, int32, uint8
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.kernels.int8.dots import Dots, are_small
from wend._engine.compiler.kernels.int8.tiles import ByteTile, heights
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.kernels.recurrent.scans import SCANS, Element, ForwardKernel
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.values import SsaValue
from wend._engine.ops.quantized.elements import rounded, scale_and_point
from wend._engine.ops.quantized.scans import TOP
from wend._engine.ops.quantized.windows import DEPTH, FILTERS


class BytePanel:
    """The panels of all gates for 16 units, and the tiles that multiply by them.

    row_bytes: those of the sums of a row     heights: the rows of tiles
    """

    def __init__(self, target: Target, gates: int) -> None:
        self.target, self.gates, self.dots = target, gates, Dots(target)
        self.ways = [self.dots, Dots(target, True)] if self.dots.minds else [self.dots]
        self.small = ""  # whether no byte of the rows is above 127
        self.vectors = gates * self.dots.vectors
        self.row_bytes = gates * FILTERS * 4
        several = target.registers == 32 and self.dots.vectors == 1
        self.width = gates if several else 1  # panels of a tile
        self.heights = heights(target, self.dots)[4 if several else 1]

    def multiply(
        self, f: Routine, rows: int, a: str, row: str, panel: str, depth: str, to: str
    ) -> None:
        """Write the calls for so many rows. depth: the steps"""
        apart = f.mul(depth, str(FILTERS * DEPTH))
        for first in range(0, self.gates, self.width):
            there = f.at(panel, f.mul(apart, str(first)))
            arguments = (
                f"ptr {a}, i64 {row}, ptr {there}, i64 {apart}, i64 {depth}, "
                f"ptr {f.at(to, first * FILTERS * 4)}"
            )
            name = f"bytes_{rows}x{self.width}"
            if not self.dots.minds:
                f.line(f"call void @{name}({arguments})")
                continue
            for end, condition in (
                ("_small", self.small),
                ("", f.let(f"xor i1 {self.small}, true")),
            ):
                with f.when(condition):
                    f.line(f"call void @{name}{end}({arguments})")

    def functions(self) -> str:
        """The text of the functions for all numbers of rows."""
        return "\n".join(self._tile(rows, dots) for dots in self.ways for rows in self.heights)

    def _tile(self, rows: int, dots: Dots) -> str:
        names = "a row panel apart steps sums".split()
        pointers = ("a", "panel", "sums")
        parameters = [("ptr" if name in pointers else "i64", name) for name in names]
        end = "" if dots is self.dots else "_small"
        f = Routine(f"bytes_{rows}x{self.width}{end}", parameters, internal=True)
        tile = ByteTile(dots, rows, self.width)
        _, sums = tile.steps(f, "%a", "%row", "%panel", "%apart", "%steps", tile.zeros)
        vectors = tile.count // rows
        for k, x in enumerate(tile.totals(f, sums)):
            place = k // vectors * self.row_bytes + k % vectors * self.dots.lanes * 4
            f.store(self.dots.kind, x, f.at("%sums", place), 4)
        return f.text()


class BytesScanKernel(ForwardKernel):
    """Base: states become bytes by their range, and sums of bytes floats."""

    def prepare(self) -> None:
        f = self.f
        self.panel: Any = BytePanel(self.target, self.gates)
        self.blocks, self.columns = FILTERS // self.lanes, FILTERS  # type: ignore[misc]
        self.depth = f.ceil_div(self.width, DEPTH)
        self.panel_bytes = f.mul(self.depth, str(self.gates * FILTERS * DEPTH))
        self.bytes, self.byte_row = self.panels, f.mul(self.depth, str(DEPTH))
        most = self.panel.heights[0] * self.panel.row_bytes
        self.sums = f.let(f"alloca [{most} x i8], align 64")

    def lengths(self) -> dict[str, str]:
        f = self.f
        return {"PS": f.mul(f.ceil_div(self.width, FILTERS), self.panel_bytes)}

    def tiles(self) -> str:
        return str(self.panel.functions())

    def enter(self, places: list[Any]) -> None:
        self.panels = places[self.operands.index("PSB")][0]

    def left(self, state: str, count: str) -> tuple[str, str]:
        """Round the states of a step to bytes."""
        f = self.f
        one: Any = VectorBuilder(f, self.module, 1, self.target)
        least, greatest = (one.convert(x, float64) for x in self.range_of(state, count))
        scale, point = scale_and_point(one, least, greatest, TOP)
        self.scale, self.point = one.convert(scale, float32), one.convert(point, int32)
        inverse = one.div(one.number(1.0, float32), self.scale).name
        zero = one.convert(point, float32).name
        with f.loop("0", count) as row:
            to = f.at(self.bytes, f.mul(row, self.byte_row))
            f.store("i32", "0", f.at(to, f.sub(self.byte_row, str(DEPTH))))  # behind the states
            with f.loop("0", self.width, str(self.lanes)) as column:
                b: Any = self.builder(lane_mask(f, self.lanes, f.sub(self.width, column)))
                at = f.add(f.mul(row, self.row), f.mul(column, self.size))
                x = b.load(f.at(state, at), float32)
                y = rounded(b, x, b.spread(inverse, float32), b.spread(zero, float32), 0, 255)
                b.store(b.convert(y, uint8), f.at(to, column))
        if self.panel.dots.minds:
            length = f.mul(count, self.byte_row)
            self.panel.small = are_small(f, self.target, self.bytes, length)
        return self.bytes, self.byte_row

    def range_of(self, state: str, count: str) -> list[SsaValue]:
        """The least and greatest number among some states and 0."""
        f, n = self.f, self.f.mul(count, self.width)
        kind = self.builder().type_of(float32)
        with f.turns("0", n, str(self.lanes)) as loop:
            b = self.builder(lane_mask(f, self.lanes, f.sub(n, loop.index)))
            x = b.load(f.at(state, f.mul(loop.index, self.size)), float32)
            low, high = (SsaValue(loop.carry(kind, "zeroinitializer"), float32) for _ in "ab")
            loop.become(low.name, b.select(b.lt(x, low), x, low).name)
            loop.become(high.name, b.select(b.gt(x, high), x, high).name)
        suffix = f"v{self.lanes}f32"
        return [
            SsaValue(
                f.let(f"call float @llvm.vector.reduce.{name}.{suffix}({kind} {x.name})"), float32
            )
            for name, x in (("fmin", low), ("fmax", high))
        ]

    def sum_at(self, b: VectorBuilder, place: str) -> SsaValue:
        return b.load(place, int32)

    def product(self, e: Element, sums: list[SsaValue], gate: int) -> SsaValue:
        """The product of a gate, with its bias, of sums of bytes."""
        b = e.b
        totals, scales, bias = (e.read(k, gate) for k in (2, 3, 4))
        assert totals and scales and bias
        lost = b.mul(totals_of(b, totals), b.spread(self.point.name, int32))
        y = b.convert(b.sub(sums[gate], lost), float32)
        return b.add(b.mul(y, b.mul(scales, b.spread(self.scale.name, float32))), bias)


def totals_of(b: VectorBuilder, x: SsaValue) -> SsaValue:
    """Whole floats as int32."""
    kinds = f"{b.type_of(float32)} {x.name} to {b.type_of(int32)}"
    return SsaValue(b.text.let(f"fptosi {kinds}"), int32)


class LstmBytesKernel(BytesScanKernel):
    """`lstm_scan_int8`."""

    def cell(self, e: Element, sums: list[SsaValue]) -> None:
        b = e.b
        totals = [e.sum(self.product(e, sums, gate), e.read(0, gate)) for gate in range(4)]
        i, f, o = (b.function("sigmoid", totals[k]) for k in (0, 1, 3))
        memory = b.add(b.mul(f, e.state(2)), b.mul(i, b.function("tanh", totals[2])))
        e.put(2, memory)
        e.put(0, b.mul(o, b.function("tanh", memory)))


class GruBytesKernel(BytesScanKernel):
    """`gru_scan_int8`."""

    def cell(self, e: Element, sums: list[SsaValue]) -> None:
        b = e.b
        totals = [self.product(e, sums, gate) for gate in range(3)]
        r, z = (b.function("sigmoid", e.sum(totals[k], e.read(0, k))) for k in (0, 1))
        n = b.function("tanh", e.sum(b.mul(r, totals[2]), e.read(0, 2)))
        e.put(0, b.add(n, b.mul(z, b.sub(e.state(1), n))))


SCANS |= {"lstm_scan_int8": LstmBytesKernel, "gru_scan_int8": GruBytesKernel}
