"""Which loops of a nest become work items of an accelerator, and how much memory these need.

Loops whose turns are independent become work items: those along which no fold adds up. There are
two schedules. *Items*: each work item computes the elements of some turns, alone. *Rows*: a group
computes a turn of the outer loops. The work items of the group share the elements of the last inner
loop, and fold their totals together. The remaining loops run inside a work item.
"""

from __future__ import annotations

from wend._engine.compiler.ir.loops import FOLD, SCATTER, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, add, product, scale
from wend._engine.compiler.schedule.loop_order import Nest


class WorkItems:
    """The schedule of a nest on an accelerator.

    per_group: whether a group computes a turn, and not a work item
    shares: whether the work items of a group share the last inner loop
    axes: the loops whose turns are numbered together, fastest last; serial: the other outer loops
    turns: the number of turns
    row: the number of elements of the inner loops
    added: the ops that add up in memory
    cleared: the number of elements that are set to identities before
    """

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.per_group = bool(nest.row_folds)
        self.axes = [a for a in nest.outer if self.is_free(a)]
        self.serial = [a for a in nest.outer if a not in self.axes]
        self.shares = self.per_group and self.keeps_apart(nest.inner[-1])
        if not self.per_group and self.is_free(nest.inner[-1]):
            self.axes.append(nest.inner[-1])
        self.turns: Poly = product(nest.extents[a] for a in self.axes)
        self.row: Poly = product(nest.extents[a] for a in nest.inner)
        self.added = [op for op in nest.region.ops if self.adds(op)]
        self.cleared: Poly = ZERO
        for op in self.added:
            self.cleared = add(self.cleared, product(nest.function.shape(op.out)))

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

    def extents(self) -> list[Poly]:
        """All extents that the code reads beside those of the nest."""
        kept = [self.kept_bytes(value) for value in self.nest.kept]
        return [self.turns, self.row, self.cleared, *kept]
