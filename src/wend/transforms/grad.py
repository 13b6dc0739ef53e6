"""Reverse-mode differentiation: paths are differentiated node by node through templates.

The backward pass of what is pending is one step of the trace; that of each earlier segment is one
step as well, keyed by the segment's structure and by which of its values have or want gradients,
never by the chain of segments.  Hooks and user-defined functions split a step.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from wend.base.errors import GraphError
from wend.core import _hot
from wend.core._hot import Segment, StepPrimitive, Trace, Value
from wend.core.graph import (
    Expander,
    Graph,
    Node,
    PathGraph,
    Step,
    identity_program,
    live_nodes,
    template,
)
from wend.core.primitive import ops
from wend.core.symbolic import ARG, DIM, Expr, substitute

FREED = (
    "backward: trying to go backward through the graph a second time (or to read saved values "
    "after they have been freed): the first backward() freed them; give it retain_graph=True"
)


def active_ids(path: PathGraph, targets: Iterable[int]) -> set[int]:
    """Ids whose value depends on a target through nodes that record gradients."""
    active = set(targets)
    for node in path.nodes:
        if node.grad and not active.isdisjoint(node.inputs) and _differentiable(node):
            active.update(node.outputs)
    return active


def _differentiable(node: Node) -> bool:
    if not node.prim.is_differentiable:
        return False
    return any(dtype.category >= 2 for _, dtype in node.program.outs) or node.program.graph is None


class Differentiator:
    """One backward pass over the nodes of a path."""

    def __init__(self, path: PathGraph, expander: Expander, grad: bool) -> None:
        self.path = path
        self.expander = expander
        self.grad = grad
        self.gradients: dict[int, int] = {}
        self.visited: set[int] = set()

    def add(self, i: int, g: int) -> None:
        """Add one contribution to the gradient of value `i`."""
        have = self.gradients.get(i)
        if have is None:
            self.gradients[i] = g
            return
        type_ = self.path.type_of(i)
        prim = ops.add.primitive.of(("T", "T"))
        program, _ = prim.typed([type_, type_], [])
        total = self.expander.temporary(self.path.shape_of(i), type_.dtype)
        self.expander.nodes.append(Node(prim, program, (have, g), (total,), (), self.grad))
        self.gradients[i] = total

    def run(
        self, targets: Iterable[int], stop: Callable[[Node], bool] | None = None
    ) -> list[Node]:
        """Push gradients back to the targets; returns nodes that `stop` kept from being passed."""
        path, gradients = self.path, self.gradients
        active = active_ids(path, targets)
        stopped: list[Node] = []
        for node in reversed(path.nodes):
            given = tuple([o in gradients for o in node.outputs])
            if True not in given or not node.grad or node.outputs[0] not in active:
                continue
            needs = tuple([i in active for i in node.inputs])
            if True not in needs or not _differentiable(node):
                continue
            if stop is not None and stop(node):
                stopped.append(node)
                continue
            graph = template(node.program, needs, given)
            self.visited.add(node.outputs[0])
            n = len(node.inputs) + len(node.outputs)
            if node.outputs[0] in path.spent and any(i < n for i in graph.used):
                raise GraphError(FREED)
            seeds = tuple([gradients[o] for o, on in zip(node.outputs, given, strict=True) if on])
            grads = self.expander.expand(
                graph, node.inputs + node.outputs + seeds, node.args, self.grad
            )
            for i, g in zip(node.inputs, grads, strict=True):
                if g is not None:
                    self.add(i, g)
        return stopped


def saved_ids(path: PathGraph, roots: Iterable[int]) -> set[int]:
    """Ids whose data a later backward from the roots can need."""
    targets = [i for i, grad in path.leaves if grad]
    active = active_ids(path, targets)
    reached = {i for i in roots if i in active}
    saved: set[int] = set()
    for node in reversed(path.nodes):
        if not node.grad or reached.isdisjoint(node.outputs) or node.outputs[0] in path.spent:
            continue
        needs = tuple([i in active for i in node.inputs])
        if True not in needs or not _differentiable(node):
            continue
        graph = template(node.program, needs, tuple([o in reached for o in node.outputs]))
        names = node.inputs + node.outputs
        saved.update(names[i] for i in graph.used if i < len(names))
        reached.update(i for i, need in zip(node.inputs, needs, strict=True) if need)
    return saved


# -- steps ----------------------------------------------------------------------------------

_STEPS: dict[Any, StepPrimitive] = {}


def step_primitive(name: str, key: Any, differentiable: bool) -> StepPrimitive:
    """The interned step with this key."""
    full = (name, key, differentiable)
    found = _STEPS.get(full)
    if found is None:
        if len(_STEPS) > 20_000:
            _STEPS.clear()
        found = _STEPS[full] = StepPrimitive(name, key)
        found.is_differentiable = differentiable
    return found


def _finish(
    differ: Differentiator, targets: list[int], first: int, spent: frozenset[int]
) -> Step:
    """Name the gradients of the targets as the step's results; drop what nothing needs."""
    expander = differ.expander
    names: dict[int, int] = {}
    copies: list[tuple[int, int]] = []
    made = {o for node in expander.nodes for o in node.outputs}
    for k, target in enumerate(targets):
        g = differ.gradients[target]
        if g in made and g not in names:
            names[g] = first + k
        else:
            copies.append((g, first + k))
    for g, result in copies:
        expander.copy(names.get(g, g), result, differ.grad)
    nodes = live_nodes(expander.nodes, set(names) | {r for _, r in copies} | set(names.values()))
    for node in nodes:
        node.inputs = tuple([names.get(i, i) for i in node.inputs])
        node.outputs = tuple([names.get(i, i) for i in node.outputs])
    return Step(nodes, expander.inner, dict(expander.shapes), spent)


