"""Kernels of running folds: cumsum, cumprod, cummax, cummin, logcumsumexp, linear_scan.

    void scan(ptr args)     loops over all other dims, then along the scanned dim

`args` holds the addresses of the operands and results, the extents, and the strides in bytes of
each operand and result. Where the scanned dim is not the last dim, vectors go along the last dim.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.shapes import normalize_dim
from wend._engine.compiler.codegen.device_nest import ALONE, launch_line
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.scalar_ops import identity_of
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import SCAN, Function, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, scale
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.llvm_ir.device_verbs import DeviceRoutine
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import cached_by_processor, written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue
from wend._engine.compiler.lower.lowering import NO_DIMS
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.core.graph import Node
from wend._engine.core.primitive import REGISTRY
from wend._engine.ops.numeric import accumulator
from wend._engine.ops.scan import LinearScan, Scan, running


@lowers(Scan, LinearScan)
def lower_scan(low: Any, node: Node) -> bool:
    """Lower a running fold. Returns False for 0-d operands, and for types without kernels."""
    f: Function = low.function
    rank = len(f.shape(node.inputs[0]))
    if rank == 0 or not low.kernel_types(node):
        return bool(low.refuse(NO_DIMS))
    inputs = []
    for i in node.inputs:
        low.materialise(i)
        along = f.layout(i).strides[-1]
        inputs.append(i if along == ONE or f.shape(i)[-1] == ONE else low.copy(i))
    for out in node.outputs:
        f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    reads = [Read(i, tuple(range(rank))) for i in inputs]
    f.add(Op(SCAN, node, node.outputs, reads))
    return True


@makes_kernel(SCAN)
def scan(f: Function, op: Op) -> Kernel:
    """Return the kernel of a running fold, with its slots."""
    prim: Any = op.node.prim
    values = [*(read.value for read in op.reads), *op.outputs]
    shape = f.shape(op.outputs[0])
    rank = len(shape)
    types = tuple(f.dtypes[i] for i in values)
    text = _text(prim.name, normalize_dim(prim.dim, rank, prim.name), rank, types)
    kernel = Kernel("scan", text, f"{prim.name} {op.outputs[0]}")
    kernel.is_whole = written_for().is_device
    kernel.reads = [f.layout(read.value).base for read in op.reads]
    kernel.writes = list(op.outputs)
    slots, steps = [], []
    for i in values:
        layout, size = f.layout(i), f.dtypes[i].itemsize
        slots.append(Slot("pointer", layout.base, scale(layout.offset, size)))
        steps += [Slot("extent", scale(stride, size)) for stride in layout.strides]
    kernel.slots = [*slots, *(Slot("extent", n) for n in shape), *steps]
    return kernel


@cached_by_processor
def _text(name: str, dim: int, rank: int, types: tuple[DType, ...]) -> str:
    return _Scan(name, dim, rank, types).write()


class _Scan:
    """Writes the function for an op, a dim, a rank and types."""

    def __init__(self, name: str, dim: int, rank: int, types: tuple[DType, ...]) -> None:
        self.name, self.dim, self.rank, self.types = name, dim, rank, types
        self.module, self.target = Module(), written_for()
        self.f = Routine("scan", [("ptr", "args")])
        self.wide = self.computed_in()
        along = dim != rank - 1 and not self.target.is_device
        self.lanes = self.target.vector_bytes // max(4, self.wide.itemsize) if along else 1

    def computed_in(self) -> DType:
        """The dtype of the running value."""
        out = self.types[1] if self.name != "linear_scan" else self.types[2]
        if out is dtypes.bool_ and self.name == "cumsum":
            return dtypes.int64
        grows = self.name in ("cumsum", "cumprod") and not self.target.is_device
        return running(out) if grows else accumulator(out)

    def builder(self, mask: str | None) -> VectorBuilder:
        """Return a builder of instructions on the elements that are scanned side by side."""
        return VectorBuilder(self.f, self.module, self.lanes, self.target, None, mask)

    def write_for_device(self) -> str:
        """Return the module for an accelerator: a work item scans a line."""
        f = DeviceRoutine("scan", self.target, self.module)
        self.f, rank, n = f, self.rank, len(self.types)
        others = [d for d in range(rank) if d != self.dim]

        def word(k: int, kind: str = "i64") -> str:
            return f.load(kind, f.at("%block", 8 * k), 8)

        places = [word(k, f.pointer) for k in range(n)]
        extents = [word(n + d) for d in range(rank)]
        steps = [[word(n + rank * (1 + k) + d) for d in range(rank)] for k in range(n)]
        lines = "1"
        for d in others:
            lines = f.mul(lines, extents[d])
        first, apart = f.verbs.numbered()
        with f.loop(first, lines, apart) as number:
            for d in reversed(others):
                i = f.let(f"urem i64 {number}, {extents[d]}")
                number = f.div(number, extents[d])
                places = [f.at(p, f.mul(i, s[d])) for p, s in zip(places, steps, strict=True)]
            self.run(places, [s[self.dim] for s in steps], extents[self.dim], self.builder(None))
        about = launch_line("scan", False, ALONE, [(n + d, 1) for d in others], n + rank * (1 + n))
        return f"{about}\n{self.module.render()}\n{f.text()}"

    def write(self) -> str:
        """Return the text of the module."""
        if self.target.is_device:
            return self.write_for_device()
        f, rank, n = self.f, self.rank, len(self.types)

        def word(k: int, kind: str = "i64") -> str:
            return f.load(kind, f.at("%args", 8 * k), 8)

        places = [word(k, "ptr") for k in range(n)]
        extents = [word(n + d) for d in range(rank)]
        steps = [[word(n + rank * (1 + k) + d) for d in range(rank)] for k in range(n)]
        with ExitStack() as stack:
            mask = None
            for d in range(rank):
                if d == self.dim:
                    continue
                last = d == rank - 1
                lanes = self.lanes if last else 1
                i = stack.enter_context(f.loop("0", extents[d], str(lanes)))
                places = [f.at(p, f.mul(i, s[d])) for p, s in zip(places, steps, strict=True)]
                if last and self.lanes > 1:
                    mask = lane_mask(f, self.lanes, f.sub(extents[d], i))
            self.run(places, [s[self.dim] for s in steps], extents[self.dim], self.builder(mask))
        return f.text() + "\n" + self.module.render()

    def run(self, places: list[str], steps: list[str], count: str, b: VectorBuilder) -> None:
        """Write the loop along the scanned dim.

        places, steps: the addresses and strides of the operands and results
        count: the extent of the scanned dim
        """
        f, n_in = self.f, 2 if self.name == "linear_scan" else 1
        kind, indices = b.type_of(self.wide), b.type_of(dtypes.int64)
        with f.turns("0", count) as loop:
            state = SsaValue(loop.carry(kind, self.start(b).name), self.wide)
            index = SsaValue(loop.carry(indices, b.number(0, dtypes.int64).name), dtypes.int64)
            at = [f.at(p, f.mul(loop.index, s)) for p, s in zip(places, steps, strict=True)]
            elements = [
                b.convert(b.load(at[k], self.types[k]), self.types[n_in])
                for k in range(n_in)
            ]  # fmt: skip
            xs = [b.convert(x, self.wide) for x in elements]
            after = self.combine(b, state, xs)
            if self.name == "linear_scan":  # the first factor is not used, even if infinite
                here = b.spread(loop.index, dtypes.int64)
                after = b.select(b.eq(here, b.number(0, dtypes.int64)), xs[1], after)
            loop.become(state.name, after.name)
            b.store(b.convert(after, self.types[n_in]), at[n_in])
            if len(self.types) > n_in + 1:
                met = b.eq(xs[0], after)
                if self.wide.category == dtypes.FLOAT:
                    met = b.bitwise_or(met, b.ne(xs[0], xs[0]))
                place = b.select(met, b.spread(loop.index, dtypes.int64), index)
                loop.become(index.name, place.name)
                b.store(place, at[n_in + 1])

    def start(self, b: VectorBuilder) -> SsaValue:
        """The value with which the fold begins."""
        floats = self.wide.category == dtypes.FLOAT
        if self.name in ("cummax", "cummin"):
            end = "lowest" if self.name == "cummax" else "highest"
            return b.number(identity_of(end, self.wide), self.wide)
        if self.name == "cumprod":
            return b.number(1, self.wide)
        if self.name == "logcumsumexp":
            return b.number(float("-inf"), self.wide)
        if self.name == "linear_scan":
            return b.number(0, self.wide)
        # Adding -0.0 leaves every number as it is, also -0.0.
        return b.number(-0.0 if floats else 0, self.wide)

    def combine(self, b: VectorBuilder, state: SsaValue, xs: list[SsaValue]) -> SsaValue:
        """Return the running value after a step. xs: the operands' elements"""
        if self.name == "linear_scan":
            return b.add(b.mul(xs[0], state), xs[1])
        if self.name == "logcumsumexp":
            rule = REGISTRY["logaddexp"]
            value: SsaValue = rule.emit(rule.__new__(rule), b, state, xs[0])
            return value
        rules = {"cumsum": b.add, "cumprod": b.mul, "cummax": b.maximum, "cummin": b.minimum}
        return rules[self.name](state, xs[0])
