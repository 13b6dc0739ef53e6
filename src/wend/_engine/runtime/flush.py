"""Chooses who runs a flush (`EXECUTORS`), finds or makes plans, and keeps the trie small."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend._engine.base import config
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.defects import UNTOLD
from wend._engine.core import _hot
from wend._engine.core._hot import FlushJob, State
from wend._engine.core.graph import PENDING, PathGraph, forget, path_at
from wend._engine.core.step_log import NEVER_BACK
from wend._engine.runtime import host_steps, tiers
from wend._engine.runtime.backend import MAX_KEYS, MAX_PLANS, Plan, Planner
from wend._engine.runtime.batching import group_choice
from wend._engine.runtime.batching.group_choice import await_code
from wend._engine.runtime.batching.levels import GroupedPlan
from wend._engine.runtime.batching.noted import next_record
from wend._engine.runtime.batching.split_flush import is_chosen, run_in_parts
from wend._engine.runtime.executors import Executor, FlushRun, compute
from wend._engine.runtime.flush_log import note_flush, note_grouped
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.parts import parts
from wend._engine.runtime.repair import tell
from wend._engine.runtime.tiers import TieredPlan, TieredPlanner
from wend._engine.runtime.verify.flushes import install

PLANNER: Planner = TieredPlanner()
COUNTS = {"plans": 0, "hits": 0}


# -- ready plan ---------------------------------------------------------------------------------


def not_ready(run: FlushRun) -> str:
    """Return why no plan runs at once, without further questions, or ""."""
    state = run.job.state
    if state is None:
        return NEVER_BACK
    if state.passed == 0:
        return "its path is new"
    run.plan = None if state.plans is None else known_plan(state.plans, run.live)
    if run.plan is None:
        return "it wants other values than its earlier runs: keep the same tensors each time"
    if run.plan.native_plan is None:
        return "its machine code is not made yet"
    if run.faults:
        return "machine code has failed in this flush"
    if config.settings.deterministic or config.settings.verify:
        return "deterministic algorithms or WEND_VERIFY are on"
    return ""


def run_ready(run: FlushRun) -> str:
    """Launch the machine code of a plan that is bound to these sizes.

    `native._launch.execute` has done the same for a plan that the exact set of wanted values leads
    to, before anything here is called.
    """
    if launcher.run(run.plan.native_plan, run.job) != 1:
        return "its machine code has not been used with these sizes yet"
    note_flush(run.plan, run.job, False, run.asked)
    return ""


# -- links of parts ----------------------------------------------------------------------------


def run_linked(run: FlushRun) -> str:
    """Compute by the machine code of known parts, in a single launch."""
    plans_before = COUNTS["plans"]
    plan = run.plan if run.plan is not None else find_plan(run.job, run.live)
    reason = parts.run_link(run.job, plan)
    if not reason:
        run.plan = plan
        note_flush(plan, run.job, COUNTS["plans"] != plans_before, run.asked)
    return reason


# -- groups -------------------------------------------------------------------------------------


def why_not_grouped(run: FlushRun) -> str:
    """Return why groups do not run a flush, or ""."""
    return "" if is_chosen(run.job) else group_choice.why_not(run.job, run.live)


def run_regions(job: FlushJob, live: list[int]) -> str:
    """As `executor.run_regions`, which is loaded for the first groups."""
    from wend._engine.runtime.batching import executor

    return executor.run_regions(job, live)


def run_groups(run: FlushRun) -> str:
    """Compute by groups of regions; where a few ops prevent that, those ops run first."""
    begin = next_record()
    job, live = run.job, run.live
    reason = "its backward pass began in two pieces" if is_chosen(job) else run_regions(job, live)
    if reason:
        try:
            if run_in_parts(job, live):
                return reason
        except Exception:
            run.written = True
            raise
    note_grouped(job, run.asked, (begin, next_record()))
    return ""


# -- plans --------------------------------------------------------------------------------------


def off_trie(run: FlushRun) -> str:
    """Return why a flush gets no machine code, or ""."""
    if run.job.state is None and config.settings.autobatch and not config.settings.deterministic:
        return f"{NEVER_BACK}: machine code would not be used again"
    return tiers.COMPILED.why_not(run)


def run_compiled(run: FlushRun) -> str:
    """Compute by the machine code of the path's plan, which is found or made here."""
    take_plan(run)
    return tiers.COMPILED.run(run)


def run_reference(run: FlushRun) -> str:
    """Compute by the rules of the ops: off the trie, equal ops of a depth together."""
    take_plan(run)
    return tiers.REFERENCE.run(run)


