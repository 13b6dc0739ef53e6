"""Folds of an accelerator's kernel that are ready only when all turns are: see `DeviceSums`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.scalar_ops import identity_of
from wend._engine.compiler.ir.kernel import FOLDS
from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.ir.symbolic_extents import Poly, product
from wend._engine.compiler.llvm_ir.device_verbs import DeviceVerbs
from wend._engine.compiler.llvm_ir.text import Text
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type, register_type
from wend._engine.compiler.schedule.loop_order import Access
from wend._engine.compiler.schedule.work_items import PARTS, WorkItems


class DeviceSums:
    """Writes these folds, for `DeviceNestCode`.

    A fold is kept in a variable, if a work item has the element of the result to itself. Else it
    adds up in memory: in a copy of each part, or in the result, which `clear` sets first.

    code: the code of the nest
    variables: fold -> its variable     copies: fold in parts -> the address of this turn's copy
    """

    def __init__(self, code: Any, schedule: WorkItems) -> None:
        self.code, self.schedule = code, schedule
        self.variables: dict[int, str] = {}
        self.copies: dict[int, str] = {}
        self.memory: dict[int, int] = {}  # fold in parts -> the word with the address of all copies

    def begin(self, part: str) -> None:
        """Set the folds of a turn of a part to their identities."""
        code, schedule = self.code, self.schedule
        text, b = code.text, code.scalar
        for op in schedule.own:
            fold = op.fold
            assert fold is not None
            kind = register_type(fold.dtype)
            variable = self.variables[op.out] = code.alloca(kind)
            identity = b.number(identity_of(fold.identity, fold.dtype), fold.dtype)
            text.line(f"store {kind} {identity.name}, ptr {variable}")
        for op in schedule.parts:
            fold, dtype = op.fold, code.function.dtypes[op.out]
            assert fold is not None
            slot = self.memory[op.out] = code.slots.scratch(schedule.copied_bytes(op))
            base = code.word(slot, "ptr")
            count = code.poly(product(code.function.shape(op.out)))
            copy = self.place(base, dtype, text.let(f"mul i64 {part}, {count}"))
            self.copies[op.out] = copy
            if op.out in self.variables:
                continue
            identity = b.number(identity_of(fold.identity, dtype), dtype)
            item, items = code.verbs.number("item"), code.verbs.number("items")
            with text.counted(code.alloca("i64"), item, count, items) as i:
                b.store(identity, self.place(copy, dtype, i))
        if schedule.parts and schedule.per_group:
            code.verbs.barrier(everywhere=True)

    def place(self, base: str, dtype: Any, i: str) -> str:
        """The address of element i."""
        pointer = self.code.target.pointer
        place: str = self.code.text.let(
            f"getelementptr {memory_type(dtype)}, {pointer} {base}, i64 {i}"
        )
        return place

    def add(self, op: Op, value: SsaValue) -> bool:
        """Fold a value into a variable; return whether there is a variable."""
        variable, fold = self.variables.get(op.out), op.fold
        if variable is None:
            return False
        assert fold is not None
        text, b, kind = self.code.text, self.code.scalar, register_type(fold.dtype)
        before = SsaValue(text.let(f"load {kind}, ptr {variable}"), fold.dtype)
        after = fold.combine(b, before, b.convert(value, fold.dtype))
        text.line(f"store {kind} {after.name}, ptr {variable}")
        return True

    def end(self) -> None:
        """Store the folds of a turn that are kept in variables."""
        code = self.code
        for op in self.schedule.own:
            fold = op.fold
            assert fold is not None
            kind = register_type(fold.dtype)
            total = code.text.let(f"load {kind}, ptr {self.variables[op.out]}")
            value = code.scalar.convert(SsaValue(total, fold.dtype), code.function.dtypes[op.out])
            code.scalar.store(value, code.address(code.nest.stores[op.out], self.schedule.axes))

    def copy_of(self, access: Access) -> str | None:
        """The address of this turn's copy of a result; None for other accesses."""
        is_store = self.code.nest.stores.get(access.base) is access
        return self.copies.get(access.base) if is_store else None

    def write_clear(self) -> int:
        """Write `clear`, which sets sums to the identities of their folds; return the word with the
        number of its turns.
        """
        helper = Helper(self.code)
        for op in self.schedule.added:
            fold, dtype = op.fold, self.code.function.dtypes[op.out]
            assert fold is not None
            base = helper.word(self.code.slots.sums(op.out), self.code.target.pointer)
            identity = helper.b.number(identity_of(fold.identity, dtype), dtype)
            with helper.elements(op) as i:
                helper.b.store(identity, helper.place(base, dtype, i))
        return helper.finish("clear", self.schedule.cleared)

    def write_folds(self) -> int:
        """Write the function that folds copies, from the first to the last, into the results;
        return the word with the number of its turns.
        """
        helper, code = Helper(self.code), self.code
        text, b, pointer = helper.text, helper.b, code.target.pointer
        for op in self.schedule.parts:
            fold, dtype = op.fold, code.function.dtypes[op.out]
            assert fold is not None
            slots, kind = code.slots, register_type(fold.dtype)
            copies = helper.word(self.memory[op.out], pointer)
            base = helper.word(slots.sums(op.out), pointer)
            count = helper.word(slots.extent(product(code.function.shape(op.out))), "i64")
            total = helper.entry.let(f"alloca {kind}", "var")
            counter = helper.entry.let("alloca i64", "var")
            with helper.elements(op) as i:
                first = b.convert(b.load(helper.place(copies, dtype, i), dtype), fold.dtype)
                text.line(f"store {kind} {first.name}, ptr {total}")
                with text.counted(counter, "1", str(PARTS)) as part:
                    at = text.let(f"add i64 {text.let(f'mul i64 {part}, {count}')}, {i}")
                    x = b.convert(b.load(helper.place(copies, dtype, at), dtype), fold.dtype)
                    before = SsaValue(text.let(f"load {kind}, ptr {total}"), fold.dtype)
                    after = fold.combine(b, before, x)
                    text.line(f"store {kind} {after.name}, ptr {total}")
                value = SsaValue(text.let(f"load {kind}, ptr {total}"), fold.dtype)
                b.store(b.convert(value, dtype), helper.place(base, dtype, i))
        return helper.finish(FOLDS, self.schedule.folded)


