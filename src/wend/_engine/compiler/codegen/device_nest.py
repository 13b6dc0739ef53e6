"""A nest as a kernel of an accelerator: work items in place of vectors and outer loops.

`schedule.work_items` says which loops become work items. There may be fewer of these than turns:
each then goes on with a later turn. The work items of a group fold their totals together in the
memory of the group, always in the same order.

A comment of the module tells the driver how to launch each function, see `Launch`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from wend._engine.compiler.codegen.device_sums import DeviceSums
from wend._engine.compiler.codegen.inner_loop import PhaseCode
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.known_code import Written
from wend._engine.compiler.codegen.nest import NAME, NestCode
from wend._engine.compiler.ir.kernel import FOLDS, ROWS
from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.llvm_ir.device_verbs import DeviceVerbs
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type, register_type
from wend._engine.compiler.schedule.loop_order import Access, Nest
from wend._engine.compiler.schedule.work_items import PARTS, WorkItems

#: Work items of a group, where these share a row, and where each is alone.
ROW, ALONE = 128, 64
_LAUNCH = re.compile(r"^; launch (\w+) (\d) (\d+) (\d+) ?(.*)$", re.MULTILINE)


class Launch(NamedTuple):
    """How a function of a module is launched.

    per_group: whether a turn takes a group, and not a work item
    items: work items of a group
    words: words of the block
    sizes: (word, unit) each: the number of turns is the product of these words, each divided by
        its unit and rounded up
    """

    per_group: bool
    items: int
    words: int
    sizes: tuple[tuple[int, int], ...]


def launch_line(
    name: str, per_group: bool, items: int, sizes: Iterable[tuple[int, int]], words: int
) -> str:
    """Return the comment that tells how to launch a function, see `Launch`."""
    listed = " ".join(f"{word}/{unit}" for word, unit in sizes)
    return f"; launch {name} {int(per_group)} {items} {words} {listed}"


def launches_of(text: str) -> dict[str, Launch]:
    """Return how to launch the functions of a module, by name."""
    launches = {}
    for row in _LAUNCH.finditer(text):
        pairs = [pair.split("/") for pair in row[5].split()]
        sizes = tuple([(int(word), int(unit)) for word, unit in pairs])
        launches[row[1]] = Launch(row[2] == "1", int(row[3]), int(row[4]), sizes)
    return launches


def find_counters(code: NestCode, turn: str, axes: list[int]) -> None:
    """Set the counters of independent loops from the number of a turn, fastest last."""
    text = code.text
    for axis in reversed(axes[1:]):
        extent = code.poly(code.nest.extents[axis])
        code.counters[axis] = text.let(f"urem i64 {turn}, {extent}")
        turn = text.let(f"udiv i64 {turn}, {extent}")
    if axes:
        code.counters[axes[0]] = turn


class NoTraffic:
    """In place of `nest_prefetch.Traffic`: accelerators prefetch by themselves."""

    gathers = False

    def fetch(self, phase: Any) -> None:
        """Prefetch nothing."""

    def may_stream(self, access: Access) -> bool:
        """Whether results are written past the caches: no."""
        return False

    def next_rows(self, phase: Any) -> list[Any]:
        """The accesses of the next row to prefetch: none."""
        return []


class DeviceNestCode(NestCode):
    """Writes the kernel of a nest for an accelerator."""

    def __init__(self, nest: Nest) -> None:
        super().__init__(nest)
        self.verbs = DeviceVerbs(self.target, self.text, self.entry, self.module)
        self.schedule = WorkItems(nest)
        self.shares = self.schedule.shares
        self.first = ""  # an i1, where a group computes a turn: whether this work item is the first
        self.late = DeviceSums(self, self.schedule)

    def write(self) -> Written:
        """Return the code of the whole kernel."""
        nest = self.nest
        self.traffic: Any = NoTraffic()
        self.sums = {op.out for op in nest.late_folds()}
        schedule = self.schedule
        at = self.slots.extent(schedule.turns)
        verbs, text = self.verbs, self.text
        items = ALONE
        if schedule.per_group:
            items = ROW if self.shares else 1
            first, step = verbs.number("group"), verbs.number("groups")
            self.first = self.entry.let(f"icmp eq i64 {verbs.number('item')}, 0")
        else:
            first, step = verbs.numbered()
        with text.counted(self.alloca("i64"), first, self.word(at), step) as turn:
            part, place = "0", turn
            if schedule.parts:
                apart = self.poly(schedule.apart)
                part, place = (
                    text.let(f"udiv i64 {turn}, {apart}"),
                    text.let(f"urem i64 {turn}, {apart}"),
                )
            find_counters(self, place, schedule.axes)
            self.place_kept(turn)
            self.late.begin(part)
            self.parted_loops(part)
            self.late.end()
        if self.faults.messages:
            self.leave_faults()
        text.line("ret void")
        self.module.add(NAME, verbs.definition(NAME, self.faults.entry()))
        launches = [(NAME, schedule.per_group, items, at)]
        if schedule.added:
            launches.append(("clear", False, ALONE, self.late.write_clear()))
        if schedule.parts:
            launches.append((FOLDS, False, ALONE, self.late.write_folds()))
        if schedule.row_stores:
            lines = self.slots.extent(schedule.lines)
            launches.append((ROWS, False, ALONE, lines))
            RowsCode(self, lines).write_function()
        words = len(self.slots.items)
        about = [
            launch_line(name, per_group, items, [(turns, 1)], words)
            for name, per_group, items, turns in launches
        ]
        module = "\n".join([*about, self.module.render()])
        helpers = tuple(name for name, *_ in launches[1:])
        return Written(module, self.slots.items, helpers, tuple(self.faults.messages))

    def parted_loops(self, part: str) -> None:
        """Write the loops within a turn of a part."""
        schedule = self.schedule
        if not schedule.parts:
            self.loops(schedule.serial, self.turn)
            return
        axis, *rest = schedule.serial
        last = self.bounds(axis)[1]
        with self.text.counted(self.alloca("i64"), part, last, str(PARTS)) as i:
            self.counters[axis] = i
            self.loops(rest, self.turn)
            del self.counters[axis]

    def place_kept(self, turn: str) -> None:
        """Find the memory of a turn for the elements that later phases read back."""
        for value in self.nest.kept:
            dtype = self.function.dtypes[value]
            base = self.word(self.slots.scratch(self.schedule.kept_bytes(value)), "ptr")
            place = self.text.let(f"mul i64 {turn}, {self.poly(self.schedule.row)}")
            element, pointer = memory_type(dtype), self.target.pointer
            where = self.text.let(f"getelementptr {element}, {pointer} {base}, i64 {place}")
            self.kept[value] = where, dtype

    def leave_faults(self) -> None:
        """Add the failures of this work item to the word of the flush, if there are any."""
        text = self.text
        word, pointer = self.word(self.slots.fault(), "ptr"), self.target.pointer
        self.faults.leave(text, word, pointer)

    def bounds(self, axis: int) -> tuple[str, str]:
        """The beginning and the end of the loop of an axis."""
        return "0", self.poly(self.nest.extents[axis])

    # -- a turn ---------------------------------------------------------------------------------

    def phase(self, ops: list[Op], again: set[int]) -> PhaseCode:
        """Return the code of a phase under way."""
        return DevicePhase(self, self.traffic, ops, again)

    def store_row(self, value: SsaValue, access: Access) -> None:
        """Store a scalar of a turn; of a group, the first work item does so.

        Work items that share a turn of the outer loops leave that to `RowsCode`: the memory may be
        that of an operand, which the others are still to read.
        """
        if self.schedule.row_stores:
            return
        if self.shares:
            self.verbs.barrier()  # for the same reason
        with self.by_first():
            super().store_row(value, access)

    def add_to_memory(self, op: Op, value: SsaValue, address: str) -> None:
        """Fold a value into an element in memory; of a group, the first work item does so."""
        if self.late.add(op, value):
            return
        with self.by_first():
            super().add_to_memory(op, value, address)

    def by_first(self) -> AbstractContextManager[None]:
        """A block of code for the first work item of a group, where a group computes a turn."""
        return self.text.when(self.first) if self.first else nullcontext()

    def address(self, access: Access, axes: list[int]) -> str:
        """The address of an access for the counters of some axes."""
        copy = self.late.copy_of(access)
        if copy is None:
            return super().address(access, axes)
        steps = self.steps(access, axes)
        if not steps:
            return copy
        kind = memory_type(access.dtype)
        return self.text.let(f"getelementptr {kind}, {self.target.pointer} {copy}, i64 {steps}")


class RowsCode(NestCode):
    """Writes a function that stores the scalars of the turns of the outer loops.

    code: the kernel, which does all else     lines: the word with the number of these turns
    """

    def __init__(self, code: DeviceNestCode, lines: int) -> None:
        super().__init__(code.nest)
        self.code, self.lines = code, lines
        self.slots = code.slots

    def write_function(self) -> None:
        """Write the function into the module of the kernel."""
        text, schedule = self.text, self.code.schedule
        verbs = DeviceVerbs(self.target, text, self.entry, self.module)
        first, step = verbs.numbered()
        with text.counted(self.alloca("i64"), first, self.word(self.lines), step) as turn:
            find_counters(self, turn, schedule.axes[:-1])
            self.loops(schedule.serial, self.turn)
        text.line("ret void")
        self.code.module.include(self.module.parts())
        self.code.module.add(ROWS, verbs.definition(ROWS, self.faults.entry()))

    def bounds(self, axis: int) -> tuple[str, str]:
        """The beginning and the end of the loop of an axis."""
        return "0", self.poly(self.nest.extents[axis])

    def turn(self) -> None:
        """Write the row ops of a turn; the kernel has noted their failures."""
        self.rows = {}
        for op in self.nest.region.ops:
            if self.nest.is_row[op.out]:
                self.row(op)


class DevicePhase(PhaseCode):
    """Writes the inner loops of a phase for the work items of an accelerator."""

    code: DeviceNestCode

    def unroll(self) -> int:
        """A work item computes an element at a time."""
        return 1

    def line(self) -> None:
        """Write the elements along the last inner loop: one, all, or those of this item."""
        code, axis = self.code, self.axis
        if axis in code.counters:
            self.prepare("0")
            self.single(code.counters[axis])
            return
        late = [op for op in self.folds if op.out not in self.nest.row_folds]
        for op in late:
            self.start(op)
        self.prepare("0")
        first, step = "0", "1"
        if code.shares:
            first, step = code.verbs.number("item"), code.verbs.number("items")
        last = code.poly(self.nest.extents[axis])
        with self.text.counted(code.alloca("i64"), first, last, step) as i:
            self.single(i)
        for op in late:
            value = self.finish(op)
            code.add_to_memory(op, value, code.address(self.nest.stores[op.out], self.around))

    def single(self, i: str) -> None:
        """Write the ops of the phase for element i."""
        code = self.code
        self.index = i
        self.builders = [VectorBuilder(self.text, code.module, 1, code.target, code.faults)]
        self._places, self._inside = {}, {}
        self.elements(1)

    def add_vector(self, op: Op, value: SsaValue, c: int) -> None:
        """Fold an element into that of a result."""
        if not self.code.late.add(op, value):
            super().add_vector(op, value, c)

    def finish(self, op: Op) -> SsaValue:
        """Return the total of a fold; in a group, folded with those of all work items."""
        code, text, fold = self.code, self.text, op.fold
        assert fold is not None
        if not code.shares:
            return super().finish(op)
        kind, pointer = register_type(fold.dtype), "ptr addrspace(3)"
        memory = "i8" if kind == "i1" else kind
        room = code.verbs.shared(f"totals.{memory}", memory, ROW)
        b, item = code.scalar, code.verbs.number("item")

        def place(i: str) -> str:
            return text.let(f"getelementptr {memory}, {pointer} {room}, i64 {i}")

        def read(i: str) -> SsaValue:
            word = text.let(f"load {memory}, {pointer} {place(i)}")
            return SsaValue(
                text.let(f"trunc i8 {word} to i1") if kind == "i1" else word, fold.dtype
            )

        def write(value: SsaValue) -> None:
            name = text.let(f"zext i1 {value.name} to i8") if kind == "i1" else value.name
            text.line(f"store {memory} {name}, {pointer} {place(item)}")

        total = text.let(f"load {kind}, ptr {self.totals[op.out, 0]}")
        write(SsaValue(total, fold.dtype))
        code.verbs.barrier()
        left = ROW
        while left > 1:
            half = -(-left // 2)
            with text.when(text.let(f"icmp slt i64 {item}, {left - half}")):
                other = read(text.let(f"add i64 {item}, {half}"))
                write(fold.combine(b, read(item), other))
            code.verbs.barrier()
            left = half
        value = read("0")
        code.verbs.barrier()  # the memory is used again by the next fold
        return code.scalar.convert(value, code.function.dtypes[op.out])
