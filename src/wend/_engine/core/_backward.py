# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Backward on a known path, and the giving of gradients to tensors.

Compiled with the types in `_backward.pxd`, or run as plain Python: see `_hot.py`.
"""

from wend._engine.core._hot import State, Storage, current_trace, flush, refreshed, wrap
from wend._engine.core._types import off_mode


def child_with(state, key):
    """The child with this key, or None."""
    if state.children is not None:
        return state.children.get(key)
    child = state.child
    return child if child is not None and child.key() == key else None


def record_step(trace, prim, seeds, operands, values, outs, build, leaves):
    """Record a backward step; returns handles on the results.

    seeds: dense indices
    operands: values that enter
    outs: types of the results
    build: makes the Step of a new state: build(first, indices, arg0)
    leaves: dense indices for `backward_known`, or None
    """
    indices = list(seeds)
    while True:
        serial = trace.serial
        indices = list(seeds)
        for v in operands:
            indices.append(v.index if v.serial == serial else enter(trace, v))
        if trace.serial == serial:
            break
    state = trace.state
    i0 = indices[0] if len(indices) > 0 else -1
    i1 = indices[1] if len(indices) > 1 else -1
    rest = tuple(indices[2:])
    child = None
    if state is not None:
        child = child_with(state, (prim, i0, i1, -1, rest, trace.mode, None))
    if child is None:
        if state is not None and not COLD.admit(state, prim):
            state = None
        child = State(state, prim)
        child.born = COUNTS.flushes
        child.is_step = True
        child.many = True
        child.i0 = i0
        child.i1 = i1
        child.rest = rest
        child.n_in = len(indices)
        child.mode = trace.mode
        child.first = trace.n
        child.n_out = len(outs)
        child.arg0 = len(trace.args)
        child.requires_grad = prim.is_differentiable
        child.step = build(trace.n, indices, child.arg0)
        child.leaves = leaves
        if state is not None:
            adopt(state, child)
    else:
        state.child = child
    child.outs = tuple(outs)
    return commit_many(trace, None, child, values)


#: A path ends with a backward pass if more than so many continuations were met, and passes are not
#: so many times as frequent as new continuations.
DIVERGING, RARE = 3, 64
#: So many passes end there, until the program may show that one continuation comes back by now.
ENDINGS = 4096


class StepPrimitive:
    """Backward of a segment as one step; compared by identity in the trie."""

    def __init__(self, name, key):
        self.name = name
        self.key = key
        self.is_view = False
        self.is_composite = False
        self.is_differentiable = False
        self.sized = False

    def __repr__(self):
        return self.name


RETAINED = [{}]  # live handles that retain the gradient of a non-leaf


def set_retained(table):
    """Slot: the table of handles that retain gradients; while empty, nothing is to be kept."""
    RETAINED[0] = table


def backward_known(handle, retain_graph):
    """Take the backward pass of all that is pending as the step that this path took last time.

    Where the path has taken no such step, its parts may have. Returns whether the pass was made:
    only where no users' code is called, as before.
    """
    trace = current_trace()
    v = handle.value
    if v.trace is not trace or trace.extra is not None or RETAINED[0]:
        return False
    if handle.derived is not None or trace.symbolic is not None:
        return False
    if backward_step(trace, v, retain_graph):
        return True
    return SLOTS.backward_in_parts(trace, v, retain_graph)


def backward_step(trace, v, retain_graph):
    """Take a known step: see `backward_known`.

    Gradients of values that earlier flushes have computed are passed on to the segments of those
    flushes.
    """
    state = trace.state
    if state is None:
        return False
    child = state.child
    if child is None or child.simple != (2 if retain_graph else 1) or child.i0 != v.index:
        return False
    if child.i1 != -1 or child.mode is not off_mode(trace.mode):
        return False
    values = trace.values
    outs = []
    older = []
    for index in child.leaves:
        v = values[index]
        leaf = v.leaf
        if leaf is None:
            if v.segment is None:
                return False
            older.append(v)
        elif not leaf.requires_grad or leaf.hooks or leaf.node:
            return False
        outs.append(v.type)
    child.outs = tuple(outs)
    leaves = []
    for index in child.leaves:
        v = values[index]
        leaves.append(v.leaf)
    fresh = commit_many(trace, None, child, None)
    if older:
        SLOTS.backward_on(trace, retain_graph, leaves, older, fresh)
    else:
        give_gradients(leaves, fresh)
    if child.ending > 0 or (child.gained > DIVERGING and RARE * child.gained > child.passed):
        child.ending = ENDINGS if child.ending == 0 else child.ending - 1
        flush(trace)  # each pass has another continuation: the path ends here
    return True


def give_gradients(leaves, grads):
    """Add gradients to those that leaves' tensors have: all, or none if the call is cut short."""
    before = None
    n = 0
    try:
        for k in range(len(leaves)):
            leaf = leaves[k]
            owner = leaf.ref()
            if owner is not None:
                t = owner
                if t._grad is None and leaf.post_hooks is None:
                    t._grad = grads[k]
                else:
                    if before is None:
                        before = {}
                    if t._grad is not None and leaf.post_hooks is None:
                        have = t._grad
                        note_holders(before, have)
                    SLOTS.accumulate(leaf, grads[k])
            n = k + 1
    except BaseException:
        for k in range(n):
            leaf = leaves[k]
            owner = leaf.ref()
            if owner is not None and leaf.post_hooks is None:
                t = owner
                if t._grad is grads[k]:
                    t._grad = None
        if before is not None:
            for holder, value in before.values():
                restore(holder, value)
        raise


