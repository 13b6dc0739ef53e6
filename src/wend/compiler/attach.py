"""Which elementwise ops become the tail of a product: computed on its tiles, not by a nest.

An op joins if it goes along the product's own loops, and if that saves memory traffic: what only
leads to sums is left to the nest that sums it up, and so is what a nest can as well compute from
a product that has to be stored anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wend.compiler.ir import MAP, NESTED, Op
from wend.compiler.regions import Region
from wend.compiler.tails import HEADS, Tail, is_tail_op

if TYPE_CHECKING:
    from wend.compiler.fuse import Fusion

__all__ = ["Attachment"]


class Attachment:
    """Puts ops behind products while regions are formed."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.function = function = fusion.function
        self.needed = {function.base(function.resolve(i)) for i in function.outputs}
        self.users: dict[int, list[Op]] = {}
        for op in function.ops:
            for base in {function.base(read.value) for read in op.reads}:
                self.users.setdefault(base, []).append(op)
        self.only_summed: set[int] = set()  # values that only lead to folds
        self.ends: set[int] = set()  # values stored for a product or the outside, and not folded
        self.look_ahead()

    def run(self, op: Op) -> bool:
        """Let an op join the tail of a product whose elements it reads, if that pays."""
        fusion, function = self.fusion, self.function
        if not is_tail_op(function, op):
            return False
        homes: list[Region] = []
        for read in op.reads:
            home = fusion.home.get(function.base(read.value))
            if home is not None and home.kind in HEADS and home not in homes:
                homes.append(home)
        if not homes or op.out in self.only_summed:
            return False
        homes.sort(key=lambda region: -region.number)
        for region in homes:
            may = region.places and fusion.may_join(region, op) and self.pays(region, op)
            if may and self.join(region, op):
                fusion.settle(region, op)
                return True
        return False

    def join(self, region: Region, op: Op) -> bool:
        """Add an op to a tail if it fits; else leave the region as it was."""
        before = (list(region.ops), dict(region.loops), dict(region.places))
        axes = list(region.axes)
        joined = self.fusion.join(region, op, True) and region.axes == axes
        if joined and Tail(self.function, region).fits:
            return True
        region.ops, region.loops, region.places = before
        region.axes = axes
        return False

    # -- what pays ------------------------------------------------------------------------------

    def pays(self, region: Region, op: Op) -> bool:
        """Whether an op saves more behind the product than in a nest."""
        function = self.function
        for read in op.reads:
            base = function.base(read.value)
            if base in function.inputs and self.is_whole(base, op):
                return False  # a nest may write into the memory of such a leaf
        stored = any(
            self.is_stored(base)
            for base in (function.base(read.value) for read in op.reads)
            if base in region.places
        )
        return not stored or op.out in self.ends

    def is_whole(self, base: int, op: Op) -> bool:
        """Whether a value is as large as the op's result."""
        shape = self.function.shape(base)
        return len(shape) == len(op.space) and tuple(shape) == tuple(op.space)

    def is_stored(self, value: int) -> bool:
        """Whether a product's element is stored for somebody else than its tail."""
        return value in self.needed or any(op.kind != MAP for op in self.users.get(value, ()))

    def look_ahead(self) -> None:
        """Note what only leads to folds, and what is stored for products or the outside."""
        for op in reversed(self.function.ops):
            users = self.users.get(op.out, ())
            needed = op.out in self.needed
            maps = [user for user in users if user.kind == MAP]
            folds = [user for user in users if user.kind != MAP and user.kind in NESTED]
            summed = bool(folds) and len(folds) == len(users)
            alone = len(maps) == len(users) == 1 and maps[0].out in self.only_summed
            if not needed and (summed or alone):
                self.only_summed.add(op.out)
            others = len(maps) + len(folds) < len(users)
            if not folds and (needed or others or any(user.out in self.ends for user in maps)):
                self.ends.add(op.out)