class Pass:
    """One call of backward() or grad(): what is to be done, and what has been found."""

    def __init__(
        self,
        inputs: list[Value] | None,
        retain_graph: bool,
        create_graph: bool,
        accumulate: bool,
    ) -> None:
        self.retain = retain_graph
        self.create = create_graph
        self.accumulate = accumulate
        self.inputs = inputs
        self.wanted: dict[Any, int] = {}
        if inputs is not None:
            for k, value in enumerate(inputs):
                self.wanted.setdefault(identity_of(value), k)
        self.found: dict[Any, Any] = {}
        self.trace: Trace = _hot.current_trace()
        self.pending: dict[int, dict[int, list[Any]]] = {}
        self.segments: dict[int, Segment] = {}
        self.heap: list[int] = []

    # -- contributions ----------------------------------------------------------------------

    def contribute(self, value: Value, g: Any) -> None:
        """Hand a gradient (a handle) to a value that earlier work produced, or to a leaf."""
        if value.leaf is not None:
            self._leaf(value, g)
            return
        segment = value.segment
        if segment is None:
            return
        key = -segment.serial
        if key not in self.pending:
            self.pending[key] = {}
            self.segments[key] = segment
            heapq.heappush(self.heap, key)
        self.pending[key].setdefault(value.seg_index, []).append(g)

    def _leaf(self, value: Value, g: Any) -> None:
        key = identity_of(value)
        if self.inputs is not None:
            if key in self.wanted:
                have = self.found.get(key)
                self.found[key] = g if have is None else have + g
            return
        if self.accumulate:
            accumulate(value.leaf, g, self.create)

    def run(self) -> None:
        """Walk the segments, latest first."""
        while self.heap:
            key = heapq.heappop(self.heap)
            segment = self.segments.pop(key)
            seeds = {}
            for i, gs in self.pending.pop(key).items():
                total = gs[0]
                for g in gs[1:]:
                    total = total + g
                seeds[i] = total
            SegmentWalk(self, segment).run(seeds)


def identity_of(value: Value) -> Any:
    """A key for the gradient identity of a value."""
    if value.leaf is not None:
        return ("leaf", id(value.leaf))
    if value.segment is not None:
        return ("node", id(value.segment), value.seg_index)
    if value.trace is not None:
        return ("pending", value.serial, value.index)
    return ("value", id(value))


