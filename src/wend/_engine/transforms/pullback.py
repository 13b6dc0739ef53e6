"""Gradients inside of vmap, and of many seeds at once.

`gradients` is a backward pass: per example, where a level is active.  `many_gradients` pulls a
stack of seeds back through a graph (the rows of a Jacobian). Each segment's backward is batched
over the seeds' axis and recorded as an op.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from wend._engine.base.errors import ExecutionError, GraphError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.transforms.batch import record_batched, with_batch_axis
from wend._engine.transforms.differentiate import Part, SegmentStep, segment_step
from wend._engine.transforms.grad import BackwardPass, run_backward, with_grad
from wend._engine.transforms.hooks import has_hooks
from wend._engine.transforms.levels import Level
from wend._engine.transforms.walk import Walk

Gradients = list[Tensor | None]
OUTSIDE = (
    "vmap: the gradient with respect to a tensor from outside of the mapped function is another "
    "one for each example: differentiate with torch.func.grad inside, which makes variables"
)


def _level() -> Level | None:
    symbolic = _hot.current_trace().symbolic
    if symbolic is None or isinstance(symbolic, Level):
        return symbolic
    raise ExecutionError("gradients: a rule or the body of a composite cannot differentiate")


def gradients(
    outs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor],
    create_graph: bool,
    hooks: bool = True,
) -> Gradients:
    """Per input, the gradient of sum(out * seed) over all outs; None where there is none.

    hooks: call users' hooks; those are for gradients, and not for derivatives along directions

    Inside of vmap: per example.  The graph is kept.  Raises GraphError for an input from outside of
    a vmap, of which each example would have a gradient of its own (see `Level.lift`).
    """
    level = _level()
    if level is None:
        live = [(x, g) for x, g in zip(outs, seeds, strict=True) if x.requires_grad]
        if not live:
            return [None] * len(inputs)
        roots, root_seeds = [x for x, _ in live], [g for _, g in live]
        return run_backward(roots, root_seeds, list(inputs), True, create_graph, True, hooks)
    inner_outs, out_on = level.strip(outs)
    inner_inputs, in_on = level.strip(inputs)
    inner_seeds, seed_on = level.strip(seeds)
    with level.suspended():
        if True in out_on:
            rows = _batched_rows(inner_outs, out_on, inner_seeds, seed_on, level.size)
            grads = gradients(rows[0], inner_inputs, rows[1], create_graph, hooks)
            _check_inside(grads, in_on)
        elif True in seed_on:
            stacked = [
                with_batch_axis(g, on, level.size)
                for g, on in zip(inner_seeds, seed_on, strict=True)
            ]
            grads = many_gradients(
                level.size, inner_outs, inner_inputs, stacked, create_graph, hooks
            )
        else:
            return gradients(inner_outs, inner_inputs, inner_seeds, create_graph, hooks)
    return [None if g is None else level.wrap(g) for g in grads]


def _batched_rows(
    outs: Sequence[Tensor],
    out_on: Sequence[bool],
    seeds: Sequence[Tensor],
    seed_on: Sequence[bool],
    size: int,
) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs with the batch axis and their seeds: only these depend on inputs with the axis."""
    rows = zip(outs, out_on, seeds, seed_on, strict=True)
    kept = [(x, with_batch_axis(g, g_on, size)) for x, x_on, g, g_on in rows if x_on]
    return [x for x, _ in kept], [g for _, g in kept]


def _check_inside(grads: Gradients, on: Sequence[bool]) -> None:
    for g, is_batched in zip(grads, on, strict=True):
        if g is not None and not is_batched:
            raise GraphError(OUTSIDE)


# -- many seeds -----------------------------------------------------------------------------


def many_gradients(
    size: int,
    outs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor],
    create_graph: bool,
    hooks: bool = True,
) -> Gradients:
    """`gradients` for `size` seeds stacked at dim 0; so are the results."""
    level = _level()
    if level is None:
        return _pull_stack(size, outs, inputs, seeds, create_graph, hooks)
    inner_outs, out_on = level.strip(outs)
    inner_inputs, in_on = level.strip(inputs)
    inner_seeds, seed_on = level.strip(seeds)
    n = level.size
    with level.suspended():
        if True in out_on:  # (examples, seeds, ...) -> (seeds, examples, ...)
            rows = _batched_rows(inner_outs, out_on, inner_seeds, seed_on, n)
            turned = [ops.movedim(g, 1, 0) for g in rows[1]]
            grads = many_gradients(size, rows[0], inner_inputs, turned, create_graph, hooks)
            _check_inside(grads, in_on)
            grads = [None if g is None else ops.movedim(g, 0, 1) for g in grads]
        elif True in seed_on:  # both axes as one
            stacked = [
                with_batch_axis(g, on, n) for g, on in zip(inner_seeds, seed_on, strict=True)
            ]
            merged = [ops.reshape(g, (n * size, *tuple(g.shape)[2:])) for g in stacked]
            grads = many_gradients(n * size, inner_outs, inner_inputs, merged, create_graph, hooks)
            grads = [
                None if g is None else ops.reshape(g, (n, size, *tuple(g.shape)[1:])) for g in grads
            ]
        else:
            return many_gradients(size, inner_outs, inner_inputs, inner_seeds, create_graph, hooks)
    return [None if g is None else level.wrap(g) for g in grads]


