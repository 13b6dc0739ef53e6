# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Runs groups of regions on addresses: the native part of `families`.

Compiled by Cython with the types in `_slabs.pxd`; runs as plain Python too, on the stand-ins of
`_slabs_select`.
"""

from wend.core._hot import Value, slim
from wend.runtime._launch import address_of, launch_at, new_array, part_at, row_at
from wend.runtime._sort import OFFSETS, add_bytes, copy_bytes

ALIGNMENT = 64
MOST_RECENT = 8  # groups of strands that the next ones are compared with
WORDS = 2  # of a place: address, bytes a row (0: the same for all)


class Group:
    """Members of one structure that run together.

    alone      one member, or members that are one     by_rows: see `Sorter.nodes`
    n          rows, or places on the stack            lift: places on the stack, 0 for none
    seeds      arrays in which gradients of its values are collected
    seed       address of such an array, for what joins (0 for none)     wide: it is of float64

    What ran it, if that was machine code on addresses: `family`, its `first` row there, the `call`
    of its backward pass.  Else: `template`, run-time `numbers`, `types` of the operands, and
    `arrays` that the backward pass reads.
    """

    def __init__(self, node, members, sorter):
        self.node = node
        self.members = members
        self.seeds = ()
        self.seed = 0
        self.wide = False
        self.family = None
        self.call = None
        # Members that all read the same are one.
        self.alone = len(members) == 1 or False not in node.shared
        self.by_rows = node.rows
        if self.by_rows:
            self.n = int(sorter.total(members))
        else:
            self.n = 1 if self.alone else len(members)
        self.lift = 0 if self.by_rows or self.alone else self.n


class Room:
    """Memory of one flush, handed out from one end to the other."""

    def __init__(self):
        self.blocks = []
        self.at = 0
        self.end = 0

    def take(self, size):
        """The address of so many bytes, without a content."""
        size = (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        if self.at + size > self.end:
            self.at, self.end = self.add_block(size)
        found = self.at
        self.at += size
        return found


class Rows:
    """Groups of one kind: where their values lie, and how they run there.

    places     address of WORDS words for each value: operands, results, gradients of results,
               what the backward pass makes
    table      address of a word for each value that a call reads or makes
    calls      by number of rows: (forward, backward or None), each (frame, made, numbers, words)
    order      of the values in a backward call: their places
    exported   (number of the value in its region, place) of each that others read
    given      the same, of the gradients of those
    scattered  (operand, its gradient in the backward table, bytes a row, whether float64)
    added      (operand, place) of each gradient of what is the same for all
    packable   per operand its value, if that may be packed for products; for both passes
    """

    def __init__(self, sorter, by_rows, n_operands, n_results):
        self.sorter = sorter
        self.by_rows = by_rows
        self.n_operands = n_operands
        self.n_results = n_results
        self.used = 0  # rows

    def lay_out(self, room, slabs, n, rows, most):
        """Find memory for n values of so many rows, of all groups and of one, and note where.

        slabs: address of three words each: bytes a row (0: the same for all; -1: and from
        outside), bytes of an example, whether all groups have rows of their own
        """
        sorter = self.sorter
        at = self.places
        for k in range(n):
            size = get(slabs)
            step = 0
            if size < 0:
                i = self.sources[k]
                address = sorter.data[sorter.root[i]] + sorter.offset[i]
            elif size == 0:
                address = room.take(get(slabs + 8))
            elif get(slabs + 16) == 0:
                address = room.take(size * most)
            else:
                address = room.take(size * rows)
                step = size
            put(at, address)
            put(at + 8, step)
            at += 16
            slabs += 24
        self.table = at

    def forward(self, group):
        """Gather what a group reads and compute its values; False if it has not been done."""
        pair = self.calls.get(group.n)
        if pair is None:
            pair = self.calls_for(group.n)
            if pair is None:
                return False
        sorter = self.sorter
        members = group.members
        first = self.used
        at = self.places
        word = self.table
        for k in range(self.n_operands + self.n_results):
            address = get(at)
            size = get(at + 8)
            if size != 0:
                address += first * size
                if k < self.n_operands:
                    sorter.gather(members, k, size, address, self.by_rows)
            put(word, address)
            at += 16
            word += 8
        frame, made, numbers, words = pair[0]
        if launch_at(frame, made, self.table, self.packable, numbers, words) != 1:
            return False
        for local, k in self.exported:
            at = self.places + 16 * k
            size = get(at + 8)
            sorter.place(members, local, size, get(at) + first * size, self.by_rows, False)
        for local, k in self.given:
            at = self.places + 16 * k
            size = get(at + 8)
            address = get(at) + first * size
            clear(address, group.n * size)
            sorter.place(members, local, size, address, self.by_rows, True)
        self.used += group.n
        group.family = self
        group.first = first
        group.call = pair[1]
        return True

    def backward(self, group):
        """Push the gradients of a group's values back to what it read."""
        if group.call is None:
            return
        sorter = self.sorter
        members = group.members
        first = group.first
        word = self.table
        for k in self.order:
            at = self.places + 16 * k
            put(word, get(at) + first * get(at + 8))
            word += 8
        frame, made, numbers, words = group.call
        if launch_at(frame, made, self.table, self.packable, numbers, words) != 1:
            raise RuntimeError("a backward kernel noted a failure")
        for k, pick, size, wide in self.scattered:
            for base in sorter.leaves_of(members, k):
                self.run.make_leaf_gradient(base)
            sorter.scatter(members, k, size, get(self.table + 8 * pick), self.by_rows, wide)
        if self.added:
            self.add_shared()

    def clear(self, group):
        """Forget the gradients that a backward pass has left in a group."""
        for _, k in self.given:
            at = self.places + 16 * k
            size = get(at + 8)
            clear(get(at) + group.first * size, group.n * size)


