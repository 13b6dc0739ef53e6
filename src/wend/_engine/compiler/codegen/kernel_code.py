"""The code of a kernel under way: its words, loops, addresses and numbers, for nests and tails."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.scalar_ops import NUMBER_TYPES, OUT_OF_RANGE
from wend._engine.compiler.ir.kernel import Slots
from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, known, scale
from wend._engine.compiler.llvm_ir.error_flags import Faults
from wend._engine.compiler.llvm_ir.jit import written_for
from wend._engine.compiler.llvm_ir.text import Module, Text
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type
from wend._engine.compiler.schedule.loop_order import Access, Nest


class KernelCode:
    """Writes parts of a kernel: loops, addresses, and values that are the same in many places."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.function = nest.function
        self.text = Text()
        self.entry = Text()
        self.entry._count = 1_000_000  # names of the entry block are apart from all other names
        self.module = Module()
        self.target = written_for()
        self.faults = Faults()
        self.slots = Slots()
        self.words: dict[int, str] = {}
        self.counters: dict[int, str] = {}  # axis -> name of its loop's counter, where it runs
        self.rows: dict[int, SsaValue] = {}  # values of rows, as scalars
        self.row_place = ""  # the row that an index names, for the access that reads rows next
        self.scalar = VectorBuilder(self.text, self.module, 1, self.target, self.faults)
        self.lanes = max(1, self.target.vector_bytes // nest.lane_bytes)
        self.kept: dict[int, tuple[str, DType]] = {}
        self.sums: set[int] = set()  # folds that add up in memory

    def word(self, slot: int, kind: str = "i64") -> str:
        """The name of the LLVM value of a word of the argument block, loaded once."""
        name = self.words.get(slot)
        if name is None:
            pointer = self.target.pointer
            if kind == "ptr":
                kind = pointer
            place = self.entry.let(f"getelementptr i64, {pointer} %block, i64 {slot}")
            # Modules of accelerators do not say that words begin at multiples of 8 bytes.
            aligned = ", align 8" if self.target.is_device else ""
            load = f"load {kind}, {pointer} {place}{aligned}"
            name = self.words[slot] = self.entry.let(load, "w")
        return name

    def poly(self, p: Poly) -> str:
        """A polynomial of extents as an i64: a constant, or a word of the argument block."""
        n = known(p)
        return str(n) if n is not None else self.word(self.slots.extent(p))

    def alloca(self, kind: str) -> str:
        """Return the address of a new variable of the function."""
        return self.entry.let(f"alloca {kind}", "var")

    # -- loops ------------------------------------------------------------------------------

    def loops(self, axes: list[int], body: Any) -> None:
        """Write nested loops over axes, element by element. body: writes the innermost code"""
        if not axes:
            body()
            return
        axis = axes[0]
        with self.counted(*self.bounds(axis)) as i:
            self.counters[axis] = i
            self.loops(axes[1:], body)
            del self.counters[axis]

    def counted(self, first: str, last: str) -> AbstractContextManager[str]:
        """A loop over first, first + 1, ... last - 1, around code written inside the `with`.

        Yields the counter.
        """
        return self.text.counted(self.alloca("i64"), first, last)

    def bounds(self, axis: int) -> tuple[str, str]:
        """The beginning and the end of the loop of an axis."""
        extent = self.nest.extents[axis]
        if axis not in self.nest.cut_axes():
            return "0", self.poly(extent)
        return self.word(self.slots.first(axis)), self.word(self.slots.last(axis, extent))

    # -- addresses --------------------------------------------------------------------------

    def address(self, access: Access, axes: list[int]) -> str:
        """The address of an access for the counters of some axes."""
        if self.nest.stores.get(access.base) is access and access.base in self.sums:
            slot = self.slots.sums(access.base)
        else:
            slot = self.slots.pointer(access.base, scale(access.offset, access.dtype.itemsize))
        base = self.word(slot, "ptr")
        text = self.text
        total = self.steps(access, axes)
        if access.row >= 0:
            part = text.let(f"mul i64 {self.row_place}, {self.poly(access.row_stride)}")
            total = text.let(f"add i64 {total}, {part}") if total else part
        if not total:
            return base
        element = memory_type(access.dtype)
        return text.let(f"getelementptr {element}, {self.target.pointer} {base}, i64 {total}")

    def steps(self, access: Access, axes: list[int]) -> str:
        """The elements from an access's first element to that of the counters; "" for none."""
        text, total = self.text, ""
        for axis in axes:
            stride = access.strides[axis]
            if stride == ZERO:
                continue
            step = self.poly(stride)
            part = self.counters[axis]
            if step != "1":
                part = text.let(f"mul i64 {part}, {step}")
            total = text.let(f"add i64 {total}, {part}") if total else part
        return total

    def count(self, access: Access, axes: list[int]) -> str:
        """The number of the element that an op computes, as an i64."""
        return self.steps(access, axes) or "0"

    # -- values -----------------------------------------------------------------------------

    def inside(self, shifts: Any) -> SsaValue:
        """Whether a shifted operand of a row op has an element at the counters' place."""
        b = self.scalar
        condition = b.number(1, dtypes.bool_)
        for axis, first, count in shifts:
            place = SsaValue(self.counters.get(axis, "0"), dtypes.int64)
            place = b.sub(place, SsaValue(self.poly(first), dtypes.int64))
            length = SsaValue(self.poly(count), dtypes.int64)
            condition = b.bitwise_and(condition, b.ge(place, b.number(0, dtypes.int64)))
            condition = b.bitwise_and(condition, b.lt(place, length))
        return condition

    def store_row(self, value: SsaValue, access: Access) -> None:
        """Store a scalar of a turn of the outer loops."""
        self.scalar.store(value, self.address(access, self.nest.outer))

    def add_to_memory(self, op: Op, value: SsaValue, address: str) -> None:
        """Fold a value into an element in memory."""
        b, fold = self.scalar, op.fold
        assert fold is not None
        dtype = self.function.dtypes[op.out]
        before = b.convert(b.load(address, dtype), fold.dtype)
        b.store(b.convert(fold.combine(b, before, value), dtype), address)

    def uniform(self, b: VectorBuilder, expr: Any, dtype: DType, category: int) -> SsaValue:
        """Return the number that a uniform value holds everywhere, as `dtype`."""
        return b.convert(self.number(b, expr, category), dtype)

    def number(self, b: VectorBuilder, expr: Any, category: int) -> SsaValue:
        """Return a run-time number, or a constant, as float64, int64 or bool."""
        dtype = NUMBER_TYPES[category]
        if type(expr) is not tuple:
            return b.number(expr, dtype)
        word = self.word(self.slots.number(expr, category), "double" if category == 2 else "i64")
        if category == 0:
            word = self.text.let(f"icmp ne i64 {word}, 0")
        return b.spread(word, dtype)

    def checked(self, index: SsaValue, access: Access) -> str:
        """Return a scalar index as an i64 that is in range; notes a failure if it was not."""
        b = self.scalar
        place = b.convert(index, dtypes.int64)
        n = SsaValue(self.poly(access.row_extent), dtypes.int64)
        if access.row_wraps:
            below = b.lt(place, b.number(0, dtypes.int64))
            place = b.select(below, b.add(place, n), place)
        valid = b.bitwise_and(b.ge(place, b.number(0, dtypes.int64)), b.lt(place, n))
        b.require(valid, OUT_OF_RANGE)
        return b.select(valid, place, b.number(0, dtypes.int64)).name
