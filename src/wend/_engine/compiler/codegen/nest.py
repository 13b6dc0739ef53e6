"""A nest as LLVM text: loops with run-time extents and strides around vectors of elements."""

from __future__ import annotations

from wend._engine.compiler.codegen.inner_loop import PhaseCode
from wend._engine.compiler.codegen.kernel_code import KernelCode
from wend._engine.compiler.codegen.known_code import Written
from wend._engine.compiler.codegen.nest_prefetch import Traffic
from wend._engine.compiler.codegen.reductions import write_clear, write_combine
from wend._engine.compiler.codegen.scalar_ops import ElementCode
from wend._engine.compiler.ir.loops import FOLD, SCATTER, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, product, scale
from wend._engine.compiler.llvm_ir.values import SsaValue

NAME = "kernel"


class NestCode(KernelCode):
    """Writes the kernel of a nest."""

    traffic: Traffic

    def write(self) -> Written:
        """Return the code of the whole kernel."""
        nest = self.nest
        self.traffic = Traffic(self)
        self.sums = {op.out for op in nest.late_folds()}
        for value in nest.kept:
            dtype = self.function.dtypes[value]
            size = scale(product(nest.extents[a] for a in nest.inner), dtype.itemsize)
            self.kept[value] = (self.word(self.slots.scratch(size), "ptr"), dtype)
        self.loops(list(nest.outer), self.turn)
        self.traffic.leave()
        if self.faults.messages:
            self.faults.leave(self.text, self.word(self.slots.fault(), "ptr"))
        self.text.line("ret void")
        body = "\n".join([self.entry.render(), self.faults.entry(), "  br label %start", "start:"])
        self.module.add(
            NAME, f"define void @{NAME}(ptr noalias %block) {{\n{body}\n{self.text.render()}\n}}"
        )
        helpers = self.helpers()
        text, faults = self.module.render(), tuple(self.faults.messages)
        return Written(text, self.slots.items, tuple(helpers), faults)

    def helpers(self) -> list[str]:
        """Write the functions beside the kernel, and return their names."""
        nest = self.nest
        late = nest.late_folds()
        added = [*late, *(op for op in nest.region.ops if op.kind == SCATTER)]
        context = self.function, self.slots, self.module, self.target
        names = []
        if added:
            self.module.add("clear", write_clear(added, *context))
            names.append("clear")
        if late and nest.cut_axes():
            self.module.add("combine", write_combine(late, *context))
            names.append("combine")
        return names

    # -- a turn of the outer loops ------------------------------------------------------------

    def turn(self) -> None:
        """Write the row ops and the phases of a turn of the outer loops."""
        nest = self.nest
        self.rows = {}
        for phase in range(nest.phases):
            for op in nest.region.ops:
                if nest.is_row[op.out] and nest.phase[op.out] == phase:
                    self.row(op)
            ops, again = nest.demanded(phase)
            if ops:
                self.phase(ops, again).write()

    def phase(self, ops: list[Op], again: set[int]) -> PhaseCode:
        """Return the code of a phase under way.  again: the values that are read back"""
        return PhaseCode(self, self.traffic, ops, again)

    def row(self, op: Op) -> None:
        """Write an op on scalars, once per turn of the outer loops."""
        nest = self.nest
        operands = [self.scalar_operand(op, k) for k in range(len(op.reads))]
        code = ElementCode(self, op, self.scalar, None)
        assert op.emit is not None
        value = op.emit(code, operands)
        if op.kind == SCATTER:
            self.row_place = self.checked(operands[1], nest.stores[op.out])
        if op.kind in (FOLD, SCATTER):
            self.add_to_memory(op, value, self.address(nest.stores[op.out], nest.outer))
            return
        self.rows[op.out] = value
        if op.out in nest.stores:
            self.store_row(value, nest.stores[op.out])

    def scalar_operand(self, op: Op, k: int) -> SsaValue:
        """Return operand `k` of a row op."""
        nest = self.nest
        value = nest.inside.get((op.out, k))
        if value is not None:
            return self.rows[value]
        access = nest.loads.get((op.out, k))
        if access is None:
            number = self.function.uniform[self.function.base(op.reads[k].value)]
            return self.uniform(self.scalar, *number)
        if access.row >= 0:
            index = self.scalar_operand(op, access.row)
            self.row_place = self.checked(index, access)
        address = self.address(access, nest.outer)
        if access.shifts:
            safe = self.word(self.slots.pointer(access.base, ZERO), "ptr")
            inside = self.inside(access.shifts).name
            kind = self.target.pointer
            address = self.text.let(f"select i1 {inside}, {kind} {address}, {kind} {safe}")
        return self.scalar.load(address, access.dtype)