def accumulate(leaf: Any, g: Any, create_graph: bool) -> None:
    """Add a gradient to `.grad` of the leaf's tensor; run the leaf's hooks."""
    if not leaf.requires_grad:
        return
    handle = leaf.ref()
    if leaf.hooks:
        for hook in list(leaf.hooks.values()):
            changed = hook(g)
            if changed is not None:
                g = changed
    if handle is None:
        return
    have = handle._grad
    if have is None:
        handle._grad = g if create_graph or not g.requires_grad else g.detach()
    elif create_graph:
        handle._grad = have + g
    else:
        total = ops.add(have, g)
        if have.alias is not None or have.leaf is not None or total.value.type is not have.value.type:
            with_assign(have, total)
        else:
            have.value = total.value
            have.version += 1
    if leaf.post_hooks:
        for hook in list(leaf.post_hooks.values()):
            hook(handle)


def with_assign(handle: Any, result: Any) -> None:
    """Rebind a gradient handle that others alias."""
    _hot.slot("assign")(handle, result, None)


# -- the pending trace ----------------------------------------------------------------------


class TraceWalk:
    """Backward through what is pending: one step, or several where hooks split it."""

    def __init__(self, owner: Pass) -> None:
        self.owner = owner
        self.trace = owner.trace

    def run(self, seeds: dict[int, Any]) -> None:
        """seeds: gradient handle (or None for ones) by dense index of a pending value."""
        splits = _splits(self.trace.extra, seeds)
        if not splits:
            self._part(seeds, None)
            return
        remaining = dict(seeds)
        for at in splits:
            remaining = self._part_until(remaining, at)
        self._part(remaining, None)

    def _part_until(self, seeds: dict[int, Any], at: int) -> dict[int, Any]:
        """Walk down to value `at` (which has hooks), call them, return the new seeds."""
        above = {i: g for i, g in seeds.items() if i > at}
        below = {i: g for i, g in seeds.items() if i <= at}
        if above:
            for i, g in self._part(above, at).items():
                below[i] = g if i not in below else _sum(below[i], g)
        if at in below:
            below[at] = run_hooks(self.trace.extra[at], below[at])
            replaced = function_gradients(self.trace.extra[at], below, at)
            if replaced is not None:
                below = replaced
        return below

    def _part(self, seeds: dict[int, Any], down_to: int | None) -> dict[int, Any]:
        """One step: from the seeds to the leaves, or to the frontier at `down_to`."""
        owner, trace = self.owner, self.trace
        path = PathGraph(trace.states, [v.type for v in trace.values], trace.args)
        targets = self._targets(path, seeds, down_to)
        order = sorted(seeds)
        given = [i for i in order if seeds[i] is not None]
        reached = reachable(path, order, targets)
        targets = [t for t in targets if t in reached]
        if not targets:
            return {}
        key = (tuple(order), tuple(given), tuple(targets), down_to, owner.retain)
        prim = step_primitive("backward", key, owner.create)

        def build(first: int, indices: list[int], arg0: int) -> Step:
            full = PathGraph(trace.states, [v.type for v in trace.values], trace.args)
            expander = Expander(full.inner, {})
            expander.shapes = _Layered(full.shapes)
            differ = Differentiator(full, expander, owner.create)
            handed = dict(zip(given, indices[len(order) :], strict=True))
            for i in order:
                differ.add(i, handed[i] if i in handed else _ones(expander, full, i))
            differ.run(targets)
            spent = frozenset() if owner.retain else frozenset(differ.visited)
            return _finish(differ, targets, first, spent)

        outs = [trace.values[t].type for t in targets]
        leaves = None
        if down_to is None and owner.inputs is None and len(order) == 1 and not given:
            if all(trace.values[t].leaf is not None for t in targets):
                leaves = targets
        values = [_hot.value_of(seeds[i]) for i in given]
        grads = _hot.record_step(trace, prim, order, values, None, outs, build, leaves)
        frontier: dict[int, Any] = {}
        for t, g in zip(targets, grads, strict=True):
            self._deliver(t, g, down_to, frontier)
        if leaves is not None:
            _remember(trace, prim, order[0], owner)
        return frontier

    def _deliver(self, t: int, g: Any, down_to: int | None, frontier: dict[int, Any]) -> None:
        value = self.trace.values[t]
        owner = self.owner
        if down_to is not None and t in _frontier_marks(self.trace, down_to):
            frontier[t] = g
        if identity_of(value) in owner.wanted and value.leaf is None:
            key = identity_of(value)
            have = owner.found.get(key)
            owner.found[key] = g if have is None else have + g
        extra = self.trace.extra
        if extra is not None and t in extra and extra[t].retain is not None:
            retain(extra[t], g)
        if value.leaf is not None or value.trace is not self.trace or value.buffer is not None:
            owner.contribute(value, g)

    def _targets(self, path: PathGraph, seeds: dict[int, Any], down_to: int | None) -> list[int]:
        owner, trace = self.owner, self.trace
        out: set[int] = set()
        for i, grad in path.leaves:
            if grad == 1:
                leaf = trace.values[i].leaf
                if leaf is None or not leaf.requires_grad:
                    continue
                if owner.inputs is not None and identity_of(trace.values[i]) not in owner.wanted:
                    continue
                out.add(i)
            elif grad == 2:
                out.add(i)
        if owner.inputs is not None:
            for value in owner.inputs:
                if value.trace is trace and value.buffer is None:
                    out.add(value.index)
        if trace.extra is not None:
            out.update(i for i, extra in trace.extra.items() if extra.retain is not None)
        if down_to is not None:
            out = {i for i in out if i >= down_to} | {down_to}
            out |= _crossing(path, down_to)
        return sorted(out)


