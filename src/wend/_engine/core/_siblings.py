# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Traces beside each other: those of threads and of fibers, and what a flush cut short leaves.

Compiled with the types in `_siblings.pxd`, or run as plain Python: see `_hot.py`, which calls these
functions through `COLD`.
"""

import os
import threading
import weakref

from wend._engine.core._hot import FlushJob, Record, Trace, current_trace, flush_now, wanted
from wend._engine.core._types import LeafPrimitive

LOCAL = threading.local()  # keeps the trace of a thread alive
FORK = []  # traces whose locks a thread holds that is about to fork
WRITING = [threading.RLock()]  # of the thread that reads tensors and then writes to them


# -- threads and forks ----------------------------------------------------------------------


def begin_trace(thread):
    """A trace for the thread with this id, which has none; it lives until the thread ends."""
    trace = Trace(ROOT)
    trace.mode = SLOTS.default_mode()
    trace.eager = SLOTS.default_eager()
    note_trace(thread, trace)
    LOCAL.owner = Owner(thread, trace)
    return trace


class Owner:
    """Keeps the trace of a thread until the thread ends."""

    def __init__(self, thread, trace):
        self.thread = thread
        self.trace = trace

    def __del__(self):
        leave_trace(self.thread, self.trace)


def note_trace(key, trace):
    """Have a trace among `TRACES` as long as it lives."""

    def forget(ref):
        if TRACES is not None and TRACES.get(key) is ref:  # None: the interpreter ends
            del TRACES[key]
            count_threads()

    TRACES[key] = weakref.ref(trace, forget)
    count_threads()


def leave_trace(thread, trace):
    """Take the trace of a thread that has ended out of the table of threads.

    A later thread may get the same id.  If values are pending, the trace stays in the table under
    a key that is no thread's, as other threads may still read the values.

    A value that is pending and its trace keep each other alive. The cyclic collector is told of
    them only now: while the thread runs, it would look at all that is pending again and again.
    """
    if weakref is None or TRACES is None:  # the interpreter ends
        return
    forget_last(trace)
    ref = TRACES.get(thread)
    if ref is not None and ref() is trace:  # not a child process's own, that has taken its place
        del TRACES[thread]
    if trace.n > 0:
        note_trace(-trace.serial, trace)
        track(trace.values)
        for v in trace.values:
            track(v)
    else:
        count_threads()


def traces():
    """The traces of all threads."""
    found = [ref() for ref in list(TRACES.values())]
    return [trace for trace in found if trace is not None]


def before_fork():
    """Compute this thread's pending work and wait until no thread is in a flush."""
    try:
        flush_now(current_trace())
    except Exception:
        # Values carry a failure from before the fork; whoever reads a value is told.
        pass  # the values that failed carry the error; whoever reads a value is told
    FORK.extend(traces())
    for trace in FORK:
        trace.take()


def after_fork_in_parent():
    """Let the threads that wait for a trace go on."""
    while FORK:
        trace = FORK.pop()
        trace.give()


def after_fork_in_child():
    """Fresh locks and empty traces: the threads of the parent do not exist here."""
    mode = None
    for trace in FORK:
        trace.renew_lock()
        if forget_last(trace):
            mode = trace.mode
    FORK.clear()
    WRITING[0] = threading.RLock()
    TRACES.clear()
    count_threads()
    forget_last(None)
    if mode is not None:
        current_trace().mode = mode


def share_leaf(trace, v):
    """Two threads use a value: note the index in the trace that is about to lose the cache."""
    others = traces()
    key = id(v)
    serial = 0
    while v.serial != serial:  # another thread may come in between wherever something is allocated
        serial = v.serial
        known = (v.index, v)
        if v.serial != serial:
            continue
        for other in others:
            if other.serial == serial and other is not trace:
                other.foreign[key] = known


def record_shared(trace, prim, n, h0, h1, h2, rest, values, inplace):
    """`record_new`, where several threads record.

    Meanwhile only this thread may flush the trace, unless the thread waits for another trace.
    """
    if inplace is not None:
        begin_write()
    try:
        trace.take()
        try:
            return record_alone(trace, prim, n, h0, h1, h2, rest, values, inplace)
        finally:
            trace.give()
    finally:
        if inplace is not None:
            end_write()


def leave_own(trace):
    """Let any thread flush this thread's trace while it waits for another: else both might wait.

    Returns the lock and the state, to be restored; None if the thread does not hold the lock.
    """
    own = current_trace()
    if own is trace or own.flushing or not own.lock._is_owned():
        return None
    return own.lock, own.lock._release_save()


def begin_write():
    """Wait until no thread writes in place, and let only this thread do so until `end_write`.

    During the wait, any thread may flush this thread's trace.
    """
    lock = WRITING[0]
    if lock.acquire(False):
        return
    own = current_trace()
    state = None
    if not own.flushing and own.lock._is_owned():
        state = own.lock._release_save()
    try:
        lock.acquire()
    finally:
        if state is not None:
            own.lock._acquire_restore(state)


def end_write():
    """Let waiting threads write."""
    WRITING[0].release()


# -- flushes that are taken back --------------------------------------------------------------


def keep_journal(trace):
    """Note the rebindings of a trace that is about to be flushed."""
    for handle, old, _ in trace.touched:
        trace.journal.append((handle, trace.values[old] if type(old) is int else old))


