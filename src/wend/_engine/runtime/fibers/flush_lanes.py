"""Computes the pending ops of several fibers: lanes of equal structure together, the rest alone.

The log of flushes gets the ways in which lanes were run, each with the number of lanes. For lanes
that were not run together, the log gets the reason.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from wend._engine.base import defects
from wend._engine.base.errors import DefectError
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core import _hot, _siblings
from wend._engine.core._hot import FlushJob
from wend._engine.core._types import TensorType
from wend._engine.core.provenance import last_site
from wend._engine.runtime.backend import Plan
from wend._engine.runtime.batching.noted import next_record, note
from wend._engine.runtime.fibers import _lanes_select, lanes
from wend._engine.runtime.fibers.lane_backward import LaneBatchBackward, Paths
from wend._engine.runtime.fibers.lanes import KEY, LaneBatch, Part, Pattern, SharedProgram
from wend._engine.runtime.flush_log import note_lanes
from wend._engine.runtime.repair import held_back
from wend._engine.runtime.verify.flushes import install
from wend._engine.transforms.hooks import retaining

_lanes: ModuleType = _lanes_select.select()


#: Names of the ways to run lanes, for reports: a lane that no lane is like, and that no backward
#: pass can start from; lanes of one structure, over an axis of lanes; lanes that cannot be one run,
#: with machine code for their paths, or with hooks; the remaining lanes, which regions may group.
LONE, TOGETHER = "a ready plan", "one run of all"
OWN_PLAN, MERGED = "a flush each", "one flush, in groups of equal ops"

#: A lane that cannot be run together with more lanes: (batch, wanted values, why not).
LeftOut = tuple[FlushJob, list[int], str]
#: The (executor, number of lanes, why not run together) of a flush: see `flush_log.Flush.lanes`.
LanesRun = list[tuple[str, int, str]]

ALONE = "no other call is like it, and it wants no gradients"
SINGLE_NODES = "hooks or retain_grad() need single ops"
FAILED = "that has failed"
DECLINED = "a kernel cannot run these sizes"


def execute_many(batches: list[FlushJob], lives: list[list[int]]) -> None:
    """Run `run_many`; defects are reported when no lane is half done (slot of the core)."""
    with held_back():
        run_many(batches, lives)


def run_many(batches: list[FlushJob], lives: list[list[int]]) -> None:
    """Compute the wanted values of each batch, by the executors of lanes.

    The first error of an op is raised after everything else has been computed.

    lives: the wanted values of each batch
    """
    faults: list[Exception] = []
    ran: LanesRun = []
    rest: list[LeftOut]
    begin = next_record()
    groups, rest = sorted_out(batches, lives, faults)
    failure: Exception | None = None
    n_ops = 0
    for (program, signature), found in groups.items():
        parts = list(found.items())
        pattern, members = parts[0]
        if len(parts) == len(members) == 1 and not why_not_lone(pattern, members[0]):
            failure = attempt(members[0], pattern.live) or failure
            ran.append((LONE, 1, ALONE))
            n_ops += len(pattern.states)
            continue
        for lane_batch, own in lane_batches_of(program, signature, parts, faults):
            n = ops = 0
            for pattern, members in own:
                n += len(members)
                ops += len(members) * len(pattern.states)
            if isinstance(lane_batch, str):
                why = lane_batch
            else:
                why = run_lane_batch(lane_batch, own, n, faults)
            if why:
                rest += [(job, pattern.live, why) for pattern, members in own for job in members]
            else:
                ran.append((TOGETHER, n, ""))
                n_ops += ops
    try:
        if rest or failure is not None:
            run_left_out(rest, ran, failure)
    except Exception as error:
        if defects.by_rule(error):  # the lanes together have failed by the same rule: no defect
            faults = [fault for fault in faults if not defects.by_rule(fault)]
        raise
    finally:
        if ran:
            if rest:
                n_ops += sum([len(batch.states) for batch, *_ in rest])
            note_lanes(batches[0], n_ops, ran, (begin, next_record()))
        for fault in faults:
            defects.note(fault, site=last_site(batches[0].states, batches[0].sites))


def sorted_out(
    batches: list[FlushJob], lives: list[list[int]], faults: list[Exception]
) -> tuple[dict[Any, dict[Pattern, list[FlushJob]]], list[LeftOut]]:
    """Return the lanes by structure, and the lanes that sorting leaves out."""
    why = SINGLE_NODES
    if not retaining():
        try:
            return _lanes.sort_lanes(batches, lives, lanes.PASSED, KEY, Pattern)  # type: ignore[no-any-return]
        except Exception as fault:  # noted; the lanes run singly
            faults.append(fault)
            why = FAILED
    return {}, [(batch, live, why) for batch, live in zip(batches, lives, strict=True) if live]


def why_not_lone(pattern: Pattern, batch: FlushJob) -> str:
    """Return why a lane of unique structure is not left to its plan, or ""."""
    if pattern.open:
        return "a backward pass may come, which one run of all serves best"
    if not goes_alone(batch, pattern.live):
        return "its path will have no machine code"
    return ""


def lane_batches_of(
    program: SharedProgram,
    signature: tuple[TensorType, ...],
    parts: list[Part],
    faults: list[Exception],
) -> list[tuple[LaneBatch | str, list[Part]]]:
    """Return (`LaneBatch`, parts) pairs that run lanes of a structure, together or path by path.

    In place of the `LaneBatch` is a reason where another executor has to run the parts.
    """
    try:
        lane_batch = program.lane_batch(signature, parts)
        if isinstance(lane_batch, str) and len(parts) > 1:
            return [(program.lane_batch(signature, [part]), [part]) for part in parts]
    except Exception as fault:  # noted; the lanes run singly
        faults.append(fault)
        lane_batch = FAILED
    return [(lane_batch, parts)]


def run_lane_batch(
    lane_batch: LaneBatch, parts: list[Part], n: int, faults: list[Exception]
) -> str:
    """Run n lanes of equal structure together; return why that was not possible, or "".

    faults: a list that gets the error if running has failed
    """
    try:
        done = _lanes.run_lanes(lane_batch, parts, n, np.ascontiguousarray)
    except DefectError:
        raise
    except Exception as fault:  # if an op failed, running lanes alone tells which op, and its line
        if is_interrupt(fault):
            raise
        faults.append(fault)
        return FAILED
    if done is None:
        return DECLINED
    pattern, members = parts[0]
    if lane_batch.given or any(p.open_views for p, _ in parts):
        _lanes.save_lanes(lane_batch, parts, n, done, LaneBatchBackward, Paths)
    note(pattern.states, members[0].sites, [(lane_batch.node, n, n, False, pattern.begins)])
    return ""


def run_left_out(rest: list[LeftOut], ran: LanesRun, failure: Exception | None = None) -> None:
    """Run lanes that are alone by their own plans, and merge the rest into a single flush.

    ran: a list that gets who ran how many of the lanes
    failure: the error of an op that ran before, to be raised in the end
    """
    merged = []
    apart: dict[Any, list[FlushJob]] = {}
    counts: dict[tuple[str, str], int] = {}
    for batch, live, why in rest:
        way = MERGED if why_merged(batch, live) else OWN_PLAN
        counts[way, why] = counts.get((way, why), 0) + 1
        if way == MERGED:
            merged.append((batch, live))
            continue
        apart.setdefault(batch.state or batch, []).append(batch)
        failure = attempt(batch, live) or failure
    ran += [(name, n, why) for (name, why), n in counts.items()]
    for group in apart.values():
        note(group[0].states, group[0].sites, [(None, len(group), 0, False, -1)])
    if merged:
        whole = _siblings.merged([batch for batch, _ in merged], [live for _, live in merged])
        failure = attempt(*whole) or failure
    if failure is not None:
        raise failure


def why_merged(batch: FlushJob, live: list[int]) -> str:
    """Return why a lane is merged with more lanes, not left to its own plan, or ""."""
    if batch.extra is not None or batch.touched or any(s.is_step for s in batch.states):
        return ""  # such a lane cannot be merged
    values = batch.values
    if any(values[i].requires_grad and values[i].leaf is None for i in live):
        return "a backward pass would go through many small flushes one by one"
    plan = plan_of(batch, live)
    return "its path has no machine code" if plan is None or plan.native_plan is None else ""


def goes_alone(batch: FlushJob, live: list[int]) -> bool:
    """Whether a path by itself has machine code, or may have machine code later."""
    plan = plan_of(batch, live)
    return plan is None or plan.native_plan is not None or not getattr(plan, "hopeless", True)


def plan_of(batch: FlushJob, live: list[int]) -> Plan | None:
    """Return the plan of a path by itself; None if no plan has been made."""
    plans = None if batch.state is None else batch.state.plans
    return None if plans is None else plans.get(tuple(live))


def attempt(batch: FlushJob, live: list[int]) -> Exception | None:
    """Run a batch; return the error of an op, or None."""
    try:
        _hot.slot("execute")(batch, live)
    except Exception as error:  # the values that the error concerns keep it
        if is_interrupt(error):
            raise
        return error
    return None


install("execute_many", execute_many)
