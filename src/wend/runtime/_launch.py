"""The part of a flush that runs every time: fills argument blocks, calls kernels.

Compiled by Cython with the types in `_launch.pxd`; runs as plain Python too, on the stand-ins of
`_launch_select`.  A `Frame` is what one execution of a bound plan works in: blocks of memory at
fixed addresses.  `patches` say which of their words are addresses that differ from run to run.
"""

from wend.core._hot import Segment, Value, evaluate, fresh_serial, held


class Frame:
    """Blocks of a plan bound to certain sizes, filled but for addresses and run-time numbers.

    table      address of a row of addresses: arena, leaves, results, what host steps made
    leaves     indices of the leaves             types     the types for which it is bound
    places     places of the args that extents depend on     sizes     their values
    outs       (make, shape, dtype) of each array that is made, in the order of the table
    results    the values that the arrays made are
    plain      whether these are all that is wanted, and nothing is saved for a backward pass
    numbers    (address of a word, expression, category) of each run-time number
    weights    (leaf, key, address in the table, of a word, leaf's offset) of each operand of
               a product that may be packed: see `runtime.packed`
    steps      in order: (0, code, number of kernels), (1, host step), or
               (2, results that may take the memory of leaves): nothing can fail any more
    """

    def __init__(self, memory):
        self.memory = memory
        self.n_patches = 0
        self.release = False
        self.busy = False
        self.found = None
        self.arena = None


class Track:
    """What the runs of one plan have in common; `frame` is of the sizes seen last."""

    def __init__(self, path, roots, grad_leaves, saved):
        self.path = path
        self.roots = roots
        self.grad_leaves = grad_leaves
        self.saved = saved
        self.frame = None


def use_arrays(cls):
    """Tell the C helpers which class arrays are of."""
    set_array_type(cls)


def address_of(array):
    """Address of the elements of a C-contiguous, aligned array; -1 for anything else."""
    return array_data(array)


def donated(values, i):
    """The array of a leaf, if nobody else can see it any more; else None."""
    v = values[i]
    if v.extra is not None or references(v) > ALONE:
        return None
    array = v.buffer
    if references(array) > ALONE or not array_owned(array):
        return None
    v.buffer = None
    return array


def alone():
    """References to a value that only a list has, and to its buffer, as `donated` sees them."""
    values = [Value(None)]
    v = values[0]
    return references(v)


ALONE = alone()


SEEN = {}  # packed operands of a value that has been used once; never filled


def launch(frame, values, types, args, arena, touched):
    """Run the steps; returns the arrays made, or None if a kernel noted a failure.

    touched: handles and their values before the flush; None if no leaf may be overwritten
    """
    table = frame.table
    put(table, arena)
    at = table + 8
    kept = []
    for i in frame.leaves:
        v = values[i]
        array = v.buffer
        data = array_data(array)
        if data == -1:
            array = frame.owner.dense(array)
            kept.append(array)
            data = array_data(array)
        put(at, data)
        at += 8
    for i, key, place, word, home, offset in frame.weights:
        v = values[i]
        packs = v.packed
        if packs is None:  # most values are used once: parameters in training
            v.packed = SEEN
            data = 0
        else:
            data = packs.get(key, 0)
            if data == 0:
                data = frame.owner.pack(v, key, get(home) + offset)
        put(word, data != 0)
        put(place, data if data != 0 else get(home) + offset)
    made = []
    for make, shape, dtype in frame.outs:
        if make is None:
            made.append(None)
        else:
            array = make(shape, dtype)
            made.append(array)
            put(at, array_data(array))
        at += 8
    for address, expr, category in frame.numbers:
        number = evaluate(expr, types, args)
        if category == 2:
            put_double(address, number)
        else:
            put(address, number)
    put(frame.fault, 0)
    patch(frame.patches, frame.n_patches, table)
    for step in frame.steps:
        if step[0] == 0:
            run_kernels(step[1], step[2], frame.release)
            continue
        if get(frame.fault) != 0:
            return None
        if step[0] == 1:
            frame.owner.host(frame, step[1], values, types, args, made, kept)
        else:
            if touched is not None:
                touched.clear()
            for k, i, make, shape, dtype, place in step[1]:
                array = None if touched is None else donated(values, i)
                if array is None:
                    array = make(shape, dtype)
                made[k] = array
                put(table + place, array_data(array))
        patch(frame.patches, frame.n_patches, table)
    if get(frame.fault) != 0:
        return None
    return made