def put_back(trace, batch, live):
    """After a flush that was cut short: all values that are not computed yet are pending again.

    This is so in a separate trace, with all that the flush was about, until somebody reads a
    value: steps recorded from now on have a path as if nothing had been.
    """
    values = batch.values
    settled = True
    for i in live:
        if not is_settled(values[i]):
            settled = False
    if settled:
        return
    # Nothing is called that needs room on the stack: there may be none.
    kept = Trace.__new__(Trace)
    kept.lock = trace.lock
    kept.take = trace.take
    kept.give = trace.give
    kept.begin(trace.root)
    kept.mode = trace.mode
    kept.serial = batch.serial
    kept.state = batch.state
    kept.states = batch.states
    kept.args = batch.args
    kept.sites = batch.sites
    kept.touched = batch.touched
    kept.extra = batch.extra
    for v in values:
        if v.trace is trace and not is_settled(v):
            v.buffer = None
            v.segment = None
            v.trace = kept
    kept.values = values
    kept.n = len(values)


def is_settled(v):
    """Whether a value that was to be computed is complete, or has an error."""
    if v.error is not None:
        return True
    if v.buffer is None:
        return False
    return v.segment is not None or v.leaf is not None or not v.requires_grad


# -- fibers -----------------------------------------------------------------------------------


def sibling_of(trace, kept):
    """A trace with nothing pending that records under the same conditions as `trace`.

    kept: a trace that nobody uses any more, to be used again; or None
    """
    fresh = kept
    if fresh is None or fresh.root is not trace.root or is_used(fresh):
        fresh = Trace(trace.root)
    fresh.mode = trace.mode
    fresh.soft_nodes = trace.hard_nodes
    fresh.hard_nodes = trace.hard_nodes
    fresh.soft_bytes = trace.soft_bytes
    fresh.hard_bytes = trace.hard_bytes
    fresh.modules = list(trace.modules)
    return fresh


def is_used(trace):
    """Whether something is pending, or a trace differs from a new trace in more than the mode."""
    return (
        trace.n > 0
        or trace.flushing
        or trace.eager
        or trace.volatile
        or trace.symbolic is not None
        or trace.extra is not None
        or trace.site_code is not None
        or len(trace.foreign) > 0
        or len(trace.touched) > 0
        or trace.state is not trace.root
    )


def flush_many(siblings):
    """Compute all that is pending in several traces, as `flush_now`, so that it can run together.

    Slot `execute_many` takes the batches, and for each the indices of wanted values.
    """
    batches = []
    lives = []
    begun = []
    for trace in siblings:
        trace.take()
        if trace.n == 0 or trace.flushing:
            trace.give()
            continue
        begun.append(trace)
        batch = FlushJob.__new__(FlushJob)
        batch.states = trace.states
        batch.values = trace.values
        batch.args = trace.args
        batch.state = trace.state
        batch.sites = trace.sites
        batch.serial = trace.serial
        batch.touched = trace.touched
        batch.extra = trace.extra
        batch.fault = None
        batches.append(batch)
        if trace.journal is not None:
            keep_journal(trace)
        lives.append(wanted(trace))
        trace.reset()
        trace.flushing = True
    if not batches:
        return
    COUNTS.flushes += 1
    try:
        SLOTS.execute_many(batches, lives)
    except BaseException:
        for k in range(len(begun)):
            put_back(begun[k], batches[k], lives[k])
        raise
    finally:
        for k in range(len(begun)):
            trace = begun[k]
            batch = batches[k]
            trace.flushing = False
            for v in batch.values:
                if v.trace is trace:
                    v.trace = None
                    v.serial = 0
            trace.give()
    for k in range(len(begun)):
        trace = begun[k]
        batch = batches[k]
        COLD.count_pass(trace.root, batch.states)
    if COUNTS.states > MAX_STATES:
        SLOTS.evict(ROOT)


def merged(batches, lives):
    """Several batches as a single batch, off the trie, and the indices of wanted values there.

    A value from outside that several batches use enters once.
    """
    states = []
    values = []
    args = []
    live = []
    sites = {}
    known = {}
    for k in range(len(batches)):
        batch = batches[k]
        places = [0] * len(batch.values)
        n_states = len(states)
        at_args = len(args)
        number = -1
        for state in batch.states:
            number += 1
            first = state.first
            if state.n_in == 0 and type(state.prim) is LeafPrimitive:
                v = batch.values[first]
                at = known.get(id(v), -1)
                places[first] = at
                if at >= 0:
                    n_states -= 1  # of which the places of sites are counted
                    continue
                known[id(v)] = len(values)
            copy = Record.__new__(Record)
            copy.prim = state.prim
            copy.mode = state.mode
            copy.out_type = state.out_type
            copy.code = state.code
            copy.program = state.program
            copy.outs = state.outs
            copy.lasti = state.lasti
            copy.within = state.within
            copy.n_in = state.n_in
            copy.n_out = state.n_out
            copy.requires_grad = state.requires_grad
            copy.many = state.many
            copy.first = len(values)
            copy.arg0 = at_args + state.arg0
            copy.i0 = -1 if state.i0 < 0 else places[state.i0]
            copy.i1 = -1 if state.i1 < 0 else places[state.i1]
            copy.i2 = -1 if state.i2 < 0 else places[state.i2]
            if state.rest is not None:
                copy.rest = tuple([places[i] for i in state.rest])
            if batch.sites is not None and number in batch.sites:
                sites[n_states + number] = batch.sites[number]
            for i in range(state.n_out):
                places[first + i] = len(values)
                values.append(batch.values[first + i])
            states.append(copy)
        args.extend(batch.args)
        for i in lives[k]:
            live.append(places[i])
    serial = batches[len(batches) - 1].serial
    return FlushJob(states, values, args, None, sites if sites else None, serial, [], None), live


COLD.begin_trace = begin_trace
COLD.share_leaf = share_leaf
COLD.record_shared = record_shared
COLD.leave_own = leave_own
COLD.keep_journal = keep_journal
COLD.put_back = put_back

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=before_fork,
        after_in_parent=after_fork_in_parent,
        after_in_child=after_fork_in_child,
    )
