"""Epilogue fusion: assigns elementwise ops to the tail of a product, which runs on its tiles.

All ops are assigned before regions are formed. An op belongs to the latest product that leads to
the op through elementwise ops. If the op is needed earlier, the op belongs to an earlier product.
So an op that only the backward pass uses is computed behind a backward product, even if the op
follows a forward product. An exception is an op that shares its work with an op of the forward
product. Ops of a tail that only nests use are left to the nests if that saves memory traffic.
"""

from __future__ import annotations

from wend._engine.compiler.ir.loops import NESTED, Op
from wend._engine.compiler.schedule.epilogue_ops import is_tail_op, may_have_tail, tail_of
from wend._engine.compiler.schedule.fuse import Fusion
from wend._engine.compiler.schedule.fusion_group import Region

# Ops that cost little beside another op of the same operand, by name: op -> that second op.
_SHARED = {"normal_slope": "normal_gate"}


class Attachment:
    """Puts ops behind products while regions are formed."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.function = function = fusion.function
        self.needed = {function.base(function.resolve(i)) for i in function.outputs}
        self.users: dict[int, list[Op]] = {}
        self.head: dict[int, Op] = {}  # result of an op -> the product that it belongs to
        if not any(map(may_have_tail, function.ops)):
            return
        self.sources = {id(op): {function.base(r.value) for r in op.reads} for op in function.ops}
        for op in function.ops:
            for base in self.sources[id(op)]:
                self.users.setdefault(base, []).append(op)
        self.find_heads()
        self.share_work()
        self.leave_to_nests()

    # -- before regions are formed --------------------------------------------------------------

    def find_heads(self) -> None:
        """Find the product that each elementwise op belongs to."""
        latest: dict[int, Op] = {}
        behind: dict[int, int] = {}  # a bit for each product that leads to a value by a fold, say
        bits: dict[int, int] = {}
        # Leaves, and values made of leaves element by element: a nest may reuse a leaf's memory.
        owned = set(self.function.inputs)
        for op in self.function.ops:
            apart, sources, out = 0, self.sources[id(op)], op.out
            for i in sources:
                apart |= behind.get(i, 0)
            if may_have_tail(op):
                latest[out] = op
                bits[out] = 1 << len(bits)
            heads = [latest[i] for i in sources if i in latest]
            if not is_tail_op(self.function, op):
                for head in heads:
                    apart |= bits[head.out]
                behind[out] = apart
                continue
            if any(i in owned and self.is_whole(i, op) for i in sources):
                owned.add(out)
                continue
            if heads:
                head = heads[0] if len(heads) == 1 else max(heads, key=self.place_of)
                if apart & bits[head.out]:  # it reads a value that needs the whole product first
                    for head in heads:
                        apart |= bits[head.out]
                else:
                    latest[out] = head
            behind[out] = apart
        for op in reversed(self.function.ops):
            if may_have_tail(op) or op.out not in latest:
                continue
            heads = [
                self.head[user.out] for user in self.users.get(op.out, ()) if user.out in self.head
            ]
            early = op.out in self.needed or len(heads) < len(self.users.get(op.out, ()))
            heads += [latest[op.out]] if early or not heads else []
            self.head[op.out] = min(heads, key=self.place_of)

    def place_of(self, op: Op) -> int:
        """Return the place of an op in the order of recording."""
        return self.fusion.order[id(op)]

    def share_work(self) -> None:
        """Move ops to the tail of the op whose work they share: stored instead of their operand."""
        for op in self.function.ops:
            other = _SHARED.get(op.name)
            if other is None or op.out not in self.head:
                continue
            (operand,) = self.sources[id(op)]
            users = [user for user in self.users[operand] if user is not op]
            heads = {id(self.head.get(user.out)) for user in users}
            if operand in self.needed or len(heads) > 1 or self.is_smaller(operand, op.out):
                continue
            for user in users:
                if user.name == other and user.out in self.head:
                    self.head[op.out] = self.head[user.out]

    def is_smaller(self, value: int, other: int) -> bool:
        """Whether elements of a value take less memory than those of another value."""
        dtypes = self.function.dtypes
        return dtypes[value].itemsize < dtypes[other].itemsize

    def is_whole(self, value: int, op: Op) -> bool:
        """Whether a value is as large as the op's result."""
        return tuple(self.function.shape(value)) == tuple(op.space)

    def leave_to_nests(self) -> None:
        """Remove ops from tails if they would make a product store more values."""
        tails: dict[int, list[Op]] = {}
        for op in self.function.ops:
            if op.out in self.head:
                tails.setdefault(self.head[op.out].out, []).append(op)
        for head, tail in tails.items():
            whole = {head, *(op.out for op in tail)}
            rest = set(whole)
            for op in reversed(tail):
                users = self.users.get(op.out, ())
                nested = all(user.kind in NESTED for user in users)
                if nested and op.out not in self.needed and not any(u.out in rest for u in users):
                    rest.discard(op.out)
            if self.stored(rest) < self.stored(whole):
                for value in whole - rest - {head}:
                    del self.head[value]

    def stored(self, values: set[int]) -> int:
        """The number of a tail's values that must be stored, because other ops read them."""
        return sum(
            v in self.needed or any(user.out not in values for user in self.users.get(v, ()))
            for v in values
        )

    # -- while they are formed ------------------------------------------------------------------

    def run(self, op: Op) -> bool:
        """Let an op join the tail of its product, if possible. Returns whether the op joined."""
        fusion = self.fusion
        head = self.head.get(op.out)
        region = None if head is None else fusion.home.get(head.out)
        if region is None or not fusion.may_join(region, op) or not self.join(region, op):
            return False
        fusion.settle(region, op)
        return True

    def join(self, region: Region, op: Op) -> bool:
        """Add an op to a tail if the op fits, else leave the region unchanged.

        Returns whether the op was added.
        """
        tail = tail_of(self.function, region)
        if not tail.fits:
            return False
        axes = region.axes
        if not self.fusion.join(region, op, True):
            return False
        if region.axes == axes:
            tail.add(region, op)
            if tail.fits:
                region.tail = tail
                return True
            tail.take_back()
        region.ops.remove(op)
        del region.loops[op.out], region.places[op.out]
        region.axes = axes
        return False
