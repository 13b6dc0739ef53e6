"""The compiler's passes: functions from a value to the next, in order.

compile_path(path, needed, watch)     a generator of slices, which returns the `CompiledPath`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.compiler.emit import emit
from wend._engine.compiler.lower.path import lower_path
from wend._engine.compiler.place import place, show_memory
from wend._engine.compiler.schedule.loop_order import Nest
from wend._engine.compiler.schedule.regions import regions_of
from wend._engine.compiler.stages import CompiledPath, Fused, Inlined, Lowered, Ordered, Sliced
from wend._engine.core.graph import PathGraph


class Pass(NamedTuple):
    """A pass of the compiler.

    name: the name of the pass
    purpose: the work of the pass, in a few words
    run: takes the value of the pass before, and returns the next value, in slices
    show: returns a value of this pass as text
    """

    name: str
    purpose: str
    run: Callable[[Any], Sliced[Any]]
    show: Callable[[Any], str]


#: Called with each pass and its value.
Watch = Callable[[Pass, Any], None]


def inline(inlined: Inlined) -> Sliced[Inlined]:
    """Return the path as it is: `PathGraph` has expanded composites and backward passes."""
    assert not inlined.path.short, "the path keeps composites whole"
    yield
    return inlined


def lower(inlined: Inlined) -> Sliced[Lowered]:
    """Return the loops of all nodes; equal nodes are merged, and views become strides."""
    function = yield from lower_path(inlined.path, inlined.needed)
    function.seal()
    return Lowered(inlined.path, inlined.needed, function)


def fuse(lowered: Lowered) -> Sliced[Fused]:
    """Return the ops sorted into regions."""
    regions = yield from regions_of(lowered.function)
    return Fused(lowered.path, lowered.needed, lowered.function, tuple(regions))


def order(fused: Fused) -> Sliced[Ordered]:
    """Return the order of loops and the phases of each region that is a nest."""
    nests = {}
    for region in fused.regions:
        if region.kind == "nest" and region.ops:
            nests[region.number] = Nest(fused.function, region)
            yield
    return Ordered(fused.path, fused.needed, fused.function, fused.regions, nests)


def lines(items: Any) -> str:
    """Return the items, each on a line."""
    return "\n".join(map(repr, items))


PASSES = (
    Pass(
        "inline", "what was recorded, composites and backward passes expanded", inline,
        lambda inlined: lines(inlined.path.nodes[: inlined.path.n_nodes]),
    ),
    Pass(
        "lower", "loops; equal ops merged; views as strides", lower,
        lambda lowered: repr(lowered.function),
    ),
    Pass("fuse", "ops that share a loop nest", fuse, lambda fused: lines(fused.regions)),
    Pass(
        "nest", "order of loops, phases of rows", order,
        lambda ordered: lines(ordered.nests.values()),
    ),
    Pass("emit", "kernels and host steps", emit, lambda emitted: lines(emitted.steps)),
    Pass("memory", "lifetimes, donation", place, show_memory),
)  # fmt: skip


def compile_path(
    path: PathGraph, needed: frozenset[int], watch: Watch | None = None
) -> Sliced[CompiledPath]:
    """Run all passes, in slices of an op, a nest or a kernel.

    path: the nodes to compile
    needed: the values to compute
    watch: called after each pass
    """
    value: Any = Inlined(path, needed)
    for one in PASSES:
        value = yield from one.run(value)
        if watch is not None:
            watch(one, value)
    return value  # type: ignore[no-any-return]
