"""Ops of a session's graph that read the state alone: computed once, and not in each call.

Exporters leave much of this behind: weights of recurrent layers in another order, weights that are
unpacked, scaled or added up. Views stay in the graph, as these cost nothing in a kernel, and so do
ops whose results are larger than what they read.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

from wend._engine.base.errors import WendError
from wend._engine.core import _hot
from wend._engine.core._hot import Value
from wend._engine.core.symbolic import evaluate
from wend._engine.transforms.exploring import running
from wend._engine.transforms.exploring.program import (
    Apply,
    Give,
    Go,
    Point,
    StaticGraph,
    Stretch,
)
from wend._frontend.autograd.grad_modes import no_grad
from wend._frontend.static.straight_parts import TypeShapes, asked_of, dims_in, uses_of

__all__ = ["Folding"]

#: A result of more elements than the operands have is folded if it has at most this many.
SMALL = 64


class Folding:
    """The ops of a graph that are computed once for a state.

    graph: the graph without these ops
    items: the ops, in order     results: the ids of the values that the graph reads
    """

    def __init__(self, graph: StaticGraph, written: Container[int]) -> None:
        """written: the ids of captured tensors that the graph writes to"""
        types: dict[int, Any] = {
            c.id: _hot.refreshed(c.tensor).type for c in graph.captured if c.id not in written
        }
        fixed: list[Apply] = []
        for _, _, stretch in graph.stretches():
            for item in stretch.items:
                if isinstance(item, Apply) and _is_fixed(item, types):
                    fixed.append(item)
        candidates = {id(item) for item in fixed}
        needed = _read_beside(graph, candidates)
        for item in reversed(fixed):
            prim: Any = item.prim
            if prim.strides is not None and not needed.isdisjoint(item.outputs):  # a view
                candidates.discard(id(item))
                needed.update(uses_of(item)[0])
        self.items = [item for item in fixed if id(item) in candidates]
        self.results = sorted(needed & {i for item in self.items for i in item.outputs})
        self.graph = _without(graph, candidates) if self.items else graph

    def values(self, state: dict[int, Value]) -> dict[int, Value]:
        """The values of the results, by id, for the values of the captured tensors."""
        if not self.results:
            return {}
        env: dict[int, Any] = {i: _hot.wrap(v) for i, v in state.items()}
        with no_grad():
            for item in self.items:
                running.apply(item, env)
        for i in self.results:
            _hot.ensure(_hot.refreshed(env[i]))
        return {i: _hot.refreshed(env[i]) for i in self.results}


def _is_fixed(item: Apply, types: dict[int, Any]) -> bool:
    """Whether an op reads the state alone; then the types of the results are put beside these."""
    ids, numbers = uses_of(item)
    prim: Any = item.prim
    if not item.inputs or numbers or prim.facts.fallible or not types.keys() >= set(ids):
        return False
    args = [evaluate(e, TypeShapes(types), {}) for e in item.args]
    try:
        _, outs = prim.typed([types[i] for i in item.inputs], args)
    except WendError:  # the user's error, if ever a call comes here
        return False
    read = sum(_elements(types[i]) for i in item.inputs)
    if any(_elements(t) > max(SMALL, read) for t in outs):
        return False
    types.update(zip(item.outputs, outs, strict=True))
    return True


def _elements(type_: Any) -> int:
    count = 1
    for n in type_.shape:
        count *= n
    return count


def _read_beside(graph: StaticGraph, items: Container[int]) -> set[int]:
    """The ids that questions, ends, and all items but these read. items: id() of each"""
    ids: set[int] = set()
    for point in graph.points:
        ids |= asked_of(point)
    for _, _, stretch in graph.stretches():
        for item in stretch.items:
            if id(item) not in items:
                ids.update(uses_of(item)[0])
        end = stretch.end
        if isinstance(end, Go):
            ids.update(end.args)
        elif isinstance(end, Give):
            ids |= {x for kind, x in end.leaves if kind == "value"}
            ids |= {value for _, value in end.writes}
            for kind, x in end.leaves:
                ids |= dims_in(x) if kind == "number" else set()
    return ids


def _without(graph: StaticGraph, items: Container[int]) -> StaticGraph:
    """A graph without some items. items: id() of each"""

    def kept(stretch: Stretch) -> Stretch:
        return Stretch([item for item in stretch.items if id(item) not in items], stretch.end)

    points = [
        Point(point.params, point.question, [kept(s) for s in point.answers], point.site)
        for point in graph.points
    ]
    return replace(graph, points=points)
