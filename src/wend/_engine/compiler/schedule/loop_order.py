"""The loops of a region: the order of loops, merged loops, and the phase of each op.

For each turn of the outer loops, the *inner* loops run once per phase. A fold over just the inner
loops (a row fold) ends with its phase, so ops that use its result belong to a later phase. Vectors
go along the last inner loop.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.ir.loops import (
    FOLD,
    MAP,
    SCATTER,
    Function,
    Layout,
    Op,
    Read,
    contiguous,
)
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Poly, add, known, mul, scale
from wend._engine.compiler.schedule.fusion_group import Region

#: The most ops of an element that is cheaper to compute again in a later phase than to keep.
MAX_AGAIN = 2


class Access:
    """Memory that a nest reads or writes.

    base, dtype: the value and its dtype
    strides, offset: the strides along the nest's axes, and the first element, in elements
    row: the number of the operand whose element is the place along the looked-up dim, or -1
    row_stride, row_extent: the stride and the extent of the looked-up dim
    row_wraps: whether negative places count from the end
    shifts: (axis, first, count) each; outside of these places of an axis there are no elements
    """

    __slots__ = (
        "base",
        "dtype",
        "offset",
        "row",
        "row_extent",
        "row_stride",
        "row_wraps",
        "shifts",
        "strides",
    )

    def __init__(self, base: int, dtype: Any, strides: list[Poly], offset: Poly) -> None:
        self.base = base
        self.dtype = dtype
        self.strides = strides
        self.offset = offset
        self.row = -1
        self.row_stride = ZERO
        self.row_extent = ZERO
        self.row_wraps = False
        self.shifts: Any = ()


class Nest:
    """A region with its loops, accesses and phases, ready for generating code."""

    def __init__(self, function: Function, region: Region) -> None:
        self.function = function
        self.region = region
        self.extents: list[Poly] = list(region.axes)
        self.late = dict(region.late)
        self.indexed = set(region.indexed)
        self.loads: dict[tuple[int, int], Access] = {}  # (result of an op, operand) -> its access
        self.stores: dict[int, Access] = {}
        self.shifts: dict[tuple[int, int], Any] = {}  # (result of an op, operand) -> see Access
        self.counts: dict[int, Access] = {}  # result of an op -> its elements' numbers, as accesses
        self.loops: dict[int, tuple[int, ...]] = dict(region.loops)
        self.inside: dict[tuple[int, int], int] = {}  # (result of an op, operand) -> value in here
        self.find_accesses()
        self.outer, self.inner = self.order_axes()
        self.merge_axes()
        if not self.inner:
            fits = bool(self.outer) and self.outer[-1] not in self.indexed
            self.inner = [self.outer.pop() if fits else self.unit_axis()]
        self.find_phases()

    # -- memory -----------------------------------------------------------------------------

    def find_accesses(self) -> None:
        """Find the accesses for the operands that ops read, and for the results that are stored."""
        f, region = self.function, self.region
        results = {op.out for op in region.ops}
        for op in region.ops:
            for k, read in enumerate(op.reads):
                base = f.base(read.value)
                if read.shifts:
                    loops = region.loops[op.out]
                    self.shifts[op.out, k] = tuple(
                        (loops[read.dims[d]], first, count) for d, first, count in read.shifts
                    )
                if base in f.uniform and read.row < 0:
                    continue
                if base in results and base in region.places:
                    self.inside[op.out, k] = base
                else:
                    load = self.access(read, region.loops[op.out], f.layout(read.value))
                    load.shifts = self.shifts.get((op.out, k), ())
                    self.loads[op.out, k] = load
            for k, read in enumerate(op.reads):
                if read.row >= 0:
                    load = self.loads[op.out, k]
                    load.row = read.row
                    load.row_stride = f.layout(read.value).strides[read.row_dim]
                    load.row_extent = f.shape(read.value)[read.row_dim]
                    load.row_wraps = op.wraps
        for op in region.ops:
            if op.counted:
                read = Read(-1, tuple(range(len(op.space))))
                layout = Layout(-1, contiguous(op.space), ZERO)
                self.counts[op.out] = self.access(read, region.loops[op.out], layout, dtypes.int64)
            if op.out in region.outputs or op.out in self.late:
                self.stores[op.out] = self.store(op)

    def access(
        self, read: Read, loops: tuple[int, ...], layout: Layout, dtype: Any = None
    ) -> Access:
        """Return the access of an operand. loops: the axis of each loop of the op"""
        strides = [ZERO] * len(self.extents)
        offset = layout.offset
        load = Access(layout.base, dtype or self.function.dtypes[read.value], strides, offset)
        for d, loop in enumerate(read.dims):
            axis = loops[loop] if loop >= 0 else -1
            if axis >= 0:
                strides[axis] = add(strides[axis], layout.strides[d])
            for dim, first, _ in read.shifts:
                if dim == d:
                    load.offset = add(load.offset, scale(mul(first, layout.strides[d]), -1))
        load.offset = self.function.extents.canonical(load.offset)
        return load

    def store(self, op: Op) -> Access:
        """Return the access of the result of an op."""
        f = self.function
        layout = f.layout(op.out)
        strides = [ZERO] * len(self.extents)
        for d, axis in enumerate(self.region.places[op.out]):
            if axis >= 0:
                strides[axis] = add(strides[axis], layout.strides[d])
        access = Access(op.out, f.dtypes[op.out], strides, layout.offset)
        if op.kind == SCATTER:
            access.row = 1
            access.row_stride = layout.strides[op.row_dim]
            access.row_extent = f.shape(op.out)[op.row_dim]
            access.row_wraps = op.wraps
        return access

    def accesses(self) -> list[Access]:
        """Return all accesses."""
        return [*self.loads.values(), *self.stores.values(), *self.counts.values()]

    # -- loops ------------------------------------------------------------------------------

    def order_axes(self) -> tuple[list[int], list[int]]:
        """Return the (outer, inner) axes, fastest last. Without row folds all axes are outer."""
        region = self.region
        order: list[int] = []
        for op in sorted(region.ops, key=lambda op: -sum(a >= 0 for a in region.loops[op.out])):
            for axis in region.loops[op.out]:
                if axis >= 0 and axis not in order:
                    order.append(axis)
        if region.inner:
            inner = [a for a in order if a in region.inner]
            return [a for a in order if a not in region.inner], inner
        free = [a for a in order if a not in self.indexed]
        if free:
            fast = max(reversed(free), key=self.fast_accesses)
            order.remove(fast)
            order.append(fast)
        return order, []

    def fast_accesses(self, axis: int) -> int:
        """The number of accesses that go from neighbour to neighbour along an axis."""
        return sum(a.strides[axis] == ONE for a in self.accesses())

    def merge_axes(self) -> None:
        """Merge neighbouring axes into a single loop where all accesses allow it."""
        self.outer = self.merged(self.outer)
        self.inner = self.merged(self.inner)

    def merged(self, axes: list[int]) -> list[int]:
        """Merge neighbouring axes where possible, and return the axes that are left."""
        result: list[int] = []
        for axis in axes:
            if result and self.may_merge(result[-1], axis):
                self.merge(result.pop(), axis)
            result.append(axis)
        return result

    def may_merge(self, a: int, b: int) -> bool:
        """Whether loop b within loop a can be merged with loop a."""
        if (a in self.indexed) != (b in self.indexed):
            return False
        canonical = self.function.extents.canonical
        extent = self.extents[b]
        for access in self.accesses():
            if access.strides[a] != canonical(mul(extent, access.strides[b])):
                return False
        for op in self.region.ops:
            loops = self.loops[op.out]
            if (a in loops) != (b in loops) or (op.placed and a in loops):
                return False
            shifted = {loops[r.dims[s[0]]] for r in op.reads for s in r.shifts}
            if shifted & {a, b}:
                return False
        return all((a in folded) == (b in folded) for folded in self.late.values())

    def merge(self, a: int, b: int) -> None:
        """Merge loop a into loop b."""
        self.extents[b] = self.function.extents.canonical(mul(self.extents[a], self.extents[b]))
        for out, loops in self.loops.items():
            self.loops[out] = tuple(b if axis == a else axis for axis in loops)
        self.folded_away(a)
        if a in self.indexed:
            self.indexed.add(b)

    def folded_away(self, axis: int) -> None:
        """Remove a merged axis from folds: they fold over the axis that it became part of."""
        for value, folded in self.late.items():
            self.late[value] = folded - {axis}

    def unit_axis(self) -> int:
        """Add a loop of a single turn, for a nest of single elements. Returns its axis."""
        self.extents.append(ONE)
        for access in self.accesses():
            access.strides.append(ZERO)
        return len(self.extents) - 1

    # -- phases -----------------------------------------------------------------------------

    def find_phases(self) -> None:
        """Sort ops into row ops and element ops, and into phases.

        A row op runs once per turn of the outer loops.
        """
        inner = frozenset(self.inner)
        self.is_row: dict[int, bool] = {}
        self.row_folds: set[int] = set()
        self.phase: dict[int, int] = {}
        outer = set(self.outer)
        for op in self.region.ops:
            loops = {a for a in self.loops[op.out] if a >= 0}
            self.is_row[op.out] = not loops & inner
            if op.kind == FOLD and loops & inner:
                folded = {a for d, a in enumerate(self.loops[op.out]) if d in op.reduced} - {-1}
                if folded == inner and loops - folded == outer:
                    self.row_folds.add(op.out)
        self.kept: list[int] = []
        self.sort({})
        later = self.put_off()
        if later:
            self.sort(later)
        self.find_kept()

    def sort(self, later: dict[int, int]) -> None:
        """Put every op into the first phase possible.

        later: the phases of folds that are put off
        """
        for op in self.region.ops:
            phase = later.get(op.out, 0)
            for k in range(len(op.reads)):
                value = self.inside.get((op.out, k))
                if value is not None:
                    ends = value in self.row_folds
                    phase = max(phase, self.phase[value] + ends)
            self.phase[op.out] = phase
        self.phases = max(self.phase.values(), default=0) + 1

    def put_off(self) -> dict[int, int]:
        """Return folds to put off to a later phase, with that phase.

        A later phase must read all operands of such a fold anyway, and no earlier op may use the
        fold's result. The fold's first phase must be spared reading an operand.
        """
        if self.phases == 1:
            return {}
        reads, limits = self.operands_read(), self.limits()
        ops = {op.out: op for op in self.region.ops}
        roots: list[dict[int, set[Any]]] = [{} for _ in range(self.phases)]
        for op in self.region.ops:
            if not self.is_row[op.out] and (op.kind != MAP or op.out in self.stores):
                roots[self.phase[op.out]][op.out] = reads[op.out]
        new_phases: dict[int, int] = {}
        for phase, here in enumerate(roots):
            able = {}
            for out, operands in here.items():
                if ops[out].kind != FOLD or any(
                    self.cost(ops, value) > MAX_AGAIN for value in self.sources(ops[out])
                ):
                    continue
                for other in range(phase + 1, limits[out] + 1):
                    if operands <= set().union(*roots[other].values()):
                        able[out] = other
                        break
            staying = set().union(*(read for out, read in here.items() if out not in able))
            new_phases |= {out: other for out, other in able.items() if not here[out] <= staying}
        return new_phases

    def sources(self, op: Op) -> list[int]:
        """The values of this nest, except rows, that are operands of an op."""
        values = (self.inside.get((op.out, k)) for k in range(len(op.reads)))
        return [
            v for v in values if v is not None and not self.is_row[v] and v not in self.row_folds
        ]

    def operands_read(self) -> dict[int, set[Any]]:
        """Return, for each op, the operands in memory that its phase reads to compute it.

        Operands of elements that an earlier phase keeps are not counted.
        """
        ops = {op.out: op for op in self.region.ops}
        operands: dict[int, set[Any]] = {}
        for op in self.region.ops:
            read = set()
            for k in range(len(op.reads)):
                load = self.loads.get((op.out, k))
                if load is not None:
                    row = id(load) if load.row >= 0 else -1
                    read.add((load.base, load.offset, tuple(load.strides), row, load.shifts))
            for value in self.sources(op):
                if self.phase[value] == self.phase[op.out] or self.cost(ops, value) <= MAX_AGAIN:
                    read |= operands[value]
            operands[op.out] = read
        return operands

    def limits(self) -> dict[int, int]:
        """Return, for each op, the last phase possible if folds and results do not move."""
        last_phases = {op.out: self.phases - 1 for op in self.region.ops}
        for op in reversed(self.region.ops):
            follows = self.is_row[op.out] or (op.kind == MAP and op.out not in self.stores)
            own = last_phases[op.out] if follows else self.phase[op.out]
            for k in range(len(op.reads)):
                value = self.inside.get((op.out, k))
                if value is not None:
                    last_phases[value] = min(last_phases[value], own - (value in self.row_folds))
        return last_phases

    def find_kept(self) -> None:
        """Find the elements to keep in a row of scratch memory for a later phase.

        Elements that are stored, or that are cheap to compute again, are not kept.
        """
        ops = {op.out: op for op in self.region.ops}
        for op in self.region.ops:
            for k in range(len(op.reads)):
                value = self.inside.get((op.out, k))
                if value is None or self.is_row[value] or value in self.row_folds:
                    continue
                if self.phase[op.out] == self.phase[value] or value in self.stores:
                    continue
                if value not in self.kept and self.cost(ops, value) > MAX_AGAIN:
                    self.kept.append(value)

    def cost(self, ops: dict[int, Op], value: int) -> int:
        """The number of ops that compute an element again."""
        op = ops[value]
        if not op.cheap or op.kind != MAP:
            return 100
        total = 0 if op.name == "copy" else 1
        for k in range(len(op.reads)):
            source = self.inside.get((value, k))
            if source is None or self.is_row[source] or source in self.row_folds:
                continue
            if source in self.kept or source in self.stores:
                continue
            total += self.cost(ops, source)
        return total

    def demanded(self, phase: int) -> tuple[list[Op], set[int]]:
        """Return (ops whose elements a phase computes, values that the phase reads back)."""
        ops = {op.out: op for op in self.region.ops}
        wanted: set[int] = set()
        again: set[int] = set()
        waiting = [
            op.out
            for op in self.region.ops
            if not self.is_row[op.out]
            and self.phase[op.out] == phase
            and (op.kind != MAP or op.out in self.stores or op.out in self.kept)
        ]
        while waiting:
            value = waiting.pop()
            if value in wanted:
                continue
            wanted.add(value)
            for k in range(len(ops[value].reads)):
                source = self.inside.get((value, k))
                if source is None or self.is_row[source] or source in self.row_folds:
                    continue
                if self.phase[source] < phase and (source in self.kept or source in self.stores):
                    again.add(source)
                else:
                    waiting.append(source)
        return [op for op in self.region.ops if op.out in wanted], again

    # -- parts ------------------------------------------------------------------------------

    def late_folds(self) -> list[Op]:
        """Return the folds that add up in memory, and are ready when the nest ends."""
        ops = self.region.ops
        return [op for op in ops if op.kind == FOLD and op.out not in self.row_folds]

    def cut_axes(self) -> list[int]:
        """Return the axes along which the nest may be run in parts, outermost first.

        Parts that add up in the same fold need copies of its memory. Parts never share a scatter's
        result.
        """
        axes = self.outer[:1]
        if self.phases == 1 and not self.row_folds and self.inner[-1] not in axes:
            axes.append(self.inner[-1])
        scattered = [self.stores[op.out] for op in self.region.ops if op.kind == SCATTER]
        return [
            axis
            for axis in axes
            if known(self.extents[axis]) is None and all(s.strides[axis] for s in scattered)
        ]

    @property
    def lane_bytes(self) -> int:
        """The bytes of the elements that decide the number of lanes."""
        reals = [a.dtype.to_real() for a in self.accesses()]
        sizes = [dtype.itemsize for dtype in reals if dtype.category == dtypes.FLOAT]
        return max(4, max(sizes, default=4))

    def __repr__(self) -> str:
        show = self.function.extents.show
        outer = " ".join(f"i{a}<{show(self.extents[a])}" for a in self.outer)
        inner = " ".join(f"i{a}<{show(self.extents[a])}" for a in self.inner)
        lines = [f"for {outer}:"]
        for phase in range(self.phases):
            rows = [op for op in self.region.ops if self.is_row[op.out]]
            lines += [f"    {op!r}" for op in rows if self.phase[op.out] == phase]
            ops, again = self.demanded(phase)
            lines.append(f"    for {inner}:  # phase {phase}, read back {sorted(again)}")
            lines += [f"        {op!r}" for op in ops]
        return "\n".join(lines)
