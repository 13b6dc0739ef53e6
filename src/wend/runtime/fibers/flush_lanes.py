"""Computes what several fibers have pending: lanes of one structure as one, others alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base import defects
from wend.base.errors import DefectError
from wend.base.interrupts import is_interrupt
from wend.core import _hot
from wend.core._hot import FlushJob
from wend.core.provenance import last_site
from wend.runtime.batching import _slabs_select
from wend.runtime.batching.report import note
from wend.runtime.fibers import lanes
from wend.runtime.fibers.lane_backward import LaneBatchBackward, Paths
from wend.runtime.fibers.lanes import KEY, LaneBatch, Part, Pattern
from wend.runtime.repair import held_back
from wend.runtime.verify.flushes import install
from wend.transforms.hooks import retaining

_slabs: Any = _slabs_select.select()


def execute_many(batches: list[FlushJob], lives: list[list[int]]) -> None:
    """`run_many`, which tells of defects when nothing is half done any more (slot of the core)."""
    with held_back():
        run_many(batches, lives)


def run_many(batches: list[FlushJob], lives: list[list[int]]) -> None:
    """Compute what is wanted of each batch, those of one structure together.

    What is new, and what has nobody to go with, is one structure off the trie.  The first error
    of an op is raised when all has been computed that could be.
    """
    faults: list[Exception] = []
    if retaining():
        groups, rest = {}, [pair for pair in zip(batches, lives, strict=True) if pair[1]]
    else:
        groups, rest = sorted_out(batches, lives, faults)
    failure: Exception | None = None
    for (kin, signature), found in groups.items():
        parts = list(found.items())
        pattern, members = parts[0]
        # Without a backward pass to come, nothing is quicker than the plan of a path.
        if (
            len(parts) == len(members) == 1
            and not pattern.open
            and goes_alone(members[0], pattern.live)
        ):
            failure = attempt(members[0], pattern.live) or failure
            continue
        for weave, own in weaves_of(kin, signature, parts, faults):
            if weave is None or not run_woven(weave, own, faults):
                rest += [(batch, pattern.live) for pattern, members in own for batch in members]
    try:
        if rest or failure is not None:
            run_merged(rest, failure)
    except Exception as error:
        if defects.by_rule(error):  # then it is what the lanes together have met
            faults = [fault for fault in faults if not defects.by_rule(fault)]
        raise
    finally:
        for fault in faults:
            defects.note(fault, site=last_site(batches[0].states, batches[0].sites))


def sorted_out(batches: list[FlushJob], lives: list[list[int]], faults: list[Exception]) -> Any:
    """Lanes by structure, and (batch, what is wanted) of those that others have to run."""
    try:
        return _slabs.sort_lanes(batches, lives, lanes.PASSED, KEY, Pattern)
    except Exception as fault:
        faults.append(fault)
        return {}, [pair for pair in zip(batches, lives, strict=True) if pair[1]]


def weaves_of(
    kin: Any, signature: Any, parts: list[Part], faults: list[Exception]
) -> list[tuple[LaneBatch | None, list[Part]]]:
    """What runs lanes of one structure, as one or path by path; None where there is nothing."""
    try:
        weave = kin.weave(signature, parts)
        if weave is None and len(parts) > 1:
            return [(kin.weave(signature, [part]), [part]) for part in parts]
    except Exception as fault:
        faults.append(fault)
        weave = None
    return [(weave, parts)]


def run_woven(weave: LaneBatch, parts: list[Part], faults: list[Exception]) -> bool:
    """Run lanes of one structure as one; False if others have to.  faults: why, if it failed"""
    n = sum([len(members) for _, members in parts])
    try:
        done = _slabs.run_lanes(weave, parts, n, np.ascontiguousarray)
    except DefectError:
        raise
    except Exception as fault:  # if of an op: run by themselves, it is told which, and where
        if is_interrupt(fault):
            raise
        faults.append(fault)
        return False
    if done is None:
        return False
    pattern, members = parts[0]
    if weave.given or any(p.open_views for p, _ in parts):
        _slabs.leave(weave, parts, n, done, LaneBatchBackward, Paths)
    note(pattern.states, members[0].sites, [(weave.node, n, n, False, pattern.begins)])
    return True


def run_merged(rest: list[tuple[FlushJob, list[int]]], failure: Exception | None = None) -> None:
    """Run lanes that are alone: by plans of their own, or all that have none as one structure.

    failure: of an op that ran before, to be raised in the end
    """
    new = []
    apart: dict[Any, list[FlushJob]] = {}
    for batch, live in rest:
        if may_merge(batch, live):
            new.append((batch, live))
            continue
        apart.setdefault(batch.state or batch, []).append(batch)
        failure = attempt(batch, live) or failure
    for group in apart.values():
        note(group[0].states, group[0].sites, [(None, len(group), 0, False, -1)])
    if new:
        failure = attempt(*_hot.merged([b for b, _ in new], [live for _, live in new])) or failure
    if failure is not None:
        raise failure


def may_merge(batch: FlushJob, live: list[int]) -> bool:
    """Whether a batch has no plan of its own that is ready, and can be run with others."""
    if batch.extra is not None or batch.touched or any(s.is_step for s in batch.states):
        return False
    values = batch.values
    if any(values[i].requires_grad and values[i].leaf is None for i in live):
        return True  # many small segments would each be passed by itself
    plan = plan_of(batch, live)
    return plan is None or plan.track is None


def goes_alone(batch: FlushJob, live: list[int]) -> bool:
    """Whether there is machine code for a path by itself, or is going to be."""
    plan = plan_of(batch, live)
    return plan is None or plan.track is not None or not getattr(plan, "hopeless", True)


def plan_of(batch: FlushJob, live: list[int]) -> Any:
    """The plan of a path by itself, if it has been made."""
    plans = None if batch.state is None else batch.state.plans
    return None if plans is None else plans.get(tuple(live))


def attempt(batch: FlushJob, live: list[int]) -> Exception | None:
    """Run a batch; returns the error of an op."""
    try:
        _hot.slot("execute")(batch, live)
    except Exception as error:  # the values that it concerns have it
        if is_interrupt(error):
            raise
        return error
    return None


install("execute_many", execute_many)
