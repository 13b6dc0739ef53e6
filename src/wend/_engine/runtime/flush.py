"""Chooses who runs a flush (`EXECUTORS`), finds or makes plans, and keeps the trie small."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.base import config, defects
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core import _hot
from wend._engine.core._hot import FlushJob, State
from wend._engine.core.graph import PathGraph, forget, path_at
from wend._engine.core.provenance import last_site
from wend._engine.runtime.backend import MAX_KEYS, MAX_PLANS, Executor, Plan
from wend._engine.runtime.batching.executor import await_code, run_regions
from wend._engine.runtime.batching.levels import GroupedPlan
from wend._engine.runtime.batching.report import next_record
from wend._engine.runtime.batching.split_flush import run_in_parts
from wend._engine.runtime.flush_log import note_flush, note_grouped
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.repair import is_done, is_told, run_instead, run_plainly, tell
from wend._engine.runtime.tiers import TieredExecutor
from wend._engine.runtime.verify.flushes import install

EXECUTOR: Executor = TieredExecutor()
COUNTS = {"plans": 0, "hits": 0}


class FlushExecutor(NamedTuple):
    """A way to run a flush.

    name: the executor's name in reports
    purpose: the kind of flush that the executor is for
    why_not: returns why this executor declines a flush, or ""; cheap, and without an effect
    run: computes the live values; returns why this executor could not after all, or ""
    """

    name: str
    purpose: str
    why_not: Callable[[FlushJob, list[int]], str]
    run: Callable[[FlushJob, list[int]], str]


def not_ready(job: FlushJob, live: list[int]) -> str:
    """Return why the launcher has not run a flush by itself: see `native._launch.execute`."""
    if job.state is None:
        return "it is off the trie"
    if job.state.passed == 0:
        return "its path is new"
    if job.state.plans is None or tuple(live) not in job.state.plans:
        return "no plan is known for the values that are wanted"
    return "its plan has no machine code for these sizes yet"


def off_trie(job: FlushJob, live: list[int]) -> str:
    """Return why no plan is kept for a flush, or ""."""
    if job.state is None and config.settings.autobatch and not config.settings.deterministic:
        return "it is off the trie: no plan would be found again"
    return ""


def found_out_by_running(job: FlushJob, live: list[int]) -> str:
    """Return "": only `run` of this executor can tell, and gives the reason."""
    return ""


def run_planned(job: FlushJob, live: list[int]) -> str:
    """Compute the live values of a flush by a plan for its path."""
    made = COUNTS["plans"]
    plan = find_plan(job, live)
    at = next_record()
    records = (at, at + 1) if isinstance(plan, GroupedPlan) else (0, 0)
    asked = [*_asked(), (name_of_plan(plan), "")]
    note_flush(plan, job, COUNTS["plans"] != made, asked, records)
    try:
        plan.run(job)
        if job.state is not None:
            await_code(plan, job)
    finally:
        if job.state is not None and job.state.passed == 0:
            shed(plan, job)
    return ""


def name_of_plan(plan: Plan) -> str:
    """Return the name of the executor that a plan belongs to."""
    return LEVELS.name if isinstance(plan, GroupedPlan) else PLANNED.name


#: The launcher runs a ready plan by itself, and asks no other executor.
READY = FlushExecutor(
    "ready plan", "machine code of a path that has come back, bound to these sizes",
    not_ready, not_ready,
)  # fmt: skip
BATCHED = FlushExecutor(
    "groups of regions", "ops of one structure run together, where paths do not come back",
    found_out_by_running, lambda job, live: run_regions(job, live),
)  # fmt: skip
SPLIT = FlushExecutor(
    "two parts", "a few ops run first, and the others by groups of regions",
    found_out_by_running, lambda job, live: run_in_parts(job, live),
)  # fmt: skip
PLANNED = FlushExecutor(
    "plan", "a plan that hangs on the trie: by NumPy at first, then by machine code",
    off_trie, run_planned,
)  # fmt: skip
LEVELS = FlushExecutor(
    "levels", "single ops of one kind and depth run together",
    found_out_by_running, run_planned,
)  # fmt: skip
#: All executors that may run a flush, in the order in which they are asked.
EXECUTORS = (READY, BATCHED, SPLIT, PLANNED, LEVELS)


def execute(job: FlushJob, live: list[int]) -> None:
    """Compute the live values of a flush for which the launcher knows no ready plan."""
    outer = getattr(_flush, "asked", None)
    _flush.asked = asked = [(READY.name, not_ready(job, live))]
    begin = next_record()
    try:
        if ask(BATCHED, job, live):
            note_grouped(job, asked, (begin, next_record()))
        else:
            run_instead(lambda: run_otherwise(job, live), job, live)
    finally:
        _flush.asked = outer
        forget(job.states)
    tell()


#: `asked`: the executors that this thread's innermost flush has asked, each with its reason.
_flush = threading.local()


def _asked() -> list[tuple[str, str]]:
    return getattr(_flush, "asked", None) or []


def ask(executor: FlushExecutor, job: FlushJob, live: list[int]) -> bool:
    """Let an executor run a flush; return False, and note the reason, if the executor declines."""
    reason = executor.why_not(job, live) or executor.run(job, live)
    _asked().append((executor.name, reason))
    return not reason


def run_otherwise(job: FlushJob, live: list[int]) -> None:
    """Compute the live values of a flush by an executor behind the first two, or by rules alone."""
    try:
        begin = next_record()
        for executor in EXECUTORS[2:]:
            if ask(executor, job, live):
                if executor is SPLIT:
                    note_grouped(job, _asked(), (begin, next_record()))
                return
    except Exception as error:
        if is_told(error) or is_interrupt(error):
            raise
        if is_done(job, live):
            defects.note(error, site=last_site(job.states, job.sites))
        else:
            run_plainly(lambda: plain_plan(job, live), job, error)


def plain_plan(batch: FlushJob, live: list[int]) -> ReferencePlan:
    """Return a plan whose rules are run one by one, for where no other plan can be made."""
    wanted = frozenset(live)
    path = PathGraph(batch.states, batch.values, batch.args)
    return ReferencePlan(path, wanted, roots_of(batch, wanted))


def shed(plan: Plan, batch: FlushJob) -> None:
    """Drop the parts of a new path's plan that can be made again: most paths do not come back.

    Nothing is dropped where another thread may be running the plan.
    """
    if _hot.several():
        return
    plan.shed()
    for state in batch.states:
        if state.is_step and state.passed == 0:
            state.step.drop()


def find_plan(batch: FlushJob, live: list[int]) -> Plan:
    """Return a plan for this path that computes at least these values."""
    state = batch.state
    if state is None:
        wanted = frozenset(live)
        if config.settings.deterministic or not config.settings.autobatch:
            # Whether a structure is off the trie depends on earlier flushes of this process.
            return make_plan(path_of(batch), batch, wanted)
        with CollectionPaused():
            return GroupedPlan(path_of(batch), wanted, roots_of(batch, wanted))
    plans = state.plans
    if plans is None:
        plans = state.plans = {}
    key = tuple(live)
    found: Plan | None = plans.get(key)
    if found is not None:
        COUNTS["hits"] += 1
        return found
    wanted = frozenset(live)
    kept: list[Plan] = plans.setdefault("plans", [])
    for plan in kept:
        if wanted <= plan.wanted:
            # The launcher finds a ready plan by exactly the values that are wanted.
            if len(plans) < MAX_KEYS:
                plans[key] = plan
            return plan
    if len(kept) >= MAX_PLANS:
        for plan in kept:
            wanted |= plan.wanted
        kept.clear()
        for old in [k for k in plans if isinstance(k, tuple) and not _is_backward(k)]:
            del plans[old]
    plan = make_plan(path_of(batch), batch, wanted)
    kept.append(plan)
    plans[key] = plan
    return plan


def _is_backward(key: tuple[Any, ...]) -> bool:
    return len(key) > 0 and key[0] == "backward"


def path_of(batch: FlushJob) -> PathGraph:
    """Return the nodes of a batch; composites may stay whole where a path is new."""
    state = batch.state
    short = state is not None and state.passed == 0 and not config.settings.wait
    return path_at(batch.states, batch.values, batch.args, short)


def make_plan(path: PathGraph, batch: FlushJob, wanted: frozenset[int]) -> Plan:
    """Return a plan that also saves the values for a later backward from the wanted values."""
    COUNTS["plans"] += 1
    with CollectionPaused():
        return EXECUTOR.plan(path, wanted, roots_of(batch, wanted))


def roots_of(batch: FlushJob, wanted: frozenset[int]) -> frozenset[int]:
    """Return the wanted values from which a later backward may start."""
    values = batch.values
    return frozenset(i for i in wanted if values[i].requires_grad and values[i].leaf is None)


def evict(root: State) -> None:
    """Drop the half of the trie that has not been visited for longest."""
    stamps = sorted(s.stamp for s in walk(root))
    if not stamps:
        return
    limit = stamps[len(stamps) // 2]
    stack = [root]
    count = 0
    while stack:
        state = stack.pop()
        children = state.offspring()
        kept = [child for child in children if child.stamp > limit]
        if len(kept) < len(children):
            state.retain(kept)
            for child in children:
                if child.stamp <= limit:
                    dismantle(child)
        count += len(kept)
        stack.extend(kept)
    _hot.set_count("states", count)


def walk(root: State) -> list[State]:
    """Return all states below `root`."""
    out: list[State] = []
    stack = [root]
    while stack:
        children = stack.pop().offspring()
        out.extend(children)
        stack.extend(children)
    return out


def dismantle(state: State) -> None:
    """Cut a subtree apart without recursing, so that the states are freed one by one."""
    stack = [state]
    while stack:
        current = stack.pop()
        stack.extend(current.offspring())
        current.retain([])
        current.plans = None
        current.parent = None
        current.linked = False


launcher.fill("planner", execute)
install("execute", launcher.execute)
_hot.set_slot("evict", evict)