class _Layered(dict):  # type: ignore[type-arg]
    """Shapes of a step's temporaries, over those of the path before it."""

    def __init__(self, below: dict[int, Any]) -> None:
        super().__init__()
        self.below = below

    def __missing__(self, key: int) -> Any:
        return self.below[key]


def reachable(path: PathGraph, roots: list[int], targets: Iterable[int]) -> set[int]:
    """Targets that the roots depend on through nodes that record gradients."""
    active = active_ids(path, targets)
    reached = {i for i in roots if i in active}
    for node in reversed(path.nodes):
        if node.grad and not reached.isdisjoint(node.outputs) and _differentiable(node):
            reached.update(i for i in node.inputs if i in active)
    return reached


def _ones(expander: Expander, path: PathGraph, i: int) -> int:
    """A gradient of ones for the root `i`."""
    type_ = path.type_of(i)
    prim = ops.fill_like.primitive.of(("T", ("N", 2)))
    program, _ = prim.typed([type_], [1.0])
    out = expander.temporary(path.shape_of(i), type_.dtype)
    expander.nodes.append(Node(prim, program, (i,), (out,), (1.0,), False))
    return out


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a + b


def _splits(extra: dict[int, Any] | None, seeds: dict[int, Any]) -> list[int]:
    if not extra:
        return []
    top = max(seeds)
    return sorted((i for i, e in extra.items() if i <= top and e.splits()), reverse=True)


def _crossing(path: PathGraph, at: int) -> set[int]:
    """Values made at or before `at` that something after it uses."""
    out: set[int] = set()
    for node in path.nodes:
        if node.outputs[0] > at or (node.outputs[0] < 0):
            out.update(i for i in node.inputs if 0 <= i <= at)
    return out


def _frontier_marks(trace: Trace, at: int) -> Any:
    return _UpTo(at)


class _UpTo:
    def __init__(self, at: int) -> None:
        self.at = at

    def __contains__(self, i: int) -> bool:
        return i <= self.at


class Extra:
    """What hangs on one gradient identity: hooks, retain_grad, a user-defined function."""

    __slots__ = ("function", "hooks", "pre_hooks", "retain")

    def __init__(self) -> None:
        self.hooks: dict[int, Any] | None = None
        self.retain: Any = None
        self.function: Any = None
        self.pre_hooks: dict[int, Any] | None = None

    def splits(self) -> bool:
        """Whether users' Python must be called when the walk comes here."""
        return bool(self.hooks) or self.function is not None


