# mypy: ignore-errors
# cython: auto_pickle=False
"""The part of a flush that runs every time: fills argument blocks, calls kernels.

Compiled by Cython with the types in `_launch.pxd`; runs as plain Python too, on the stand-ins of
`_launch_select`.  An `ArgumentBlock` is the memory of one execution of a bound plan, at fixed
addresses.  `patches` say which of their words are addresses that differ from run to run.
"""

from heapq import heappop, heappush

from wend._engine.base.errors import KernelFailure
from wend._engine.core._backward import give_gradients
from wend._engine.core._hot import (
    FlushJob,
    Segment,
    Value,
    ensure,
    flush,
    fresh_serial,
    held,
    passed,
    refreshed,
    set_slot,
    slim,
    slot,
    wrap,
)
from wend._engine.core._types import evaluate, off_mode


class ArgumentBlock:
    """Blocks of a plan bound to certain sizes, filled but for addresses and run-time numbers.

    table      address of a row of addresses: arena, leaves, results, arrays made by host steps
    leaves     indices of the leaves
    types      the types for which the block is bound
    places     args that extents depend on, or differences of two
    sizes      the values at these places, in order: args[k] - args[j] for k, j, or args[k] where
               j < 0
    moves      (bytes from `fault` to a word, number, k, step, ..) of each word that is the number
               and `step` times args[k], for each such pair (see `ir.dynamic_offsets`)
    outs       (make, shape, dtype, whether at once) of each array that is made, as in the table
    shows      (source, k, whole, shape, dtype, offset, strides) of each result that lies in another
               array: MADE k, LEAF k, or the array of host step k FOUND
    gives      (value, source, k) of each result that is wanted, SHOWN k among the sources
    saves      (value, source, k, type) of each value that a backward pass needs; type None: its own
    numbers    (bytes from `fault` to a word, expression, category) of each run-time number
    weights    (leaf, key, bytes from `table` to its entry, to the leaf's entry, offset, place in
               the arena or -1, words, uses before packing) of each operand of a product that may be
               packed: see `packed_weights`; words: (bytes from `fault`, word if panels are kept,
               word if not)
    scratch    place in the arena of `room` bytes for the calls of this thread
    steps      in order: (0, bytes from `fault` to calls, number of calls), (1, host step), or
               (2, results that may take the memory of leaves, each with the leaf and its place in
               the table): nothing can fail any more
    linked     each `LinkedPart` of a link of frames, in order, in place of steps: see `parts.links`
    entering   the leaves of a link; their addresses are in the table
    first_out  place in a link's table of the address of the first array that is made
    device     the accelerator that runs the kernels: see `devices.queue`; None for the processor
    """

    def __init__(self, memory):
        self.memory = memory
        self.n_patches = 0
        self.release = False
        self.busy = False
        self.fitted = None  # the sizes whose numbers the block holds, if not those of its making
        self.found = None
        self.arena = None
        self.linked = None
        self.device = None


class LinkedPart:
    """An entry of a link: a frame that runs, a sum of two gradients, or a copy of strided elements.

    kind       FRAME, SUM or COPY
    frame      of a FRAME
    at, n_fills     address and number of triples of words: place in the frame's table (of a SUM and
               COPY: number of the operand, the result first), place in the link's table, offset
    values     of a FRAME: the leaf of the link for each of its values, or -1
    types      of a FRAME: those of its values
    args       of a FRAME: the places of its args among the link's
    exprs, before     expressions that make a backward step's args of those of the forward part,
               whose values have the types `before`; None for a forward part
    donations  of a FRAME: see `donate`; all by the link's numbers
    finds      of a FRAME: (value, number among the link's arrays, place in the link's table) of
               each result that a host step makes
    hosted     of a FRAME with host steps: where its values lie, see `LinkOwner.host`
    sites      of a FRAME: the user's lines, as `FlushJob.sites`
    checked    of a FRAME: whether the sizes among its args follow from other args of the link
    size, wide, dtype     of a SUM: number of elements, whether these are float64; None, or another
               dtype, for which Python has to add
    size, words_at     of a COPY: see `copy_view`
    """

    def __init__(self, kind):
        self.kind = kind
        self.frame = None
        self.exprs = None
        self.words = None
        self.donations = self.finds = ()
        self.hosted = self.sites = None
        self.checked = False
        self.dtype = None


FRAME = 0
SUM = 1
COPY = 2


def frame_like(model, memory, fault, types, sizes, owner, rest):
    """A frame like `model`, which lies at 0, with all that depends on sizes set anew.

    fault: its address in `memory`
    rest: outs, release, (scratch, room, and arena_bytes)
    owner: arguments from which `owner_of` makes the owner
    """
    frame = ArgumentBlock(memory)
    frame.fault = fault
    frame.table = fault + model.table
    frame.patches = fault + model.patches
    frame.n_patches = model.n_patches
    frame.leaves = model.leaves
    frame.places = model.places
    frame.shows = model.shows
    frame.gives = model.gives
    frame.saves = model.saves
    frame.numbers = model.numbers
    frame.moves = model.moves
    frame.weights = model.weights
    frame.steps = model.steps
    frame.needs_types = model.needs_types
    frame.device = model.device
    frame.types = types
    frame.sizes = sizes
    frame.owner = owner
    frame.outs = rest[0]
    frame.release = rest[1]
    arena = rest[2]
    frame.scratch = arena[0]
    frame.room = arena[1]
    frame.arena_bytes = arena[2]
    return frame


def owner_of(frame):
    """Return the Python half of a frame, made at the first call: most frames never need this."""
    if type(frame.owner) is tuple:
        frame.owner = SLOTS["owner"](*frame.owner)
    return frame.owner


