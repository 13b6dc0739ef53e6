"""Runs pending ops off the trie by groups of regions, forward and backward.

Native code sorts the ops of a flush whose structure does not come back (see `_grouper`).  Each
group then gathers the rows that it reads from outside, and runs its structure's functions once.  A
backward pass over pending ops runs at once, group by group in reverse, without nodes in Python.
Writes in place, users' functions and graphs that are kept are left to another executor: `Unsuited`
is raised for these before anything has been changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base import config
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.devices import accelerator_among
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core import _hot
from wend._engine.core._hot import FlushJob, State, Trace
from wend._engine.core._types import LeafPrimitive, PrimitiveBase
from wend._engine.runtime.batching.backward import Execution
from wend._engine.runtime.batching.deferred_backward import lead_to
from wend._engine.runtime.batching.group_choice import ASKED, SHARE, open_among
from wend._engine.runtime.batching.noted import note
from wend._engine.runtime.batching.per_op import PerOpExecution
from wend._engine.runtime.batching.signatures import SINGLES, book_at, ops_of
from wend._engine.runtime.batching.slabs import SMALL, Unsuited
from wend._engine.runtime.devices.queue import KernelFailure
from wend._engine.runtime.verify.flushes import check_gradients
from wend._engine.transforms.hooks import retaining

#: A group of at least so many regions is large.
LARGE = 4
SINGLE_OPS = "its parts do not come back, and accelerators run no single ops in groups"


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
        ASKED[number] = len(values), (execution, given, found)
    trace.live, trace.n_live = live, len(values)
    del batch, values, execution  # else these would keep values that the flush could free
    try:
        _hot.flush(trace)
    finally:
        asked = ASKED.get(number)
        if asked is not None and asked[1][2] is found:  # a new list may have got the same address
            ASKED.pop(number, None)
    if not found:
        return None
    return [(value, _hot.wrap(_hot.held(value.type, g))) for value, g in found[0]]


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
    place = accelerator_among(v.type for v in batch.values)
    if book_at(place).begin():
        try:
            return Execution(batch)
        except Unsuited:
            if batch.state is not None:
                raise
    if place is not None:
        raise Unsuited(SINGLE_OPS)
    if batch.state is not None or not SINGLES.begin():
        raise Unsuited("few of its ops were alike the last times, and looking for such ops pauses")
    return PerOpExecution(batch)


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


def run_regions(batch: FlushJob, live: list[int], whole_state: State | None = None) -> str:
    """Compute the live values of a flush that `why_not` lets groups run.

    Returns why another executor has to run the flush, or "".  Raises the failure of groups: the
    error of an op does not name the op's line yet.

    whole_state: the end of the path of the whole flush, if the batch is a part of it
    """
    whole = batch
    values = batch.values
    n, asked = ASKED.pop(id(values), (0, None))
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
                        execution.settle()
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
            if isinstance(fault, KernelFailure):  # the next executor tells which op has failed
                return str(fault)
            raise
