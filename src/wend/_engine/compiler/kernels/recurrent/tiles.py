"""Products inside of recurrences: some rows by a packed panel of a weight.

    void tile_RxV(ptr a, i64 row, ptr panel, i64 depth, ptr sums)

sums[r, v] = sum over k of a[r, k] * panel[k, v], where each v is a vector. Rows of `a` are `row`
bytes apart. The sums stay in registers: where these are few, tiles compute some of a panel's
vectors each.
"""

from __future__ import annotations

from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue

#: The most rows of a tile: a processor that multiplies twice a cycle waits for no sum then.
_MOST_ROWS = 8
#: Sums that are in progress at least, by steps of depth that are added up apart.
_CHAINS = 8


class Panel:
    """The panels of a weight, and the tiles that multiply by them.

    vectors: how many there are in a row of a panel
    """

    def __init__(self, target: Target, dtype: DType, vectors: int) -> None:
        self.target, self.dtype, self.vectors = target, dtype, vectors
        self.lanes = target.vector_bytes // dtype.itemsize
        self.row_bytes = vectors * target.vector_bytes
        few = target.registers == 16 and vectors == 4
        self.width = 2 if few else vectors  # of a tile
        most = (target.registers - self.width - 1) // self.width
        most = max(1, min(_MOST_ROWS, most))
        self.heights = [most, *(n for n in (4, 2, 1) if n < most)]

    def _name(self, rows: int) -> str:
        return f"tile_{rows}x{self.width}"

    def multiply(
        self, f: Routine, rows: int, a: str, row: str, panel: str, depth: str, to: str
    ) -> None:
        """Write the calls for so many rows by a panel."""
        for first in range(0, self.vectors, self.width):
            away = first * self.target.vector_bytes
            f.line(
                f"call void @{self._name(rows)}(ptr {a}, i64 {row}, ptr {f.at(panel, away)}, "
                f"i64 {depth}, ptr {f.at(to, away)})"
            )

    def functions(self) -> str:
        """The text of the functions for all numbers of rows."""
        return "\n".join(self._tile(rows) for rows in self.heights)

    def _tile(self, rows: int) -> str:
        pointers = ("a", "panel", "sums")
        parameters = [
            ("ptr" if name in pointers else "i64", name)
            for name in ("a", "row", "panel", "depth", "sums")
        ]
        f = Routine(self._name(rows), parameters, internal=True)
        b = VectorBuilder(f, Module(), self.lanes, self.target)
        kind, size, v = b.type_of(self.dtype), self.dtype.itemsize, self.width
        away = [f.mul("%row", str(r)) for r in range(rows)]
        sets = max(1, _CHAINS // (rows * v))
        whole = f.mul(f.div("%depth", str(sets)), str(sets))
        sums = ["zeroinitializer"] * (rows * v * sets)
        a, panel = "%a", "%panel"
        parts = [("0", whole, sets), (whole, "%depth", 1)] if sets > 1 else [("0", "%depth", 1)]
        for start, stop, count in parts:
            with f.turns(start, stop, str(count)) as loop:
                a_now, panel_now = loop.carry("ptr", a), loop.carry("ptr", panel)
                now = [loop.carry(kind, x) for x in sums]
                for s in range(count):
                    place = f.at(panel_now, s * self.row_bytes)
                    vectors = [
                        b.load(f.at(place, w * self.target.vector_bytes), self.dtype)
                        for w in range(v)
                    ]
                    for r in range(rows):
                        element = f.load(
                            "double" if size == 8 else "float",
                            f.at(f.at(a_now, away[r]), s * size),
                            size,
                        )
                        one = b.spread(element, self.dtype)
                        for w in range(v):
                            k = (s * rows + r) * v + w
                            loop.become(now[k], _fused(b, one, vectors[w], now[k]))
                loop.become(a_now, f.at(a_now, count * size))
                loop.become(panel_now, f.at(panel_now, count * self.row_bytes))
            a, panel, sums = a_now, panel_now, now
        for k in range(rows * v):
            total = SsaValue(sums[k], self.dtype)
            for other in range(1, sets):
                total = b.add(total, SsaValue(sums[other * rows * v + k], self.dtype))
            to = k // v * self.row_bytes + k % v * self.target.vector_bytes
            b.store(total, f.at("%sums", to))
        return f.text()


def _fused(b: VectorBuilder, x: SsaValue, y: SsaValue, z: str) -> str:
    """x * y + z, rounded once where the processor can."""
    return b.intrinsic("fmuladd", x, y, SsaValue(z, x.dtype)).name
