"""Backward through a region: the pending trace, or a segment that a flush has left.

Ids are the same in both: if users' code flushes the trace in the middle of a walk, the walk goes on
in the segment made by that flush.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import GraphError
from wend._engine.core import _backward, _hot, _types
from wend._engine.core._backward import StepPrimitive
from wend._engine.core._hot import Segment, State, Tensor, Trace, Value
from wend._engine.core._select import is_compiled
from wend._engine.core._types import Program, TensorType
from wend._engine.core.graph import Expander, Node, PathGraph, Step, alone, path_at
from wend._engine.core.primitive import Primitive, ops
from wend._engine.core.whole import one_at_a_time
from wend._engine.ops.placing import full_at
from wend._engine.transforms.differentiate import (
    END,
    Differentiator,
    Layered,
    Part,
    SegmentStep,
    entries_met,
    finish,
    history_flags,
    segment_step,
    survey,
)
from wend._engine.transforms.hooks import Extra
from wend._engine.transforms.pass_context import PassContext
from wend._engine.transforms.quick import (
    NOTHING,
    cut,
    identified,
    release,
    spent_union,
    take_step,
)
from wend._engine.transforms.reach import id_in, settle_ready
from wend._engine.transforms.stops import stops_of

_STEPS: dict[Any, StepPrimitive] = {}

#: In the uncompiled core each step waits for a turn, and other threads may flush the trace
#: meanwhile. A thread that has the turn already does not wait.
_TAKES_TURNS = not is_compiled(_hot)


def step_primitive(key: object, differentiable: bool) -> StepPrimitive:
    """The interned step with this key."""
    full = (key, differentiable)
    step = _STEPS.get(full)
    if step is None:
        if len(_STEPS) > 20_000:
            _STEPS.clear()
        step = _STEPS[full] = StepPrimitive("backward", key)
        step.is_differentiable = differentiable
    return step


class Walk:
    """A backward pass through a region.

    anchor: a live root; it leads to the segment if the trace is flushed meanwhile
    segment: None for the pending trace
    """

    def __init__(self, owner: PassContext, anchor: Value | None, segment: Segment | None) -> None:
        self.owner = owner
        self.trace = owner.trace
        self.anchor = anchor
        self.segment = segment
        self.serial = self.trace.serial
        self.path = path_of(self.trace) if segment is None else segment.structure
        self.simple: tuple[State, int, StepPrimitive] | None = None
        self.steps = 0

    # -- the region -------------------------------------------------------------------------

    def follow(self) -> None:
        """Go on in the segment that the trace has become, if the trace has been flushed."""
        if self.segment is not None or self.trace.serial == self.serial:
            return
        assert self.anchor is not None
        self.segment = self.anchor.segment
        if self.segment is None:
            raise self.anchor.error or GraphError("backward: the graph was lost in a flush")
        self.path = self.segment.structure
        self.survey = survey(self.path, self.survey_key[0], self.survey_key[1])

    def value_at(self, i: int) -> Value:
        """The value behind an entry of the region, with the gradient identity."""
        values = self.trace.values if self.segment is None else self.segment.inputs
        value: Value = values[i]
        return value

    def extras(self) -> dict[int, Extra]:
        """Users' hooks and functions on the region's values."""
        by_id = self.trace.extra if self.segment is None else self.segment.hooks
        return by_id or {}

    def entries(self, seeds: tuple[int, ...]) -> list[int]:
        """Leaves and values of earlier segments that may get gradients from the seeds'."""
        useful = self.owner.useful
        if useful is not None:
            key = 0 if self.segment is None else id(self.segment)
            return sorted(i for i in useful.get(key, ()) if self.path.position(i) < 0)
        return usable_entries(self.path, seeds, self.value_at)

    def sinks(self) -> dict[int, list[Any]]:
        """Who wants the gradients of which values in the middle of the region."""
        by_id: dict[int, list[Any]] = {}
        useful = self.owner.useful
        met = None if useful is None else useful.get(id(self.segment) if self.segment else 0, ())
        for value, sink in self.owner.sinks:
            i = id_in(value, self.trace, self.segment)
            if i is not None and (met is None or i in met):
                by_id.setdefault(i, []).append(sink)
        return by_id

    # -- walking ----------------------------------------------------------------------------

    def run(self, seeds: dict[int, Any]) -> None:
        """seeds: gradient (None for ones) by id."""
        self.kept = self.sinks() if self.owner.sinks else {}
        self.kept_ids = frozenset(self.kept)
        order = tuple(sorted(seeds))
        targets = self.entries(order)
        if self.kept:
            targets = sorted({*targets, *self.kept})
        self.survey_key = (order, tuple(targets))
        self.survey = survey(self.path, *self.survey_key)
        if self.owner.useful is not None:
            seeds = {i: g for i, g in seeds.items() if i in self.survey.active}
        high = END
        stops = self.stops() if self.owner.anomaly or self.extras() else []
        for stop in stops:
            self.stretch(seeds, high, stop.at)
            settle_ready(self.owner, self.path, self.value_at, self.segment, stop.at)
            high = stop.visit(self, seeds)
            self.follow()
        self.stretch(seeds, high, 0)
        settle_ready(self.owner, self.path, self.value_at, self.segment, 0)
        if self.segment is not None and not self.owner.retain:
            release(self.segment)

    def stretch(self, seeds: dict[int, Any], high: int, low: int) -> None:
        """Push the seeds made in low <= position < high back to the values before `low`."""
        if not seeds:
            return
        position = self.path.position
        order = tuple(sorted([i for i in seeds if low <= position(i) < high]))
        if order:
            mine = {i: seeds.pop(i) for i in order}
            for t, g in self.step(order, mine, high, low):
                self.deliver(t, g, seeds, low)

    def deliver(self, t: int, g: Tensor, seeds: dict[int, Any], low: int) -> None:
        """Hand over the gradient of a target."""
        at = self.path.position(t)
        if at < 0:
            self.owner.contribute(self.value_at(t), g)
        elif at >= low:
            for sink in self.kept[t]:
                sink(g)
        else:
            have = seeds.get(t)
            seeds[t] = g if have is None else have + g
        self.follow()

    def step(
        self, order: tuple[int, ...], seeds: dict[int, Any], high: int, low: int
    ) -> list[tuple[int, Any]]:
        """Record a stretch as a step; returns (id, gradient) pairs, latest entries first."""
        self.steps += 1
        if self.owner.anomaly:
            seeds = {i: self.explicit(i, g) for i, g in seeds.items()}
        if _hot.several():
            self.compute_foreign(seeds)
        with one_at_a_time() if _TAKES_TURNS else nullcontext():
            self.follow()  # the trace may have been flushed during a wait
            part = self.survey.part(self.path, order, high, low, self.kept_ids)
            if part is None:
                return []
            if self.segment is None:
                pairs = self.pending_step(order, seeds, part, high, low)
            else:
                pairs = self.held_step(order, seeds, part, high, low)
        self.follow()
        pairs.reverse()
        return pairs

    def compute_foreign(self, seeds: dict[int, Any]) -> None:
        """Compute the gradients pending in another thread: a step does not wait for threads."""
        for g in seeds.values():
            if g is not None and _hot.value_of(g).trace is not self.trace:
                _hot.ensure(_hot.value_of(g))

    def explicit(self, i: int, g: Tensor | None) -> Any:
        """A seed as a tensor."""
        if g is not None:
            return g
        value = self.trace.values[i] if self.segment is None else None
        type_ = value.type if value is not None else self.segment.types[i]  # type: ignore[union-attr]
        return full_at(type_.device, tuple(type_.shape), 1.0, type_.dtype)

    # -- steps ------------------------------------------------------------------------------

    def pending_step(
        self, order: tuple[int, ...], seeds: dict[int, Any], part: Part, high: int, low: int
    ) -> list[tuple[int, Any]]:
        """A stretch of the trace's own backward pass."""
        trace, owner = self.trace, self.owner
        explicit = tuple([i for i in order if seeds[i] is not None])
        key = (order, explicit, part.targets, high, low, owner.retain)
        prim = step_primitive(key, owner.create)
        whole = alone(trace.state) and not owner.create

        kept, create, retain = self.kept_ids, owner.create, owner.retain
        stretch = (self.survey_key, order, high, low, kept)

        def build(first: int, indices: list[int], arg0: int) -> Step:
            more = (explicit, indices, first, create, retain, whole)
            path = path_of(trace)
            with CollectionPaused():
                step = backward_step(path, part, order, *more)
            if not create:
                step.remake = partial(remade, stretch=stretch, more=more)
            return step

        values = trace.values
        outs = [values[t].type if t >= 0 else self.type_of(t) for t in part.targets]
        leaves = None
        if high == END and low == 0 and not explicit and len(order) == 1 and not self.kept_ids:
            leaves = self.plain_leaves(order, part.targets)
        operands = [_hot.value_of(seeds[i]) for i in explicit]
        states = trace.states
        grads = _backward.record_step(trace, prim, list(order), operands, None, outs, build, leaves)
        if leaves is not None and states is trace.states:
            self.simple = (states[-1], order[0], prim)
        if owner.create:
            cut(states[-1].step.flags, grads)
        return list(zip(part.targets, grads))

    def plain_leaves(self, seeds: tuple[int, ...], targets: tuple[int, ...]) -> list[int] | None:
        """The targets, if every leaf that the seeds depend on takes part."""
        values = self.trace.values
        for i, role in entries_met(self.path, seeds):
            leaf = values[i].leaf
            if role == 1 and (leaf is None or not leaf.requires_grad):
                return None
        return list(targets)

    def held_step(
        self, order: tuple[int, ...], seeds: dict[int, Any], part: Part, high: int, low: int
    ) -> list[tuple[int, Any]]:
        """A stretch of a segment's backward pass, on saved values."""
        owner, segment = self.owner, self.segment
        assert segment is not None
        path: PathGraph = self.path
        spent = segment.spent or NOTHING
        key = ("step", self.survey_key, order, high, low, self.kept_ids, owner.create, spent)
        step: SegmentStep | None = path.caches.get(key)
        if step is None:
            spent_ids = path.spent | spent if spent else path.spent
            step = segment_step(path, part, order, owner.create, spent_ids)
            path.caches[key] = step
        operands = [_hot.value_of(self.explicit(i, seeds[i])) for i in order]
        pairs = take_step(owner, segment, step, operands)
        if not owner.retain:
            segment.spent = spent_union(path, spent, step.spent)
        return pairs

    def saved(self, i: int) -> Value:
        """A value that the segment kept, with the gradient identity if that is asked for."""
        segment = self.segment
        assert segment is not None
        if self.owner.create:
            return identified(segment, i)
        type_, buffer = segment.saved[i]
        value: Value = _hot.held(type_, buffer)
        return value

    def tensor_of(self, i: int, data: Value) -> Tensor:
        """The value `i` of the region, equal to `data`, with the gradient identity."""
        if self.segment is None:
            return _hot.wrap(self.trace.values[i])
        if not self.owner.create:
            return _hot.wrap(data)
        return _hot.wrap(_hot.held_in_segment(data.type, _hot.ensure(data), self.segment, i))

    def type_of(self, i: int) -> TensorType:
        """The type of a temporary of the pending trace, for the sizes at hand."""
        types = [v.type for v in self.trace.values]
        shape = tuple([_types.evaluate(e, types, self.trace.args) for e in self.path.shape_of(i)])
        return _types.intern_type(shape, self.path.dtype_of(i), types[0].device)

    # -- users' code ------------------------------------------------------------------------

    def stops(self) -> list[Any]:
        """Where users' code must be called, latest first."""
        return stops_of(self)

    def state_range(self, k: int) -> tuple[int, int, tuple[int, ...]]:
        """(start, end, result ids) of the op that node `k` belongs to."""
        path = self.path
        s = path.state_at(k)
        state = path.states[s]
        if state.is_step:
            return k, k + 1, path.nodes[k].outputs
        start = path.node_of_state[s]
        end = start + len(path.nodes_of(s))
        return start, end, tuple(range(state.first, state.first + state.n_out))


