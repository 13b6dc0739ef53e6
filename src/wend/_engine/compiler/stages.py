"""The values that passes hand on: a path, and what each pass adds to it.

Each value is complete and is not changed by later passes. A pass is a function from a value to the
next that works in slices: a generator, whose return value is the result.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from wend._engine.base.collecting import CollectionPaused
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.ir.symbolic_extents import Poly
from wend._engine.compiler.schedule.buffer_reuse import Life
from wend._engine.compiler.schedule.fusion_group import Region
from wend._engine.compiler.schedule.loop_order import Nest
from wend._engine.core.graph import PathGraph

T = TypeVar("T")
#: Work in slices: the caller decides when the next slice begins.
Sliced = Generator[None, None, T]


def finished(work: Sliced[T]) -> T:
    """Do all slices now; return the result."""
    with CollectionPaused():
        while True:
            try:
                next(work)
            except StopIteration as end:  # the work is done
                return end.value  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Inlined:
    """A path with composites and backward passes expanded.

    path: the nodes     needed: the values to compute
    """

    path: PathGraph
    needed: frozenset[int]


@dataclass(frozen=True)
class Lowered(Inlined):
    """function: the loops of each op, in the order of recording"""

    function: Function


@dataclass(frozen=True)
class Fused(Lowered):
    """regions: the ops that share a loop nest or are a step by themselves, in the order to run"""

    regions: tuple[Region, ...]


@dataclass(frozen=True)
class Ordered(Fused):
    """nests: the loops of the regions that are nests, by number of the region"""

    nests: Mapping[int, Nest]


@dataclass(frozen=True)
class Emitted(Ordered):
    """Code for each region.

    steps: kernels and host steps, in the order to run
    nonempty: groups of extents; kernels run only if no extent is 0
    """

    steps: tuple[Kernel | Op, ...]
    nonempty: tuple[tuple[Poly, ...], ...]


@dataclass(frozen=True)
class CompiledPath(Emitted):
    """The steps, memory and results of a path, for all sizes.

    results: how each needed value is handed out
    lifetimes: (bytes, first step, last step) of each temporary with memory of its own
    homes: temporary -> the temporary in whose memory the first lies
    last_read: value -> the last step that reads the value
    donations: result -> leaf over whose memory the result may be written
    barrier: the first step that writes over a leaf; the number of steps if there is none
    spent: first result of a host step -> the operand that the step may write over
    """

    results: tuple[Result, ...]
    lifetimes: Mapping[int, Life]
    homes: Mapping[int, int]
    last_read: Mapping[int, int]
    donations: Mapping[int, int]
    barrier: int
    spent: Mapping[int, int]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.steps))


class Result:
    """A value that outlives the plan: an array of its own, or a view of another array."""

    __slots__ = ("base", "dtype", "offset", "owns", "shape", "strides", "value")

    def __init__(self, value: int, base: int, owns: bool, function: Function) -> None:
        source = function.resolve(value)
        layout = function.layout(source)
        self.value = value
        self.base = base
        self.owns = owns
        self.shape = function.shape(source)
        self.strides = layout.strides
        self.offset = layout.offset
        self.dtype = function.dtypes[source]