def note_holders(noted, handle):
    """Note by id the holder that a write to a handle changes, and the contents: see `restore`.

    A former note stays unchanged: gradients that are views of the same buffer share a storage.
    """
    if handle.alias is None:
        noted.setdefault(id(handle), (handle, handle.value))
    else:
        SLOTS.note_holders(noted, handle)


def restore(holder, value):
    """Give a handle back its former value, or a storage its data: also those that NumPy sees."""
    if type(holder) is Storage:
        if holder.shared is not None:
            SLOTS.write_back(holder, value)
            return
        if holder.data is value:
            return
        holder.data = value
    else:
        if holder.value is value:
            return
        holder.value = value
    holder.version += 1


def add_gradient(handle, have, g):
    """Make `g` the gradient of a tensor that still has `have` (None for none); else return False.

    Threads may add gradients to the same tensor: a thread that was late begins anew.
    """
    if handle._grad is not have:
        return False
    handle._grad = g
    return True


def renew_value(handle, old, value):
    """Make `value` that of a handle that still has `old`; False if another thread has written."""
    if handle.value is not old:
        return False
    handle.value = value
    handle.version += 1
    return True


def rebind_alone(handle, result):
    """Rebind a handle that shares its data with nobody, where no gradients are recorded.

    Returns whether it was such a handle, of the result's type; if not, nothing has been done.
    """
    trace = current_trace()
    old = handle.value
    value = result.value
    if (
        handle.derived is not None
        or handle.leaf is not old.leaf
        or old.buffer is None
        or value.type is not old.type
        or value.requires_grad
        or (old.requires_grad and old.leaf is None)
        or old.inference
        or value.inference
        or trace.mode.grad
        or trace.mode.inference
        or trace.symbolic is not None
    ):
        return False
    trace.touched.append((handle, old, trace.n))
    handle.value = value
    handle.version += 1
    return True


def settle_gradient(leaf, g):
    """As `give_gradients`, of a complete gradient; False if hooks or a present one need more."""
    if leaf.hooks or leaf.post_hooks or leaf.node or not leaf.requires_grad:
        return False
    owner = leaf.ref()
    if owner is None:
        return True
    t = owner
    v = refreshed(g)
    if v.requires_grad or v.leaf is not None:
        return False
    fresh = wrap(v)
    if t._grad is not None:
        return False
    t._grad = fresh
    return True


COLD.backward_known = backward_known
