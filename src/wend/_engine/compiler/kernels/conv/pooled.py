"""Finds poolings that a convolution can do (see `winograd.pool`), and sets the words for them.

Evaluation of a digit classifier takes 0.88 of the time, images of `examples/sizes.py` 0.83: see
decision 020.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from wend._engine.base import dtypes
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import CONVOLVE, WINDOWS, Function, Op
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Poly, known, mul
from wend._engine.compiler.kernels.conv import forward
from wend._engine.compiler.kernels.conv.winograd.pool import POOL
from wend._engine.compiler.kernels.pooling import window_words
from wend._engine.compiler.schedule.epilogue_ops import Tail, head_of
from wend._engine.compiler.schedule.fusion_group import Region


class Pooled:
    """The poolings of a function that convolutions may do.

    function: the function of the path; grows by a value for each flag
    flags: the value of a pooling's greatest elements -> the value of the pooling's flag
    needed: the values that the function returns
    users: the value of a buffer -> the ops that read it
    """

    def __init__(self, function: Function, regions: Sequence[Region]) -> None:
        self.function, self.regions = function, regions
        self.flags: dict[int, int] = {}

    @cached_property
    def needed(self) -> set[int]:
        f = self.function
        return {f.base(f.resolve(i)) for i in f.outputs}

    @cached_property
    def users(self) -> dict[int, list[Op]]:
        f, users = self.function, dict[int, list[Op]]()
        for region in self.regions:
            for op in region.ops:
                for base in {f.base(read.value) for read in op.reads}:
                    users.setdefault(base, []).append(op)
        return users

    def add(self, kernel: Kernel, region: Region, tail: Tail | None) -> None:
        """Let the kernel of a region with a convolution pool its result, if that is possible.

        tail: the elementwise ops fused behind the convolution, or None
        """
        f = self.function
        op = self.pooling_of(region)
        if op is None:
            return
        values, place = op.outputs[0], len(kernel.slots)
        state, words = Slot("word", 0), list[Slot]()
        if tail is not None:
            pooled_words = self.words_of(
                tail, kernel.slots[len(kernel.words) :], region.outputs[0], values
            )
            if pooled_words is None:
                return
            state, words = Slot("block", place + len(POOL)), pooled_words
        self.function, flag = f.extended((ONE,), dtypes.int64)
        self.flags[values] = flag
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
        """Return the pooling that alone reads the result of a region with a convolution, or None.

        None also where the convolution cannot do the pooling.
        """
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
        ordered = all(other.node.prim.facts.rises for other in region.ops if other is not head)
        return op if fits and alike and ordered else None

    def is_used(self, value: int) -> bool:
        """Whether any op reads a value, or the function returns the value."""
        return value in self.needed or value in self.users

    def words_of(
        self, tail: Tail, tail_words: list[Slot], out: int, values: int
    ) -> list[Slot] | None:
        """Return a tail's words for pooled columns, with new addresses and strides, or None.

        None means that the strides do not tell which words to replace.

        tail_words: the tail's words
        out: the value that the tail stores
        values: the value of the pooling's result, stored instead
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
        pooled_words = []
        for slot in tail_words:
            if slot.kind == "pointer" and slot.a == out:
                slot = slot._replace(a=values)
            elif slot.kind == "extent":
                slot = slot._replace(a=moved.get(slot.a, slot.a))
            pooled_words.append(slot)
        return pooled_words