def lay(group, sorter, room, values, is_wide):
    """Lay what a region joins one behind the other, and find memory for its gradient.

    is_wide: see `families`
    """
    i = group.members[0]
    at = sorter.made[sorter.made_at[i]]
    v = values[at]
    size = v.type.nbytes
    address = room.take(size)
    sorter.data[at] = address
    sorter.lay(i, values, address)
    if sorter.reached[i] and group.node.flows and v.type.dtype.category >= 2:
        group.wide = is_wide(v.type.dtype.numpy)
        group.seed = room.take(size)
        sorter.gradient[at] = group.seed
        clear(group.seed, size)


def share_out(group, sorter, values, make):
    """Push the gradient of what was joined back to its parts.

    make: finds memory for the gradient of a value from outside
    """
    i = group.members[0]
    for base in sorter.joined_leaves(i):
        make(base)
    if group.seed != 0:
        sorter.share_out(i, values, group.seed, group.wide)


def told_apart(sorter, flows, seeds, ends):
    """Of the values in the set `ends`, those that gradients of these come to.

    flows: by region, if its results depend on different operands: their numbers, by that of the
    result
    """
    doubtful = set(ends)
    stack = []
    seen = set()
    for at in seeds:
        at = sorter.root[at]
        stack.append(at)
        seen.add(at)
    while stack and doubtful:
        at = stack.pop()
        i = sorter.region[at]
        if i < 0:
            doubtful.discard(at)
        elif sorter.reached[i]:
            start = sorter.reads_at[i]
            known = flows.get(i)
            if known is not None:
                known = known.get(sorter.local[at], ())
            for k in range(sorter.n_reads[i]):
                if known is None or k in known:
                    at = sorter.root[sorter.pool[start + k]]
                    if at not in seen:
                        seen.add(at)
                        stack.append(at)
    return ends - doubtful


def types_of(values):
    """The types of values: of all of a flush, most of which are not in cache."""
    found = []
    for i in range(len(values)):
        ask_ahead(values, i)
        v = values[i]
        found.append(v.type)
    untrack(found)  # long, and types are part of no cycle
    return found


def set_zero(address, n):
    """Fill n bytes with zeros."""
    clear(address, n)