MADE = 0  # sources of a result's array
LEAF = 1
FOUND = 2
SHOWN = 3


def sources():
    """(MADE, LEAF, FOUND, SHOWN)."""
    return MADE, LEAF, FOUND, SHOWN


class NativePlan:
    """The native half of a plan, shared by all its runs.

    frame: the frame for the sizes seen last
    frames: the frames for all sizes met lately, by types of the leaves and sizes among the args
    left: so many more runs take place before the planner is asked again; -1 for all
    """

    def __init__(self, path, roots, grad_leaves):
        self.path = path
        self.roots = roots
        self.grad_leaves = grad_leaves
        self.frame = None
        self.frames = {}
        self.left = -1


def use_arrays(cls, api, empty):
    """Tell the C helpers which class arrays are of, NumPy's C functions, and `numpy.empty`."""
    set_arrays(cls, api, empty)


def large(shape, dtype):
    """`numpy.empty`, in memory that begins at a cache line, and is used again (`_blocks.h`)."""
    return make_large(shape, dtype)


def in_lots(function, *given):
    """Call the function; arrays that NumPy makes meanwhile lie close together, in huge pages."""
    before = enter_lots()
    try:
        return function(*given)
    finally:
        leave_lots(before)


def trim_lots():
    """Give free memory of these huge pages back to the system: see `in_lots`."""
    give_lots_back()


def use_threads(n):
    """How many threads share the parts of a kernel."""
    set_threads(n)


def look_after(nanoseconds):
    """How long kernels run until signals are looked for, and then until the next look."""
    set_look(nanoseconds)


def draw_blocks(out, first, seed, kind, retry):
    """Fill an array of uint32 (n, 4) with blocks of random words (compiled only)."""
    philox(array_data(out), len(out), first, seed, kind, retry)


def address_of(array):
    """Address of the elements of a C-contiguous, aligned array; -1 for anything else."""
    return array_data(array)


def new_array(make, shape, dtype):
    """make(shape, dtype): an array without a content."""
    return make_array(make, shape, dtype)


def part_at(array, shape, dtype, offset, strides):
    """An array that lies in another, dense array."""
    return part_of(array, shape, dtype, offset, strides)


def row_at(array, r):
    """Row r of an array: array[r, ...]."""
    return row_of(array, r)


def donated(values, i, device):
    """The array of a leaf, if nobody else can see the array any more; else None."""
    v = values[i]
    if v.extra is not None or references(v) > ALONE:
        return None
    array = v.buffer
    if references(array) > ALONE:
        return None
    if not (array_owned(array) if device is None else device.owns(array)):
        return None
    v.buffer = None
    return array


def alone():
    """References to a value that only a list has, and to its buffer, as `donated` counts both."""
    values = [Value(None)]
    v = values[0]
    return references(v)


ALONE = alone()


def enter_leaves(frame, leaves, values, kept):
    """Write the addresses of leaves into the table; return where the table goes on.

    kept: takes dense copies, which have to live until the kernels have run
    """
    at = frame.table + 8
    for i in leaves:
        v = values[i]
        array = v.buffer
        data = array_data(array)
        if data == -1:
            array = owner_of(frame).dense(array)
            kept.append(array)
            data = array_data(array)
        if frame.device is not None:
            array = frame.device.resident(v, array, data)
            if v.buffer is not array:  # else nobody may have the array beside the leaf: `donated`
                kept.append(array)
            data = array_data(array)
        put(at, data)
        at += 8
    return at


def make_outs(frame, at):
    """The arrays that are made at once, None for others; their addresses are written from `at`."""
    made = []
    for make, shape, dtype, at_once in frame.outs:
        if not at_once:
            made.append(None)
        else:
            array = make_array(make, shape, dtype)
            made.append(array)
            put(at, array_data(array))
        at += 8
    return made


def fill_numbers(frame, types, args):
    """Write the words that follow from moving args, and the run-time numbers."""
    start = frame.fault
    for row in frame.moves:
        put(start + row[0], moved(row, args))
    for word, expr, category in frame.numbers:
        number = evaluate(expr, types, args)
        if category == 2:
            put_double(start + word, number)
        else:
            put(start + word, number)


def launch(frame, values, types, args, arena, touched):
    """Run the steps; returns the arrays made, or None if a kernel noted a failure.

    An exception of a signal handler ends a run of long kernels, until leaves are written to.

    touched: handles and their values before the flush; None if no leaf may be overwritten
    """
    table = frame.table
    put(table, arena)
    kept = []
    at = enter_leaves(frame, frame.leaves, values, kept)
    weigh(frame, values, arena)
    made = make_outs(frame, at)
    start = frame.fault
    fill_numbers(frame, types, args)
    put(start, 0)
    patch(frame.patches, frame.n_patches, table)
    stoppable = True  # until leaves are written to
    rows = None  # of leaves that an accelerator writes over, unless a kernel before notes a failure
    before = None
    n = len(frame.steps)
    for k in range(n):
        step = frame.steps[k]
        if step[0] == 0:
            code = start + step[1]
            scratch = arena + frame.scratch
            if frame.device is not None:
                later = k + 1 < n and frame.steps[k + 1][0] == 2
                frame.device.run(code, step[2], scratch, start, later)
            else:
                run_kernels(code, step[2], frame.release, scratch, frame.room, stoppable)
            continue
        if get(frame.fault) != 0:
            return None
        if step[0] == 1:
            if frame.device is not None:
                frame.device.settle()
            owner_of(frame).host(frame, step[1], values, types, args, made, kept)
        else:
            if frame.device is not None and touched is not None:
                rows = step[1]
                before = rebindings(rows, values, touched)
            donate_all(frame, step[1], values, made, touched)
            stoppable = False
        patch(frame.patches, frame.n_patches, table)
    if get(frame.fault) != 0:
        if rows is not None:
            give_back(rows, values, made)
            touched.extend(before)
        return None
    return made


