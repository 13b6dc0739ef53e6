"""Reverse-mode differentiation: the backward pass of a trace, then of earlier segments.

The backward pass of the pending trace is a step of the trace. The backward pass of each earlier
segment is a step as well. Its key is the segment's structure and which values have or want
gradients, never the chain of segments.  Hooks and user-defined functions split a step.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wend._engine.base import config, defects
from wend._engine.base.errors import DefectError, GraphError
from wend._engine.core import _backward, _hot, _modules, _types
from wend._engine.core._hot import Leaf, Segment, Tensor, Trace, Value
from wend._engine.core._types import Mode
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import current_site, one_site
from wend._engine.core.step_log import ROWS, BackwardRow
from wend._engine.core.whole import Headroom, cuts_short
from wend._engine.transforms.backward_ways import (
    PENDING,
    SEGMENT,
    PendingPart,
    SegmentPart,
    ones_like,
    take,
)
from wend._engine.transforms.hooks import (
    Given,
    accumulate,
    accumulate_hooked,
    add_to_grad,
    differentiated,
    forget_rewritten,
    made_of_parts,
    plain,
    retained_handles,
    retaining,
    run_tensor_hooks,
    sum_of,
)
from wend._engine.transforms.quick import WATCHERS
from wend._engine.transforms.reach import Reach, useful_entries
from wend._engine.transforms.walk import Walk, path_of

Sink = Callable[[Any], None]


class BackwardPass:
    """A call of backward() or grad(): the work to be done, and the gradients found.

    inputs: only these values get gradients (None: all leaves)
    capture: hand the gradients of `inputs` back instead of accumulating them
    hooks: call users' hooks; a pass that derives along directions calls none
    """

    def __init__(
        self,
        trace: Trace,
        inputs: list[Value] | None,
        retain_graph: bool,
        create_graph: bool,
        capture: bool,
        hooks: bool = True,
    ) -> None:
        self.trace = trace
        self.hooks = hooks
        self.retain = retain_graph
        self.create = create_graph
        self.capture = capture
        self.inputs = inputs
        self.found: dict[int, Any] = {}  # gradients handed back, by position in `inputs`
        self.wanted: dict[int, list[int]] | None = None  # by id of the leaf
        self.sinks: list[tuple[Value, Sink]] = []  # for values that are no leaves
        self.goals: list[Value] = []  # inputs that are no leaves
        self.useful: dict[int, set[int]] | None = None  # the ids that lead to an input, by region
        self.totals: dict[int, list[Any]] = {}  # by id of the leaf: [leaf, gradient]
        self.pending: dict[int, dict[int, Any]] = {}
        self.segments: dict[int, Segment] = {}
        self.heap: list[int] = []
        self.at_end: list[Callable[[], None]] = []
        # the state that hooks of several tensors keep for this pass
        self.watches: dict[Any, Any] = {}
        self.walked = False  # whether a region has been walked
        self.given = Given()
        self.ledger: Any = None  # the gradients that flushes run by groups have given leaves so far
        self.asked: dict[tuple[str, str, str], int] = {}  # see `BackwardRow`
        self._start: Any = None
        self._reach: Reach | None = None
        self.anomaly = bool(trace.mode.key[5])
        forget_rewritten()
        if inputs is not None:
            self._sort_inputs(inputs)
        if hooks and retaining():
            for handle in retained_handles():
                self.sinks.append((differentiated(handle), _retain(handle, self.given)))

    def _sort_inputs(self, inputs: list[Value]) -> None:
        wanted: dict[int, list[int]] = {}
        for k, value in enumerate(inputs):
            if value.leaf is not None:
                wanted.setdefault(id(value.leaf), []).append(k)
            else:
                self.goals.append(value)
                if self.capture:
                    self.sinks.append((value, self._capture(k)))
        self.wanted = wanted

    def _capture(self, k: int) -> Sink:
        def sink(g: Tensor) -> None:
            self.found[k] = g

        return sink

    # -- contributions ----------------------------------------------------------------------

    def contribute(self, value: Value, g: Tensor) -> None:
        """Hand a gradient to a leaf, or to a value that an earlier segment produced."""
        leaf = value.leaf
        if leaf is not None:
            if self.wanted is None or id(leaf) in self.wanted:
                have = self.totals.get(id(leaf))
                if have is None:
                    self.totals[id(leaf)] = [leaf, g]
                else:
                    have[1] = sum_of(have[1], g)
            return
        if value.segment is not None:
            self.hand_on(value, g)
            if self.ledger is not None:
                self.ledger.note(value, g)

    def hand_on(self, value: Value, g: Tensor) -> None:
        """Hand a gradient to a value that an earlier segment produced."""
        table = self.come_by(value.segment)
        have = table.get(value.seg_index)
        table[value.seg_index] = g if have is None else have + g

    def come_by(self, segment: Segment) -> dict[int, Any]:
        """Put this segment in the queue of the walk; returns the gradients to begin with."""
        key = -segment.serial
        table = self.pending.get(key)
        if table is None:
            table = self.pending[key] = {}
            self.segments[key] = segment
            heapq.heappush(self.heap, key)
        return table

    def run(self) -> None:
        """Walk the segments, latest first; then hand the gradients to the leaves.

        Each segment's step gets a flush of its own: recorded in a row, the steps of T segments with
        two forms each would be 2^T paths, each to be planned.
        """
        while self.heap:
            # Where no nodes are walked (`PathGraph.later`), nothing is recorded.
            first = self.heap[0]
            part = SegmentPart(self.segments[first], self.pending[first])
            if self.walked and part.segment.structure.later is None:
                _hot.flush(self.trace)
            take(SEGMENT, self, part)
        if self.ledger is not None:
            for leaf, g in self.ledger.close():
                have = self.totals.setdefault(id(leaf), [leaf, None])
                have[1] = g if have[1] is None else sum_of(have[1], g)
        for key in reversed(list(self.totals)):
            self.settle(key)
        for call in self.at_end:
            call()

    def take_off(self, part: SegmentPart) -> None:
        """Take the first segment off the queue, if a way has not done so before."""
        key = -part.segment.serial
        if self.segments.pop(key, None) is not None:
            heapq.heappop(self.heap)
            del self.pending[key]

    def plain(self) -> bool:
        """Whether the pass only gives all leaves their gradients, and need not be recorded."""
        if config.settings.nan_guard:  # sees the results of flushes
            return False
        return self.inputs is None and not (self.create or self.sinks or self.anomaly)

    def path_here(self) -> PathGraph:
        """The graph of the pending trace."""
        return path_of(self.trace)

    # -- the way that the pass will take ----------------------------------------------------

    def start(self, walk: Walk | None, seeds: dict[int, Any]) -> None:
        """All roots are known."""
        held = [(self.segments[key], set(table)) for key, table in self.pending.items()]
        self._start = (walk, tuple(sorted(seeds)), held)
        if self.inputs is not None:
            self.useful = useful_entries(self, self.reach())

    def reach(self) -> Reach:
        """The regions that gradients can come to; found out at the first need."""
        if self._reach is None:
            if self._start[0] is not None:
                self._start[0].follow()
            walk, seeds, held = self._start
            self._reach = Reach(walk, seeds, held, self._floor())
        return self._reach

    def _floor(self) -> float:
        """The serial of the first segment that an input of the pass lies in.

        Without this floor, a solver that asks for a gradient at each step would go through all
        earlier steps each time.
        """
        if self.inputs is None or self.wanted:  # leaves may be used anywhere
            return 0
        held = [goal.segment.serial for goal in self.goals if goal.segment is not None]
        return min(held, default=math.inf)

    def last_use(self, key: int) -> int:
        """Number of the last region that the leaf with this id() gets gradients from."""
        return self.reach().last_use.get(key, 0)

    def number_of(self, segment: Segment | None) -> int:
        """Number of a region, in the order of the walk."""
        return 0 if segment is None else self.reach().number.get(id(segment), 0)

    def settle(self, key: int) -> None:
        """The gradient of a leaf is complete."""
        leaf, g = self.totals.pop(key)
        if not self.capture:
            handle = leaf.ref()
            if handle is not None and not leaf.post_hooks:
                self.given.note(handle)
            del handle  # else the handle would live until the pass ends
            if made_of_parts(g) or not _backward.settle_gradient(leaf, g):
                accumulate(leaf, g, self.create)
            return
        if leaf.hooks and self.hooks:
            g = run_tensor_hooks(leaf.hooks, g)
        for k in (self.wanted or {}).get(key, ()):
            self.found[k] = plain(g)


def _retain(handle: Tensor, prior: Given) -> Sink:
    def sink(g: Tensor) -> None:
        prior.note(handle)
        add_to_grad(handle, g, True)

    return sink


_PASSES: dict[int, list[BackwardPass]] = {}  # running now, innermost last, by thread or fiber


def _whose(trace: Trace) -> int:
    """Who runs passes in turn with nobody else: a fiber, or the thread."""
    return id(trace if trace.fiber is None else trace.fiber)


def current_pass() -> BackwardPass:
    """The pass that runs in this thread or fiber.  Raises GraphError if none does."""
    stack = _PASSES.get(_whose(_hot.current_trace()))
    if not stack:
        raise GraphError("this can be called during a backward pass only")
    return stack[-1]


# -- entry points ---------------------------------------------------------------------------


def run_backward(
    roots: list[Any],
    gradients: list[Any],
    inputs: list[Any] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    capture: bool = False,
    hooks: bool = True,
) -> list[Any]:
    """Backward from `roots` with the given gradients (None for ones).

    inputs: only these get gradients     capture: return these gradients (or None) instead of
    accumulating     hooks: call users' hooks
    """
    trace = _hot.current_trace()
    mode = trace.mode
    owner = None
    try:
        trace.mode = with_grad(mode, create_graph)
        # Other threads do not flush the trace that this thread is walking through.
        with trace.lock, one_site(trace):
            values = None if inputs is None else [differentiated(t) for t in inputs]
            owner = BackwardPass(trace, values, retain_graph, create_graph, capture, hooks)
            _PASSES.setdefault(_whose(trace), []).append(owner)
            if owner.anomaly:
                _hot.flush(trace)
            seeds, anchor = _seeds(owner, roots, gradients)
            if seeds:
                take(PENDING, owner, PendingPart(seeds, anchor))
            else:
                owner.start(None, {})
            owner.run()
    except BaseException as error:
        if owner is not None and cuts_short(error):
            with Headroom():
                owner.given.take_back()
        elif defects.came_from_inside(error):
            site = current_site()
            defects.note(error, site=site, repaired=False)
            fault = DefectError(f"backward: {type(error).__name__}: {error}; a defect of Wend")
            fault.site = site
            raise fault from error
        raise
    finally:
        trace.mode = mode
        if owner is not None:
            _leave(owner)
    return [owner.found.get(k) for k in range(len(inputs or ()))]


def go_on(
    trace: Trace,
    retain_graph: bool,
    heap: list[int],
    segments: dict[int, Segment],
    pending: dict[int, dict[int, Any]],
    totals: dict[int, list[Any]],
) -> None:
    """Finish a pass of which the launcher knows no further step (see `pass_segments`)."""
    owner = BackwardPass(trace, None, retain_graph, False, False)
    owner.heap, owner.segments, owner.pending, owner.totals = heap, segments, pending, totals
    owner.walked = True
    _PASSES.setdefault(_whose(trace), []).append(owner)
    try:
        with trace.lock, one_site(trace):
            owner.start(None, {})
            owner.run()
    except BaseException as error:
        if cuts_short(error):
            with Headroom():
                owner.given.take_back()
        raise
    finally:
        _leave(owner)


@contextmanager
def recorded_passes(note: Callable[[int, int, Segment], None]) -> Iterator[None]:
    """Inside the block each part of a backward pass is recorded: the launcher runs none by itself.

    note: called with (serial of the trace, position, segment) for each recorded part
    """
    before = {name: _hot.slot(name) for name in ("backward_on", "pass_segments")}
    _hot.set_slot("backward_on", _recorded_on)
    _hot.set_slot("pass_segments", lambda *_: False)
    WATCHERS.append(note)
    try:
        yield
    finally:
        WATCHERS.remove(note)
        for name, function in before.items():
            _hot.set_slot(name, function)


def _recorded_on(
    trace: Trace, retain: bool, leaves: list[Any], older: list[Value], fresh: list[Any]
) -> None:
    """`backward_on` of the launcher, with all further parts of the pass recorded."""
    owner = BackwardPass(trace, None, retain, False, False)
    older = list(older)
    for leaf, g in zip(reversed(leaves), reversed(fresh), strict=True):
        if leaf is None:
            owner.contribute(older.pop(), g)
        else:
            have = owner.totals.get(id(leaf))
            owner.totals[id(leaf)] = [leaf, g if have is None else have[1] + g]
    fresh.clear()
    mode = trace.mode
    trace.mode = with_grad(mode, False)
    try:
        go_on(trace, retain, owner.heap, owner.segments, owner.pending, owner.totals)
    finally:
        trace.mode = mode


def _leave(owner: BackwardPass) -> None:
    ROWS.append(BackwardRow(owner.asked))
    owner._start = owner._reach = None  # both lead back to the owner
    key = _whose(owner.trace)
    stack = _PASSES.get(key)
    if stack and stack[-1] is owner:  # not so if the pass was cut short before this point
        stack.pop()
    if not stack:
        _PASSES.pop(key, None)


def _seeds(
    owner: BackwardPass, roots: list[Any], gradients: list[Any]
) -> tuple[dict[int, Any], Any]:
    """Gradients of pending roots by dense index (None for ones), and any of those roots.

    Held roots go to the owner.
    """
    trace = owner.trace
    if len(roots) == 1 and gradients[0] is None:
        value = _hot.value_of(roots[0])
        pending = value.buffer is None and value.error is None and value.trace is trace
        if pending and value.leaf is None:
            return {value.index: None}, value
    pairs: dict[int, tuple[Value, Any]] = {}
    for root, g in zip(roots, gradients, strict=True):
        value = _hot.value_of(root)
        if value.buffer is None and value.trace is not None and value.trace is not trace:
            _hot.flush(value.trace)
        if value.buffer is None and value.error is not None:
            raise value.error
        have = pairs.get(id(value))
        if have is not None:
            g = (ones_like(value) if g is None else g) + have[1]
        elif g is None and (value.buffer is not None or len(roots) > 1):
            g = ones_like(value)
        pairs[id(value)] = (value, g)
    seeds: dict[int, Any] = {}
    anchor = None
    for value, g in pairs.values():  # nothing is recorded from here on, so nothing is flushed
        if value.buffer is None and value.trace is trace and value.leaf is None:
            seeds[value.index] = g
            anchor = value
    for value, g in pairs.values():
        if value.leaf is not None or value.segment is not None:
            owner.contribute(value, ones_like(value) if g is None else g)
    return seeds, anchor


def accumulate_known(leaf: Leaf, g: Tensor) -> None:
    """Add a gradient that `backward_known` found to the leaf's present gradient."""
    trace = _hot.current_trace()
    mode = trace.mode
    trace.mode = with_grad(mode, False)
    try:
        accumulate_hooked(leaf, g, False)
    finally:
        trace.mode = mode


_hot.set_slot("accumulate", accumulate_known)
_hot.set_slot("go_on", go_on)


def with_grad(mode: Mode, grad: bool) -> Mode:
    """The mode with gradients switched on or off."""
    if not grad:
        return _types.off_mode(mode)
    if mode.key[0] == grad:
        return mode
    return _types.intern_mode(grad, *mode.key[1:])


class GradMode(_modules.ModeBlock):
    """Context: gradients are recorded, or are not.  It ends natively, also for an interrupt."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def _mode(self, mode: Mode) -> Mode:
        return with_grad(mode, self.on)
