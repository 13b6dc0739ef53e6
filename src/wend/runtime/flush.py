"""Finds or makes the plan of a path, runs it, and keeps the trie within its bounds."""

from __future__ import annotations

from typing import Any

from wend.base import config, defects
from wend.base.collecting import CollectionPaused
from wend.base.interrupts import is_interrupt
from wend.core import _hot
from wend.core._hot import FlushJob, State
from wend.core.graph import PathGraph, forget, path_at
from wend.core.provenance import last_site
from wend.runtime.backend import MAX_PLANS, Executor, Plan
from wend.runtime.batching.executor import run_regions
from wend.runtime.batching.levels import GroupedPlan
from wend.runtime.batching.split_flush import run_in_parts
from wend.runtime.flush_log import note_flush
from wend.runtime.native.launcher import launcher
from wend.runtime.numpy_executor.plan import ReferencePlan
from wend.runtime.repair import is_done, is_told, run_instead, run_plainly, tell
from wend.runtime.tiers import TieredExecutor
from wend.runtime.verify.flushes import install

EXECUTOR: Executor = TieredExecutor()
COUNTS = {"plans": 0, "hits": 0}


def execute(batch: FlushJob, live: list[int]) -> None:
    """Compute the live values of a flush for which the launcher knows no ready plan."""
    try:
        if not run_regions(batch, live):
            run_instead(lambda: run_otherwise(batch, live), batch, live)
    finally:
        forget(batch.states)
    tell()


def run_otherwise(batch: FlushJob, live: list[int]) -> None:
    """Compute the live values of a flush in parts or by a plan, or else by rules alone."""
    try:
        if not run_in_parts(batch, live):
            run_planned(batch, live)
    except Exception as error:
        if is_told(error) or is_interrupt(error):
            raise
        if is_done(batch, live):
            defects.note(error, site=last_site(batch.states, batch.sites))
        else:
            run_plainly(lambda: plain_plan(batch, live), batch, error)


def run_planned(batch: FlushJob, live: list[int]) -> None:
    """Compute the live values of a flush by a plan for its path."""
    made = COUNTS["plans"]
    plan = find_plan(batch, live)
    note_flush(plan, batch, COUNTS["plans"] != made)
    try:
        plan.run(batch)
    finally:
        if batch.state is not None and batch.state.passed == 0:
            shed(plan, batch)


def plain_plan(batch: FlushJob, live: list[int]) -> ReferencePlan:
    """The plan whose rules are run one by one, where no other can be made."""
    wanted = frozenset(live)
    path = PathGraph(batch.states, batch.values, batch.args)
    return ReferencePlan(path, wanted, roots_of(batch, wanted))


def shed(plan: Plan, batch: FlushJob) -> None:
    """A new path: most do not come back, and what can be made again would be a burden.

    Not where another thread may be running the plan.
    """
    if _hot.several():
        return
    plan.shed()
    for state in batch.states:
        if state.is_step and state.passed == 0:
            state.step.drop()


def find_plan(batch: FlushJob, live: list[int]) -> Plan:
    """The plan for this path and these values; one that computes more serves as well."""
    state = batch.state
    if state is None:
        wanted = frozenset(live)
        if config.settings.deterministic or not config.settings.autobatch:
            # Which structure is off the trie depends on what has run before in this process.
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
    """The nodes of a batch; composites may stay whole where a path is new."""
    state = batch.state
    short = state is not None and state.passed == 0 and not config.settings.wait
    return path_at(batch.states, batch.values, batch.args, short)


def make_plan(path: PathGraph, batch: FlushJob, wanted: frozenset[int]) -> Plan:
    """A plan that also keeps what a later backward from the wanted values needs."""
    COUNTS["plans"] += 1
    with CollectionPaused():
        return EXECUTOR.plan(path, wanted, roots_of(batch, wanted))


def roots_of(batch: FlushJob, wanted: frozenset[int]) -> frozenset[int]:
    """The wanted values from which a later backward may start."""
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
    """All states below `root`."""
    out: list[State] = []
    stack = [root]
    while stack:
        children = stack.pop().offspring()
        out.extend(children)
        stack.extend(children)
    return out


def dismantle(state: State) -> None:
    """Cut a subtree apart without recursing, so that its states are freed one by one."""
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
