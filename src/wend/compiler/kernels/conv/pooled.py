"""Which poolings a convolution does (see `winograd.pool`), and what both are told."""

from __future__ import annotations

from wend.base import dtypes
from wend.compiler.ir.kernel import Kernel, Slot
from wend.compiler.ir.loops import CONVOLVE, WINDOWS, Function, Op
from wend.compiler.ir.symbolic_extents import ONE, ZERO, Poly, known, mul
from wend.compiler.kernels.conv import forward
from wend.compiler.kernels.pooling import window_words
from wend.compiler.schedule.epilogue_ops import Tail, head_of
from wend.compiler.schedule.fusion_group import Region

__all__ = ["Pooled"]


class Pooled:
    """The poolings of a function that convolutions may do.

    flags: greatest elements -> the value in which it is noted whether they are there already
    """

    def __init__(self, function: Function, regions: list[Region]) -> None:
        self.function = function
        self.flags: dict[int, int] = {}
        self.needed = {function.base(function.resolve(i)) for i in function.outputs}
        self.users: dict[int, list[Op]] = {}
        for region in regions:
            for op in region.ops:
                for base in {function.base(read.value) for read in op.reads}:
                    self.users.setdefault(base, []).append(op)

    def add(self, kernel: Kernel, region: Region, tail: Tail | None) -> None:
        """Let the kernel of a region with a convolution pool what it makes, if that is possible."""
        f = self.function
        op = self.pooling_of(region)
        if op is None:
            return
        values, place = op.outputs[0], len(kernel.slots)
        state, words = Slot("word", 0), list[Slot]()
        if tail is not None:
            found = self.words_of(
                tail, kernel.slots[len(kernel.words) :], region.outputs[0], values
            )
            if found is None:
                return
            state, words = Slot("block", place + len(forward.POOL)), found
        flag = self.flags[values] = f.fresh((ONE,), dtypes.int64)
        kernel.slots[kernel.words.index("pool")] = Slot("block", place)
        kernel.slots += [
            Slot("pointer", flag, ZERO),
            Slot("pointer", values, ZERO),
            state,
            *(Slot("extent", n) for n in f.shape(values)[2:]),
            *(Slot("extent", n) for n in window_words(f, op)),
            *words,
        ]
        kernel.writes = [*kernel.writes, flag, values]
        kernel.what += " pooled"

    def pooling_of(self, region: Region) -> Op | None:
        """The only one who reads what a convolution, or its tail, makes, if it can pool that."""
        f = self.function
        head = head_of(region)
        if head.kind != CONVOLVE or head.name != "convolve" or len(region.outputs) != 1:
            return None
        (out,) = region.outputs
        dtype, users = f.dtypes[out], self.users.get(out, [])
        if out in self.needed or len(users) != 1 or users[0].kind != WINDOWS:
            return None
        (op,) = users
        fits = op.name == "max_windows" and len(f.shape(out)) == 4 and len(op.node.args) == 10
        fits = fits and op.reads[0].value == out and not self.is_used(op.outputs[1])
        alike = dtype is f.dtypes[head.out] and forward.pools(dtype.name)
        ordered = all(other.node.prim.rises for other in region.ops if other is not head)
        return op if fits and alike and ordered else None

    def is_used(self, value: int) -> bool:
        """Whether anybody wants a value."""
        return value in self.needed or value in self.users

    def words_of(self, tail: Tail, given: list[Slot], out: int, values: int) -> list[Slot] | None:
        """A tail's words for columns of what is pooled: other addresses and strides, if they tell.

        given: its words     out: what it stores
        """
        f = self.function
        if any(access.strides[-1] != ZERO for access in tail.loads.values()):
            return None
        image, channel, *_ = f.layout(values).strides
        group = mul(f.filters_of_group(tail.head), channel)
        moved: dict[Poly, Poly] = {}
        for old, new in zip(tail.stores[out].strides, (image, group, channel, ONE), strict=True):
            if old not in (ZERO, ONE):
                stride = f.extents.canonical(new)
                if known(old) is not None or moved.setdefault(old, stride) != stride:
                    return None
        if any(n in moved for access in tail.loads.values() for n in access.strides):
            return None
        found = []
        for slot in given:
            if slot.kind == "pointer" and slot.a == out:
                slot = slot._replace(a=values)
            elif slot.kind == "extent":
                slot = slot._replace(a=moved.get(slot.a, slot.a))
            found.append(slot)
        return found
