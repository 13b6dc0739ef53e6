"""Runs pending ops off the trie by groups of regions, forward and backward.

Native code sorts the ops of a flush whose structure does not come back (see `_grouper`).  Each
group then gathers the rows that it reads from outside, and runs its structure's functions once.  A
backward pass over pending ops runs at once, group by group in reverse, without nodes in Python.
Writes in place, users' functions and graphs that are kept are left to another executor: `Unsuited`
is raised for these before anything has been changed.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base import config
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.devices import accelerator_among
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core import _hot, _trie_policy
from wend._engine.core._hot import FlushJob, State, Trace, Value
from wend._engine.core._select import is_compiled
from wend._engine.core._types import LeafPrimitive, PrimitiveBase
from wend._engine.core.step_log import ON_ACCELERATOR
from wend._engine.runtime.batching.backward import Execution
from wend._engine.runtime.batching.deferred_backward import lead_to
from wend._engine.runtime.batching.per_op import PerOpExecution
from wend._engine.runtime.batching.report import note
from wend._engine.runtime.batching.signatures import BOOK, SINGLES, ops_of
from wend._engine.runtime.batching.slabs import SMALL, Unsuited
from wend._engine.runtime.tiers import MOST_AWAITED, TieredPlan, is_making_others
from wend._engine.runtime.verify.flushes import check_gradients
from wend._engine.transforms.hooks import retaining

_UNCOMPILED = not is_compiled(_hot)
#: A path of at least so many ops is run by groups the first time, as if off the trie.
LONG = 200
#: A path of fewer ops, which are so many primitives, is run by groups from the third time on, until
#: its plan has machine code.
MANY = 300
#: A group of at least so many regions is large.
LARGE = 4
#: The key, among the plans of a path, of the share of grouped ops that ran in large groups; and the
#: least share for which a path that comes back is run by groups again.
SHARE, ENOUGH = "share in large groups", 0.5
#: The key, among the plans of a path, of the `Awaited` plan of what follows on it.
AWAITED = "plan in the making"
#: About how many ops a path and its backward pass have together, for each op of the path. A path
#: whose backward pass is too long to be planned stays with groups, which run both.
WITH_BACKWARD = 3
#: So many visits run in parts, until a visit shows whether several backward passes that were
#: planned as a whole have followed on each other again.
GUESSES = 4
#: The visit by groups from which on the duration counts: earlier visits make templates. Until the
#: second number, the duration does not count while machine code of templates is in the making.
SETTLED, SETTLED_ANYWAY = 4, 40
#: So many visits in a row that take longer than the reference are the last ones by groups.
SLOWER = 4
#: Seconds without a visit after which a long path that is being planned holds up no other.
FORGOTTEN = 5.0
#: Backward passes that flushes are to run, by the id of the flush's list of values: (number of
#: values, (execution, seeds, list for the gradients)).  The number is compared, because another
#: thread or fiber may record more ops before the flush runs.
_ASKED: dict[int, Any] = {}


class Awaited:
    """A long path's plan that has no machine code yet; groups run the path until it has.

    The plan is that of the pending ops together with the step of their backward pass. While the
    plan is awaited, no such step is recorded.
    """

    __slots__ = (
        "guess",
        "plan",
        "planning",
        "reference",
        "refused",
        "seconds",
        "slower",
        "visits",
        "waits",
    )

    def __init__(self, plan: TieredPlan) -> None:
        #: The trie may let go of the plan.
        self.plan: Callable[[], TieredPlan | None] = weakref.ref(plan)
        self.reference = plan.seconds  # duration of the visit by the plan without machine code
        self.refused = False  # whether groups have turned out not to run the path, or more slowly
        self.seconds = 0.0  # duration of the last visit by groups, without planning
        self.planning = 0.0  # duration of planning in the visit that is under way
        self.visits = 0
        self.slower = 0  # how many visits in a row have taken longer than the reference
        self.waits = False  # whether groups are to run the visit that is under way
        #: The end of the planned path, and its visits, if the path has several backward passes:
        #: other batches may follow next time. None once the same have followed.
        self.guess: tuple[Any, int] | None = None

    def goes_on(self) -> bool:
        """Go on with planning; return whether groups are to run this visit as well."""
        if self.guess is not None and self.visits >= GUESSES:
            return self.verify()
        plan = None if self.refused else self.plan()
        start = time.perf_counter()
        self.waits = plan is not None and plan.awaited(self.seconds)
        self.planning = time.perf_counter() - start
        return self.waits

    def verify(self) -> bool:
        """Let a visit run as a whole, to see whether what was planned follows; returns False.

        Where something else has followed, the plan is awaited no more.
        """
        assert self.guess is not None
        end, passed = self.guess
        state = end()
        if self.visits > GUESSES:
            self.guess = None
            if state is None or state.passed <= passed:
                self.plan = _no_plan
        elif state is not None:
            self.guess = end, state.passed
        self.visits += 1
        return False

    def end_visit(self, ran: bool, seconds: float) -> None:
        """Note how a visit has ended.

        ran: whether groups have run the path
        seconds: duration of the visit
        """
        if self.waits:
            self.visits += 1
            seconds -= self.planning
            slow = seconds > self.reference and self.is_settled()
            self.slower = self.slower + 1 if slow else 0
            refused = not ran or self.slower >= SLOWER
            self.waits, self.refused, self.seconds = False, refused, seconds

    def is_settled(self) -> bool:
        """Return whether the duration of a visit counts."""
        if self.visits < SETTLED_ANYWAY and is_making_others(self.plan()):
            return False
        return self.visits >= SETTLED


def _no_plan() -> TieredPlan | None:
    """Stand in for a reference to a plan."""
    return None


def backward_at_once(trace: Trace, seeds: dict[int, Any]) -> list[tuple[Any, Any]] | None:
    """Run `run_backward` without garbage collection: all pending ops are in use until its end."""
    with CollectionPaused():
        return run_backward(trace, seeds)


def run_backward(trace: Trace, seeds: dict[int, Any]) -> list[tuple[Any, Any]] | None:
    """Compute the pending ops and the gradients that flow from the seeds (slot of `grad`).

    Returns (value from outside, gradient) pairs; None if nothing was done, because another
    executor has to run this pass.

    seeds: gradients by index; None for a gradient of ones
    """
    if trace.eager or not allowed():
        return None
    if not suits_groups(trace.state, trace.states):
        awaited = awaited_behind(trace.state)
        if awaited is None or not awaited.goes_on():
            return None
    return run_by_groups(trace, seeds)


def awaited_behind(state: State | None) -> Awaited | None:
    """Return the plan that is awaited for what follows on a path, if any."""
    found: Awaited | None = None if state is None else (state.plans or {}).get(AWAITED)
    return found


def run_by_groups(trace: Trace, seeds: dict[int, Any]) -> list[tuple[Any, Any]] | None:
    """Run the pending ops of a trace that suits groups, and their gradients: see `run_backward`."""
    given = {}
    for i, g in seeds.items():
        if g is not None and _hot.value_of(g).buffer is None:
            return None
        given[i] = None if g is None else _hot.value_of(g).buffer
    batch = FlushJob(trace.states, trace.values, trace.args, trace.state, trace.sites, 0, [], None)
    values = trace.values
    live = _hot.wanted(trace)
    try:
        execution = execution_of(batch, (*live, *given))
    except Unsuited:  # `Unsuited` is a decision, no failure: another executor runs the pass
        return None
    execution.mark(live, list(given))
    roots = open_among(values, live)
    if not execution.covers(roots):
        return None
    found: list[Any] = []
    number = id(values)
    # The nodes that the pass does not go through have a pass of their own: see `DeferredBackward`.
    if lead_to(batch.states, roots, given):
        _ASKED[number] = len(values), (execution, given, found)
    trace.live, trace.n_live = live, len(values)
    del batch, values, execution  # else these would keep values that the flush could free
    try:
        _hot.flush(trace)
    finally:
        asked = _ASKED.get(number)
        if asked is not None and asked[1][2] is found:  # a new list may have got the same address
            _ASKED.pop(number, None)
    if not found:
        return None
    return [(value, _hot.wrap(_hot.held(value.type, g))) for value, g in found[0]]


def open_among(values: list[Value], live: list[int]) -> list[int]:
    """The results of a flush that a later backward pass may begin at."""
    return [i for i in live if values[i].requires_grad and values[i].leaf is None]


def execution_of(batch: FlushJob, read: Sequence[int]) -> Execution:
    """Return an execution of the whole flush, or else of the steps that the read values need.

    read: the values that are read
    Raises Unsuited if another executor has to run the flush.
    """
    try:
        return sorted_out(batch)
    except Unsuited:
        lean = without_unread_steps(batch, read)
        if lean is None:
            raise
        return sorted_out(lean)


def without_unread_steps(batch: FlushJob, read: Sequence[int]) -> FlushJob | None:
    """Return the flush without steps of backward passes whose gradients nobody reads.

    Ops whose results nobody reads are left out, too.  Returns None if there are no such steps.
    """
    if not any(state.is_step for state in batch.states):
        return None
    used, kept, found = set(read), [], False
    for k in range(len(batch.states) - 1, -1, -1):
        state = batch.states[k]
        prim = state.prim
        if type(prim) is not LeafPrimitive:
            step = state.is_step
            known = isinstance(state.prim, PrimitiveBase)
            silent = step or (known and not prim.facts.calls_user)
            if silent and used.isdisjoint(range(state.first, state.first + state.n_out)):
                found = found or step
                continue
            used.update(state.operand_indices())
        kept.append(k)
    if not found:
        return None
    kept.reverse()
    sites = batch.sites or {}
    return FlushJob(
        [batch.states[k] for k in kept], batch.values, batch.args, batch.state,
        {new: sites[k] for new, k in enumerate(kept) if k in sites},
        batch.serial, batch.touched, batch.extra,
    )  # fmt: skip


def sorted_out(batch: FlushJob) -> Execution:
    """Return an execution by regions, or by single ops where regions do not come back.

    Raises Unsuited if another executor has to run the flush.
    """
    if accelerator_among(v.type for v in batch.values) is not None:
        raise Unsuited(ON_ACCELERATOR)
    if BOOK.begin():
        try:
            return Execution(batch)
        except Unsuited:
            if batch.state is not None:
                raise
    if batch.state is not None or not SINGLES.begin():
        raise Unsuited("few of its ops were alike the last times, and looking for such ops pauses")
    return PerOpExecution(batch)


def suits_groups(state: State | None, states: list[Any]) -> bool:
    """Whether groups are the better way to run a path.

    Off the trie no plan would be found again. Planning a long path takes far longer than running
    the first visit by groups. Later visits are run by groups if the groups have been large enough.
    """
    if state is None:
        return True
    if len(states) < LONG:
        return False
    if state.passed == 0 or (state.plans or {}).get(SHARE, 0.0) >= ENOUGH:
        return True
    return SHARE in (state.plans or {}) and not may_begin(state)


def may_begin(state: State) -> bool:
    """Whether a long path that has come back may be run by a plan, to be planned from then on.

    Such a visit takes far longer than one by groups, so that one path begins at a time. A path
    whose continuation the trie refuses would find no plan again.
    """
    plans = state.plans or {}
    if AWAITED in plans or any(type(plan) is TieredPlan for plan in plans.values()):
        return True
    making = None if _in_making is None else _in_making()
    unfinished = making is not None and making.compiled is None and not making.hopeless
    if making is not None and unfinished and time.perf_counter() - making.visited < FORGOTTEN:
        return False
    return not _trie_policy.is_sealed(state)


def note_share(state: State | None, groups: list[Any]) -> None:
    """Keep with a path which share of the ops in groups ran in large groups.

    Leaves, and views that only give an address, are in no group.
    """
    if state is not None and groups:
        if state.plans is None:
            state.plans = {}
        sizes = [(group.count, group.count * len(ops_of(group.node))) for group in groups]
        large = sum([n_ops for count, n_ops in sizes if count >= LARGE])
        state.plans[SHARE] = large / sum([n_ops for _, n_ops in sizes])


def note_making(plan: TieredPlan) -> None:
    """Note that a long path has begun to be planned: see `may_begin`."""
    global _in_making
    _in_making = weakref.ref(plan)


_in_making: weakref.ref[TieredPlan] | None = None


def is_worth(plan: TieredPlan, ops: int) -> bool:
    """Return whether a path that has come back is long enough for groups, while code is awaited.

    ops: how many of the path's ops the groups would run
    """
    return ops >= LONG or (ops > 0 and plan.n_ops >= MANY)


def await_code(plan: object, batch: FlushJob, in_parts: bool) -> None:
    """Let groups or parts run the next visits of a path that has just run by a plan, if they can.

    The core must not record the path's backward pass by itself then.
    """
    if not isinstance(plan, TieredPlan) or plan.compiled is not None or not allowed():
        return
    if len(batch.states) >= LONG:
        note_making(plan)
    step = next((k for k, state in enumerate(batch.states) if state.is_step), 0)
    start = batch.states[step].parent
    if not (in_parts or is_worth(plan, step)) or start is None or start.passed == 0:
        return
    plans = start.plans = start.plans or {}
    known = plans.get(AWAITED)
    if known is None or not known.refused:
        plans[AWAITED] = awaited = Awaited(plan)
        batch.states[step].simple = 0
        if in_parts and any(state.is_step for state in batch.states[step + 1 :]):
            awaited.guess = weakref.ref(batch.states[-1]), 0
        if step >= LONG:
            plan.begin(batch)


def allowed() -> bool:
    """Whether the settings allow batching, whose order of sums depends on all pending ops.

    Groups fill tables and argument blocks that the flushes of all threads use. In the uncompiled
    core another thread may come in between.
    """
    settings = config.settings
    return settings.autobatch and not settings.deterministic and not shares_tables()


def shares_tables() -> bool:
    """Whether another thread may come in between while groups fill their tables."""
    return _UNCOMPILED and _hot.several()


def why_not(batch: FlushJob, live: list[int]) -> str:
    """Return why a flush must not run by groups; "" if the flush may."""
    if _ASKED.get(id(batch.values), (0, None))[0] == len(batch.values):
        return ""  # a backward pass has begun with these groups
    if shares_tables():
        return "several threads record ops"
    if not allowed():
        return "autobatch(False) or deterministic algorithms are on"
    if accelerator_among(v.type for v in batch.values) is not None:
        return ON_ACCELERATOR
    if not suits_groups(batch.state, batch.states) and not awaits_code(batch, live):
        return "its path may come back: machine code is quicker"
    return ""


def awaits_code(batch: FlushJob, live: list[int], goes_on: bool = True) -> bool:
    """Whether a long path has come back, and the plan for the live values has no machine code.

    goes_on: whether planning is to go on
    """
    plan = (batch.state.plans or {}).get(tuple(live))
    if not isinstance(plan, TieredPlan) or not is_worth(plan, len(batch.states)):
        return False
    if open_among(batch.values, live) and plan.n_ops * WITH_BACKWARD > MOST_AWAITED:
        return plan.compiled is None
    if not goes_on:
        return plan.may_wait(plan.seconds)
    return plan.awaited(plan.seconds)  # nobody has timed the groups: the reference stands for them


def run_regions(batch: FlushJob, live: list[int], whole_state: State | None = None) -> str:
    """Compute the live values of a flush that `why_not` lets groups run.

    Returns why another executor has to run the flush, or "".  Raises the failure of groups: the
    error of an op does not name the op's line yet.

    whole_state: the end of the path of the whole flush, if the batch is a part of it
    """
    whole = batch
    values = batch.values
    n, asked = _ASKED.pop(id(values), (0, None))
    if n != len(values):
        asked = None
    open_roots = open_among(values, live)
    if asked is None and open_roots and (batch.extra is not None or retaining()):
        return "hooks or retain_grad() ask for gradients of single ops"
    with CollectionPaused():
        try:
            if asked is None:
                execution = execution_of(batch, live)
                batch = execution.batch
                seeds = dict.fromkeys(open_roots)
                if open_roots:
                    execution.take_snapshots()
                    execution.room.block = SMALL
                execution.mark(live, list(seeds))
            else:
                execution, seeds, found = asked
                execution.batch = batch
            with execution.quiet():
                execution.forward()
                if asked is None and open_roots:
                    execution.check_gradients()
                if asked is not None:
                    gradients = execution.backward(seeds)
                    if config.settings.verify:
                        check_gradients(whole, seeds, gradients)
                execution.finish(live)
            note_share(whole_state or batch.state, execution.groups)
            groups, owners = execution.told()
            note(batch.states, batch.sites, groups, owners=owners)
            if asked is None and open_roots:
                execution.leave_open(live)
                return ""
            execution.room.free()
            if asked is not None:
                execution.leave_spent(live)
                found.append([(values[i], g) for i, g in gradients])
            return ""
        except Unsuited as unsuited:
            # `Unsuited` is a decision, no failure: another executor runs the flush.
            return str(unsuited)
        except Exception as fault:
            if not is_interrupt(fault):
                for i in live:  # the next executor also computes values for a backward pass
                    values[i].buffer = values[i].segment = None
            raise


def follow_settings() -> None:
    """Tell the core whether ops should wait for more ops, to run together."""
    _hot.set_autobatch(config.settings.autobatch)


config.settings.on_change(follow_settings)
follow_settings()