def run_hooks(extra: Extra, g: Any) -> Any:
    """Call tensor hooks in order; each may replace the gradient."""
    if extra.hooks:
        for hook in list(extra.hooks.values()):
            changed = hook(g)
            if changed is not None:
                g = changed
    return g


def retain(extra: Extra, g: Any) -> None:
    """Keep the gradient of a non-leaf on its handle."""
    handle = extra.retain()
    if handle is not None:
        handle._grad = g if handle._grad is None else handle._grad + g


def function_gradients(extra: Extra, seeds: dict[int, Any], at: int) -> dict[int, Any] | None:
    """For a user-defined function: its backward's results in the place of its gradient."""
    if extra.function is None:
        return None
    return None


_KNOWN: dict[tuple[Any, bool, bool], StepPrimitive] = {}


def _remember(trace: Trace, prim: StepPrimitive, root: int, owner: Pass) -> None:
    state = trace.states[-1]
    parent = state.parent
    if parent is not None:
        parent.plans = parent.plans or {}
        parent.plans[("backward", root, owner.retain, owner.create)] = prim


# -- earlier segments -----------------------------------------------------------------------


class SegmentBackward:
    """The backward of one segment structure for given seeds and targets, relocatable."""

    __slots__ = ("args", "graph", "inputs", "prim", "spent", "targets")

    def __init__(
        self,
        graph: Graph,
        inputs: list[int],
        args: list[Expr],
        targets: list[int],
        prim: StepPrimitive,
        spent: frozenset[int],
    ) -> None:
        self.graph = graph
        self.inputs = inputs  # ids of saved values, after the seeds
        self.args = args  # (DIM, id, axis) or (ARG, k) of the segment
        self.targets = targets
        self.prim = prim
        self.spent = spent


