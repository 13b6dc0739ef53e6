# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Several traces of a thread, as fibers have them: made alike, and flushed together.

Compiled with the types in `_siblings.pxd`, or run as plain Python: see `_hot.py`.
"""

from wend._engine.core._hot import FlushJob, Record, Trace, wanted
from wend._engine.core._types import LeafPrimitive


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
