"""Fusion: sorts ops into regions, and elementwise ops and folds into shared loop nests.

An op joins the nest of a producer, or a nest that reads the same values, on two conditions. The
loops must be the same for all sizes, and nothing in between may depend on the nest. One op of a
nest has all axes of the nest: the nest has as many turns as this op, and not more. A fold whose
result is used in the same nest fixes the nest's *inner* loops. The inner loops run once per phase
for each turn of the outer loops, so that a row stays in cache (softmax, norms, losses). All
remaining folds add up in memory while the nest runs, and are ready when the nest ends.
"""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.ir.layout import view_of
from wend._engine.compiler.ir.loops import FOLD, MAP, SCATTER, Function, Op
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Poly
from wend._engine.compiler.schedule.fusion_group import Region

#: The most ops of a nest. LLVM takes more than twice as long for twice as long a loop. Also, the
#: steps of a long unrolled loop share kernels only where the loop is cut.
MOST_OPS = 256


class Fusion:
    """Sorts the ops of a function into regions."""

    def __init__(self, function: Function) -> None:
        self.function = function
        #: The place of each op in the order of recording, by the op's id.
        self.order = {id(op): k for k, op in enumerate(function.ops)}
        self.producers = function.producers()
        self.regions: list[Region | None] = []
        self.home: dict[int, Region] = {}  # value -> region that computes it
        self.readers: dict[int, int] = {}  # value -> regions that read it, as bits
        self.nests = 0  # the regions that are nests, as bits
        self.needed = 0  # regions that others come after, as bits, and maybe some more
        self.renames: dict[int, Any] = {}

    def new(self, kind: str) -> Region:
        """Return a new empty region."""
        region = Region(len(self.regions), kind)
        self.regions.append(region)
        if kind == "nest":
            self.nests |= 1 << region.number
        return region

    def place(self, op: Op) -> None:
        """Let an op join a nest, or begin a nest with the op."""
        homes: list[Region] = []
        siblings = 0
        for read in op.reads:
            base = self.function.base(read.value)
            home = self.home.get(base)
            if home is not None and home.kind == "nest" and home not in homes:
                homes.append(home)
            siblings |= self.readers.get(base, 0)
        homes.sort(key=lambda r: -r.number)
        for other in homes[1:]:
            if len(homes[0].ops) + len(other.ops) < MOST_OPS and self.merge(homes[0], other):
                homes = [homes[0], *(h for h in homes[1:] if h is not other)]
        siblings &= self.nests
        for home in homes:
            siblings &= ~(1 << home.number)
        for region in homes + self.latest(siblings, 4):
            if len(region.ops) >= MOST_OPS or not self.may_join(region, op):
                continue
            if self.join(region, op, region in homes):
                self.settle(region, op)
                return
        region = self.new("nest")
        if not self.join(region, op, True):
            raise AssertionError(f"{op}: does not fit an empty nest")
        self.settle(region, op)

    def latest(self, numbers: int, most: int) -> list[Region]:
        """Return the last regions of some, latest first. numbers: the regions, as bits"""
        regions: list[Region] = []
        while numbers and len(regions) < most:
            number = numbers.bit_length() - 1
            numbers &= ~(1 << number)
            region = self.regions[number]
            assert region is not None, "a region has been merged into another"
            regions.append(region)
        return regions

    def settle(self, region: Region, op: Op) -> None:
        """Record the results of an op of a region, and the regions that the op depends on."""
        for out in op.outputs:
            self.home[out] = region
        self.note_reads(region, op)

    def note_reads(self, region: Region, op: Op) -> None:
        """Record the values that an op of a region reads, and the regions that make them."""
        function, readers = self.function, self.readers
        before, bit = region.before, 1 << region.number
        for read in op.reads:
            base = function.base(read.value)
            home = self.home.get(base)
            if home is not region:
                if home is not None:
                    before |= home.before | 1 << home.number
                if base not in function.uniform:
                    readers[base] = readers.get(base, 0) | bit
        self.depend(region, before)

    def depend(self, region: Region, before: int) -> None:
        """Make a region, and all regions that depend on it, come after the regions `before`.

        before: the regions to come after, as bits
        """
        if before == region.before:
            return
        region.before = before
        self.needed |= before
        bit = 1 << region.number
        if not self.needed & bit:
            return
        for other in self.regions:
            if other is not None and other.before & bit:
                other.before |= before

    def may_join(self, region: Region, op: Op) -> bool:
        """Whether no operand of an op is made by another region that depends on this region."""
        bit = 1 << region.number
        for read in op.reads:
            home = self.home.get(self.function.base(read.value))
            if home is not None and home is not region and home.before & bit:
                return False
        return True

    def rename(self, value: int) -> tuple[int, tuple[int, ...]] | None:
        """Return (base, dims) if views only rename dims between `value` and its base, else None.

        For each dim of the base, `dims` has the dim of `value` that is the same, or -1.
        """
        if value in self.renames:
            return self.renames[value]  # type: ignore[no-any-return]
        renaming = self.renames[value] = self._rename(value)
        return renaming

    def _rename(self, value: int) -> tuple[int, tuple[int, ...]] | None:
        function = self.function
        base = function.base(value)
        shape = function.shape(base)
        if base == value:
            return value, tuple(range(len(shape)))
        extents = function.extents
        strides = tuple(
            ZERO if n == ONE else extents.atom(("free", d)) for d, n in enumerate(shape)
        )
        layout = chain_layout(function, value, base, strides)
        if layout is None or layout[1] != ZERO:
            return None
        places = [-1] * len(shape)
        for d, stride in enumerate(layout[0]):
            if stride == ZERO:
                continue
            if stride not in strides or places[strides.index(stride)] >= 0:
                return None
            if shape[strides.index(stride)] != function.shape(value)[d]:
                return None
            places[strides.index(stride)] = d
        if any(p < 0 and n != ONE for p, n in zip(places, shape, strict=True)):
            return None
        return base, tuple(places)

    def join(self, region: Region, op: Op, related: bool, partial: bool = False) -> bool:
        """Add an op to a nest if the op's loops fit. Returns whether the op was added.

        related: whether the op may add axes to the nest
        partial: whether ops that are still to come may be the ones that have all axes
        """
        loops: list[int | None] = [None] * len(op.space)
        wanted: list[int] = []  # folds that would be used in the nest
        function, places = self.function, region.places
        for read in op.reads:
            base = function.base(read.value)
            if base not in places or (base in function.uniform and read.row < 0):
                continue
            renamed = self.rename(read.value)
            if renamed is None or read.shifts or read.row >= 0:
                return False
            if base in region.late:
                wanted.append(base)
            for place, dim in zip(places[base], renamed[1], strict=True):
                loop = read.dims[dim] if dim >= 0 else -1
                if loop < 0 or op.space[loop] == ONE:
                    if place >= 0:
                        return False
                    continue
                if place < 0 or loops[loop] not in (None, place):
                    return False
                loops[loop] = place
        inner = region.inner
        for base in wanted:
            if inner is None:
                inner = region.late[base]
            if region.late[base] != inner or not self.folds_fast_dim(region, base):
                return False
        axes = list(region.axes)
        if not self._fill_loops(op, loops, axes, related, inner):
            return False
        placed = tuple([-1 if a is None else a for a in loops])
        followed = [a for a in placed if a >= 0]
        if len(set(followed)) < len(followed):  # an axis cannot be two loops
            return False
        if not self._fold_fits(region, op, placed, axes):
            return False
        if not partial and len(axes) > len(region.axes) and len(set(followed)) < len(axes):
            return False  # the nest would have more turns than any of its ops
        if inner is not None and not inner.isdisjoint(region.indexed | index_axes(op, placed)):
            return False
        region.axes = axes
        region.inner = inner
        for base in wanted:
            region.late.pop(base, None)
        self.enter(region, op, placed)
        return True

    def folds_fast_dim(self, region: Region, value: int) -> bool:
        """Whether a value is a fold along the fastest dim, where elements are neighbours."""
        fast = [a for a in region.loops[value] if a >= 0]
        folds = self.producers[value].kind == FOLD
        return bool(fast) and fast[-1] in region.late[value] and folds

    def _fill_loops(
        self, op: Op, loops: list[int | None], axes: list[Poly], related: bool, inner: Any
    ) -> bool:
        """Find an axis for each loop that no operand has placed. Returns whether that is allowed.

        loops: the axis of each loop, filled in here
        axes: the extents of the nest's axes, to which new ones are added
        """
        new = 0
        for d, extent in enumerate(op.space):
            if loops[d] is not None:
                continue
            if extent == ONE:
                loops[d] = -1
                continue
            for a, n in enumerate(axes):
                if n == extent and a not in loops:
                    loops[d] = a
                    break
            else:
                loops[d] = len(axes)
                axes.append(extent)
                new += 1
        if not new or new == len(axes):
            return True
        return related and inner is None

    def _fold_fits(self, region: Region, op: Op, placed: tuple[int, ...], axes: list[Poly]) -> bool:
        """Whether a fold would run exactly once per element.

        The fold's loops must be all axes of the nest, or all outer axes.
        """
        if not self._all_axes_kept(region, axes):
            return False
        if op.kind == MAP:
            return True
        covered = {a for a in placed if a >= 0}
        return covered == set(range(len(axes))) or self._is_row(region, covered, axes)

    def _all_axes_kept(self, region: Region, axes: list[Poly]) -> bool:
        """Whether no fold would run more often because of an added axis."""
        if len(axes) == len(region.axes):
            return True
        return not any(op.kind != MAP for op in region.ops)

    def _is_row(self, region: Region, covered: set[int], axes: list[Poly]) -> bool:
        """Whether a fold over the axes `covered` runs once per turn of the outer loops."""
        return region.inner is not None and covered == set(range(len(axes))) - region.inner

    def enter(self, region: Region, op: Op, placed: tuple[int, ...]) -> None:
        """Add an op to a nest. placed: the axis of each of the op's loops, or -1"""
        out = op.out
        region.ops.append(op)
        region.indexed |= index_axes(op, placed)
        region.loops[out] = placed
        region.places[out] = tuple([placed[d] if d >= 0 else -1 for d in op.out_dims])
        if op.kind in (FOLD, SCATTER):
            folded = frozenset(a for d, a in enumerate(placed) if a >= 0 and d not in op.out_dims)
            if op.kind == SCATTER:
                folded |= {-1}  # never used in the nest
            if folded or op.kind == SCATTER:
                region.late[out] = folded

    # -- merging ----------------------------------------------------------------------------

    def merge(self, into: Region, other: Region) -> bool:
        """Merge a nest into another, if both have the same loops and no region lies in between.

        Returns whether the nests were merged.
        """
        if self.between(other, into) or self.between(into, other):
            return False
        larger = into.axes if len(into.axes) >= len(other.axes) else other.axes
        if any(larger.count(n) < axes.count(n) for axes in (into.axes, other.axes) for n in axes):
            return False
        whole = self.replay(into, other)
        if whole is None:
            return False
        whole.before = (into.before | other.before) & ~(1 << into.number | 1 << other.number)
        for op in other.ops:
            self.home.update(dict.fromkeys(op.outputs, into))
        bit, gone = 1 << into.number, 1 << other.number
        for base in {self.function.base(read.value) for op in other.ops for read in op.reads}:
            readers = self.readers.get(base, 0)
            if readers & gone:
                self.readers[base] = readers & ~gone | bit
        for name, value in whole.__dict__.items():
            setattr(into, name, value)
        self.regions[other.number] = None
        self.nests &= ~gone
        self.needed |= bit | into.before
        for region in self.regions:
            if region is not None and region.before & (gone | bit):
                region.before = region.before & ~gone | bit | into.before
        return True

    def between(self, first: Region, last: Region) -> bool:
        """Whether a third region depends on `first`, and `last` depends on the third region."""
        bit = 1 << first.number
        if not last.before & bit:  # what comes after a third region comes after all before that
            return False
        return any(
            r is not None
            and r is not first
            and r is not last
            and r.before & bit
            and last.before & 1 << r.number
            for r in self.regions
        )

    def replay(self, a: Region, b: Region) -> Region | None:
        """Return a nest with the ops of two nests, in the order of recording, or None.

        The ops join an empty nest one by one. If all ops of one nest were recorded first, the ops
        of the later nest join a copy of the earlier nest.
        """
        order = self.order
        early, late = (a, b) if order[id(a.ops[0])] < order[id(b.ops[0])] else (b, a)
        if order[id(early.ops[-1])] < order[id(late.ops[0])]:
            whole, rest = early.loops_alone(a.number), late.ops
        else:
            whole, rest = Region(a.number, "nest"), self.in_order(a.ops + b.ops)
        for op in rest:
            if not self.join(whole, op, True, partial=True):
                return None
        if len(whole.axes) != max(len(a.axes), len(b.axes)):
            return None
        return whole

    def in_order(self, ops: list[Op]) -> list[Op]:
        """Return ops in the order of recording."""
        order = self.order
        return sorted(ops, key=lambda op: order[id(op)])

    def narrowed(self, region: Region) -> list[Region]:
        """Return nests with the ops of a nest, each with as many turns as an op of its own has.

        The op that had all axes of the nest may have been dropped. A nest stays whole if its parts
        would read values of each other that none of them stores. The last nest keeps the number,
        since regions that need the nest come after all parts.
        """
        if region.kind != "nest" or is_covered(region):
            return [region]
        parts: list[Region] = []
        for op in region.ops:
            if not parts or not self.join(parts[-1], op, True):
                parts.append(Region(region.number, "nest"))
                self.join(parts[-1], op, True)
        if len(parts) != 1 and region.repeated:
            return [region]
        before = region.before
        for part in parts:
            part.before, part.repeated = before, set(region.repeated)
            part.outputs = list(region.outputs)
            if part is not parts[-1]:
                part.number = len(self.regions)
                self.regions.append(part)
                before |= 1 << part.number
        self.regions[region.number] = parts[-1] if parts else None
        return parts

    # -- results ----------------------------------------------------------------------------

    def mark_outputs(self, regions: list[Region]) -> None:
        """Set the values that each region stores, and drop ops that nothing uses."""
        function = self.function
        needed = {function.base(function.resolve(i)) for i in function.outputs}
        for region in regions:
            for op in region.ops:
                for read in op.reads:
                    base = function.base(read.value)
                    if base not in region.places:
                        needed.add(base)
        for region in regions:
            live: set[int] = set()
            for op in reversed(region.ops):
                wanted = [
                    o
                    for o in op.outputs
                    if (o in needed or o in region.late) and o not in region.repeated
                ]
                region.outputs[:0] = [o for o in wanted if o in needed]
                if wanted or not live.isdisjoint(op.outputs):
                    live.update([function.base(r.value) for r in op.reads])
            if region.kind == "nest" or region.places:
                drop_unused(region, needed, function)