# -- strands (see `strands`): members are batches of one path, each of which has a row


def sort_strands(batches, lives, least, key, new):
    """Strands by what they have in common, and those that have others to run them.

    least: how often a path must have been taken     key: where a state keeps its patterns
    new: makes the `Pattern` of a batch and what is wanted of it
    Returns ({(kin, signature): {pattern: members}}, [(batch, what is wanted)])
    """
    groups = {}
    rest = []
    recent = []  # (state, what is wanted, first member, its indices, its places, members)
    for k in range(len(batches)):
        batch = batches[k]
        live = lives[k]
        if not live:
            continue
        state = batch.state
        members = None
        for row in recent:
            if row[0] is not state or row[1] != live or batch.extra is not None:
                continue
            if is_like(batch, row[2], row[3], row[4]):
                members = row[5]
                break
        if members is not None:
            members.append(batch)
            continue
        if state is None or state.passed < least or batch.extra is not None:
            rest.append((batch, live))
            continue
        plans = state.plans
        if plans is None:
            plans = state.plans = {}
        known = plans.get(key)
        if known is None:
            known = plans[key] = {}
        wanted = tuple(live)
        pattern = known.get(wanted)
        if pattern is None:
            pattern = known[wanted] = new(batch, live)
        if not pattern.suited:
            rest.append((batch, live))
            continue
        name = pattern.kin, signature_of(batch, pattern.indices, pattern.args)
        parts = groups.get(name)
        if parts is None:
            parts = groups[name] = {}
        members = parts.get(pattern)
        if members is None:
            members = parts[pattern] = []
        members.append(batch)
        if len(recent) < MOST_RECENT:
            recent.append((state, live, batch, pattern.indices, pattern.args, members))
    return groups, rest


def is_like(batch, other, indices, places):
    """Whether strands of one path have the same signature, as far as a quick look shows."""
    values = batch.values
    others = other.values
    for i in indices:
        v = values[i]
        w = others[i]
        if v.type is not w.type:
            return False
    for k in places:
        number = batch.args[k]
        known = other.args[k]
        if number is not known and (
            type(number) is not int or type(known) is not int or number != known
        ):
            return False
    return True


def signature_of(batch, indices, places):
    """What tells strands of one path apart: the types of these values, and these numbers."""
    values = batch.values
    found = []
    for i in indices:
        v = values[i]
        found.append(v.type)
    if not places:
        return tuple(found)
    numbers = []
    whole = True
    for k in places:
        number = batch.args[k]
        whole = whole and type(number) is int
        numbers.append(number)
    # Keys compare exact bits: 0.0 == -0.0, and 1 == 1.0 == True.
    found.append(tuple(numbers) if whole else repr(numbers))
    return tuple(found)


def shared_by(parts):
    """Of each operand, whether it is the same value for all members of these parts.

    parts: (pattern, members)
    """
    found = []
    pattern, members = parts[0]
    first = members[0].values
    for n in range(len(pattern.single)):
        i = parts[0][0].single[n]
        on = i >= 0
        if on:
            v = first[i]
            for pattern, members in parts:
                i = pattern.single[n]
                if i < 0:
                    on = False
                    break
                for batch in members:
                    if batch.values[i] is not v:
                        on = False
                        break
                if not on:
                    break
        found.append(on)
    return tuple(found)


class Kernel:
    """A function of a template in machine code, for operands of certain types.

    frame, made, numbers, fit     see `launch_at`     makes: (make, shape, dtype) of what it makes
    picks     which of operands and these are its results
    words     an array for the addresses of all     show: fills in results that lie in others
    """

    def __init__(self, frame, made, numbers, fit, makes, picks, words, show):
        self.frame = frame
        self.made = made
        self.numbers = numbers
        self.fit = fit
        self.makes = makes
        self.picks = picks
        self.words = words
        self.show = show

    def run(self, operands):
        """The results for arrays, held values, or None for what is not used.

        None if it has not been done: an array is not dense, or a kernel noted a failure.
        """
        outs = []
        for make, shape, dtype in self.makes:
            outs.append(new_array(make, shape, dtype))
        if (
            call_with(self.frame, self.made, self.numbers, self.fit, operands, outs, self.words)
            != 1
        ):
            return None
        table = operands + outs
        if self.show is not None:
            self.show(self, table)
        found = []
        for k in self.picks:
            found.append(table[k])
        return found


