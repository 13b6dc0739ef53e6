"""Changes of a few elements along a dim on an accelerator, at places that an index names.

A work item keeps `BLOCK` places of a line. It walks along the whole index, and changes the elements
that are its own, in order. So the last change of an element counts, and sums are always added up in
the same order. No two work items write to the same element.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from wend._engine.base.dtypes import DType, int64
from wend._engine.compiler.codegen.device_nest import ALONE
from wend._engine.compiler.codegen.scalar_ops import identity_of
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import UPDATES, Function, Op, Read
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Poly, scale
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type
from wend._engine.compiler.lower.registry import makes_kernel
from wend._engine.compiler.lower.updates import adds
from wend._engine.ops.indexing.scatter_reduce import ScatterReduce

NAME = "updates"
#: Neighbouring places of a line that a work item keeps.
BLOCK = 256
_OPERANDS = ("base", "index", "source")


@makes_kernel(UPDATES)
def updates(f: Function, op: Op) -> Kernel:
    """Return the kernel of changes along a dim, with its slots."""
    out, dim = op.out, op.row_dim
    base, places, _ = op.reads
    shape, dtype = f.shape(out), f.dtypes[out]
    prim: Any = op.node.prim
    how, begins = "", ""
    if isinstance(prim, ScatterReduce):
        how = prim.reduce
        begins = "" if prim.include_self else how
    elif adds(prim):
        how = "sum"
    text = updates_text(written_for(), dtype, len(shape), dim, how, begins)
    kernel = Kernel(NAME, text, f"{op.node.prim.name} {out}")
    kernel.reads = list(dict.fromkeys(f.base(read.value) for read in op.reads))
    kernel.writes = [out]
    kernel.is_whole = True
    if is_dense(shape, f.layout(base.value).strides):
        kernel.over = {out: base.value}
    # An index of all lines has fewer of them than the operand, perhaps.
    known = dict(zip(places.dims, f.shape(places.value), strict=True))
    extents = [*shape, *(known.get(d, n) for d, n in enumerate(shape))]
    kernel.slots = [Slot("pointer", out, ZERO)]
    for read in op.reads:
        layout = f.layout(read.value)
        size = f.dtypes[read.value].itemsize
        kernel.slots.append(Slot("pointer", layout.base, scale(layout.offset, size)))
        extents += _steps(f, read, len(shape))
    kernel.slots += [Slot("extent", n) for n in extents]
    return kernel


def _steps(f: Function, read: Read, rank: int) -> list[Poly]:
    """The strides of an operand along all dims of the result, in elements."""
    steps = [ZERO] * rank
    strides = f.layout(read.value).strides
    for d, n, stride in zip(read.dims, f.shape(read.value), strides, strict=True):
        if d >= 0 and n != ONE:
            steps[d] = stride
    return steps


@cache
def updates_text(target: Target, dtype: DType, rank: int, dim: int, how: str, begins: str) -> str:
    """Return the module of changes along a dim; see `UpdatesCode`."""
    return UpdatesCode(target, dtype, rank, dim, how, begins).write()


class UpdatesCode(DeviceCode):
    """Writes the kernel of changes along a dim.

    how: by what elements are combined, "sum", "prod", "amax" or "amin"; "" for copies
    begins: `how` if elements that the index names begin anew, else ""
    """

    def __init__(
        self, target: Target, dtype: DType, rank: int, dim: int, how: str, begins: str
    ) -> None:
        words = ["out", *_OPERANDS]
        words += [f"{name}{d}" for name in ("size", "count") for d in range(rank)]
        words += [f"{name}{d}" for name in _OPERANDS for d in range(rank)]
        super().__init__(target, NAME, words, ("out", *_OPERANDS))
        self.dtype, self.rank, self.dim = dtype, rank, dim
        self.how, self.begins = how, begins
        self.others = [d for d in range(rank) if d != dim]

    def write(self) -> str:
        """Return the text of the module."""
        w, text, dim = self.w, self.text, self.dim
        size = w[f"size{dim}"]
        blocks = self.entry.let(f"add i64 {size}, {BLOCK - 1}")
        blocks = self.entry.let(f"udiv i64 {blocks}, {BLOCK}")
        extents = [blocks, *(w[f"size{d}"] for d in self.others)]
        pointer = self.target.pointer
        same = self.entry.let(f"icmp eq {pointer} {w['out']}, {w['base']}")
        other = self.entry.let(f"xor i1 {same}, true")
        with self.turns(self.product_of(extents)) as turn:
            block, *places = self.parted(turn, extents)
            first = text.let(f"mul i64 {block}, {BLOCK}")
            last = text.let(f"add i64 {first}, {BLOCK}")
            last = text.let(f"call i64 @llvm.smin.i64(i64 {last}, i64 {size})")
            out = self.line("out", places)
            with text.when(other):
                base = self.line("base", places)
                with self.loop(first, last) as k:
                    x = self.element(base, self.dtype, (k, w[f"base{dim}"]))
                    self.put(x, out, (k, self.apart(dim)))
            index, source = self.line("index", places), self.line("source", places)
            inside = "true"
            for d, place in zip(self.others, places, strict=True):
                here = text.let(f"icmp slt i64 {place}, {w[f'count{d}']}")
                inside = text.let(f"and i1 {inside}, {here}")
            count = text.let(f"select i1 {inside}, i64 {w[f'count{dim}']}, i64 0")
            mine = first, last, index, count
            if self.begins:
                with self.changed(*mine) as (place, _):
                    start = self.b.number(self.identity(), self.dtype)
                    self.put(start, out, (place, self.apart(dim)))
            with self.changed(*mine) as (place, k):
                x = self.element(source, self.dtype, (k, w[f"source{dim}"]))
                if self.how:
                    before = self.element(out, self.dtype, (place, self.apart(dim)))
                    x = self.combined(before, x)
                self.put(x, out, (place, self.apart(dim)))
        sizes = [(f"size{d}", 1) for d in self.others]
        return self.module_text(False, ALONE, [(f"size{dim}", BLOCK), *sizes])

    @contextmanager
    def changed(self, first: str, last: str, index: str, count: str) -> Iterator[tuple[str, str]]:
        """A loop over an index, for the places first, ... < last. Yields a place, and its number.

        index, count: the address of the index of the line, and its length
        """
        text = self.text
        with self.loop("0", count) as k:
            place = self.element(index, int64, (k, self.w[f"index{self.dim}"])).name
            begun = text.let(f"icmp sge i64 {place}, {first}")
            here = text.let(f"icmp slt i64 {place}, {last}")
            with text.when(text.let(f"and i1 {begun}, {here}")):
                yield place, k

    def combined(self, x: SsaValue, y: SsaValue) -> SsaValue:
        """An element and that of the source together."""
        b = self.b
        rules = {"sum": b.add, "prod": b.mul, "amax": b.maximum, "amin": b.minimum}
        return rules[self.how](x, y)

    def identity(self) -> Any:
        """The number that leaves each other number as it is."""
        if self.how in ("sum", "prod"):
            return 0 if self.how == "sum" else 1
        return identity_of("lowest" if self.how == "amax" else "highest", self.dtype)

    def apart(self, dim: int) -> str:
        """The stride of the result along a dim."""
        return self.product_of(self.w[f"size{d}"] for d in range(dim + 1, self.rank))

    def line(self, name: str, places: list[str]) -> str:
        """The address of the first element of a line."""
        w = self.w
        steps = [self.apart(d) if name == "out" else w[f"{name}{d}"] for d in self.others]
        element = "i64" if name == "index" else memory_type(self.dtype)
        return self.moved(w[name], element, *zip(places, steps, strict=True))
