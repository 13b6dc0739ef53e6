"""Computes the pending ops of several fibers: lanes of one structure as one, other lanes alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base import defects
from wend.base.errors import DefectError
from wend.base.interrupts import is_interrupt
from wend.core import _hot, _siblings
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
    """Run `run_many`; defects are reported when no lane is half done (slot of the core)."""
    with held_back():
        run_many(batches, lives)


def run_many(batches: list[FlushJob], lives: list[list[int]]) -> None:
    """Compute the wanted values of each batch, and batches of one structure together.

    Batches that are new, or alone of their structure, are merged into one structure off the trie.
    The first error of an op is raised after everything else has been computed.

    lives: the wanted values of each batch
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
        # Without a backward pass to come, the path's own plan is the quickest way.
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
        if defects.by_rule(error):  # the lanes together have failed by the same rule: no defect
            faults = [fault for fault in faults if not defects.by_rule(fault)]
        raise
    finally:
        for fault in faults:
            defects.note(fault, site=last_site(batches[0].states, batches[0].sites))


def sorted_out(batches: list[FlushJob], lives: list[list[int]], faults: list[Exception]) -> Any:
    """Return the lanes by structure, and (batch, wanted values) of lanes that run otherwise."""
    try:
        return _slabs.sort_lanes(batches, lives, lanes.PASSED, KEY, Pattern)
    except Exception as fault:
        faults.append(fault)
        return {}, [pair for pair in zip(batches, lives, strict=True) if pair[1]]


def weaves_of(
    kin: Any, signature: Any, parts: list[Part], faults: list[Exception]
) -> list[tuple[LaneBatch | None, list[Part]]]:
    """Return (`LaneBatch`, parts) pairs that run lanes of one structure, as one or path by path.

    The `LaneBatch` is None where another executor has to run the parts.
    """
    try:
        weave = kin.weave(signature, parts)
        if weave is None and len(parts) > 1:
            return [(kin.weave(signature, [part]), [part]) for part in parts]
    except Exception as fault:
        faults.append(fault)
        weave = None
    return [(weave, parts)]


def run_woven(weave: LaneBatch, parts: list[Part], faults: list[Exception]) -> bool:
    """Run lanes of one structure as one; return False if another executor has to run the lanes.

    faults: a list that gets the error if running has failed
    """
    n = sum([len(members) for _, members in parts])
    try:
        done = _slabs.run_lanes(weave, parts, n, np.ascontiguousarray)
    except DefectError:
        raise
    except Exception as fault:  # if an op failed, running lanes alone tells which op, and its line
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
    """Run lanes that are alone by their own plans, and merge those without plans into one flush.

    rest: (batch, wanted values) of each lane
    failure: the error of an op that ran before, to be raised in the end
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
        failure = (
            attempt(*_siblings.merged([b for b, _ in new], [live for _, live in new])) or failure
        )
    if failure is not None:
        raise failure


def may_merge(batch: FlushJob, live: list[int]) -> bool:
    """Whether a batch has no ready plan of its own, and can be merged with other batches."""
    if batch.extra is not None or batch.touched or any(s.is_step for s in batch.states):
        return False
    values = batch.values
    if any(values[i].requires_grad and values[i].leaf is None for i in live):
        return True  # a backward pass would go through many small segments one by one
    plan = plan_of(batch, live)
    return plan is None or plan.track is None


def goes_alone(batch: FlushJob, live: list[int]) -> bool:
    """Whether a path by itself has machine code, or may have machine code later."""
    plan = plan_of(batch, live)
    return plan is None or plan.track is not None or not getattr(plan, "hopeless", True)


def plan_of(batch: FlushJob, live: list[int]) -> Any:
    """Return the plan of a path by itself; None if no plan has been made."""
    plans = None if batch.state is None else batch.state.plans
    return None if plans is None else plans.get(tuple(live))


def attempt(batch: FlushJob, live: list[int]) -> Exception | None:
    """Run a batch; return the error of an op, or None."""
    try:
        _hot.slot("execute")(batch, live)
    except Exception as error:  # the values that the error concerns have it
        if is_interrupt(error):
            raise
        return error
    return None


install("execute_many", execute_many)