def _pull_stack(
    size: int,
    outs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor],
    create_graph: bool,
    hooks: bool,
) -> Gradients:
    rows = [(x, g) for x, g in zip(outs, seeds, strict=True) if x.requires_grad]
    if not rows or size == 0:
        return [None] * len(inputs)
    trace = _hot.current_trace()
    _hot.flush(trace)  # the values behind the outputs become segments
    before, trace.mode = trace.mode, with_grad(trace.mode, create_graph)
    try:
        values = [_hot.value_of(x) for x in inputs]
        owner = _StackPass(trace, values, True, create_graph, True, hooks)
        for x, g in rows:
            owner.contribute(_hot.value_of(x), g)
        owner.start(None, {})
        owner.run()
    except _UsersCode:  # users' code is in the way: the seeds are pulled back singly
        return _one_by_one(size, outs, inputs, seeds, create_graph, hooks)
    finally:
        trace.mode = before
    return [owner.found.get(k) for k in range(len(inputs))]


def _one_by_one(
    size: int,
    outs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor],
    create_graph: bool,
    hooks: bool,
) -> Gradients:
    """A backward pass per seed: hooks and users' functions see one gradient at a time."""
    rows = [
        gradients(outs, inputs, [ops.select(g, 0, k) for g in seeds], create_graph, hooks)
        for k in range(size)
    ]
    out: Gradients = []
    for j, x in enumerate(inputs):
        column = [row[j] for row in rows]
        if all(g is None for g in column):
            out.append(None)
        else:
            out.append(ops.stack([ops.zeros_like(x) if g is None else g for g in column]))
    return out


class _UsersCode(Exception):
    """A backward pass of many seeds has come to code that wants to see one gradient."""


class _StackPass(BackwardPass):
    """A backward pass in which every gradient has a leading axis for the seeds."""

    def run(self) -> None:
        """Walk the segments, latest first; then hand over the gradients of leaves."""
        if self.anomaly:
            raise _UsersCode
        first = True
        while self.heap:
            if not first:
                _hot.flush(self.trace)  # no path is made of two segments
            first = False
            key = heapq.heappop(self.heap)
            segment = self.segments.pop(key)
            if segment.structure.later is not None:
                segment.structure.later.resolve(segment)
            _StackWalk(self, None, segment).run(self.pending.pop(key))
        for key in list(self.totals):
            self.settle(key)

    def settle(self, key: int) -> None:
        """The gradient of a leaf is complete; its hooks want to see one row at a time."""
        if self.hooks and has_hooks(self.totals[key][0]):
            raise _UsersCode
        super().settle(key)


class _StackWalk(Walk):
    """A segment of such a pass: a backward as an op, batched over the seeds."""

    def stops(self) -> list[Any]:
        """There is no place here for users' code."""
        if super().stops():
            raise _UsersCode
        return []

    def held_step(
        self, order: tuple[int, ...], seeds: dict[int, Any], part: Part, high: int, low: int
    ) -> list[tuple[int, Any]]:
        """The gradients of the segment's entries, each with the seeds' axis."""
        segment, path, create = self.segment, self.path, self.owner.create
        assert segment is not None
        spent = path.spent | (segment.spent or frozenset())
        key = ("stack", self.survey_key, order, high, low, self.kept_ids, create, frozenset(spent))
        step: SegmentStep | None = path.caches.get(key)
        if step is None:
            step = path.caches[key] = segment_step(path, part, order, create, spent)
        saved = [_hot.wrap(self.saved(i)) for i in step.inputs]
        for handle in saved:
            handle.leaf = handle.value.leaf
        gradients = [seeds[i] for i in order]
        flags = (True,) * len(gradients) + (False,) * len(saved)
        numbers = [_types.evaluate(e, segment.types, segment.args) for e in step.args]
        grads = record_batched(step.graph, flags, [*gradients, *saved], numbers)
        return list(zip(step.targets, grads, strict=True))