class SegmentWalk:
    """Backward through one held segment."""

    def __init__(self, owner: Pass, segment: Segment) -> None:
        self.owner = owner
        self.segment = segment

    def run(self, seeds: dict[int, Any]) -> None:
        """seeds: gradient handles by dense index of the segment's values."""
        hooks = self.segment.hooks
        splits = _splits(hooks, seeds)
        remaining = seeds
        for at in splits:
            above = {i: g for i, g in remaining.items() if i > at}
            below = {i: g for i, g in remaining.items() if i <= at}
            if above:
                for i, g in self._part(above, at).items():
                    below[i] = g if i not in below else below[i] + g
            if at in below:
                below[at] = run_hooks(hooks[at], below[at])
            remaining = below
        self._part(remaining, None)

    def _part(self, seeds: dict[int, Any], down_to: int | None) -> dict[int, Any]:
        owner, segment = self.owner, self.segment
        order = sorted(seeds)
        targets = self._targets(down_to)
        cached = self._backward(order, targets, down_to)
        if cached is None:
            return {}
        trace = owner.trace
        operands = [_hot.value_of(seeds[i]) for i in order]
        operands += [self._saved(i) for i in cached.inputs]
        types = segment.types
        values = [
            types[e[1]].shape[e[2]] if e[0] == DIM else segment.args[e[1]] for e in cached.args
        ]
        outs = [types[t] for t in cached.targets]

        def build(first: int, indices: list[int], arg0: int) -> Step:
            path = PathGraph(trace.states, [v.type for v in trace.values], trace.args)
            expander = Expander(path.inner, _Layered(path.shapes))
            args = tuple((ARG, arg0 + k) for k in range(len(values)))
            results = tuple(range(first, first + len(outs)))
            expander.expand(cached.graph, tuple(indices), args, owner.create, results)
            return Step(expander.nodes, expander.inner, dict(expander.shapes), frozenset())

        grads = _hot.record_step(trace, cached.prim, [], operands, values, outs, build, None)
        if not owner.retain:
            spent = segment.spent or frozenset()
            segment.spent = spent | cached.spent
        frontier: dict[int, Any] = {}
        for t, g in zip(cached.targets, grads, strict=True):
            self._deliver(t, g, down_to, frontier)
        return frontier

    def _deliver(self, t: int, g: Any, down_to: int | None, frontier: dict[int, Any]) -> None:
        owner, segment = self.owner, self.segment
        key = ("node", id(segment), t)
        if key in owner.wanted:
            have = owner.found.get(key)
            owner.found[key] = g if have is None else have + g
        if segment.hooks and t in segment.hooks and segment.hooks[t].retain is not None:
            retain(segment.hooks[t], g)
        if down_to is not None and t <= down_to:
            frontier[t] = g
            if t in segment.inputs:
                del frontier[t]
        value = segment.inputs.get(t)
        if value is not None:
            owner.contribute(value, g)

    def _targets(self, down_to: int | None) -> tuple[int, ...]:
        owner, segment = self.owner, self.segment
        out: set[int] = set()
        for i, value in segment.inputs.items():
            if value.leaf is not None:
                if not value.leaf.requires_grad:
                    continue
                if owner.inputs is not None and identity_of(value) not in owner.wanted:
                    continue
            out.add(i)
        for value in owner.inputs or ():
            if value.segment is segment:
                out.add(value.seg_index)
        if segment.hooks:
            out.update(i for i, e in segment.hooks.items() if e.retain is not None)
        if down_to is not None:
            path = segment.structure
            out = {i for i in out if i >= down_to} | {down_to} | _crossing(path, down_to)
        return tuple(sorted(out))

    def _backward(
        self, order: list[int], targets: tuple[int, ...], down_to: int | None
    ) -> SegmentBackward | None:
        owner, segment = self.owner, self.segment
        path: PathGraph = segment.structure
        spent = segment.spent or frozenset()
        key = (tuple(order), targets, down_to, owner.create, spent)
        if key not in path.backwards:
            made = self._differentiate(path, order, targets, spent)
            if made is not None:
                made.prim.is_differentiable = owner.create
            path.backwards[key] = made
        found: SegmentBackward | None = path.backwards[key]
        return found

    def _differentiate(
        self, path: PathGraph, order: list[int], targets: tuple[int, ...], spent: frozenset[int]
    ) -> SegmentBackward | None:
        reached = reachable(path, order, targets)
        wanted = [t for t in targets if t in reached and (t not in order or len(order) >= 1)]
        if not wanted:
            return None
        # Seeds get ids beyond every id of the path, so that they cannot be mistaken for values.
        base = len(path.types)
        expander = Expander(path.inner, _Layered(path.shapes))
        differ = Differentiator(path, expander, True)
        before, path.spent = path.spent, path.spent | spent
        try:
            for k, i in enumerate(order):
                differ.add(i, base + k)
            differ.run(wanted)
        finally:
            path.spent = before
        wanted = [t for t in wanted if t in differ.gradients]
        if not wanted:
            return None
        outputs = [differ.gradients[t] for t in wanted]
        return _relocatable(expander, outputs, wanted, base, len(order), frozenset(differ.visited))

    def _saved(self, i: int) -> Value:
        """A value that this segment kept, with its gradient identity if that is asked for."""
        segment = self.segment
        found = segment.saved.get(i) if segment.saved is not None else None
        if found is None:
            raise GraphError(FREED)
        type_, buffer = found
        if i in segment.inputs:
            return labelled(segment.inputs[i], type_, buffer)
        if self.owner.create and type_.dtype.category >= 2:
            return _hot.held_in_segment(type_, buffer, segment, i)  # type: ignore[no-any-return]
        return _hot.held(type_, buffer)  # type: ignore[no-any-return]


def labelled(identity: Value, type_: Any, buffer: Any) -> Value:
    """Saved data of an input, with the input's gradient identity."""
    value: Value = _hot.held(type_, buffer)
    value.leaf = identity.leaf
    value.segment = identity.segment
    value.seg_index = identity.seg_index
    value.requires_grad = True
    return value


