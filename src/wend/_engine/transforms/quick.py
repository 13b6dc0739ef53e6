"""The backward pass of a whole segment as one step: taken where no users' code is called.

The step also adds the gradients that leaves have got from later segments, so that nothing else is
recorded per segment.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from wend._engine.base.errors import GraphError
from wend._engine.core import _backward, _hot, _types
from wend._engine.core._hot import Segment, Value
from wend._engine.core._types import TensorType
from wend._engine.core.graph import Expander, Graph, PathGraph, Step, alone
from wend._engine.core.symbolic import ARG
from wend._engine.transforms.differentiate import (
    END,
    FREED,
    Layered,
    Part,
    SegmentStep,
    differentiable_ids,
    history_flags,
    segment_step,
    still_needed,
    survey,
)
from wend._engine.transforms.hooks import made_of_parts
from wend._engine.transforms.pass_context import PassContext

NOTHING: frozenset[int] = frozenset()


#: Called with (serial of the trace, position, segment) for each step that is recorded.
WATCHERS: list[Callable[[int, int, Segment], None]] = []

#: Forms of a segment's backward pass that are kept (which leaves have got gradients already).
MOST_KNOWN = 8


class KnownPass(NamedTuple):
    """A segment's backward pass as it was once recorded alone: the launcher runs the pass from then
    on.

    The order of the fields is known to `pass_segments` of the launcher.
    """

    retain: bool
    before: frozenset[int] | None  # `segment.spent` before the pass
    order: tuple[int, ...]  # ids that gradients come from
    leaves: tuple[int, ...]  # all entries that are leaves: each must require grad
    carried: tuple[int, ...]  # those leaves whose gradients so far are operands
    fresh: tuple[int, ...]  # leaves without a gradient so far
    saved: tuple[int, ...]  # saved values, the further operands
    args: tuple[Any, ...]  # run-time args, over the segment's types and args
    targets: tuple[int, ...]
    live: list[int]  # dense indices of the results
    states: list[Any]
    after: frozenset[int] | None  # `segment.spent` after the pass
    kept: tuple[int, ...]  # saved values that are needed further


def note_known(
    owner: PassContext,
    segment: Segment,
    whole: WholePass,
    order: tuple[int, ...],
    carried: tuple[int, ...],
    step: SegmentStep,
    before: frozenset[int] | None,
) -> None:
    """Keep the step just recorded, if the trace holds nothing else and is on the trie."""
    trace = owner.trace
    n = len(order) + len(carried) + len(step.inputs)
    if owner.create or len(trace.states) != n + 1 or trace.state is None or trace.extra:
        return
    if any(t < 0 for t in step.targets):
        return
    path: PathGraph = segment.structure
    leaves = tuple([i for i, role in differentiable_leaves(path) if role == 1])
    if len(path.known) >= MOST_KNOWN:
        path.known.pop(0)
    entry = KnownPass(
        owner.retain,
        before,
        order,
        leaves,
        carried,
        tuple([i for i in whole.leaves if i not in carried]),
        tuple(step.inputs),
        tuple(step.args),
        tuple(step.targets),
        list(range(n, n + len(step.targets))),
        list(trace.states),
        segment.spent,
        tuple(segment.saved),
    )
    path.known.append(tuple(entry))  # a plain tuple: fields are read without Python


class WholePass:
    """The structure of a segment's backward pass from certain seeds, whatever the sizes."""

    __slots__ = ("leaves", "part", "steps")

    def __init__(self, path: PathGraph, order: tuple[int, ...], frozen: tuple[int, ...]) -> None:
        roles = dict(differentiable_leaves(path))
        targets = tuple([i for i in roles if i not in frozen])
        flow = survey(path, order, targets)
        self.part: Part | None = flow.part(path, order, END, 0, NOTHING)
        reached = () if self.part is None else self.part.targets
        self.leaves = tuple([i for i in reached if roles[i] == 1])
        self.steps: dict[Any, SegmentStep] = {}  # by the leaves whose gradients are added to


def pass_segment(
    owner: PassContext, segment: Segment, seeds: dict[int, Any]
) -> list[tuple[int, Any]]:
    """Record the backward pass of the segment; returns (id, gradient) of entries.

    seeds: gradients by id     owner: the `Pass`, whose totals of leaves are taken up
    """
    path: PathGraph = segment.structure
    inputs = segment.inputs
    frozen: tuple[int, ...] = ()
    for i, role in differentiable_leaves(path):
        if role == 1:
            leaf = inputs[i].leaf
            if leaf is None or not leaf.requires_grad:
                frozen += (i,)
    order = tuple(sorted(seeds)) if len(seeds) > 1 else tuple(seeds)
    spent = segment.spent or NOTHING
    key = ("whole", order, frozen, spent, owner.create)
    whole: WholePass | None = path.caches.get(key)
    if whole is None:
        whole = path.caches[key] = WholePass(path, order, frozen)
    if whole.part is None:
        return []
    operands = [_hot.value_of(seeds[i]) for i in order]
    carried: tuple[int, ...] = ()
    totals = owner.totals
    if totals:
        for i in whole.leaves:
            total = totals.get(id(inputs[i].leaf))
            if total is not None and not made_of_parts(total[1]):  # else they are added later
                del totals[id(inputs[i].leaf)]
                carried += (i,)
                operands.append(_hot.value_of(total[1]))
    step = whole.steps.get(carried)
    if step is None:
        # The step of a structure that does not come back does not come back either.
        single = not owner.create and alone(path.states[-1])
        spent_ids = path.spent | spent
        step = segment_step(path, whole.part, order + carried, owner.create, spent_ids, single)
        whole.steps[carried] = step
    pairs = take_step(owner, segment, step, operands)
    before = segment.spent
    if not owner.retain:
        segment.spent = spent_union(path, spent, step.spent)
        release(segment)
    note_known(owner, segment, whole, order, carried, step, before)
    return pairs


