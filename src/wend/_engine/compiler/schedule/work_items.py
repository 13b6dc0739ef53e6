"""Which loops of a nest become work items of an accelerator, and how much memory these need.

Loops whose turns are independent become work items: those along which no fold adds up. There are
two schedules. *Items*: each work item computes the elements of some turns, alone. *Rows*: a group
computes a turn of the outer loops. The work items of the group share the elements of the last inner
loop, and fold their totals together. The remaining loops run inside a work item.

Sums over the turns of other loops come in *parts*, which run side by side. Each part has a copy of
the sums. A function behind the kernel folds the copies, always in the same order.
"""

from __future__ import annotations

from wend._engine.compiler.ir.loops import FOLD, SCATTER, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, add, known, product, scale
from wend._engine.compiler.schedule.loop_order import Nest

#: The parts of a sum: each takes every so many turns of the loop.
PARTS = 64


class WorkItems:
    """The schedule of a nest on an accelerator.

    per_group: whether a group computes a turn, and not a work item
    shares: whether the work items of a group share the last inner loop
    axes: the loops whose turns are numbered together, fastest last; serial: the other outer loops
    turns: the number of turns
    row: the number of elements of the inner loops
    lines: the number of turns of the outer loops alone, where work items also share an inner loop
    row_stores: whether values of these turns are stored there
    apart: the number of turns of each part
    own: the ops that add up in a work item, which has the element of the result to itself
    parts: the ops that add up in parts; none, or all that add up
    added: the ops that add up in the memory of the result
    cleared, folded: the elements that are set to identities before, and folded from parts behind
    """

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.per_group = bool(nest.row_folds)
        self.axes = [a for a in nest.outer if self.is_free(a)]
        self.serial = [a for a in nest.outer if a not in self.axes]
        self.shares = self.per_group and self.keeps_apart(nest.inner[-1])
        self.lines: Poly = ZERO
        self.row_stores = False
        if not self.per_group and self.is_free(nest.inner[-1]):
            self.lines = product(nest.extents[a] for a in self.axes)
            self.row_stores = any(
                nest.is_row[op.out] and op.out in nest.stores for op in nest.region.ops
            )
            self.axes.append(nest.inner[-1])
        self.turns: Poly = product(nest.extents[a] for a in self.axes)
        self.row: Poly = product(nest.extents[a] for a in nest.inner)
        self.added = [op for op in nest.region.ops if self.adds(op)]
        self.own = [] if self.per_group else [op for op in self.added if self.is_alone(op)]
        self.parts = list(self.added) if self.may_part() else []
        self.added = [op for op in self.added if op not in self.own and op not in self.parts]
        self.apart = self.turns
        if self.parts:
            self.turns = scale(self.turns, PARTS)
        self.cleared, self.folded = self.elements(self.added), self.elements(self.parts)

    def may_part(self) -> bool:
        """Whether all that is added up may be added up in parts."""
        if not (self.added and self.serial):
            return False
        most = known(self.nest.extents[self.serial[0]])
        if most is not None and most < PARTS:
            return False
        if self.per_group:
            return self.shares and not self.axes and all(op.kind == FOLD for op in self.added)
        return self.own == self.added

    def elements(self, ops: list[Op]) -> Poly:
        """The number of elements of all results of some ops."""
        total: Poly = ZERO
        for op in ops:
            total = add(total, product(self.nest.function.shape(op.out)))
        return total

    def is_alone(self, op: Op) -> bool:
        """Whether all that is folded into an element belongs to a single turn."""
        loops = self.nest.loops[op.out]
        kept = {axis for d, axis in enumerate(loops) if d not in op.reduced} - {-1}
        return op.kind == FOLD and kept <= set(self.axes)

    def adds(self, op: Op) -> bool:
        """Whether an op adds up in memory."""
        return op.kind == SCATTER or (op.kind == FOLD and op.out not in self.nest.row_folds)

    def is_free(self, axis: int) -> bool:
        """Whether the turns of a loop are independent."""
        loops = self.nest.loops
        return self.keeps_apart(axis) and all(
            axis not in [loops[op.out][d] for d in op.reduced]
            for op in self.nest.region.ops
            if op.kind == FOLD
        )

    def keeps_apart(self, axis: int) -> bool:
        """Whether ops that add up in memory do so once, and at another place in each turn.

        An op that runs once per turn of the outer loops is left to the first work item.
        """
        nest = self.nest
        for op in nest.region.ops:
            if op.kind not in (FOLD, SCATTER) or (self.per_group and nest.is_row[op.out]):
                continue
            if axis not in nest.loops[op.out]:
                return False
            if op.kind == SCATTER and not nest.stores[op.out].strides[axis]:
                return False
        return True

    def kept_bytes(self, value: int) -> Poly:
        """The bytes for the elements of a value that later phases read back, in all turns."""
        size = self.nest.function.dtypes[value].itemsize
        return scale(product([self.row, self.turns]), size)

    def copied_bytes(self, op: Op) -> Poly:
        """The bytes of all copies of a sum."""
        return scale(self.nest.function.bytes_of(op.out), PARTS)

    def extents(self) -> list[Poly]:
        """All extents that the code reads beside those of the nest."""
        kept = [self.kept_bytes(value) for value in self.nest.kept]
        copied = [self.copied_bytes(op) for op in self.parts]
        return [
            self.turns,
            self.apart,
            self.row,
            self.lines,
            self.cleared,
            self.folded,
            *kept,
            *copied,
        ]