def rebindings(rows, values, touched):
    """A copy of `touched` that holds none of the leaves that results may be written over.

    In their place are their numbers.     rows, touched: see `donate`
    """
    numbers = {}
    for _, i, _ in rows:
        numbers[identity(values[i])] = i
    return [(handle, numbers.get(identity(old), old), at) for handle, old, at in touched]


def launch_link(frame, values, args, arena, touched):
    """As `launch`, for a link of frames."""
    row = frame.table
    put(row, arena)
    kept = []
    enter_leaves(frame, frame.entering, values, kept)
    made = make_outs(frame, row + 8 * frame.first_out)
    stoppable = True  # until leaves are written to
    for part in frame.linked:
        if part.kind != FRAME:
            combine(frame, part, row, arena)
            continue
        stoppable = run_part(frame, part, values, args, made, kept, touched, arena, stoppable)
        if get(part.frame.fault) != 0:
            return None
    return made


def slot_at(words, row, arena):
    """The address that a triple of words leads to: see `LinkedPart.at`."""
    source = get(words + 8)
    return (arena if source == 0 else get(row + source)) + get(words + 16)


def combine(link, part, row, arena):
    """Do the sum, or the copy, of an entry of a link."""
    target = slot_at(part.at, row, arena)
    source = slot_at(part.at + 24, row, arena)
    if part.kind == COPY:
        copy_view(target, source, part.size, get(part.words_at), part.words_at + 8)
        return
    n = part.size
    if part.dtype is not None:
        owner_of(link).add(part, target, source, slot_at(part.at + 48, row, arena))
        return
    copy(target, source, n * 8 if part.wide else n * 4)
    source = slot_at(part.at + 48, row, arena)
    if part.wide:
        add64(target, source, n)
    else:
        add32(target, source, n)


def fill_table(part, row, arena):
    """Write the addresses of a part's leaves and results into the table of its frame."""
    frame = part.frame
    put(frame.table, arena)
    words = part.at
    for _ in range(part.n_fills):
        put(frame.table + get(words), slot_at(words, row, arena))
        words += 24


def args_of(part, args):
    """The args of an entry of a link."""
    numbers = []
    for k in part.args:
        numbers.append(args[k])
    if part.exprs is not None:
        numbers = [evaluate(e, part.before, numbers) for e in part.exprs]
    return numbers


def run_part(link, part, values, args, made, kept, touched, arena, stoppable):
    """Run the frame of an entry of a link; return whether the next may still be stopped."""
    frame = part.frame
    row = link.table
    fill_table(part, row, arena)
    if frame.weights:
        own = []
        for at in part.values:
            own.append(None if at < 0 else values[at])
        weigh(frame, own, arena)
    start = frame.fault
    if frame.moves or frame.numbers:
        fill_numbers(frame, part.types, args_of(part, args))
    put(start, 0)
    patch(frame.patches, frame.n_patches, frame.table)
    for step in frame.steps:
        if step[0] == 0:
            code = start + step[1]
            run_kernels(code, step[2], frame.release, arena + frame.scratch, frame.room, stoppable)
            continue
        if get(start) != 0:
            return stoppable
        if step[0] == 1:
            numbers = args_of(part, args)
            owner_of(link).host(link, part, step[1], values, numbers, made, kept)
            patch(frame.patches, frame.n_patches, frame.table)
            continue
        if part.donations:
            donate_all(link, part.donations, values, made, touched)
            stoppable = False
            fill_table(part, row, arena)
            patch(frame.patches, frame.n_patches, frame.table)
    for i, k, place in part.finds:
        array = frame.found[i]
        if link.found is None:
            link.found = {}
        link.found[k] = array
        put(row + place, array_data(array))
    frame.found = None
    return stoppable


def donate_all(frame, rows, values, made, touched):
    """As `donate`; if there is no memory, leaves get theirs back: nothing has been written yet."""
    try:
        donate(frame, rows, values, made, touched)
    except BaseException:
        give_back(rows, values, made)
        if frame.device is not None:
            frame.device.settle()
        raise


def give_back(rows, values, made):
    """Give leaves the memory that results were to be written to."""
    for k, i, _ in rows:
        v = values[i]
        if v.buffer is None:
            v.buffer = made[k]


def donate(frame, rows, values, made, touched):
    """Have results written over leaves that nobody else has, or into arrays of their own.

    rows: (number of the result, leaf, place in the table)
    touched: see `launch`
    """
    if touched is not None:
        touched.clear()
    for k, i, place in rows:
        array = None if touched is None else donated(values, i, frame.device)
        if array is None:
            make, shape, dtype, _ = frame.outs[k]
            array = make_array(make, shape, dtype)
        made[k] = array
        put(frame.table + place, array_data(array))


def moved(row, args):
    """The number of a word that depends on moving args: see `ArgumentBlock.moves`."""
    total = row[1]
    n = len(row)
    for k in range(2, n, 2):
        total += args[row[k]] * row[k + 1]
    return total


def weigh(frame, values, arena):
    """Fill in where the right operands of products lie: as given, or packed.

    values: None for an operand that is not packed
    """
    table = frame.table
    start = frame.fault
    for i, key, place, home, offset, private, words, patience in frame.weights:
        v = values[i]
        uses = 0 if v is None else v.packed
        data = 0
        if v is None:
            pass
        elif uses is None:
            v.packed = key
        elif uses is not key and type(uses) is type(key):
            pass  # parameters in training: each of two ways is taken once
        elif uses is key and patience > 1:
            v.packed = 2
        elif type(uses) is int and uses < patience:
            v.packed = uses + 1
        else:
            if type(uses) is dict:
                packs = uses
                data = packs.get(key, 0)
            if data == 0:
                data = owner_of(frame).pack(v, key, get(table + home) + offset)
        for word, kept_word, else_word in words:
            put(start + word, kept_word if data != 0 else else_word)
        if data == 0:
            data = get(table + home) + offset if private < 0 else arena + private
        put(table + place, data)