def backward_step(
    path: PathGraph,
    part: Part,
    order: tuple[int, ...],
    explicit: tuple[int, ...],
    indices: list[int],
    first: int,
    create: bool,
    retain: bool,
    whole: bool,
) -> Step:
    """A stretch of a trace's backward pass as nodes behind the path.

    explicit: those of the seeds `order` whose gradients are operands, the last of `indices`; all
    further gradients are ones     first: id of the first result
    """
    expander = Expander(path.inner, Layered(path.shapes))
    differ = Differentiator(path, expander, create, whole)
    handed = dict(zip(explicit, indices[len(order) :], strict=True))
    for i in order:
        differ.add(i, handed[i] if i in handed else _ones(expander, path, i))
    differ.run(part.rules, path.spent)
    spent = NOTHING if retain else frozenset(differ.visited)
    step = finish(differ, part.targets, first, spent)
    if create:
        step.flags = history_flags(path, step, range(first, first + len(part.targets)))
    return step


def remade(path: PathGraph, stretch: tuple[Any, ...], more: tuple[Any, ...]) -> Step:
    """The same step again."""
    key, order, high, low, kept = stretch
    part = survey(path, *key).part(path, order, high, low, kept)
    assert part is not None
    return backward_step(path, part, order, *more)


def walk_of_segment(owner: PassContext, segment: Segment) -> Walk:
    """A walk through the values that an earlier flush computed."""
    return Walk(owner, None, segment)