class Helper:
    """A function beside the kernel of a nest, whose work items go over elements of folds."""

    def __init__(self, code: Any) -> None:
        self.code = code
        self.text, self.entry = Text(), Text()
        self.entry._count = 1_000_000
        self.verbs = DeviceVerbs(code.target, self.text, self.entry, code.module)
        self.b = VectorBuilder(self.text, code.module, 1, code.target)

    def word(self, slot: int, kind: str) -> str:
        """A word of the argument block."""
        pointer = self.code.target.pointer
        place = self.entry.let(f"getelementptr i64, {pointer} %block, i64 {slot}")
        return self.entry.let(f"load {kind}, {pointer} {place}, align 8")

    def elements(self, op: Op) -> AbstractContextManager[str]:
        """A loop over the elements of a fold, a part of which are those of a work item."""
        code = self.code
        count = self.word(code.slots.extent(product(code.function.shape(op.out))), "i64")
        first, step = self.verbs.numbered()
        return self.text.counted(self.entry.let("alloca i64", "var"), first, count, step)

    def place(self, base: str, dtype: Any, i: str) -> str:
        """The address of element i."""
        pointer = self.code.target.pointer
        return self.text.let(f"getelementptr {memory_type(dtype)}, {pointer} {base}, i64 {i}")

    def finish(self, name: str, turns: Poly) -> int:
        """Add the function to the module; return the word with the number of its turns."""
        self.text.line("ret void")
        self.code.module.add(name, self.verbs.definition(name))
        slot: int = self.code.slots.extent(turns)
        return slot