def launch_at(frame, made, table, values, numbers, words):
    """Run the steps on data at given addresses: 1 done, 0 the frame is in use, -1 a failure.

    table: where addresses by value are
    made: the values that arrays are made for
    values: see `weigh`
    numbers: (bytes from `fault` to a word, number, category)
    words: the numbers that the frame has to hold for these sizes, if it serves several: see `fit`
    """
    if frame.busy:
        return 0
    frame.busy = True
    try:
        if words is not None and frame.fitted is not words:
            fit(frame, words)
        arena = 0
        if frame.arena_bytes:
            arena = take_arena(frame)
        at = frame.table
        put(at, arena)
        for i in frame.leaves:
            at += 8
            put(at, get(table + 8 * i))
        weigh(frame, values, arena)
        for i in made:
            at += 8
            put(at, get(table + 8 * i))
        start = frame.fault
        for word, number, category in numbers:
            if category == 2:
                put_double(start + word, number)
            else:
                put(start + word, number)
        put(start, 0)
        patch(frame.patches, frame.n_patches, frame.table)
        for step in frame.steps:
            if step[0] == 0:
                code = start + step[1]
                scratch = arena + frame.scratch
                if frame.device is not None:
                    frame.device.run(code, step[2], scratch, start)
                else:
                    run_kernels(code, step[2], frame.release, scratch, frame.room, True)
        return 1 if get(frame.fault) == 0 else -1
    finally:
        leave(frame)


def run_call(words, n):
    """Run a kernel: a call of n words, as `run_kernels` takes it, and behind these the block."""
    put(words + 8, words + 8 * n)
    run_kernels(words, 1, True, 0, 0, False)


def fit(frame, words):
    """Give a frame the numbers of other sizes.

    words: (`Tables.fill`, addresses of terms and places, whether other threads may run meanwhile,
    weights, the arrays of these terms and places)
    """
    fill, terms, places, release, weights, _ = words
    fill(frame.fault, terms, places)
    frame.release = release
    frame.weights = weights
    frame.fitted = words


class Cell:
    """The frames and addresses for an op of some kind, forward and backward.

    forward, made, numbers     see `launch_at`; None if the result is an operand, or a copy
    plain        address of words that say the same without Python (see `run_plain`); 0 if some of
                 this is not known before the run
    n_places, places     of results, from the address of the first result on
    space        bytes for the results
    views        address of words that say which results are copies: see `copy_views`
    pick         the value in the table
    n_picks, picks     the values in the table that the backward frame reads
    seed_bytes   of the gradient, 0 for none
    backward, made_back, numbers_back, plain_back, n_places_back, places_back, views_back,
    space_back   as for forward
    n_targets, targets     (operand, its gradient in the table, bytes, whether float64)
    arena_bytes  of memory that both need while running
    weighted     see `weigh`
    memory       keeps the memory that the addresses lead to
    """

    def __init__(self, **given):
        for name, content in given.items():
            setattr(self, name, content)


def run_plain(words, table):
    """Run a frame on data at given addresses, as `launch_at`; 0 for a failure.

    words: number of addresses, (word, place in the table, offset) of each; number of numbers,
           (word, bits) of each; address of the failures; number of steps, (code, calls, place in
           the arena) of each.  The arena is the last entry before the table.
    """
    n = get(words)
    patch(words + 8, n, table)
    words += 8 + 24 * n
    n = get(words)
    words += 8
    for _ in range(n):
        put(get(words), get(words + 8))
        words += 16
    fault = get(words)
    put(fault, 0)
    n = get(words + 8)
    words += 16
    arena = get(table - 8)
    for _ in range(n):
        run_kernels(get(words), get(words + 8), False, arena + get(words + 16), 0, False)
        words += 24
    return get(fault) == 0


NO_WEIGHTS = []


