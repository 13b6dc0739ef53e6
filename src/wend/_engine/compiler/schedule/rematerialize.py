"""Rematerialization: a nest computes cheap elements again, so that no other nest stores them."""

from __future__ import annotations

from collections.abc import Iterator

from wend._engine.compiler.ir.loops import MAP, Function, Op, Read
from wend._engine.compiler.ir.symbolic_extents import ONE
from wend._engine.compiler.schedule.fuse import Fusion
from wend._engine.compiler.schedule.fusion_group import Region

#: The most ops that a nest computes again to spare another nest the storing of a value.
MAX_REPEATED = 4


class Repetition:
    """Copies ops of a nest to the front of another nest that reads their results."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.function = fusion.function

    def run(self, regions: list[Region]) -> Iterator[None]:
        """Repeat ops in all nests where that pays, a nest in each slice."""
        function = self.function
        producers = function.producers()
        kept = {function.base(function.resolve(i)) for i in function.outputs}
        for region in regions:
            if region.kind != "nest":
                read = {function.base(r.value) for op in region.ops for r in op.reads}
                kept |= read.difference(region.places)
        for region in regions:
            if region.kind != "nest":
                continue
            yield
            for value in self.outside(region):
                chain = self.chain(value, producers, kept)
                if chain is not None:
                    self.repeat(region, chain)
                elif self.fusion.home.get(value) is not None:
                    kept.add(value)

    def outside(self, region: Region) -> list[int]:
        """Values of other regions that a nest reads plainly, in order."""
        values = []
        for op in region.ops:
            for read in op.reads:
                base = self.function.base(read.value)
                plain = not read.shifts and read.row < 0
                if (
                    base in region.places
                    or base in values
                    or base not in self.fusion.home
                    or not plain
                ):
                    continue
                if self.fusion.rename(read.value):
                    values.append(base)
        return values

    def chain(self, value: int, producers: dict[int, Op], kept: set[int]) -> list[Op] | None:
        """Return the ops that compute a value from values stored anyway, if few and cheap, or None.

        kept: the values that are stored anyway
        """
        function = self.function
        chain: list[Op] = []
        waiting = [value]
        while waiting:
            v = waiting.pop()
            op = producers.get(v)
            if v in kept or op is None or op in chain:
                if v == value:
                    return None
                continue
            if v != value and loops_of(function, v) < loops_of(function, value):
                continue
            if op.kind != MAP or not op.cheap or len(chain) == MAX_REPEATED:
                return None
            chain.append(op)
            for read in op.reads:
                if read.shifts or read.row >= 0 or self.fusion.rename(read.value) is None:
                    return None
                base = function.base(read.value)
                if base not in function.uniform:
                    waiting.append(base)
        return self.fusion.in_order(chain)

    def repeat(self, region: Region, chain: list[Op]) -> None:
        """Put a chain in front of a nest's own ops, if it fits."""
        whole = Region(region.number, "nest")
        fresh = [op for op in chain if op.out not in region.places]
        # The loops of the chain are placed along those of the nest's own ops, which read it.
        whole.axes = list(region.axes)
        for op in reversed(fresh):
            if not self._join_like(whole, op, region):
                return
        trial = Region(region.number, "nest")
        trial.axes = list(region.axes)
        for op in self.fusion.in_order(fresh + region.ops):
            if op in fresh:
                if not self._reads_fit(trial, op, whole.loops[op.out]):
                    return
                self.fusion.enter(trial, op, whole.loops[op.out])
            elif not self.fusion.join(trial, op, True):
                return
        if len(trial.axes) != len(region.axes):
            return
        trial.before = region.before
        trial.repeated = region.repeated | {op.out for op in fresh}
        for name, value in trial.__dict__.items():
            setattr(region, name, value)
        for op in fresh:
            self.fusion.note_reads(region, op)

    def _reads_fit(self, region: Region, op: Op, loops: tuple[int, ...]) -> bool:
        """Whether an op with these loops may read the nest's own values.

        Each value must be ready by then, and be read at the place at which the nest computes it.
        """
        for read in op.reads:
            base = self.function.base(read.value)
            if base not in region.places or (base in self.function.uniform and read.row < 0):
                continue
            if base in region.late or self._followed(read, loops) != region.places[base]:
                return False
        return True

    def _followed(self, read: Read, loops: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the axes that the dims of a read's base follow, or None.

        None means that views do more than rename dims.
        """
        renamed = self.fusion.rename(read.value)
        if renamed is None:
            return None
        dims = [read.dims[d] if d >= 0 else -1 for d in renamed[1]]
        return tuple([loops[d] if d >= 0 else -1 for d in dims])

    def _join_like(self, whole: Region, op: Op, region: Region) -> bool:
        """Place the loops of an op of another nest as that nest's readers in `region` do."""
        placed = self._loops_of_readers(op.out, region, whole)
        if placed is None:
            return False
        followed = [a for a in placed if a >= 0]
        if len(set(followed)) < len(followed):
            return False
        for a, n in zip(placed, op.space, strict=True):
            if (a < 0) != (n == ONE) or (a >= 0 and whole.axes[a] != n):
                return False
        self.fusion.enter(whole, op, placed)
        return True

    def _loops_of_readers(
        self, value: int, region: Region, whole: Region
    ) -> tuple[int, ...] | None:
        """Return the axes that a value's dims follow in all its readers; None if readers differ."""
        reader_axes = set()
        for place in (region, whole):
            for op in place.ops:
                for read in op.reads:
                    if self.function.base(read.value) != value:
                        continue
                    followed = self._followed(read, place.loops[op.out])
                    if followed is None:
                        return None
                    reader_axes.add(followed)
        return reader_axes.pop() if len(reader_axes) == 1 else None


def loops_of(function: Function, value: int) -> int:
    """The number of dims of a value whose extent is not known to be 1."""
    return sum(n != ONE for n in function.shape(value))