def take_step(
    owner: PassContext, segment: Segment, step: SegmentStep, operands: list[Value]
) -> list[tuple[int, Any]]:
    """Record a segment's step on gradients and saved values; returns (id, gradient) pairs."""
    trace, create = owner.trace, owner.create
    saved = segment.saved
    for i in step.inputs:
        if create:
            operands.append(identified(segment, i))
            continue
        kept = saved.get(i)
        if kept is None:
            raise GraphError(FREED)
        operands.append(_hot.held(kept[0], kept[1]))
    types = segment.types
    values = None
    if step.args:
        values = [_types.evaluate(e, types, segment.args) for e in step.args]
    outs = [types[t] if t >= 0 else type_of(segment, t) for t in step.targets]

    graph, n_args, n_outs = step.graph, len(step.args), len(outs)

    def build(first: int, indices: list[int], arg0: int) -> Step:
        remake = partial(
            placed, graph=graph, indices=indices, arg0=arg0, n_args=n_args, first=first, n=n_outs
        )
        here = owner.path_here()
        new = remake(here, create=create)
        if create:
            new.flags = history_flags(here, new, range(first, first + n_outs))
        else:
            new.remake = remake
        return new

    states = trace.states
    grads = _backward.record_step(trace, step.prim, [], operands, values, outs, build, None)
    for note in WATCHERS:
        note(trace.serial, len(states) - 1, segment)
    if create:
        cut(states[-1].step.flags, grads)
    return list(zip(step.targets, grads))


def placed(
    path: PathGraph,
    graph: Graph,
    indices: list[int],
    arg0: int,
    n_args: int,
    first: int,
    n: int,
    create: bool = False,
) -> Step:
    """A graph as a step behind the path: operands at `indices`, n results from id `first` on."""
    expander = Expander(path.inner, Layered(path.shapes))
    args = tuple([(ARG, arg0 + k) for k in range(n_args)])
    expander.expand(graph, tuple(indices), args, create, tuple(range(first, first + n)))
    return Step(expander.nodes, expander.inner, dict(expander.shapes), NOTHING)


def cut(flags: tuple[bool, ...], grads: list[Any]) -> None:
    """Let gradients that depend on nothing that requires grad not require grad either."""
    for g, flag in zip(grads, flags):
        if not flag:
            g.value.requires_grad = False


def identified(segment: Segment, i: int) -> Value:
    """A value that the segment kept, with the gradient identity."""
    kept = segment.saved.get(i)
    if kept is None:
        raise GraphError(FREED)
    type_, buffer = kept
    value: Value
    if i not in differentiable_ids(segment.structure):
        value = _hot.held(type_, buffer)
    elif i in segment.inputs:
        value = labelled(segment.inputs[i], type_, buffer)
    else:
        value = _hot.held_in_segment(type_, buffer, segment, i)
    return value


def labelled(identity: Value, type_: TensorType, buffer: object) -> Value:
    """Saved data of an input, with the input's gradient identity."""
    value: Value = _hot.held(type_, buffer)
    value.leaf = identity.leaf
    value.segment = identity.segment
    value.seg_index = identity.seg_index
    value.requires_grad = True
    return value


def type_of(segment: Segment, i: int) -> TensorType:
    """The type of a temporary of a segment."""
    path: PathGraph = segment.structure
    shape = tuple([_types.evaluate(e, segment.types, segment.args) for e in path.shape_of(i)])
    return _types.intern_type(shape, path.dtype_of(i), segment.types[0].device)


def differentiable_leaves(path: PathGraph) -> list[tuple[int, int]]:
    """(id, role) of the entries that require grad: role 1 for leaves, 2 for earlier segments."""
    leaves: list[tuple[int, int]] | None = path.caches.get("leaves")
    if leaves is None:
        leaves = path.caches["leaves"] = list(path.roles.items())
    return leaves


def spent_union(path: PathGraph, spent: frozenset[int], more: frozenset[int]) -> frozenset[int]:
    """The union, the same object each time, so that it is cheap as a key."""
    key = ("spent", spent, more)
    union: frozenset[int] | None = path.caches.get(key)
    if union is None:
        union = path.caches[key] = spent | more
    return union


def release(segment: Segment) -> None:
    """Drop saved values that no node needs any more that has not been passed."""
    spent = segment.spent
    if not spent or not segment.saved:
        return
    path: PathGraph = segment.structure
    needed = still_needed(path, spent)
    if len(needed) == 0:
        segment.saved = {}
    else:
        segment.saved = {i: s for i, s in segment.saved.items() if i in needed}