class Singles:
    """A flush of single ops: values, and addresses of words and operands of its grouper.

    words     see `_grouper.Grouper`
    pool      the grouper's `pool`

    cells     per op; None for ops that are run elsewhere
    firsts    address of a word per op: where its results begin
    seeds     address of a word per op: where the gradient of its value is

    The words of `firsts` and `seeds` are free once the grouper has sorted the ops.
    """

    def __init__(self, values, words, n_states, pool):
        self.values = values
        self.arena_bytes = 0
        self.find_tables(words, n_states, pool)

    def find_tables(self, words, n_states, pool):
        """Note where the tables begin."""
        n = 8 * len(self.values)
        self.region = words
        self.root = words + 2 * n
        self.offset = words + 3 * n
        self.data = words + 4 * n
        self.gradient = words + 5 * n
        self.made = words + 7 * n
        words += 8 * n
        n = 8 * (n_states + 1)
        self.firsts = words
        self.reads_at = words + 2 * n
        self.n_reads = words + 3 * n
        self.seeds = words + 4 * n
        self.made_at = words + 5 * n
        self.pool = pool

    def lay_out(self, nodes, known):
        """Find the cells of all ops; return the bytes for the results, and for the gradients."""
        self.cells = cells = []
        at = 0
        space = 0
        gradients = 0
        for node in nodes:
            cell = known.get(node)
            cells.append(cell)
            put(self.firsts + at, space)
            put(self.seeds + at, gradients)
            at += 8
            if cell is not None:
                space += cell.space
                gradients += cell.seed_bytes
                if cell.arena_bytes > self.arena_bytes:
                    self.arena_bytes = cell.arena_bytes
        return space, gradients

    def begin(self, address, space, table):
        """Let results, and the gradients behind so many bytes, lie from here on.

        table: address of memory for the addresses that an op reads and makes, behind a word
        """
        self.table = table
        for g in range(len(self.cells)):
            at = self.firsts + 8 * g
            put(at, address + get(at))
            at = self.seeds + 8 * g
            put(at, address + space + get(at))

    def give(self, g, cell, first, seed):
        """Let the g-th op have this cell, and these addresses."""
        self.cells[g] = cell
        put(self.firsts + 8 * g, first)
        put(self.seeds + 8 * g, seed)
        if cell is not None and cell.arena_bytes > self.arena_bytes:
            self.arena_bytes = cell.arena_bytes

    def most_back(self):
        """Bytes of the most that the backward pass of an op makes."""
        most = 0
        for cell in self.cells:
            if cell is not None and cell.space_back > most:
                most = cell.space_back
        return most

    def fill_operands(self, g):
        """Write the addresses of op g's operands into the table; return the number of operands."""
        at = self.table
        n = get(self.n_reads + 8 * g)
        for k in range(n):
            i = self.operand(g, k)
            base = get(self.root + 8 * i)
            put(at, get(self.data + 8 * base) + get(self.offset + 8 * i))
            at += 8
        return n

    def operand(self, g, k):
        """The value that is the k-th operand of op g."""
        return get(self.pool + 8 * (get(self.reads_at + 8 * g) + k))

    def weights(self, g, cell):
        """Values from outside, which may have been packed, see `weigh`; none if all are inside."""
        found = NO_WEIGHTS
        if cell.weighted:
            for k in range(get(self.n_reads + 8 * g)):
                at = self.operand(g, k)
                if get(self.region + 8 * at) == -1:
                    if found is NO_WEIGHTS:
                        found = [None] * cell.entries
                    found[k] = self.values[at]
        return found

    def launch_cell(self, g, cell, frame, made, numbers, plain):
        """Run a frame of a cell: see `launch_at`."""
        weights = self.weights(g, cell)
        if plain == 0 or weights is not NO_WEIGHTS:
            if cell.weighted and weights is NO_WEIGHTS:
                weights = [None] * cell.entries
            return launch_at(frame, made, self.table, weights, numbers, None)
        if frame.busy:
            return 0
        frame.busy = True
        try:
            return 1 if run_plain(plain, self.table) else -1
        finally:
            frame.busy = False

    def lend_arena(self):
        """Memory for temporaries of the ops that come; None if these need none."""
        if self.arena_bytes == 0:
            return None
        arena = arena_of(self.arena_bytes)
        put(self.table - 8, arena.address)
        return arena

    def forward(self, g, needed):
        """Run ops from the g-th on; return the number of an op without a cell, or of all ops."""
        arena = self.lend_arena()
        try:
            return self.run_forward(g, needed)
        finally:
            if arena is not None:
                ARENAS.append(arena)

    def run_forward(self, g, needed):
        """As `forward`, with an arena."""
        cells = self.cells
        table = self.table
        n = len(cells)
        while g < n:
            if needed[g]:
                cell = cells[g]
                if cell is None:
                    return g
                n_in = self.fill_operands(g)
                first = get(self.firsts + 8 * g)
                at = table + 8 * n_in
                for k in range(cell.n_places):
                    put(at, first + get(cell.places + 8 * k))
                    at += 8
                if (
                    cell.forward is not None
                    and self.launch_cell(g, cell, cell.forward, cell.made, cell.numbers, cell.plain)
                    != 1
                ):
                    return g
                copy_views(cell.views, table)
                i = get(self.made + 8 * get(self.made_at + 8 * g))
                put(self.data + 8 * i, get(table + 8 * cell.pick))
                if cell.seed_bytes != 0:
                    put(self.gradient + 8 * i, get(self.seeds + 8 * g))
            g += 1
        return g

    def backward(self, g, reached, scratch, ask):
        """Push gradients back from the g-th op to the first; return -1, or an op without a cell.

        scratch: address of memory for gradients
        ask: makes memory for the gradient of a leaf
        Returns -2 if a frame was in use, or a kernel noted a failure.
        """
        arena = self.lend_arena()
        try:
            return self.run_backward(g, reached, scratch, ask)
        finally:
            if arena is not None:
                ARENAS.append(arena)

    def run_backward(self, g, reached, scratch, ask):
        """As `backward`, with an arena."""
        table = self.table
        while g >= 0:
            if reached[g]:
                cell = self.cells[g]
                if cell is None:
                    return g
                if cell.n_targets != 0:
                    n_in = self.fill_operands(g)
                    first = get(self.firsts + 8 * g)
                    at = table + 8 * n_in
                    for k in range(cell.n_picks):
                        place = get(cell.picks + 8 * k)
                        if place < n_in:
                            put(at, get(table + 8 * place))
                        else:
                            put(at, first + get(cell.places + 8 * (place - n_in)))
                        at += 8
                    put(at, get(self.seeds + 8 * g))
                    for k in range(cell.n_places_back):
                        at += 8
                        put(at, scratch + get(cell.places_back + 8 * k))
                    if cell.backward is not None and self.launch_cell(
                        g, cell, cell.backward, cell.made_back, cell.numbers_back, cell.plain_back
                    ) != 1:  # fmt: skip
                        return -2
                    copy_views(cell.views_back, table)
                    for k in range(cell.n_targets):
                        self.add_target(g, cell.targets + 32 * k, ask)
            g -= 1
        return -1

    def add_target(self, g, words, ask):
        """Add a gradient in the table to that of an operand: see `Cell.targets`."""
        i = self.operand(g, get(words))
        base = get(self.root + 8 * i)
        target = get(self.gradient + 8 * base)
        if target == 0 and get(self.region + 8 * base) == -1:
            ask(base)
            target = get(self.gradient + 8 * base)
        if target != 0:
            target += get(self.offset + 8 * i)
            source = get(self.table + 8 * get(words + 8))
            size = get(words + 16)
            if get(words + 24):
                add64(target, source, size >> 3)
            else:
                add32(target, source, size >> 2)


