"""Kernels of recurrences between neighbours: band_scan, log_band_scan.

    void band_scan(ptr args)     loops over examples, then rows, then places of a row

`args` holds the addresses of the weights, the terms and the results, the extents, and the strides
in bytes.  The places that all neighbours lead to go in vectors, the ones at the end one by one.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import DType, float32, float64
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import BANDS, Function, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, scale
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import cached_by_processor, written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.core.graph import Node
from wend._engine.core.primitive import REGISTRY
from wend._engine.ops.band_scan import WIDTH, BandScan, LogBandScan

HALVES = "sums of halves are kept in a wider type"


@lowers(BandScan, LogBandScan)
def lower_band_scan(low: Any, node: Node) -> bool:
    """Lower a recurrence. Returns False for types without kernels."""
    f: Function = low.function
    (out,) = node.outputs
    if f.dtypes[out] not in (float32, float64):
        return bool(low.refuse(HALVES))
    reads = []
    for i in node.inputs:
        low.materialise(i)
        dense = f.layout(i).strides[-1] == ONE or f.shape(i)[-1] == ONE
        reads.append(Read(i if dense else low.copy(i), tuple(range(len(f.shape(i))))))
    f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    f.add(Op(BANDS, node, node.outputs, reads))
    return True


@makes_kernel(BANDS)
def band_scan(f: Function, op: Op) -> Kernel:
    """Return the kernel of a recurrence, with its slots."""
    (out,), prim = op.outputs, op.node.prim
    values = [*(read.value for read in op.reads), out]
    text = _text(prim.name, bool(getattr(prim, "back", False)), f.dtypes[out])
    kernel = Kernel("band_scan", text, f"{prim.name} {out}")
    kernel.reads = [f.layout(read.value).base for read in op.reads]
    kernel.writes = [out]
    size = f.dtypes[out].itemsize
    pointers, steps = [], []
    for i in values:
        layout = f.layout(i)
        pointers.append(Slot("pointer", layout.base, scale(layout.offset, size)))
        steps += [Slot("extent", scale(stride, size)) for stride in layout.strides[:-1]]
    kernel.slots = [*pointers, *(Slot("extent", n) for n in f.shape(out)), *steps]
    return kernel


def sum_of(
    b: Any, logarithms: bool, total: SsaValue, weight: SsaValue, before: SsaValue
) -> SsaValue:
    """The sum with one more way to a place.

    logarithms: whether all are logarithms     before: what the way begins at
    """
    if not logarithms:
        value: SsaValue = b.add(total, b.mul(weight, before))
        return value
    rule = REGISTRY["logaddexp"]
    value = rule.emit(rule.__new__(rule), b, total, b.add(weight, before))
    return value


@cached_by_processor
def _text(name: str, back: bool, dtype: DType) -> str:
    return _BandScan(name, back, dtype).write()


class _BandScan:
    """Writes the function of an op, a direction and a type."""

    def __init__(self, name: str, back: bool, dtype: DType) -> None:
        self.logarithms, self.back, self.dtype = name == "log_band_scan", back, dtype
        self.f, self.module = Routine("band_scan", [("ptr", "args")]), Module()
        self.target = written_for()
        self.lanes = self.target.vector_bytes // dtype.itemsize

    def write(self) -> str:
        """Return the text of the module."""
        f = self.f
        w, b, y = (f.load("ptr", f.at("%args", 8 * k), 8) for k in range(3))
        words = [f.load("i64", f.at("%args", 8 * k), 8) for k in range(3, 13)]
        rows, examples, places = words[:3]
        (wj, wt, wn), (bt, bn), (yt, yn) = words[3:6], words[6:8], words[8:]
        with f.loop("0", examples) as n:
            w, b, y = (f.at(p, f.mul(n, s)) for p, s in ((w, wn), (b, bn), (y, yn)))
            with f.loop("0", f.minimum("1", rows)):
                first = f.sub(rows, "1") if self.back else "0"
                source, target = f.at(b, f.mul(first, bt)), f.at(y, f.mul(first, yt))
                self.along("0", places, 0, source, target, [], "")
            with f.loop("1", rows) as i:
                t = f.sub(f.sub(rows, "1"), i) if self.back else i
                of = f.add(t, "1") if self.back else t
                before = f.add(t, "1") if self.back else f.sub(t, "1")
                own = f.at(w, f.mul(of, wt))
                weights = [f.at(own, f.mul(str(j), wj)) for j in range(WIDTH)]
                former = f.at(y, f.mul(before, yt))
                source, target = f.at(b, f.mul(t, bt)), f.at(y, f.mul(t, yt))
                for start, stop, ways in self.ranges(places):
                    self.along(start, stop, ways, source, target, weights, former)
        return f.text() + "\n" + self.module.render()

    def ranges(self, places: str) -> list[tuple[str, str, int]]:
        """Places of a row: from, to, and how many places of the row before lead there."""
        f = self.f
        if self.back:
            ends = [f.maximum(f.sub(places, str(k)), "0") for k in (2, 1)]
            return [("0", ends[0], 3), (ends[0], ends[1], 2), (ends[1], places, 1)]
        ends = [f.minimum(places, str(k)) for k in (1, 2)]
        return [("0", ends[0], 1), (ends[0], ends[1], 2), (ends[1], places, 3)]

    def along(
        self,
        start: str,
        stop: str,
        ways: int,
        source: str,
        target: str,
        weights: list[str],
        former: str,
    ) -> None:
        """Write the loop over some places of a row.

        ways: how many places of the row before lead to each; none for a copy of the terms
        source, target, weights, former: the addresses of the rows
        """
        f, size = self.f, self.dtype.itemsize
        lanes = self.lanes if ways in (0, WIDTH) else 1
        with f.loop(start, stop, str(lanes)) as s:
            mask = lane_mask(f, lanes, f.sub(stop, s)) if lanes > 1 else None
            b = VectorBuilder(f, self.module, lanes, self.target, None, mask)
            here = f.mul(s, str(size))
            total = b.load(f.at(source, here), self.dtype)
            for j in range(ways):
                there = f.at(former, f.add(here, str(j * size if self.back else -j * size)))
                own = f.add(here, str(j * size)) if self.back else here
                weight = b.load(f.at(weights[j], own), self.dtype)
                total = sum_of(b, self.logarithms, total, weight, b.load(there, self.dtype))
            b.store(total, f.at(target, here))