def run(track, batch):
    """Run a plan: 1 done, 0 not bound to these sizes, -1 to be left to the reference."""
    frame = track.frame
    if frame is None:
        return 0
    values = batch.values
    args = batch.args
    if not same_sizes(frame.leaves, frame.types, values, frame.places, frame.sizes, args):
        return 0
    return run_bound(track, frame, batch, values, args)


def run_bound(track, frame, batch, values, args):
    """Run a plan in a frame of the right sizes: 1 done, -1 to be left to the reference.

    0: another thread has the frame.
    """
    if frame.busy:
        return 0
    frame.busy = True  # nothing is called since it was looked at: no other thread had a turn
    env = None
    try:
        arena = 0
        if frame.arena_bytes:
            arena = frame.owner.take_arena(frame)
        types = values
        if frame.needs_types:
            types = [v.type for v in values]
        made = launch(frame, values, types, args, arena, batch.touched)
        if made is None:
            return -1
        if frame.plain:
            k = 0
            for i in frame.results:
                v = values[i]
                if v.buffer is None:
                    v.buffer = made[k]
                k += 1
        else:
            env = frame.owner.settle(frame, values, made)
    except Exception:  # of a host step, or of a number: the reference raises it with its line
        return -1
    finally:
        frame.busy = False
        frame.found = None
        if frame.arena is not None:
            frame.arena.free()
            frame.arena = None
    if track.roots:
        keep_segment(track, batch, values, env)
    return 1


def keep_segment(track, batch, values, env):
    """Keep what a later backward pass from the results needs."""
    segment = None
    for i in track.roots:
        v = values[i]
        if not v.requires_grad or v.leaf is not None:
            continue
        if segment is None:
            # Numbered by its end: a segment of another thread that this one uses is older.
            segment = Segment(fresh_serial(), track.path)
        v.segment = segment
        v.seg_index = i
    if segment is None:
        return
    segment.origin = batch.serial
    segment.types = [v.type for v in values]
    segment.args = batch.args
    inputs = {}
    nested = False
    for i in track.grad_leaves:
        v = values[i]
        slim = held(v.type, None)
        slim.leaf = v.leaf
        slim.segment = v.segment
        slim.seg_index = v.seg_index
        slim.requires_grad = True
        inputs[i] = slim
        if v.segment is not None:
            nested = True
    segment.inputs = inputs
    segment.saved = {} if env is None else env_of_saved(track, values, env)
    if batch.extra is not None:
        segment.hooks = batch.extra
    segment.sites = batch.sites
    if nested:
        NOTE[0](segment, batch)


NOTE = [None]  # what looks at a history that grows through other segments


def set_note(function):
    """Say what is called for each segment that uses others."""
    NOTE[0] = function


def env_of_saved(track, values, env):
    """(type, array) of each value that is saved."""
    saved = {}
    for i in track.saved:
        array = env.get(i)
        if array is None:
            v = values[i]
            array = v.buffer
            if v.extra is not None:
                array = array.copy()
        saved[i] = (track.type_of(i, values, array), array)
    return saved


def same_sizes(leaves, types, values, places, sizes, args):
    """Whether the leaves have these types and the args at these places these values."""
    n = len(leaves)
    for k in range(n):
        v = values[leaves[k]]
        if v.type is not types[k]:
            return False
    n = len(places)
    for k in range(n):
        if args[places[k]] != sizes[k]:
            return False
    return True


def write_word(address, word):
    """Write a 64-bit word."""
    put(address, word)