def is_covered(region: Region) -> bool:
    """Whether an op of a nest has all axes of the nest: the nest has as many turns as this op."""
    return any(
        len({a for a in region.loops[op.out] if a >= 0}) == len(region.axes) for op in region.ops
    )


def index_axes(op: Op, placed: tuple[int, ...]) -> set[int]:
    """The axes that the indices of looked-up rows follow. placed: the axis of each loop"""
    rows = [read.row for read in op.reads if read.row >= 0]
    if not rows and op.kind != SCATTER:
        return set()
    if op.kind == SCATTER:
        rows.append(1)
    return {placed[d] for k in rows for d in op.reads[k].dims if d >= 0} - {-1}


def drop_unused(region: Region, needed: set[int], function: Function) -> None:
    """Drop the ops of a nest whose results are not used any more."""
    used: set[int] = set()
    repeated, kept = region.repeated, []
    for op in reversed(region.ops):
        out = op.out
        if out in used or (out in needed and out not in repeated):
            kept.append(op)
            used.update(function.base(r.value) for r in op.reads)
    kept.reverse()
    region.ops = kept


def in_order(regions: list[Region]) -> list[Region]:
    """Return regions sorted so that each region comes just after the regions that it needs.

    A region does not run long before its results are needed, because they would take memory.
    """
    numbered = {region.number: region for region in regions}
    left = 0
    for number in numbered:
        left |= 1 << number
    ordered: list[Region] = []
    for region in sorted(regions, key=lambda r: r.number):
        stack = [region]
        entered: set[int] = set()
        while stack:
            top = stack[-1]
            missing = top.before & left & ~(1 << top.number)
            if not left & 1 << top.number:
                stack.pop()
            elif not missing:
                left &= ~(1 << top.number)
                ordered.append(stack.pop())
            elif top.number in entered:
                raise AssertionError("regions depend on one another in a circle")
            else:
                entered.add(top.number)
                while missing:  # the first ends up on top
                    number = missing.bit_length() - 1
                    stack.append(numbered[number])
                    missing &= ~(1 << number)
    return ordered


def chain_layout(function: Function, value: int, base: int, strides: Any) -> Any:
    """Return (strides, offset) of the chain of views from `base` to `value`, or None.

    strides: the strides of `base`
    """
    views = []
    while value != base:
        view = function.views[value]
        views.append(view)
        value = view.source
    layout = (tuple(strides), ZERO)
    for view in reversed(views):
        view_layout = view_of(function, view, *layout)
        if view_layout is None:
            return None
        layout = view_layout
    return layout