def copy_views(words, table):
    """Copy data that lies in strides in values of the table, densely.

    words: number of copies; of each source, place, offset, bytes of an element, dims, and for each
    dim extent and stride
    """
    n = get(words)
    words += 8
    for _ in range(n):
        n_dims = get(words + 32)
        source = get(table + 8 * get(words)) + get(words + 16)
        copy_view(get(table + 8 * get(words + 8)), source, get(words + 24), n_dims, words + 40)
        words += 40 + 16 * n_dims


def copy_view(target, source, size, n_dims, words):
    """Copy elements of `size` bytes that lie in strides, densely; return the end of the copy.

    words: extents and strides of the dims
    """
    if n_dims == 0:
        copy(target, source, size)
        return target + size
    n = get(words)
    step = get(words + 8)
    if n_dims == 1:
        copy_line(target, source, size, n, step)
        return target + n * size
    for _ in range(n):
        target = copy_view(target, source, size, n_dims - 1, words + 16)
        source += step
    return target


def execute(batch, live):
    """Compute the live values of a flush: by a plan that is ready, or as the planner decides."""
    state = batch.state
    if state is not None and state.passed > 0 and SLOTS["ready"]:
        plans = state.plans
        if plans is not None:
            plan = plans.get(tuple(live))
            if plan is not None:
                native_plan = plan.native_plan
                if native_plan is not None and run(native_plan, batch) == 1:
                    SLOTS["recent"]((plan, state, batch.sites, None, False, None))
                    pending = SLOTS["pending"]
                    if pending:
                        pending.pop(identity(batch.states), None)
                    return
    SLOTS["planner"](batch, live)


#: Slots that the layers above fill in.
#:   planner    finds or makes the plan of a flush, and runs this plan
#:   ready      whether plans that are ready are run without asking the planner
#:   recent     takes (plan, state, sites, None, False, None) of each such flush
#:   pending    graphs of pending values, by the id of the list of states
#:   note       looks at a history that grows through segments whose backward pass has run
#:   arena      makes an arena of a certain size
#:   interrupts whether an exception came from outside: then no other way is to be tried
SLOTS = {"ready": False}


def fill(name, content):
    """Fill a slot."""
    SLOTS[name] = content


RUNS = 0  # of machine code


def runs():
    """How many flushes machine code has run."""
    return RUNS


def run(native_plan, batch):
    """Run a plan: 1 done, 0 not bound to these sizes, -1 to be left to the reference."""
    frame = native_plan.frame
    if frame is None:
        return 0
    values = batch.values
    args = batch.args
    if frame.busy or not same_sizes(
        frame.leaves, frame.types, values, frame.places, frame.sizes, args
    ):
        frame = native_plan.frames.get(sizes_of(frame, values, args))
        if frame is None or frame.busy:
            return 0
        native_plan.frame = frame
    if native_plan.left >= 0:
        if native_plan.left == 0:
            return 0
        native_plan.left -= 1
    return run_bound(native_plan, frame, batch, values, args)


def sizes_of(frame, values, args):
    """The key of a visit among the frames of a plan."""
    types = tuple([values[i].type for i in frame.leaves])
    return types, sizes_among(frame.places, args)


def sizes_among(places, args):
    """The sizes among the args to which a plan is bound: see `ArgumentBlock.places`."""
    sizes = []
    n = len(places)
    for k in range(0, n, 2):
        at = places[k + 1]
        size = args[places[k]]
        sizes.append(size if at < 0 else size - args[at])
    return tuple(sizes)


def run_bound(native_plan, frame, batch, values, args):
    """Run a plan in a frame of the right sizes: 1 done, -1 to be left to the reference.

    0: another thread has the frame.
    """
    global RUNS
    if frame.busy or (frame.linked is not None and not claim(frame.linked, args)):
        return 0
    frame.busy = True  # nothing was called since the look at `busy`: no other thread had a turn
    try:
        arena = 0
        if frame.arena_bytes:
            arena = take_arena(frame)
        if frame.linked is not None:
            made = launch_link(frame, values, args, arena, batch.touched)
        else:
            types = values
            if frame.needs_types:
                types = [v.type for v in values]
            made = launch(frame, values, types, args, arena, batch.touched)
        if made is None:
            batch.fault = KernelFailure("a kernel noted a failure")
            return -1
        segment = None
        try:
            segment = hand_over(native_plan, frame, batch, values, made)
        except BaseException:  # kernels have written over leaves: there is no way back
            hand_over(native_plan, frame, batch, values, made)
            raise
    except Exception as fault:  # of a host step, as a rule: the reference raises it with its line
        if SLOTS["interrupts"](fault):
            raise
        batch.fault = fault
        return -1
    finally:
        leave(frame)
    RUNS += 1
    if segment is not None:
        SLOTS["note"](segment, batch)
    return 1


def leave(frame):
    """Let others have a frame that has run.

    Another thread may take the frame as soon as the frame is not busy, and use its fields.
    """
    frame.found = None
    if frame.linked is not None:
        free_frames(frame.linked)
    arena = frame.arena
    frame.arena = None
    if arena is not None and frame.device is None:
        ARENAS.append(arena)
    frame.busy = False