def path_of(trace: Trace) -> PathGraph:
    """The graph of the pending trace."""
    return path_at(trace.states, trace.values, trace.args)


def _ones(expander: Expander, path: PathGraph, i: int) -> int:
    """A gradient of ones for the root `i`."""
    prim, program = fill_program(path.dtype_of(i), len(path.shape_of(i)))
    out = expander.temporary(path.shape_of(i), path.dtype_of(i))
    expander.nodes.append(Node(prim, program, (i,), (out,), (1.0,), False))
    return out


_FILL: dict[Any, Any] = {}


def fill_program(dtype: DType, rank: int) -> tuple[Primitive, Program]:
    """(primitive, program) of a tensor like another, filled with a number."""
    entry = _FILL.get((dtype, rank))
    if entry is None:
        from wend._engine.base.devices import CPU

        prim = ops.fill_like.primitive.of(("T", ("N", 2)))
        type_ = _types.intern_type((2,) * rank, dtype, CPU)
        entry = _FILL[(dtype, rank)] = (prim, prim.typed([type_], [1.0])[0])
    return entry


def usable_entries(
    path: PathGraph, seeds: tuple[int, ...], value_at: Callable[[int], Value]
) -> list[int]:
    """Entries behind the seeds that require grad still; leaves are asked in each pass."""
    out = []
    for i, role in entries_met(path, seeds):
        if role == 2:
            out.append(i)
        else:
            leaf = value_at(i).leaf
            if leaf is not None and leaf.requires_grad:
                out.append(i)
    return out
