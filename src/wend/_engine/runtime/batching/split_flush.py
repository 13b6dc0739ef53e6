"""Flushes in two parts: a few ops that cannot run by regions, and the rest.

For example, the first step of a program initialises its parameters in place.  These ops and the ops
that they depend on are run as a flush of their own, the first part.  The results of the first part
enter the rest from outside, and the rest is run by regions.

Writes in place that no op of the rest reads, as those of a memory that a loop fills, are a last
part: the rest is run by regions, and computes what the writes read.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.errors import DefectError
from wend._engine.core import _hot
from wend._engine.core._hot import FlushJob, Record, State, Trace, Value
from wend._engine.core._types import LeafPrimitive, PrimitiveBase
from wend._engine.core.graph import PathGraph
from wend._engine.runtime.batching import _grouper_select, group_choice
from wend._engine.runtime.batching.levels import GroupedPlan
from wend._engine.runtime.batching.signatures import code
from wend._engine.runtime.executors import Executor, FlushRun, always, compute
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.repair import is_told
from wend._engine.transforms.hooks import retaining

_grouper: ModuleType = _grouper_select.select()
_PLAIN, _LEAF, _NODE, _INFERENCE = range(4)  # kinds of leaves, as `LeafPrimitive.grad`
#: At most an op in so many may be in a first part.
RARE = 4
#: The steps of a flush that a backward pass begins, their number, and the positions of its first
#: and last part.  The number is compared, because another thread or fiber may record more ops
#: meanwhile.
_asked: tuple[list[Any], int, tuple[set[int], set[int]]] | None = None


def parting(batch: FlushJob, live: list[int] | None = None) -> tuple[set[int], set[int]]:
    """Return the positions of the ops in the first and in the last part; either is empty.

    live: the values that are wanted; None if a backward pass begins
    """
    if len(batch.states) < group_choice.LONG or batch.extra is not None or retaining():
        return set(), set()
    if not group_choice.allowed() or not comes_to_groups(batch, live):
        return set(), set()
    last = last_part(batch.states)
    return (set(), last) if last else (first_part(batch, live), last)


def last_part(states: list[Any]) -> set[int]:
    """Return the positions of the ops in the last part: all that are unsuited, or none.

    No op of the rest reads a result of the last part, and no gradient flows there.
    """
    found = unsuited_of(states)
    if not found or len(states) - len(found) < group_choice.LONG:
        return set()
    chosen = set(found)
    read = read_by([state for k, state in enumerate(states) if k not in chosen])
    known: dict[Any, bool] = {}
    for k in found:
        state = states[k]
        prim = state.prim
        if prim not in known:
            known[prim] = isinstance(prim, PrimitiveBase) and writes(prim)
        if state.is_step or state.requires_grad or not known[prim]:
            return set()
        if not read.isdisjoint(range(state.first, state.first + state.n_out)):
            return set()
    return chosen


def writes(prim: Any) -> bool:
    """Whether an op only writes, or names the variable that has been written to."""
    facts = prim.facts
    if facts.calls_user or facts.random:
        return False
    return bool(prim.schedule.donates or facts.labels_leaf)


def first_part(batch: FlushJob, live: list[int] | None = None) -> set[int]:
    """Return the positions of the ops in the first part, without leaves; empty for no split.

    live: the values that are wanted; None if a backward pass begins
    """
    states = batch.states
    if len(states) < group_choice.LONG or batch.extra is not None or retaining():
        return set()
    if not group_choice.allowed() or not comes_to_groups(batch, live):
        return set()
    begin = unsuited_of(states)
    if not begin or RARE * len(begin) > len(states):
        return set()
    unsuited = begin.copy()
    made_by: dict[int, int] = {}  # an op reads results of ops before
    for k, state in enumerate(states[: begin[-1] + 1]):
        for i in range(state.first, state.first + state.n_out):
            made_by[i] = k
    found: set[int] = set()
    while unsuited:
        k = unsuited.pop()
        state = states[k]
        prim = state.prim
        if k in found or type(prim) is LeafPrimitive:
            continue
        # Users' functions keep their place in the order.  If an op fails, only a plan of the whole
        # flush knows which results are lost.
        known = isinstance(state.prim, PrimitiveBase)
        if not known or prim.facts.calls_user or prim.facts.fallible:
            return set()
        found.add(k)
        unsuited += [made_by[i] for i in state.operand_indices()]
    if RARE * len(found) > len(states):
        return set()
    # No op of the rest may read a value from outside that the first part overwrites in place.
    read = read_by([s for k, s in enumerate(states) if k not in found])
    for k in begin:
        for i in states[k].operand_indices():
            if i in read and type(states[made_by[i]].prim) is LeafPrimitive:
                return set()
    return found


def comes_to_groups(batch: FlushJob, live: list[int] | None) -> bool:
    """Return whether groups run this visit of a path, if its ops allow that."""
    if group_choice.suits_groups(batch.state, batch.states):
        return True
    if live is None:
        awaited = group_choice.awaited_behind(batch.state)
        return awaited is not None and awaited.waits
    return group_choice.awaits_code(batch, live, goes_on=False)


def unsuited_of(states: list[Any]) -> list[int]:
    """Return the positions of the ops that cannot run by regions."""
    known: dict[Any, bool | None] = {}  # by primitive, as a long flush has few; None for leaves
    found = []
    for k, state in enumerate(states):
        prim = state.prim
        if prim in known:
            on = known[prim]
        else:
            on = known[prim] = _is_unsuited(prim, state)
        if on or (on is not None and (state.is_step or state.mode.recompute != 0)):
            found.append(k)
    return found


def _is_unsuited(prim: object, state: Record) -> bool | None:
    if type(prim) is LeafPrimitive:
        return None
    if state.is_step or not isinstance(prim, PrimitiveBase):
        return True
    if prim.region_code == 0:
        prim.region_code = code(prim, state) + 1
    return bool(prim.region_code - 1 == _grouper.UNSUITED)


def read_by(states: list[Any]) -> set[int]:
    """Return the values that ops read."""
    found = {s.i0 for s in states if s.n_in > 0}
    found.update([s.i1 for s in states if s.n_in > 1], [s.i2 for s in states if s.n_in > 2])
    found.update(*[s.rest for s in states if s.n_in > 3])
    return found


def is_chosen(batch: FlushJob) -> bool:
    """Whether a backward pass has chosen the first part of this flush."""
    asked = _asked
    return asked is not None and asked[0] is batch.states and asked[1] == len(batch.states)


def run_in_parts(batch: FlushJob, live: list[int]) -> str:
    """Compute the live values of a flush in two parts; return why there is no split, or ""."""
    global _asked
    asked, _asked = _asked, None
    if asked is not None and asked[0] is batch.states and asked[1] == len(batch.states):
        first, last = asked[2]
    else:
        first, last = parting(batch, live)
    if last:
        return run_before_writes(batch, live, last)
    if first:
        run_behind_first(batch, live, first)
        return ""
    return "more than a few of its ops cannot run in groups"


def run_behind_first(batch: FlushJob, live: list[int], chosen: set[int]) -> None:
    """Compute the live values of a flush: the chosen ops first, then the rest."""
    states, values, args, serial = batch.states, batch.values, batch.args, batch.serial
    wanted = set(live)
    read = read_by([state for k, state in enumerate(states) if k not in chosen])
    first, rest, made = parted(batch, chosen, read)
    kept = sorted(i for i in made if i in read or i in wanted)
    run_grouped(FlushJob(first[0], values, args, None, first[1], serial, batch.touched, None), kept)
    later = [i for i in live if i not in made]
    failed = [values[i].error for i in kept if values[i].buffer is None]
    if failed:
        for i in later:
            values[i].error = failed[0]
    elif later:
        run_rest(FlushJob(rest[0], values, args, None, rest[1], serial, [], None), later, batch)


def run_before_writes(batch: FlushJob, live: list[int], chosen: set[int]) -> str:
    """Compute the live values of a flush: the rest first, then the chosen writes in place.

    Returns why another executor has to compute all, or "".
    """
    states, values, args, serial = batch.states, batch.values, batch.args, batch.serial
    written = [states[k] for k in chosen]
    made = {i for s in written for i in range(s.first, s.first + s.n_out)}
    begun = {s.first for s in states if type(s.prim) is LeafPrimitive}
    read = sorted(read_by(written) - made - begun)
    others = [k for k in range(len(states)) if k not in chosen]
    sites = batch.sites or {}
    rest = FlushJob(
        [states[k] for k in others], values, args, None,
        {new: sites[k] for new, k in enumerate(others) if k in sites}, serial, [], None,
    )  # fmt: skip
    try:
        run_rest(rest, sorted({*read, *(i for i in live if i not in made)}), batch)
        run_writes(batch, [i for i in live if i in made], sorted(chosen))
    except Exception as error:
        if isinstance(error, DefectError) or not is_told(error):
            raise
        # Only a plan of the whole flush knows which handles go back to which values.
        for i in {*live, *read}:
            values[i].buffer = values[i].segment = values[i].error = None
        return f"an op has failed: {type(error).__name__}"
    return ""


def run_writes(batch: FlushJob, live: list[int], chosen: list[int]) -> None:
    """Compute the live values of the last part, write after write.

    chosen: the positions of the writes, whose operands are known
    """
    states, values = batch.states, batch.values
    needed, kept = set(live), []
    for k in reversed(chosen):
        state = states[k]
        if not needed.isdisjoint(range(state.first, state.first + state.n_out)):
            kept.append(k)
            needed.update(state.operand_indices())
    kept.reverse()
    made = {i for k in kept for i in range(states[k].first, states[k].first + states[k].n_out)}
    steps: list[Any] = [leaf_record(values[i], i) for i in sorted(needed - made)]
    sites = batch.sites or {}
    at = {len(steps) + n: sites[k] for n, k in enumerate(kept) if k in sites}
    steps += [states[k] for k in kept]
    job = FlushJob(steps, values, batch.args, None, at, batch.serial, list(batch.touched), None)
    if live:
        path = PathGraph(steps, values, batch.args)
        ReferencePlan(path, frozenset(live), frozenset()).run(job)


def run_regions(rest: FlushJob, live: list[int], whole_state: State | None) -> str:
    """As `executor.run_regions`, which is loaded for the first groups."""
    from wend._engine.runtime.batching import executor

    return executor.run_regions(rest, live, whole_state)


def run_rest(rest: FlushJob, live: list[int], whole: FlushJob) -> None:
    """Compute the live values of the rest of a flush, by regions if these repeat."""
    compute(
        (
            Executor(
                "groups of the rest", "the rest of the flush",
                lambda run: group_choice.why_not(rest, live),
                lambda run: run_regions(rest, live, whole.state),
            ),
            OP_BY_OP,
        ),
        FlushRun(rest, live),
    )  # fmt: skip


Steps = tuple[list[Any], dict[int, Any]]  # and their sites


def parted(batch: FlushJob, chosen: set[int], read: set[int]) -> tuple[Steps, Steps, set[int]]:
    """Return the steps of the first part, of the rest, and the values that the first part makes.

    read: the values that the rest reads
    """
    states, values = batch.states, batch.values
    end = max(chosen) + 1
    first: list[Any] = []
    rest: list[Any] = []
    made: set[int] = set()
    sites: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
    for k, state in enumerate(states[:end]):
        site = batch.sites.get(k) if batch.sites else None
        leaf = type(state.prim) is LeafPrimitive
        if leaf or k in chosen:
            if site is not None:
                sites[0][len(first)] = site
            first.append(state)
        if leaf or k not in chosen:
            if site is not None:
                sites[1][len(rest)] = site
            rest.append(state)
            continue
        for i in range(state.first, state.first + state.n_out):
            made.add(i)
            if i in read:
                rest.append(leaf_record(values[i], i))
    if batch.sites:
        longer = len(rest) - end
        sites[1].update({k + longer: site for k, site in batch.sites.items() if k >= end})
    rest += states[end:]
    return (first, sites[0]), (rest, sites[1]), made


def backward_at_once(trace: Trace, seeds: dict[int, Any]) -> list[tuple[Any, Any]] | None:
    """Run `run_backward`; if that returns None, flush a trace of two parts.

    Returns (value from outside, gradient) pairs, or None if no gradients were computed.
    """
    global _asked
    awaited, start = group_choice.awaited_behind(trace.state), time.perf_counter()
    with CollectionPaused():  # all pending ops are in use until the end
        found = run_backward(trace, seeds)
    splits = False
    if found is None and trace.n and not trace.eager:
        batch = FlushJob(
            trace.states, trace.values, trace.args, trace.state, None, 0, [], trace.extra
        )
        chosen = parting(batch)
        if chosen[0] or chosen[1]:
            splits = True
            _asked = trace.states, len(trace.states), chosen
            _hot.flush(trace)
            _asked = None
    if awaited is not None:
        awaited.end_visit(found is not None or splits, time.perf_counter() - start)
    return found


def run_backward(trace: Trace, seeds: dict[int, Any]) -> list[tuple[Any, Any]] | None:
    """Compute the pending ops and the gradients that flow from the seeds.

    Returns (value from outside, gradient) pairs; None if nothing was done, because another
    executor has to run this pass.

    seeds: gradients by index; None for a gradient of ones
    """
    if trace.eager or not group_choice.allowed():
        return None
    if not group_choice.suits_groups(trace.state, trace.states):
        awaited = group_choice.awaited_behind(trace.state)
        if awaited is None or not awaited.goes_on():
            return None
    from wend._engine.runtime.batching.executor import run_by_groups

    return run_by_groups(trace, seeds)


def run_op_by_op(run: FlushRun) -> str:
    """Compute the live values of a part by groups of ops, or op by op; always returns ""."""
    run_grouped(run.job, run.live)
    return ""


#: Takes each part that regions leave.
OP_BY_OP = Executor("levels", "single ops of one kind and depth", always, run_op_by_op, True)


def run_grouped(batch: FlushJob, live: list[int]) -> None:
    """Compute the live values of a part by groups of ops, or op by op."""
    values, wanted = batch.values, frozenset(live)
    roots = frozenset(i for i in wanted if values[i].requires_grad and values[i].leaf is None)
    GroupedPlan(PathGraph(batch.states, values, batch.args), wanted, roots).run(batch)


def leaf_record(value: Value, i: int) -> Record:
    """Return the step by which value i of the first part enters the rest, with number i."""
    kind = _PLAIN
    if value.requires_grad:
        kind = _NODE if value.leaf is None else _LEAF
    elif value.inference:
        kind = _INFERENCE
    found = Record.__new__(Record)
    found.prim = value.type.kind.leaves[kind]
    found.i0 = found.i1 = found.i2 = -1
    found.first, found.n_out = i, 1
    found.requires_grad = kind in (_LEAF, _NODE)
    return found


_hot.set_slot("backward_at_once", backward_at_once)
