"""Sorting along a dim on an accelerator: a group merges the runs of a line.

Sorted runs of 1 place become runs of 2 places, then of 4, and so on. A work item finds the rank of
an element in the run beside its own by bisection. So it knows the place in the merged run.
Equal elements keep their order, and the length of a line has no bound.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base.dtypes import FLOAT, DType, int64
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import ORDER, Function, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, product, scale
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type
from wend._engine.compiler.lower.registry import makes_kernel

NAME = "order"
#: Work items of a group.
ITEMS = 256
_POINTERS = ("values", "indices", "input", "scratch")


@makes_kernel(ORDER)
def order(f: Function, op: Op) -> Kernel:
    """Return the kernel of sort or topk, with its slots."""
    prim: Any = op.node.prim
    x, (values, indices), dim = op.reads[0].value, op.outputs, op.row_dim
    shape, layout, dtype = f.shape(x), f.layout(x), f.dtypes[x]
    descending = bool(prim.descending if prim.name == "sort" else prim.largest)
    text = order_text(written_for(), dtype, len(shape), dim, descending)
    kernel = Kernel(NAME, text, f"{prim.name} {values}")
    kernel.reads, kernel.writes = [layout.base], [values, indices]
    kernel.is_whole = True
    extents = [f.shape(values)[dim], *shape, *layout.strides]
    kernel.slots = [
        Slot("pointer", values, ZERO),
        Slot("pointer", indices, ZERO),
        Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize)),
        Slot("scratch", scale(product(shape), 2 * int64.itemsize), NAME),
        *(Slot("extent", n) for n in extents),
    ]
    return kernel


@cache
def order_text(target: Target, dtype: DType, rank: int, dim: int, descending: bool) -> str:
    """Return the module of sorting along a dim."""
    return OrderCode(target, dtype, rank, dim, descending).write()


class OrderCode(DeviceCode):
    """Writes the kernel of sorting along a dim.

    size: the length of a line     line: the address of the first element of the line at hand
    """

    def __init__(self, target: Target, dtype: DType, rank: int, dim: int, descending: bool) -> None:
        words = [*_POINTERS, "count"]
        words += [f"{name}{d}" for name in ("size", "step") for d in range(rank)]
        super().__init__(target, NAME, words, _POINTERS)
        self.dtype, self.rank, self.dim, self.descending = dtype, rank, dim, descending
        self.others = [d for d in range(rank) if d != dim]
        self.size = self.w[f"size{dim}"]
        self.line = ""

    def write(self) -> str:
        """Return the text of the module."""
        w, n = self.w, self.size
        extents = [w[f"size{d}"] for d in self.others]
        # As many passes as make one run of a line.
        last = self.entry.let(f"sub i64 {n}, 1")
        zeros = self.entry.let(f"call i64 @llvm.ctlz.i64(i64 {last}, i1 false)")
        passes = self.entry.let(f"sub i64 64, {zeros}")
        passes = self.entry.let(f"call i64 @llvm.smin.i64(i64 {passes}, i64 {n})")
        with self.shared_turns(self.product_of(extents)) as turn:
            places = self.parted(turn, extents) if extents else []
            steps = [w[f"step{d}"] for d in self.others]
            pairs = zip(places, steps, strict=True)
            self.line = self.moved(w["input"], memory_type(self.dtype), *pairs)
            here = self.moved(w["scratch"], "i64", (self.place((turn, n)), "2"))
            there = self.moved(here, "i64", (n, "1"))
            with self.shares("0", n) as i:
                self.put(SsaValue(i, int64), here, (i, "1"))
            self.verbs.barrier(everywhere=True)
            with self.loop("0", passes) as number:
                source, target = self.swapped(number, here, there)
                with self.shares("0", n) as i:
                    self.merge(number, source, target, i)
                self.verbs.barrier(everywhere=True)
            source, _ = self.swapped(passes, here, there)
            with self.shares("0", w["count"]) as k:
                index = self.element(source, int64, (k, "1"))
                at = self.result(places, k)
                self.put(self.key(index), w["values"], (at, "1"))
                self.put(index, w["indices"], (at, "1"))
        return self.module_text(True, ITEMS, [(f"size{d}", 1) for d in self.others])

    def swapped(self, number: str, here: str, there: str) -> tuple[str, str]:
        """The memory that a pass reads, and the memory that it writes."""
        text, pointer = self.text, self.target.pointer
        odd = text.let(f"trunc i64 {number} to i1")
        return (
            text.let(f"select i1 {odd}, {pointer} {there}, {pointer} {here}"),
            text.let(f"select i1 {odd}, {pointer} {here}, {pointer} {there}"),
        )

    def key(self, index: SsaValue) -> SsaValue:
        """The element of the line at a place."""
        return self.element(self.line, self.dtype, (index.name, self.w[f"step{self.dim}"]))

    def before(self, x: SsaValue, y: SsaValue) -> str:
        """Whether x has to come before y, an i1: NaN is the greatest."""
        b = self.b
        if self.descending:
            x, y = y, x
        less = b.lt(x, y)
        if self.dtype.category == FLOAT:
            less = b.bitwise_or(less, b.bitwise_and(b.ne(y, y), b.eq(x, x)))
        return less.name

    def merge(self, number: str, source: str, target: str, i: str) -> None:
        """Write the element at place i of a run to its place in the merged run.

        number: of the pass, which has runs of 2**number places
        """
        text, n = self.text, self.size
        width = text.let(f"shl i64 1, {number}")
        part = text.let(f"and i64 {i}, {width}")
        is_right = text.let(f"icmp ne i64 {part}, 0")
        run = text.let(f"lshr i64 {i}, {number}")
        own = text.let(f"shl i64 {run}, {number}")
        left = text.let(f"sub i64 {own}, {part}")
        right = text.let(f"add i64 {left}, {width}")
        first = text.let(f"select i1 {is_right}, i64 {left}, i64 {right}")
        end = text.let(f"add i64 {first}, {width}")
        first, end = (text.let(f"call i64 @llvm.smin.i64(i64 {x}, i64 {n})") for x in (first, end))
        index = self.element(source, int64, (i, "1"))
        mine = self.key(index)

        def is_passed(place: str) -> str:
            other = self.key(self.element(source, int64, (place, "1")))
            # Equal elements of the left run come first.
            precedes = text.let(f"xor i1 {self.before(mine, other)}, true")
            is_less = self.before(other, mine)
            return text.let(f"select i1 {is_right}, i1 {precedes}, i1 {is_less}")

        place = self.bisected(first, end, is_passed)
        rank = text.let(f"sub i64 {place}, {first}")
        place = text.let(f"sub i64 {i}, {own}")
        self.put(index, target, (left, "1"), (place, "1"), (rank, "1"))

    def result(self, places: list[str], k: str) -> str:
        """The number of element k of a line of the results."""
        at, total = iter(places), ""
        for d in range(self.rank):
            place = k if d == self.dim else next(at)
            size = self.w["count"] if d == self.dim else self.w[f"size{d}"]
            total = self.place((total, size), (place, "1")) if total else place
        return total