READY = Executor(
    "ready plan", "machine code of a path that has come back, bound to these sizes",
    not_ready, run_ready,
)  # fmt: skip
LINKED = Executor(
    "linked parts", "a path of known parts that comes back, in a single launch",
    parts.why_no_link, run_linked,
)  # fmt: skip
GROUPED = Executor(
    "groups", "ops of one structure run together, where paths do not come back",
    why_not_grouped, run_groups,
)  # fmt: skip
PARTED = Executor(
    "parts", "a new path of parts that have come before",
    parts.why_not, lambda run: parts.run_parts(run),
)  # fmt: skip
COMPILED = tiers.COMPILED._replace(why_not=off_trie, run=run_compiled)
REFERENCE = tiers.REFERENCE._replace(run=run_reference)
#: All executors of flushes, in the order in which they are asked.
EXECUTORS = (READY, LINKED, PARTED, GROUPED, COMPILED, REFERENCE)


def execute(job: FlushJob, live: list[int]) -> None:
    """Compute the live values of a flush that the launcher has not run at once."""
    run = FlushRun(job, live, None, plain_plan)
    state = job.state
    try:
        compute(EXECUTORS, run)
        if run.plan is not None and state is not None:
            if run.plan.native_plan is None:
                await_code(run.plan, job, parts.start_of(job) is not None)
            if state.passed == 0:  # a flush that was cut short keeps all, and is not counted
                shed(run.plan, job)
    finally:
        if PENDING:
            forget(job.states)
    if UNTOLD or host_steps.UNTOLD:
        tell()


def plain_plan(run: FlushRun) -> ReferencePlan:
    """Return a plan whose rules are run singly, where all other plans fail."""
    job, wanted = run.job, frozenset(run.live)
    path = PathGraph(job.states, job.values, job.args)
    return ReferencePlan(path, wanted, roots_of(job, wanted))


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


def take_plan(run: FlushRun) -> None:
    """Find or make the plan of a flush, unless the run has it, and note the flush with the plan.

    A plan that could not be made before is not tried again: the same failure is raised.
    """
    if run.noted:
        if run.plan is None:
            raise run.faults[-1]
        return
    run.noted = True
    plans_before = COUNTS["plans"]
    plan = run.plan if run.plan is not None else find_plan(run.job, run.live)
    at = next_record()
    records = (at, at + 1) if isinstance(plan, GroupedPlan) else (0, 0)
    note_flush(plan, run.job, COUNTS["plans"] != plans_before, run.asked, records)
    run.plan = plan


def known_plan(plans: dict[Any, Any], live: Iterable[int]) -> Plan | None:
    """Return the plan of a path that computes at least the live values, or None."""
    key = tuple(live)
    exact_plan: Plan | None = plans.get(key)
    if exact_plan is not None:
        COUNTS["hits"] += 1
        return exact_plan
    wanted = frozenset(key)
    for plan in plans.get("plans", ()):
        if wanted <= plan.wanted:
            # The launcher finds a ready plan by exactly the values that are wanted.
            if len(plans) < MAX_KEYS:
                plans[key] = plan
            return plan  # type: ignore[no-any-return]
    return None


def find_plan(batch: FlushJob, live: Iterable[int]) -> Plan:
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
    plan = known_plan(plans, live)
    if plan is not None:
        return plan
    wanted = frozenset(live)
    kept: list[Plan] = plans.setdefault("plans", [])
    if len(kept) >= MAX_PLANS:
        for plan in kept:
            wanted |= plan.wanted
        kept.clear()
        for old in [k for k in plans if isinstance(k, tuple) and not _is_backward(k)]:
            del plans[old]
    plan = make_plan(path_of(batch), batch, wanted)
    if isinstance(plan, TieredPlan):
        plan.visits = parts.visits_of(batch)
    kept.append(plan)
    plans[tuple(live)] = plan
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
        return PLANNER.plan(path, wanted, roots_of(batch, wanted))


def roots_of(batch: FlushJob, wanted: frozenset[int]) -> frozenset[int]:
    """Return the wanted values from which a later backward may start."""
    values = batch.values
    return frozenset(i for i in wanted if values[i].requires_grad and values[i].leaf is None)


def evict(root: State) -> None:
    """Drop the half of the trie, and of the trie of parts, that was not visited for longest."""
    roots = [root, parts.ROOT]
    stamps = sorted(s.stamp for each in roots for s in walk(each))
    if not stamps:
        return
    limit = stamps[len(stamps) // 2]
    stack = roots
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
    """Cut a subtree apart without recursing, so that the states are freed singly."""
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