def claim(parts, args):
    """Have the frames of a link for this thread alone.

    Returns False if others have a frame, or a frame has other sizes for these args.
    """
    for part in parts:
        if part.checked:
            frame = part.frame
            if sizes_among(frame.places, args_of(part, args)) != frame.sizes:
                return False
    # The sizes first: nothing is called between the look at `busy` and its change.
    for part in parts:
        if part.frame is not None and part.frame.busy:
            return False
    for part in parts:
        if part.frame is not None:
            part.frame.busy = True
    return True


def free_frames(parts):
    """Let others have the frames of a link."""
    for part in parts:
        if part.frame is not None:
            part.frame.busy = False


def hand_over(native_plan, frame, batch, values, made):
    """Give the results of a run to their values, and keep the values for a backward pass.

    Returns the result of `keep_segment`.
    """
    shown = None
    if frame.shows:
        shown = show(frame, values, made)
    # Results last: a value with a buffer has its segment, whatever happens in between.
    segment = None
    if native_plan.roots:
        segment = keep_segment(native_plan, frame, batch, values, made, shown)
    for i, source, k in frame.gives:
        v = values[i]
        if v.buffer is None:
            v.buffer = source_of(frame, values, made, shown, source, k)
    return segment


ARENAS = []  # those that no execution is using


def free_arena(arena):
    """Let the next execution have an arena."""
    ARENAS.append(arena)


def take_arena(frame):
    """Take memory for temporaries while the frame runs; return its address."""
    if frame.device is not None:
        arena = frame.device.arena(frame.arena_bytes)
    else:
        arena = arena_of(frame.arena_bytes)
    frame.arena = arena
    return arena.address


def arena_of(size):
    """An arena of at least so many bytes, that nobody else is using."""
    try:  # other threads take and free too
        while True:
            arena = ARENAS.pop()
            if arena.size >= size:
                return arena
    except IndexError:  # no arena is free: a new arena is made
        return SLOTS["arena"](size)


def show(frame, values, made):
    """The arrays of results that lie in the arrays of other values."""
    shown = []
    for source, k, whole, shape, dtype, offset, strides in frame.shows:
        array = source_of(frame, values, made, None, source, k)
        if not whole:
            if array_data(array) == -1:
                array = owner_of(frame).dense(array)
            array = part_of(array, shape, dtype, offset, strides)
        if source == LEAF and values[k].extra is not None:
            array = array.copy()
        shown.append(array)
    return shown


def source_of(frame, values, made, shown, source, k):
    """The array that a result is, or lies in."""
    if source == MADE:
        return made[k]
    if source == LEAF:
        v = values[k]
        return v.buffer
    if source == SHOWN:
        return shown[k]
    return frame.found[k]


def keep_segment(native_plan, frame, batch, values, made, shown):
    """Keep the values that a later backward pass from the results needs.

    Returns the segment if its history grows through segments whose backward pass has run.
    """
    segment = None
    for at in native_plan.roots:
        v = values[at]
        if not v.requires_grad or v.leaf is not None:
            continue
        if segment is None:
            # Numbered by its end: a segment of another thread that this segment uses is older.
            segment = Segment(fresh_serial(), native_plan.path)
        v.segment = segment
        v.seg_index = at
    if segment is None:
        return None
    segment.origin = batch.serial
    types = []
    for v in values:
        types.append(v.type)
    segment.types = types
    segment.args = batch.args
    inputs = {}
    deep = False
    for i in native_plan.grad_leaves:
        at = i
        v = values[at]
        inputs[i] = slim(v)
        older = v.segment
        if older is not None and (older.depth or older.spent or older.structure.spent):
            deep = True
    segment.inputs = inputs
    saved = {}
    for i, source, k, type_ in frame.saves:
        array = source_of(frame, values, made, shown, source, k)
        if source == LEAF:
            v = values[k]
            if v.extra is not None:
                array = array.copy()
        if type_ is None:
            at = i
            v = values[at]
            type_ = v.type
        saved[i] = (type_, array)
    segment.saved = saved
    if batch.extra is not None:
        segment.hooks = batch.extra
    segment.sites = batch.sites
    return segment if deep else None


def same_sizes(leaves, types, values, places, sizes, args):
    """Whether the leaves have these types and the args at these places these values."""
    n = len(leaves)
    for k in range(n):
        at = leaves[k]
        v = values[at]
        if v.type is not types[k]:
            return False
    n = len(sizes)
    for k in range(n):
        at = places[2 * k + 1]
        size = args[places[2 * k]]
        if at >= 0:
            size = size - args[at]
        if size != sizes[k]:
            return False
    return True


def write_word(address, word):
    """Write a 64-bit word."""
    put(address, word)


# -- backward passes of segments whose steps are known --------------------------------------


def backward_on(trace, retain, leaves, older, fresh):
    """Go on with a backward pass whose first step, that of pending values, has been recorded.

    fresh: the gradients of that step, for `leaves`, or where these are None for the values `older`
    """
    heap = []
    segments = {}
    pending = {}
    totals = {}
    k = len(fresh)
    at = len(older)
    while k > 0:
        k -= 1
        leaf = leaves[k]
        if leaf is not None:  # a tensor may be two leaves here: before and after a write to it
            have = totals.get(identity(leaf))
            totals[identity(leaf)] = [leaf, fresh[k] if have is None else have[1] + fresh[k]]
        else:
            at -= 1
            contribute(heap, segments, pending, older[at], fresh[k])
    fresh.clear()  # operands of sums may be overwritten by the results
    mode = trace.mode
    trace.mode = off_mode(mode)
    try:
        if not pass_segments(trace, retain, heap, segments, pending, totals):
            slot("go_on")(trace, retain, heap, segments, pending, totals)
            return
    finally:
        trace.mode = mode
    pairs = list(totals.values())
    pairs.reverse()
    give_gradients([pair[0] for pair in pairs], [pair[1] for pair in pairs])