def gather_operands(parts, rows, dense):
    """The operands of strands: values that are the same for all, or arrays of the strands' own.

    parts: (pattern, members)
    rows: per operand (whether it is the same for all, bytes of each strand, make, shape, dtype of
    the array)     dense: a copy of an array that is C-contiguous
    Returns (operands, what they were: a value, or those of all strands; offsets in these)
    """
    operands = []
    sources = []
    places = []
    for k in range(len(rows)):
        on, size, make, shape, dtype = rows[k]
        offsets = None
        if on:
            pattern, members = parts[0]
            i = pattern.single[k]
            v = members[0].values[i]
            sources.append(v)
            # What is seen from outside may change: a backward pass reads what it was.
            operands.append(v if v.extra is None else dense(v.buffer).copy())
        else:
            array = new_array(make, shape, dtype)
            target = address_of(array)
            found = []
            for pattern, members in parts:
                entry = pattern.entries[k]
                if entry.prim is None:
                    gather_rows(members, entry.leaves, target, dense, found)
                    if offsets is not None:
                        offsets.extend([0] * len(members))
                else:
                    if offsets is None:
                        offsets = [0] * len(found)
                    gather_parts(members, entry.leaf, entry, size, target, dense, found, offsets)
                target += size * len(members)
            operands.append(array)
            sources.append(found)
        places.append(offsets)
    return operands, sources, places


def gather_rows(members, leaves, target, dense, found):
    """Copy these values of each member to an address, one behind the other.

    found: takes the values     dense: a copy of an array that is C-contiguous
    """
    for batch in members:
        for i in leaves:
            v = batch.values[i]
            size = v.type.nbytes
            source = address_of(v.buffer)
            if source == -1:
                kept = dense(v.buffer)
                source = address_of(kept)
            copy_bytes(target, source, size)
            target += size
            found.append(v)


def gather_parts(members, i, entry, size, target, dense, found, offsets):
    """As `gather_rows`, of what an `Entry` shows of one value: `size` bytes.

    offsets: takes where the parts begin, in bytes
    """
    prim = entry.prim
    arg0 = entry.arg0
    end = arg0 + entry.n_args
    for batch in members:
        v = batch.values[i]
        source = address_of(v.buffer)
        if source == -1:
            kept = dense(v.buffer)
            source = address_of(kept)
        place = OFFSETS.get((prim, v.type, tuple(batch.args[arg0:end])))
        if place is None:
            place = entry.place(v, batch.args)
        at = place
        copy_bytes(target, source + at, size)
        target += size
        found.append(v)
        offsets.append(place)


def hand_out(parts, results):
    """Give the members of these parts, (pattern, members), their rows of what was made."""
    pattern = parts[0][0]
    for k in range(len(pattern.made)):
        first = 0
        for pattern, members in parts:
            i = pattern.made[k]
            hand_rows(members, i, results[k], first)
            first += len(members)


def hand_rows(members, i, array, first):
    """Give the value i of each member a row of an array, from row `first` on."""
    r = first
    for batch in members:
        v = batch.values[i]
        v.buffer = row_at(array, r)
        r += 1


def leave_rows(members, segment, given, stride, first):
    """Note in the values `given` that they are results of a segment.

    first: number of the first value of the first member
    """
    at = first
    for batch in members:
        values = batch.values
        for i in given:
            v = values[i]
            v.segment = segment
            v.seg_index = at + i
        at += stride


def park(trace):
    """Let the running fiber of a trace wait until everything pending has been computed.

    False where that cannot be (another thread, a cancelled call, nobody to wait for).
    """
    fiber = trace.fiber
    if fiber.cancelled or fiber.last or fiber.here() is not fiber.greenlet:
        return False
    fiber.leave()
    return True