def _relocatable(
    expander: Expander,
    outputs: list[int],
    targets: list[int],
    base: int,
    n_seeds: int,
    visited: frozenset[int],
) -> SegmentBackward:
    """Turn nodes with a segment's ids into a graph whose inputs are seeds and saved values."""
    nodes = live_nodes(expander.nodes, set(outputs))
    made = {o for node in nodes for o in node.outputs}
    names: dict[int, int] = {base + k: k for k in range(n_seeds)}
    saved: list[int] = []
    for i in [i for node in nodes for i in node.inputs] + outputs:
        if i not in made and i not in names:
            names[i] = n_seeds + len(saved)
            saved.append(i)
    n_inputs = n_seeds + len(saved)
    counter = n_inputs
    for node in nodes:
        for o in node.outputs:
            names[o] = counter
            counter += 1
    args: dict[Expr, int] = {}

    def relocate(expr: Expr) -> Expr:
        return (ARG, args.setdefault(expr, len(args)))

    def dim_of(i: int, axis: int) -> Expr:
        return relocate((DIM, i, axis))

    def arg_of(k: int) -> Expr:
        return relocate((ARG, k))

    moved = []
    shapes = {}
    for node in nodes:
        node_args = tuple(substitute(e, dim_of, arg_of) for e in node.args)
        for o in node.outputs:
            exprs, dtype = expander.shapes[o]
            shapes[names[o]] = (tuple(substitute(e, dim_of, arg_of) for e in exprs), dtype)
        moved.append(
            Node(
                node.prim,
                node.program,
                tuple(names[i] for i in node.inputs),
                tuple(names[o] for o in node.outputs),
                node_args,
                True,
            )
        )
    graph = Graph(n_inputs, moved, [names[o] for o in outputs], shapes)
    prim = StepPrimitive("segment_backward", None)
    return SegmentBackward(graph, saved, list(args), targets, prim, visited)


# -- entry points ---------------------------------------------------------------------------


def run_backward(
    roots: list[Any],
    gradients: list[Any],
    inputs: list[Any] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    accumulate_grad: bool = True,
) -> list[Any]:
    """Backward from `roots` with the given gradients (None for ones).

    Returns, per tensor in `inputs`, its gradient or None; [] if no inputs were given.
    """
    trace = _hot.current_trace()
    if inputs is None and not create_graph and len(roots) == 1 and gradients[0] is None:
        if _known(trace, roots[0], retain_graph):
            return []
    values = None if inputs is None else [_hot.value_of(t) for t in inputs]
    mode = trace.mode
    trace.mode = with_grad(mode, create_graph)
    try:
        owner = Pass(values, retain_graph, create_graph, accumulate_grad)
        seeds: dict[int, Any] = {}
        for root, g in zip(roots, gradients, strict=True):
            value = _hot.value_of(root)
            if value.trace is trace and value.buffer is None:
                seeds[value.index] = _sum(seeds.get(value.index), g) if g is not None else None
                continue
            if value.buffer is None and value.trace is not None:
                _hot.flush(value.trace)
            owner.contribute(value, ops.fill_like(root.detach(), 1.0) if g is None else g)
        if seeds:
            TraceWalk(owner).run(seeds)
        owner.run()
    finally:
        trace.mode = mode
    if values is None:
        return []
    return [owner.found.get(identity_of(v)) for v in values]


def _known(trace: Trace, root: Any, retain_graph: bool) -> bool:
    """Take the whole backward as the one step that this path took last time."""
    value = root.value
    state = trace.state
    if value.trace is not trace or state is None or trace.extra is not None:
        return False
    plans = state.plans
    if plans is None:
        return False
    prim = plans.get(("backward", value.index, retain_graph, False))
    if prim is None:
        return False
    mode = trace.mode
    trace.mode = with_grad(mode, False)
    try:
        grads = _hot.step_known(trace, prim, value.index, -1)
        if grads is None:
            return False
        leaves = trace.states[-1].leaves
        for index, g in zip(leaves, grads, strict=True):
            leaf = trace.values[index].leaf
            handle = leaf.ref()
            if handle is not None and handle._grad is None and leaf.post_hooks is None:
                handle._grad = g
            else:
                accumulate(leaf, g, False)
    finally:
        trace.mode = mode
    return True


def with_grad(mode: Any, grad: bool) -> Any:
    """The mode with gradients switched on or off."""
    if mode.grad == grad:
        return mode
    return _hot.intern_mode(grad, *mode.key[1:])


__all__ = ["Extra", "Pass", "accumulate", "run_backward", "saved_ids", "with_grad"]
