"""The part of a flush that runs every time: fills argument blocks, calls kernels.

Compiled by Cython with the types in `_launch.pxd`; runs as plain Python too, on the stand-ins of
`_launch_select`.  A `Frame` is what one execution of a bound plan works in: blocks of memory at
fixed addresses.  `patches` say which of their words are addresses that differ from run to run.
"""

from wend.core._hot import evaluate


class Frame:
    """Blocks of a bound plan, filled but for addresses and run-time numbers.

    table      address of a row of addresses: arena, leaves, results, what host steps made
    leaves     indices of the leaves
    outs       (make, shape, dtype) of each array that is made, in the order of the table
    numbers    (address of a word, expression, category) of each run-time number
    steps      in order: (0, code, number of kernels), or (1, host step)
    """

    def __init__(self, memory):
        self.memory = memory
        self.n_patches = 0
        self.release = False
        self.found = None
        self.arena = None


def use_arrays(cls):
    """Tell the C helpers which class arrays are of."""
    set_array_type(cls)


def address_of(array):
    """Address of the elements of a C-contiguous, aligned array; -1 for anything else."""
    return array_data(array)


def launch(frame, values, types, args, arena):
    """Run the steps; returns the arrays made, or None if a kernel noted a failure."""
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
    made = []
    for make, shape, dtype in frame.outs:
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
        else:
            if get(frame.fault) != 0:
                return None
            frame.owner.host(frame, step[1], values, types, args, made, kept)
            patch(frame.patches, frame.n_patches, table)
    if get(frame.fault) != 0:
        return None
    return made


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