class Inputs:
    """What strands that ran as one have read, and gradients may flow to: `Segment.inputs`.

    parts: (first strand, how many, columns); a column is, by index of a leaf, its value, if that is
    the same for all strands of the part, or a list of theirs
    """

    def __init__(self, stride, parts):
        self.stride = stride
        self.parts = parts

    def __getitem__(self, number):
        r = number // self.stride
        for first, n, columns in self.parts:
            if r < first + n:
                column = columns[number % self.stride]
                return column[r - first] if isinstance(column, list) else column
        raise KeyError(number)

    def __contains__(self, number):
        r = number // self.stride
        for first, n, columns in self.parts:
            if r < first + n:
                return number % self.stride in columns
        return False

    def items(self):
        """(number, value) of all strands."""
        found = []
        for first, n, columns in self.parts:
            for r in range(n):
                for i, column in columns.items():
                    v = column[r] if isinstance(column, list) else column
                    found.append(((first + r) * self.stride + i, v))
        return found

    def slim_down(self):
        """Keep of values what a gradient finds its way by: the values, without data."""
        slims = {}
        parts = []  # new ones: the lists are others' too
        for first, n, columns in self.parts:
            kept = {}
            for i, column in columns.items():
                if isinstance(column, list):
                    row = []
                    for v in column:
                        row.append(slim_of(v, slims))
                    kept[i] = row
                else:
                    kept[i] = slim_of(column, slims)
            parts.append((first, n, kept))
        self.parts = parts


def slim_of(v, slims):
    """A value without data, of which there is one for all that read it.  slims: by value"""
    found = slims.get(v)
    if found is None:
        found = slims[v] = slim(v)
    return found


def call_with(frame, made, numbers, fit, operands, outs, words):
    """Run a frame on arrays, or held values (None for what is not used); see `launch_at`.

    words: an array for the addresses     Returns 0 as well if an array is not dense.
    """
    start = at = address_of(words)
    values = []
    for x in operands:
        if isinstance(x, Value):
            v = x
            values.append(v)
            data = address_of(v.buffer)
        else:
            values.append(None)
            data = 0 if x is None else address_of(x)
        if data == -1:
            return 0
        put(at, data)
        at += 8
    for x in outs:
        values.append(None)
        put(at, address_of(x))
        at += 8
    return launch_at(frame, made, start, values, numbers, fit)


