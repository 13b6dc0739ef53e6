# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Growth of the trie: new steps, and which of them may grow the trie; early flushes.

Compiled with the types in `_trie_policy.pxd`, or run as plain Python: see `_hot.py`, which asks
these functions through `COLD`.
"""

from wend._engine.core._hot import Record, State, flush_now, held, refreshed, wrap
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
    """Count one pass.

    Where counts are halved, so is the time that they were counted in: their rate stays.
    """
    state.passed += 1
    if state.passed > WINDOW:
        state.passed = state.passed >> 1
        state.gained = state.gained >> 1
        state.born = (state.born + COUNTS.flushes) >> 1


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


# -- new steps ------------------------------------------------------------------------------


def leaf_child(trace, state, prim, grad):
    """The child by which a leaf of this kind enters."""
    children = state.children
    if children is not None:
        child = children.get((prim, -1, -1, -1, None, None, None))
        if child is not None:
            state.child = child
            return child
    if not admit(state, prim):
        return new_leaf(None, prim, grad, trace.n)
    child = new_leaf(state, prim, grad, trace.n)
    adopt(state, child)
    return child


def adopt(state, child):
    """Hang a new child into the trie."""
    other = state.child
    if state.children is not None:
        state.children[child.key()] = child
    elif other is not None:
        state.children = {other.key(): other, child.key(): child}
    state.child = child
    COUNTS.states += 1


def find_child(trace, state, prim, n, i0, i1, i2, rest, values, v0, v1, v2, others):
    """The child for a step that the inline cache does not hold; made if it is new."""
    t0 = v0.type if n > 0 else None
    t1 = v1.type if n > 1 else None
    t2 = v2.type if n > 2 else None
    more = [v.type for v in others] if others is not None else None
    outs = None
    program = None
    same = False
    if n == prim.last_n and prim.epoch == COUNTS.epoch:
        program = prim.last_program
        same = (
            prim.last_t0 is t0
            and prim.last_t1 is t1
            and prim.last_t2 is t2
            and (others is None or same_types(prim.last_more, others))
        )
        if same and not prim.sized:
            outs = prim.last_outs
        elif same or (
            (n < 1 or prim.last_t0.kind is t0.kind)
            and (n < 2 or prim.last_t1.kind is t1.kind)
            and (n < 3 or prim.last_t2.kind is t2.kind)
            and (others is None or same_kinds(prim.last_more, more))
        ):
            outs = program.resize(t0, t1, t2, more, values)
    if outs is None:
        types = types_of(n, v0, v1, v2, others)
        program, found = prim.typed(types, values if values is not None else [])
        outs = found[0] if len(found) == 1 else found
    if not same or prim.sized:
        prim.last_n = prim.quick_n = -1  # nothing is known, should this be cut short
        prim.last_t0, prim.last_t1 = t0, t1
        prim.last_t2, prim.last_more = t2, more
        note_program(prim, n, program, outs)
    if state is not None:
        if state.children is not None:
            child = state.children.get((prim, i0, i1, i2, rest, trace.mode, program))
            if child is not None:
                set_types(child, t0, t1, t2, more, outs, values)
                state.child = child
                return child
        if not admit(state, prim):
            state = None
    if state is None:
        child = Record.__new__(Record)
        child.many = program.many
        set_results(child, outs)
    else:
        node = State(state, prim)
        node.born = COUNTS.flushes
        node.many = program.many
        set_types(node, t0, t1, t2, more, outs, values)
        child = node
    child.prim = prim
    child.i0 = i0
    child.i1 = i1
    child.i2 = i2
    child.rest = rest
    child.n_in = n
    child.mode = trace.mode
    child.program = program
    child.first = trace.n
    child.n_out = len(outs) if type(outs) is tuple else 1
    child.arg0 = len(trace.args)
    child.requires_grad = (
        trace.mode.grad
        and prim.is_differentiable
        and program.real
        and needs_grad(n, v0, v1, v2, others)
    )
    if child.requires_grad and (
        (n > 0 and v0.inference) or (n > 1 and v1.inference) or (n > 2 and v2.inference)
    ):
        SLOTS.check_saved(prim, program, [v0, v1, v2])
    if state is not None:
        adopt(state, child)
    return child


def note_program(prim, n, program, outs):
    """Note the program of an op's call of n operands; `outs` are the types of the results."""
    if prim.last_program is not program:
        prim.other_t0 = None
    prim.last_program = program
    prim.last_outs = outs
    prim.last_n = n
    looked_at = prim.check_held or prim.check_numbers
    quick = 0 < n <= 3 and not prim.sized and not prim.is_view and not looked_at
    prim.quick_n = n if quick and type(outs) is not tuple and not program.many else -1
    prim.flows = prim.is_differentiable and program.real


def needs_grad(n, v0, v1, v2, others):
    """Whether gradients flow to any of n operands."""
    if (n > 0 and v0.requires_grad) or (n > 1 and v1.requires_grad) or (n > 2 and v2.requires_grad):
        return True
    if others is not None:
        for v in others:
            if v.requires_grad:
                return True
    return False


def types_of(n, v0, v1, v2, others):
    """The types of the operands as a list."""
    types = []
    if n > 0:
        types.append(v0.type)
        if n > 1:
            types.append(v1.type)
            if n > 2:
                types.append(v2.type)
                if others is not None:
                    for v in others:
                        types.append(v.type)
    return types


def retype(child, n, v0, v1, v2, others, values):
    """A known step with new sizes: the same child if the pattern holds, else None."""
    if child.is_step:
        return None
    program = child.program
    t0 = v0.type if n > 0 else None
    t1 = v1.type if n > 1 else None
    t2 = v2.type if n > 2 else None
    if program.uniform and (n < 2 or t1 is t0) and (n < 3 or t2 is t0) and others is None:
        child.t0 = t0
        child.t1 = t1
        child.t2 = t2
        child.out_type = t0
        return child
    more = [v.type for v in others] if others is not None else None
    outs = program.resize(t0, t1, t2, more, values)
    if outs is None:
        types = types_of(n, v0, v1, v2, others)
        args = values if values is not None else []
        if not program.matches(types, args):
            return None
        outs = program.out_types(types, args)
    set_types(child, t0, t1, t2, more, outs, values)
    return child


def set_types(child, t0, t1, t2, more, outs, values):
    """Set the types that the inline cache of a state compares: those seen last."""
    child.t0 = t0
    child.t1 = t1
    child.t2 = t2
    child.trest = more
    child.last_args = values
    set_results(child, outs)


def set_results(child, outs):
    """Set the types of a step's results: a type, or a tuple of types."""
    if type(outs) is tuple:
        child.outs = outs
        child.out_type = outs[0] if len(outs) == 1 and not child.many else None
    elif child.many:
        child.outs = (outs,)
    else:
        child.out_type = outs


COLD.admit = admit
COLD.leaf_child = leaf_child
COLD.find_child = find_child
COLD.retype = retype
COLD.count_pass = count_pass
COLD.check_budget = check_budget
COLD.join_held = join_held
