"""Runs a new path as a sequence of parts that have come before: turns of the program's loops.

A program's work is a product of parts: four batches of eight lengths are 4 096 paths, and a tree
may have any shape. Each part is a path of a separate trie, with a plan and machine code. So new
paths run known parts as machine code. A path that keeps coming back is planned as a whole. Until
that plan has machine code, the parts go on.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import numpy as np

from wend._engine.base import config, defects
from wend._engine.base.devices import accelerator_among
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core import _hot, _trie_policy
from wend._engine.core._hot import FlushJob, Segment, State, Trace, Value
from wend._engine.core._select import is_compiled
from wend._engine.core.graph import path_at
from wend._engine.core.primitive import Primitive
from wend._engine.core.provenance import current_site
from wend._engine.core.step_log import NEVER_BACK
from wend._engine.runtime.batching import group_choice
from wend._engine.runtime.batching.signatures import Pauses, words
from wend._engine.runtime.executors import FlushRun
from wend._engine.runtime.flush_log import PART_ROOTS, note_grouped
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.parts import _cutter_select
from wend._engine.runtime.parts.slots import NotYet, Unlinkable
from wend._engine.runtime.tiers import PLANNING, THIRD, TieredPlan
from wend._engine.transforms.hooks import retaining
from wend._engine.transforms.quick import WATCHERS

_cutter: ModuleType = _cutter_select.select()

#: The root of the trie of parts.
ROOT = State(None, None)
PART_ROOTS.append(ROOT)
#: So many ops a part has at least.
LEAST = 4
#: Groups run equal ops side by side: where that is so for this share of the steps, it pays. Fewer
#: steps than this count as so many, off the trie for one and a half times as many at most: what
#: groups do once per flush has to be worthwhile.
SIDE_BY_SIDE, FEWEST = 0.34, 140
#: Paths of training, and paths that come back, are linked in the end if they have so many parts at
#: most: there fewer steps than the second number count as so many.
FEW, FEWEST_BACK = 32, 400
#: A path comes back often if a visit comes at least every so many flushes.
FREQUENT = 16
#: Flushes of more steps are not looked at: groups take long flushes.
MOST = 500
#: Whether flushes are cut at all: in plain Python the cutting would take too long.
CUTS = is_compiled(_cutter)
#: From this visit on a path is planned as a whole, if at least one of so many flushes is a visit.
#: If fewer than a flush in `OFTEN` is a visit, parts first take as long as planning will.
WHOLE, SELDOM, OFTEN = 3, 128, 16
#: The key, among the plans of a path, of where its parts end (see `Cutter`).
ENDS = "ends of parts"
#: The key, among the plans of a path, of the seconds that visits in parts have taken.
SPENT = "seconds in parts"
#: The key, among the plans of a path with parts, of the visit from which on the parts are linked.
LINKS = "visit of a link"
#: Seconds that linking takes for an op that was recorded, about.
LINKING = 0.00005
#: Links run a path until that has taken this many times as long as planning will: a plan of the
#: whole path saves a twentieth of the time. The plan saves more where Python runs steps of a link.
LINKED, LINKED_HOSTS = 20.0, 2.0
#: So many visits of a link are timed.
TIMED = 4
#: Seconds that LLVM and an accelerator's driver take for the kernels of an op, about.
TRANSLATING = 0.01
_ONE = np.ones((), np.float32)

#: Pauses where most steps of parts are new.
PAUSES = Pauses(4096)

#: The list of states of the flush that a backward pass has cut, and its cutter.
_asked: tuple[list[Any], Any] | None = None


def suited(prim: Any) -> bool:
    """Return whether an op may be in a part."""
    if not isinstance(prim, Primitive):
        return False
    return not prim.facts.calls_user


_cutter.ASK["suited"] = suited
_cutter.ASK["words"] = words


def allowed(job: Any) -> bool:
    """Return whether the settings let the parts of a flush or trace be computed apart."""
    return not why_whole(job)


def why_whole(job: Any) -> str:
    """Return why a flush or trace is not cut into parts, or ""."""
    settings = config.settings
    if not CUTS or not settings.autobatch or settings.deterministic or not settings.compile:
        return "autobatch(False), deterministic algorithms, WEND_COMPILE=0 or WEND_PURE=1 is on"
    if settings.wait or settings.nan_guard or WATCHERS:  # those who watch look at whole flushes
        return "a profiler, nan_guard or WEND_COMPILE=force needs it whole"
    if len(job.states) > MOST:
        return f"it has more than {MOST} ops"
    if job.extra is not None or retaining():
        return "hooks or retain_grad() need single ops"
    return "several threads record ops" if _hot.several() else ""


def cutter_of(job: Any, is_backward: bool = False) -> Any:
    """Return a cutter of a trace or flush that is better run in parts, or None.

    A flush with a backward pass and an optimizer's step behind the pass comes back as a whole.

    is_backward: whether a backward pass is about to begin
    """
    state = job.state
    if PAUSES.rests():
        return None
    cutter = _cutter.Cutter(job, ROOT)
    known = None if state is None else (state.plans or {}).get(ENDS)
    if known is not None:
        cutter.whole, ends = known
        cutter.ends.extend(ends)
        cutter.follow()
        return cutter
    if not cutter.cut(LEAST):
        return None
    n, least = len(cutter.ends), 2 if cutter.whole and not is_backward else 1
    if n <= least:
        return None
    n_steps: float = len(job.states) - (cutter.ends[0] if cutter.whole else 0)
    if state is None:
        n_steps = min(max(n_steps, FEWEST), 1.5 * n_steps)
    elif n <= FEW and (is_backward or (state.passed > 1 and is_frequent(state))):
        n_steps = max(n_steps, FEWEST_BACK)
    if cutter.follow() > SIDE_BY_SIDE * n_steps:
        return None
    if state is not None:
        if state.plans is None:
            state.plans = {}
        state.plans[ENDS] = cutter.whole, tuple(cutter.ends)
    return cutter


def why_not(run: FlushRun) -> str:
    """Return why a flush is not run in parts, or ""."""
    job = run.job
    if _asked is not None and job.states is _asked[0]:
        return ""
    if whole := why_whole(job):
        return whole
    if job.states[0].parent is ROOT:
        return "it is a part itself"
    state = job.state
    if (
        state is not None
        and comes_back(state)
        and not waits_for_accelerator(state, job)
        and not waits(state, run.live)
    ):
        return "its path comes back often enough for machine code of the whole"
    return ""


def comes_back(state: State) -> bool:
    """Return whether a path comes back so often that a plan of the whole path pays.

    Nobody knows how often the path is still to come. So parts may take about as long as planning.
    """
    flushes = _hot.count("flushes") - state.born
    if state.passed < WHOLE - 1 or flushes > SELDOM * state.passed:
        return False
    if flushes <= OFTEN * state.passed:
        return True
    plans = state.plans or {}
    known = plans.get(ENDS)
    return known is None or plans.get(SPENT, 0.0) >= PLANNING * known[1][-1]


def is_on_accelerator(job: Any) -> bool:
    """Return whether values of a trace or flush lie on an accelerator."""
    return accelerator_among(v.type for v in job.values) is not None


def waits_for_accelerator(state: State, job: Any) -> bool:
    """Return whether parts go on with a path until a plan of the whole pays on its accelerator.

    There the visit that makes the plan waits for the machine code.

    job: a trace or flush of the path
    """
    plans = state.plans or {}
    if ENDS not in plans or plans.get(SPENT, 0.0) >= TRANSLATING * plans[ENDS][1][-1]:
        return False
    return is_on_accelerator(job)


def note_spent(state: State | None, start: float) -> None:
    """Add the time since `start` to what visits of a path in parts have taken."""
    if state is not None and state.plans is not None and ENDS in state.plans:
        plans = state.plans
        plans[SPENT] = plans.get(SPENT, 0.0) + time.perf_counter() - start


def waits(state: State, live: list[int]) -> bool:
    """Return whether a path has parts, and its plan for the live values has no machine code."""
    plans = state.plans or {}
    if ENDS not in plans:
        return False
    plan = plans.get(tuple(live))
    return isinstance(plan, TieredPlan) and plan.awaited(plan.seconds)


def run_parts(run: FlushRun) -> str:
    """Compute a flush part by part; return why another executor has to, or ""."""
    job, start = run.job, time.perf_counter()
    by_backward = _asked is not None and job.states is _asked[0]
    cutter = _asked[1] if by_backward and _asked is not None else cutter_of(job)
    if cutter is None:
        return "no part of it has come before, or its parts run in groups"
    cutter.want(run.live)
    for _ in cutter.ends:
        part, live = cutter.take(_hot.fresh_serial())
        if part.states[-1].is_step and part.states[-1].passed == 0:
            path_at(part.states, part.values, part.args)  # steps expect composites expanded
        if live:
            launcher.execute(part, live)
            _cutter.count(ROOT, part.states)
        for value in cutter.spent:
            value.buffer = None
    if 4 * cutter.fresh < len(job.states):
        PAUSES.go_on()
    else:
        PAUSES.strike()
    if not by_backward:
        note_spent(job.state, start)
    note_grouped(job, run.asked, (0, 0))
    return ""


def backward_in_parts(trace: Trace, value: Value, retain: bool) -> bool:
    """Flush a new path in parts, and pass their segments; return False if nothing was done."""
    global _asked
    if not value.requires_grad or value.leaf is not None or value.type.rank > 0:
        return False
    if trace.eager or trace.fiber is not None or trace.mode.key[5] or not allowed(trace):
        return False
    dtype = value.type.dtype
    if dtype.category != 2:
        return False
    for v in trace.values:
        if v.segment is not None and is_grouped(v.segment):
            return False
    state, awaited, start = trace.state, None, time.perf_counter()
    if (
        state is not None
        and not retain
        and is_worth_linking(state)
        and not is_on_accelerator(trace)
        and can_link(trace, state, value.index)
    ):
        return False
    if (
        state is not None
        and comes_back(state)
        and not waits_for_accelerator(state, trace)
        and not leads_nowhere(state)
    ):
        if ENDS not in (state.plans or {}):
            return False
        awaited = group_choice.awaited_behind(state)
        if awaited is None or not awaited.goes_on():
            return False
    try:
        cutter = cutter_of(trace, True)
    except Exception as fault:
        if is_interrupt(fault):
            raise
        defects.note(fault, site=current_site())
        return False
    if cutter is not None:
        _asked = trace.states, cutter
        try:
            _hot.flush(trace)
        finally:
            _asked = None
    if awaited is not None:
        awaited.end_visit(cutter is not None, time.perf_counter() - start)
    if cutter is None or value.segment is None:
        return False
    seed = _ONE if dtype.numpy == np.float32 else np.ones((), dtype.numpy)
    gradient = _hot.wrap(_hot.held(value.type, seed))
    _hot.slot("backward_on")(trace, retain, [None], [value], [gradient])
    if trace.n:  # the last steps belong to no part
        _hot.flush(trace)
    note_spent(state, start)
    return True


def is_frequent(state: State) -> bool:
    """Return whether a path has come back, a visit at least every `FREQUENT` flushes."""
    return bool(0 < _hot.count("flushes") - state.born <= FREQUENT * state.passed)


def is_worth_linking(state: State) -> bool:
    """Return whether a path with parts has come back often enough to be linked.

    Nobody knows how often the path is still to come. See `comes_back`.
    """
    plans = state.plans or {}
    if ENDS not in plans or state.passed < plans.get(LINKS, 1):
        return False
    return bool(is_frequent(state) or plans.get(SPENT, 0.0) >= LINKING * plans[ENDS][1][-1])


def put_off(state: State, reason: Unlinkable, visits: int = 1) -> None:
    """Note that a path has not been linked, and after how many visits at least to try again."""
    assert state.plans is not None
    later = state.passed + visits + state.passed // 4
    state.plans[LINKS] = later if isinstance(reason, NotYet) else 4 * later


def can_link(trace: Trace, state: State, root: int) -> bool:
    """Return whether the parts of a path, and their backward steps, can be linked.

    The backward pass is recorded as a step then, and what follows belongs to the same flush.
    """
    from wend._engine.runtime.parts.links import check_backward  # few programs come here

    try:
        check_backward(trace, _hot.wanted(trace), root, ROOT, LEAST)
    except Unlinkable as reason:  # a decision, no failure: parts run the path
        put_off(state, reason)
        return False
    assert state.plans is not None
    state.plans.pop(group_choice.AWAITED, None)
    return True


def why_no_link(run: FlushRun) -> str:
    """Return why the parts of a flush are not linked, or ""."""
    job, plan = run.job, run.plan
    if job.state is None:
        return NEVER_BACK
    if isinstance(plan, TieredPlan) and plan.compiled is not None:
        return "the whole path has machine code"
    start = start_of(job)
    if start is None:
        return "it is not in parts"
    if job.states[0].parent is ROOT or (_asked is not None and job.states is _asked[0]):
        return "it is a part itself, or a backward pass runs in parts"
    if run.faults:
        return "machine code has failed in this flush"
    if whole := why_whole(job):
        return whole
    if getattr(plan, "linked", None) is None and not is_worth_linking(start):
        return "it has not come back often enough"
    if is_on_accelerator(job):
        return "its values lie on an accelerator, for which parts are not linked"
    return ""


def run_link(job: FlushJob, plan: Any) -> str:
    """Compute a flush by the machine code of its parts in a single launch; or return why not."""
    start = start_of(job)
    assert start is not None and start.plans is not None
    if not isinstance(plan, TieredPlan):
        return "compilation was off (WEND_COMPILE) when its path was planned"
    linked = plan.linked
    is_due = linked is not None and linked.timed >= TIMED and linked.native_plan.left == 0
    if linked is None or is_due:
        plan.reference.restore(job, short=False)
    if is_due:
        plan.visits, plan.seconds = THIRD, linked.seconds
        plan.spent = PLANNING * plan.n_ops
        plan.advance()
        if plan.compiled is not None:
            return "the whole path has got machine code"
    if linked is None:
        from wend._engine.runtime.parts.links import LinkedPlan

        linked = LinkedPlan(plan.reference)
    try:
        if not linked.run(job, ROOT, LEAST):
            return "a kernel has failed, or another thread runs the same path"
    except Unlinkable as reason:  # what follows the backward pass runs by itself meanwhile
        put_off(start, reason, THIRD)
        return str(reason)
    if linked.timed <= TIMED:
        times = LINKED_HOSTS if linked.has_host_steps() else LINKED
        visits = times * PLANNING * plan.n_ops / linked.seconds
        linked.native_plan.left = 0 if linked.timed < TIMED else int(visits) + 1
    plan.linked, plan.native_plan = linked, linked.native_plan
    return ""


def is_grouped(segment: Segment) -> bool:
    """Return whether groups or lanes computed a segment, and put gradients off."""
    later = None if segment.structure is None else segment.structure.later
    return later is not None and later.by_groups


def leads_nowhere(state: State) -> bool:
    """Return whether the trie would refuse the backward pass behind a path."""
    return _trie_policy.is_sealed(state) and not any(child.is_step for child in state.offspring())


def start_of(job: FlushJob) -> State | None:
    """Return the end of the path before the first backward pass of a flush, if that has parts."""
    start = next((state.parent for state in job.states if state.is_step), job.state)
    return None if start is None or ENDS not in (start.plans or {}) else start


def visits_of(job: FlushJob) -> int:
    """Return how many visits of a path have run in parts."""
    start = start_of(job)
    return 0 if start is None else int(start.passed)


_hot.set_slot("backward_in_parts", backward_in_parts)
