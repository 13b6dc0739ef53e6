# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Policy of the trie: which divergences may grow the trie, and when pending work is computed early.

Compiled with the types in `_trie_policy.pxd`, or run as plain Python: see `_hot.py`, which asks
these functions through `COLD`.
"""

from wend._engine.core._hot import flush_now, held, refreshed, wrap
from wend._engine.core._types import intern_type

SEAL_AFTER = 32  # divergences below a state before it may be sealed
LONG_TAIL = 250  # new states of one divergence that weigh as much as another divergence
LOOKED = 1024  # steps by which long structures recorded off the trie are told apart
WINDOW = 128  # passes after which the counts of a state are halved
LOW_44 = (1 << 44) - 1
MOST_JOINED = 1 << 20


def admit(state, prim):
    """Whether a divergence at `state`, by an op `prim`, may grow the trie.

    Each state counts the traces that left the known paths below against the traces that
    passed.  Where most passes diverge, structure does not repeat: recording goes on off the
    trie.  When a structure recorded there comes back after all (see `count_pass`), the next
    divergence is admitted.
    """
    fresh = state.child is None and state.depth > 0 and state.born == COUNTS.flushes
    if fresh:
        return True  # the tail of a divergence that was admitted in this very trace
    node = state
    root = state
    ok = True
    while node is not None:
        node.gained += 1
        if node.gained > SEAL_AFTER and 2 * node.gained > node.passed:
            ok = False
        root = node
        node = node.parent
    if not ok and RETURNED[0] > 0 and root is ROOT:
        if state.depth == RETURNED[1] and prim is RETURNED[2]:
            RETURNED[0] -= 1
            return True
    return ok


def is_sealed(state):
    """Whether `admit` would refuse a divergence at `state`; counts nothing."""
    while state is not None:
        if state.gained > SEAL_AFTER and 2 * state.gained > state.passed:
            return True
        state = state.parent
    return False


STRANGERS = {}  # structures recorded off the trie lately, by hash
#: How many structures have come back and may be admitted; depth and op of the divergence.
RETURNED = [0, 0, None]


def note_stranger(states):
    """Remember a structure recorded off the trie; a structure that comes back is worth a path."""
    h = n = len(states)
    step = 1 + n // LOOKED
    k = 0
    while k < n:
        state = states[k]
        k += step
        prim = hash(state.prim)  # of the address
        h = 1009 * h + prim + 31 * state.i0 + 7919 * state.i1 + state.i2
        h = (h ^ (h >> 19)) & LOW_44
    if h in STRANGERS:
        RETURNED[0] = 1
        RETURNED[1] = 0
        for state in states:
            if not state.linked:
                RETURNED[2] = state.prim
                break
            RETURNED[1] += 1
    elif len(STRANGERS) >= 4096:
        STRANGERS.clear()
    STRANGERS[h] = True


def count_pass(root, states):
    """After a flush: count the states passed, for `admit` and for eviction.

    Passes of long ago are forgotten, and a long tail of new states counts for several
    divergences: little of the tail has to be built to find that nothing repeats.
    """
    now = COUNTS.flushes
    count_at(root)
    k = 0
    for step in states:
        if not step.linked:
            note_stranger(states)
            break
        state = step
        if state.passed == 0 and k >= 0:
            tail = (len(states) - k) // LONG_TAIL
            if tail > 0:
                root.gained += tail
                for known in states[:k]:
                    known.gained += tail
            k = -1
        elif k >= 0:
            k += 1
        state.stamp = now
        count_at(state)


def count_at(state):
    """Count one pass."""
    state.passed += 1
    if state.passed > WINDOW:
        state.passed = state.passed >> 1
        state.gained = state.gained >> 1


def same_type(a, b):
    """Whether two types are the same; the table may have forgotten a type, and made a second."""
    return a is b or (a.kind is b.kind and dims_of(a) == dims_of(b))


def join_held(trace, prim, h0, h1, h2, rest):
    """Result of an op that only joins held tensors of equal type; None if it has to be recorded.

    Gradients need the step, and so do pending operands.
    """
    v0 = refreshed(h0)
    if v0.type.nbytes * (len(rest) + 3) > MOST_JOINED:
        return None
    arrays = []
    for h in [h0, h1, h2, *rest]:
        v = refreshed(h)
        if v.buffer is None or not same_type(v.type, v0.type):
            return None
        if v.requires_grad and trace.mode.grad:
            return None
        arrays.append(v.buffer)
    found = prim.joined(arrays)
    if found is None:
        return None
    v = held(intern_type(found.shape, v0.type.dtype, v0.type.device), found)
    v.inference = trace.mode.inference
    return wrap(v)


def check_budget(trace, autobatch):
    """Flush past the hard budget; short of that only where the program's loop begins anew.

    Sizes do not decide where a path ends. Where a trace of smaller values has gone on, larger ones
    go on as well: only the memory that the trace keeps from outside is bounded there.
    """
    hard = trace.n >= trace.hard_nodes or trace.nbytes >= trace.hard_bytes
    if trace.state is not None and trace.state.child is not None:
        hard = trace.n >= trace.hard_nodes or trace.held_bytes >= trace.hard_bytes
        if trace.n < trace.soft_nodes and not hard:
            return
    if trace.state is None and autobatch and trace.nbytes < trace.hard_bytes:
        # Off the trie there is no plan to be made: the more is pending, the more runs together.
        if trace.n < MOST_OFF_TRIE:
            return
    if not hard and trace.states:
        code = current_code()
        hard = SLOTS.on_beat(trace, code, current_lasti())
    if hard:
        flush_now(trace)


COLD.admit = admit
COLD.count_pass = count_pass
COLD.check_budget = check_budget
COLD.join_held = join_held