set_slot("backward_on", backward_on)


def contribute(heap, segments, pending, value, g):
    """Hand a gradient to a value that an earlier flush has computed."""
    segment = value.segment
    key = -segment.serial
    table = pending.get(key)
    if table is None:
        table = pending[key] = {}
        segments[key] = segment
        heappush(heap, key)
    have = table.get(value.seg_index)
    table[value.seg_index] = g if have is None else have + g


def pass_segments(trace, retain, heap, segments, pending, totals):
    """Pass segments, latest first, while their steps are known; whether all have been passed.

    heap: negative serials of the `segments`, which are found by these
    pending: the gradients of these segments
    totals: [leaf, gradient] by id of the leaf
    """
    if trace.fiber is not None or trace.symbolic is not None:
        return False
    while heap:
        key = heap[0]
        segment = segments[key]
        row = known_step(segment, pending[key], totals, retain)
        if row is None:
            if not pass_lookups(segment, pending[key], totals):
                return False
            heappop(heap)
            del segments[key]
            del pending[key]
            continue
        flush(trace)
        values = operands_of(row, segment, pending[key], totals)
        if values is None:
            return False
        heappop(heap)
        del segments[key]
        del pending[key]
        fresh = take_known(trace, row, segment, values)
        targets = row[8]
        inputs = segment.inputs
        k = len(targets)
        while k > 0:
            k -= 1
            v = inputs[targets[k]]
            leaf = v.leaf
            if leaf is None:
                if v.segment is not None:
                    contribute(heap, segments, pending, v, fresh[k])
                continue
            have = totals.get(identity(leaf))
            if have is None:
                totals[identity(leaf)] = [leaf, fresh[k]]
            else:
                have[1] = have[1] + fresh[k]
        fresh.clear()
    return True


def pass_lookups(segment, seeds, totals):
    """Pass the segment of a table's look-ups; whether it is one, and no users' code is called.

    See `wend.sparse.lookups`: no nodes are needed.
    """
    later = segment.structure.later
    if later is None or later.by_groups or segment.hooks:
        return False
    v = segment.inputs[0]
    leaf = v.leaf
    if leaf is None or leaf.hooks or leaf.post_hooks or leaf.node:
        return False
    if not leaf.requires_grad or identity(leaf) in totals:
        return False
    totals[identity(leaf)] = [leaf, later.gradient(seeds, False)]
    return True


def known_step(segment, seeds, totals, retain):
    """The `KnownPass` of a segment (see `transforms.quick`) that fits; None if there is none."""
    if segment.hooks:
        return None
    rows = segment.structure.known
    if not rows:  # inputs of lanes are no dict either
        return None
    inputs = segment.inputs
    for row in rows:
        if row[0] is not retain or row[1] is not segment.spent or len(row[2]) != len(seeds):
            continue
        fits = True
        for i in row[2]:
            if i not in seeds:
                fits = False
                break
        for i in row[3]:
            v = inputs[i]
            leaf = v.leaf
            if leaf is None or not leaf.requires_grad or leaf.hooks or leaf.node:
                return None
        for i in row[4]:
            v = inputs[i]
            if identity(v.leaf) not in totals:
                fits = False
                break
        for i in row[5]:
            v = inputs[i]
            if identity(v.leaf) in totals:
                fits = False
                break
        if fits:
            return row
    return None


def operands_of(row, segment, seeds, totals):
    """The values that a known step begins with; None if the step has to be recorded anew."""
    states = row[10]
    inputs = segment.inputs
    values = []
    for i in row[2]:
        if not append_operand(values, states, refreshed(seeds[i])):
            return None
    for i in row[4]:
        v = inputs[i]
        total = totals[identity(v.leaf)]
        if not append_operand(values, states, refreshed(total[1])):
            return None
    saved = segment.saved
    for i in row[6]:
        pair = saved.get(i)
        if pair is None:
            return None
        values.append(held(pair[0], pair[1]))
    for i in row[4]:
        v = inputs[i]
        del totals[identity(v.leaf)]
    return values


def append_operand(values, states, v):
    """Append a gradient, if a leaf of the same kind begins the step at this place."""
    if v.buffer is None or v.requires_grad or v.inference:
        return False
    state = states[len(values)]
    if state.prim is not v.type.kind.leaves[0]:
        return False
    for other in values:
        if other is v:
            return False
    values.append(v)
    return True


def take_known(trace, row, segment, values):
    """Compute the step of a segment; return the results, as handles."""
    types = segment.types
    args = []
    for expr in row[7]:
        args.append(evaluate(expr, types, segment.args))
    if not row[0]:
        segment.spent = row[11]
        saved = segment.saved
        segment.saved = {i: saved[i] for i in row[12]}
    fresh = []
    for i in row[8]:
        v = held(types[i], None)
        values.append(v)
        fresh.append(wrap(v))
    states = row[10]
    batch = FlushJob.__new__(FlushJob)
    batch.states = states
    batch.values = values
    batch.args = args
    batch.state = states[len(states) - 1]
    batch.sites = None
    batch.serial = fresh_serial()
    batch.touched = []
    batch.extra = None
    batch.fault = None
    execute(batch, row[9])
    passed(trace, states)
    for t in fresh:
        ensure(t.value)
    return fresh


set_slot("pass_segments", pass_segments)