class Left:
    """What strands that ran as one leave for a backward pass, and the gradients that come to them.

    stride    numbers that each strand's values have     n     strands
    locals    by strand: the results by their indices     slots     where the gradients of a result
              are, a row for each strand: (place, bytes of a row, shape, dtype, strides)
    space     bytes for all of them     owner     the pass that is to come by
    marks     by result: which rows have a gradient

    By strand: patterns; args; leaves, also those that nothing is read of but their extents; types,
    those of the first strand of its part, whose others differ in those of leaves and of loose
    views, which are in `loose`.
    """

    def __init__(self, stride, n, slots, space, zeros):
        self.stride = stride
        self.n = n
        self.slots = slots
        self.space = space
        self.zeros = zeros
        self.patterns = []
        self.locals = []
        self.args = []
        self.types = []
        self.leaves = []
        self.loose = []
        self.marks = {}
        self.block = None
        self.owner = None
        self.start = 0

    def take(self, parts):
        """Take over what the strands of these parts, (pattern, members), are told apart by."""
        for pattern, members in parts:
            places = pattern.locals
            leaves = pattern.leaves
            loose = pattern.loose
            types = None
            for batch in members:
                if types is None:
                    types = types_of(batch.values)
                self.patterns.append(pattern)
                self.locals.append(places)
                self.args.append(batch.args)
                self.types.append(types)
                row = []
                for i in leaves:
                    row.append(batch.values[i])
                self.leaves.append(row)
                more = ()
                if loose:
                    shown = []
                    for i in loose:
                        v = batch.values[i]
                        shown.append(v.type)
                    more = shown
                self.loose.append(more)

    def marks_of(self, i):
        """Which rows of a result have a gradient; its memory is there from now on."""
        if self.block is None:
            self.block = self.zeros(self.space)
            self.start = address_of(self.block)
        found = self.marks.get(i)
        if found is None:
            found = self.marks[i] = bytearray(self.n)
        return found

    def seed(self, i):
        """The gradients of a result, a row for each strand."""
        self.marks_of(i)
        place, _, shape, dtype, strides = self.slots[i]
        return part_at(self.block, shape, dtype, place, strides)

    def add_row(self, i, r, g, wide):
        """Add an array to the gradient of a result of strand r; False if others have to.

        wide: whether both are of float64, else they are of float32
        """
        slot = self.slots.get(i)
        if slot is None:
            return False
        row = slot[1]
        source = address_of(g)
        if source == -1 or g.nbytes != row:
            return False
        marks = self.marks_of(i)
        marks[r] = 1
        place = slot[0]
        add_bytes(self.start + place + r * row, source, row, wide)
        return True

    def reached(self):
        """The strands that a gradient has come to."""
        found = []
        rows = list(self.marks.values())
        for r in range(self.n):
            for marks in rows:
                if marks[r] != 0:
                    found.append(r)
                    break
        return found

    def forget(self):
        """Part from the gradients."""
        self.marks = {}
        self.block = None
        self.owner = None

    def hand_back(self, owner, targets, found, sources, places, sizes):
        """Add gradients of operands, a row for each strand, to those of what they show.

        targets: (operand, whether its gradient is of float64; None if others have to add it)
        Returns what is left to others: (operand, gradient, None, or rows as `scatter_rows` does).
        """
        left = []
        number = 0
        for k, wide in targets:
            g = found[number]
            number += 1
            source = sources[k]
            if wide is None or not isinstance(source, list):
                left.append((k, g, None))
                continue
            data = address_of(g)
            if data == -1:
                left.append((k, g, None))
                continue
            rows = scatter_rows(source, places[k], sizes[k], data, wide, owner)
            if rows:
                left.append((k, g, rows))
        return left


def scatter_rows(values, offsets, size, source, wide, owner):
    """Add gradients, which lie one behind the other, to those of these values.

    offsets: where in the value a part of `size` bytes begins; None if each is a whole value
    owner: the pass, which comes by where gradients come to
    Returns what is left to others: (bytes before it, bytes, value, offset in that).
    """
    left = []
    start = source
    n = size
    last = None
    woven = None
    for k in range(len(values)):
        v = values[k]
        at = 0
        if offsets is None:
            n = v.type.nbytes
        else:
            at = offsets[k]
        while True:
            segment = v.segment
            if segment is None:
                if v.leaf is not None and v.requires_grad:
                    left.append((source - start, n, v, at))
                break
            if segment is not last:
                last = segment
                later = segment.structure.later
                woven = None
                if isinstance(later, Left):
                    woven = later
                    if woven.owner is not owner:
                        owner.come_by(segment)
                        woven.owner = owner
            if woven is None:
                left.append((source - start, n, v, at))
                break
            r = v.seg_index // woven.stride
            i = v.seg_index - r * woven.stride
            known = woven.locals[r]
            number = known.get(i)
            if number is None:  # it shows rows of another
                v, more = woven.shown(i, r)
                at += more
                continue
            slot = woven.slots[number]
            marks = woven.marks_of(number)
            marks[r] = 1
            place = slot[0]
            row = slot[1]
            add_bytes(woven.start + place + r * row + at, source, n, wide)
            break
        source += n
    return left


def is_hooked(sources, leafy):
    """Whether users' code wants to see the gradient of a leaf among these operands."""
    for k in leafy:
        source = sources[k]
        for v in source if isinstance(source, list) else (source,):
            value = v
            leaf = value.leaf
            if leaf.hooks or leaf.post_hooks or leaf.node:
                return True
    return False
