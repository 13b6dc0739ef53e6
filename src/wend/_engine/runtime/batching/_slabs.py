# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Runs groups of regions on addresses: the native part of `slabs`.

Compiled by Cython with the types in `_slabs.pxd`; runs as plain Python too, on the stand-ins of
`_slabs_select`.
"""

from time import sleep
from weakref import proxy

from wend._engine.core._hot import Value
from wend._engine.core._types import evaluate
from wend._engine.runtime.native._launch import address_of, launch_at, moved, new_array

ALIGNMENT = 64
WORDS = 2  # of a place: address, bytes a row (0: the same for all)
NOT_YET = object()
MOST_KNOWN = 256  # runners of a node, for different types
SOON = 5e-5  # seconds until another look at a frame that another thread uses
SEVERAL = 4  # groups of a kind in a flush, from which on single members are stacked


class Group:
    """Members of the same structure that run together.

    at, count  where the members' numbers are in the grouper's sequence
    leader     number of the first member
    alone      whether the members count as a single member
    by_rows    whether the structure goes row by row: see `_grouper.ROW`
    n          rows, or places on the stack
    lift       places on the stack, 0 for none
    seeds      arrays in which gradients of the group's values are collected
    seed       address of such an array, for a joining op (0 for none)
    wide       whether that array is of float64

    For a group that machine code ran on addresses: `family`, the `Rows` that ran it; `first`, the
    group's first row there; `call`, that of the backward pass.  For any group else: `template`,
    run-time `numbers`, `types` of the operands, and `arrays` that the backward pass reads.
    """

    def __init__(self, node, at, count, leader, sorter):
        self.node = node
        self.at = at
        self.count = count = int(count)
        self.leader = int(leader)
        self.seeds = ()
        self.seed = 0
        self.wide = False
        self.family = None
        self.call = None
        # Members that all read the same values count as a single member.
        self.alone = count == 1 or False not in node.shared
        self.by_rows = node.rows
        if self.by_rows:
            self.n = int(sorter.total(at, count))
        else:
            self.n = 1 if self.alone else count
        self.lift = 0 if self.by_rows or self.alone else self.n

    def stack_of_one(self):
        """Let the only member be a stack of height 1, which native code runs on addresses."""
        self.alone = False
        self.lift = 1


class BumpAllocator:
    """Memory of a flush, handed out from start to end."""

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


class Shape:
    """The layout of groups of a structure, for any number of rows: see `slabs.SlabLayout`.

    n_slabs    number of values: operands, results, gradients of results, results of the backward
               function
    n_results  number of results among these values
    at_sizes   address of three words for each value, as `Rows.lay_out` takes them
    order      place of each value in the table of a backward call
    exported   (number in the region, place) of each value that is read outside of the region
    given      (number in the region, place) of each exported value's gradient, if any
    scattered  (operand, gradient in the backward table, bytes a row, whether float64)
    added      (operand, place) of the gradient of each operand that is the same for all members
    waits      whether gradients of parameters are put off
    in_place   whether a single member reads all operands in place
    """


class Rows:
    """Groups of a kind in a flush: where the values lie, and how the groups run there.

    entry      runs the structure (`slabs.GroupRunner`), and its `template`, `numbers`, `layout`
    run        the flush
    node       the node of the groups
    sources    the operands of the first group
    places     address of WORDS words for each value
    table      address of a word for each value that a call reads or makes
    calls      by number of rows: (forward, backward or None, types of the values of both); each is
               (frame, made, numbers, words), or () where gradients are handed on as they are
    packable   per operand its value, if that may be packed for products; for both passes
    waiting    whether gradients of parameters are put off until all groups have run
    order, exported, given, scattered, added: see `Shape`
    """

    def __init__(self, run, group, entry, rows, most):
        """Find memory for the groups of a kind.

        rows: of all groups
        most: of a single group
        """
        self.begin(run, group, entry, rows, most)

    def begin(self, run, group, entry, rows, most):
        """See `__init__`."""
        layout = entry.layout
        sorter = run.sorter
        room = run.room
        values = run.values
        first = group.leader
        self.run = proxy(run)  # the flush leads here: a cycle would keep all that was pending
        self.sorter = sorter
        self.entry = entry
        self.layout = layout
        self.template = entry.template
        self.in_place = layout.in_place
        self.free = group.node.free is not None
        self.numbers = sorter.numbers_of(first) if self.free else entry.numbers
        self.calls = entry.calls
        self.node = group.node
        self.by_rows = group.by_rows and not self.in_place
        self.sources = sources = sorter.operands_of(first)
        self.n_operands = len(sources)
        self.n_results = layout.n_results
        self.used = 0  # rows
        self.order = layout.order
        self.exported = layout.exported
        self.given = layout.given
        self.scattered = layout.scattered
        self.added = layout.added
        self.waiting = layout.waits and sorter.reached[first]
        n = layout.n_slabs
        self.places = room.take(8 * (WORDS * n + len(self.order)))
        self.lay_out(room, layout.at_sizes, n, rows, most)
        self.packable = packable = [None] * (self.n_operands + n)
        for k in range(self.n_operands):
            i = sources[k]
            if get(layout.at_sizes + 24 * k) < 0 and sorter.region[i] == -1:
                packable[k] = v = values[i]
                if rows > most and type(v.packed) is not dict and type(v.packed) is not int:
                    v.packed = 1  # several groups use the value: packing is worthwhile at once

    def lay_out(self, room, slabs, n, rows, most):
        """Find memory for n values of so many rows, of all groups and of any group, and note where.

        slabs: address of three words for each value: bytes a row (0: the same for all; -1: and from
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
        """Gather the operands of a group and compute its values; False if this failed."""
        pair = self.calls.get(group.n)
        if pair is None:
            pair = self.entry.calls_for(group.n)
            if pair is None:
                return False
        sorter = self.sorter
        start = group.at
        count = group.count
        first = self.used
        at = self.places
        word = self.table
        for k in range(self.n_operands + self.n_results):
            address = get(at)
            size = get(at + 8)
            if size != 0:
                address += first * size
                if k < self.n_operands:
                    sorter.gather(start, count, k, size, address, self.by_rows)
            put(word, address)
            at += 16
            word += 8
        if sorter.n_moves > 0:
            self.run.make_moves()
        frame, made, numbers, words = pair[0]
        if self.free:
            numbers = words_of(frame, pair[2], self.numbers, words is None)
        if launch_at(frame, made, self.table, self.packable, numbers, words) != 1:
            return False
        for local, k in self.exported:
            at = self.places + 16 * k
            size = get(at + 8)
            address = get(at) + first * size
            if self.in_place:
                size = 0  # members that all read the same have the results in common
            sorter.place(start, count, local, size, address, self.by_rows, False)
        for local, k in self.given:
            at = self.places + 16 * k
            size = get(at + 8)
            address = get(at) + first * size + 1  # see `_grouper.NEW`
            sorter.place(start, count, local, size, address, self.by_rows, True)
        self.used += 1 if self.in_place else group.n
        group.family = self
        group.first = first
        group.call = pair[1]
        if self.free and group.call:
            frame, made, numbers, words = pair[1]
            numbers = words_of(frame, pair[3], self.numbers, words is None)
            group.call = (frame, made, numbers, words)
        return True

    def backward(self, group):
        """Push the gradients of a group's values back to its operands."""
        sorter = self.sorter
        start = group.at
        count = group.count
        for local, k in self.given:
            size = get(self.places + 16 * k + 8)
            sorter.settle(start, count, local, size, self.by_rows)
        if sorter.n_moves > 0:
            self.run.make_moves()
        if group.call is None:
            return
        first = group.first
        word = self.table
        for k in self.order:
            at = self.places + 16 * k
            put(word, get(at) + first * get(at + 8))
            word += 8
        if group.call:
            frame, made, numbers, words = group.call
            done = launch_at(frame, made, self.table, self.packable, numbers, words)
            while done == 0:  # another thread uses the frame, and needs nothing of this one
                sleep(SOON)
                done = launch_at(frame, made, self.table, self.packable, numbers, words)
            if done != 1:
                raise RuntimeError("a backward kernel noted a failure")
        for k, pick, size, wide in self.scattered:
            source = get(self.table + 8 * pick)
            sorter.scatter(start, count, k, size, self.run, source, self.by_rows, wide)
            if sorter.n_moves > 0:
                self.run.make_moves(wide)
        if self.added:
            self.add_shared()

    def address(self, place):
        """Where a value lies, of all groups."""
        return get(self.places + 16 * place)

    def clear(self, group):
        """Forget the gradients that a backward pass has left in a group."""
        for _, k in self.given:
            at = self.places + 16 * k
            size = get(at + 8)
            n = size if self.in_place else group.n * size
            self.sorter.erase(get(at) + group.first * size, n)


def words_of(frame, types, numbers, moving):
    """The numbers that a frame's argument blocks need in each run of `launch_at`.

    types: of the operands, and of the values that are made
    moving: whether to include the words that depend on moving args
    """
    found = []
    for at, expr, kind in frame.numbers:
        found.append((at, evaluate(expr, types, numbers), kind))
    if moving:
        for row in frame.moves:
            found.append((row[0], moved(row, numbers), 1))
    return tuple(found)


def lay(group, sorter, run, values, is_wide):
    """Lay the operands of a joining region end to end, and find memory for its gradient.

    is_wide: see `slabs`
    """
    room = run.room
    i = group.leader
    at = sorter.made[sorter.made_at[i]]
    v = values[at]
    size = v.type.nbytes
    address = room.take(size)
    sorter.data[at] = address
    sorter.lay(i, values, address)
    if sorter.n_moves > 0:
        run.make_moves()
    if sorter.reached[i] and group.node.flows and v.type.dtype.category >= 2:
        group.wide = is_wide(v.type.dtype.numpy)
        group.seed = room.take(size)
        sorter.gradient[at] = group.seed
        sorter.erase(group.seed, size)


def share_out(group, sorter, run):
    """Push the gradient of a joined value back to its parts.  run: an `Execution`"""
    if group.seed != 0:
        sorter.share_out(group.leader, run, group.seed, group.wide)
        if sorter.n_moves > 0:
            run.make_moves(group.wide)


class GroupKind:
    """Groups of a kind in a flush: the rows of all, and the most rows of any.

    lone    runs the groups of a single row: a `Rows`, None, or NOT_YET
    many    the same for the remaining groups
    small   whether a member's operands may be copied into a stack: 1 or 0; -1 if not known yet
    """

    def __init__(self):
        self.rows = 0
        self.most = 0
        self.lone = NOT_YET
        self.many = NOT_YET
        self.small = -1


def run_groups(run, sorter, groups, order, is_wide, make):
    """Make the groups of a flush (a `Forward`) and compute their values.

    groups: the list to which the groups are appended
    order: a `Sequence` of the grouper
    is_wide: see `slabs`
    make: makes a `Rows`
    """
    nodes = sorter.nodes
    values = run.values
    kinds = []
    known = {}
    at = 0
    for k in range(order.n):
        number = order.kinds[k]
        first = order.members[at]
        group = Group(nodes[first], at, order.ends[k] - at, first, sorter)
        at = order.ends[k]
        groups.append(group)
        kind = None
        if not group.node.joined:
            kind = known.get(number)
            if kind is None:
                kind = known[number] = GroupKind()
            kind.rows += group.n
            if group.n > kind.most:
                kind.most = group.n
        kinds.append(kind)
    for k in range(len(groups)):
        group = groups[k]
        kind = kinds[k]
        if kind is None:
            lay(group, sorter, run, values, is_wide)
            continue
        if group.alone and not group.by_rows and kind.rows >= SEVERAL:
            if kind.small < 0:
                kind.small = run.is_small(group)
            if kind.small:
                group.stack_of_one()
        family = kind.lone if group.n == 1 else kind.many
        if family is NOT_YET:
            other = kind.many if group.n == 1 else kind.lone
            if other is NOT_YET:
                other = None
            family = run.family_of(group, other, kind.rows, kind.most)
            if group.n == 1:
                kind.lone = family
            else:
                kind.many = family
        if family is not None:
            rows = family
            if rows.forward(group):
                continue
        elif group.alone and (group.count == 1 or not sorter.reached[group.leader]):
            rows = in_place(run, sorter, group, values, make)
            if rows is not None and rows.forward(group):
                continue
        run.run(group)


def in_place(run, sorter, group, values, make):
    """A `Rows` that runs the only member of a group, whose operands are read in place, or None.

    make: see `run_groups`
    """
    node = group.node
    i = group.leader
    key = [node.mask if node.smooth or node.single else sorter.mask_of(i), sorter.reached[i]]
    for at in sorter.operands_of(i):
        v = values[at]
        key.append(v.type)
    kept = tuple(key)
    known = node.in_place
    runner = known.get(kept)
    if runner is None:
        runner = run.runner_in_place(group)
        if runner is None:
            return None
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[kept] = runner
    if runner.layout is False:
        return None
    return make(run, group, runner, 1, 1)


def are_reached(groups, reached):
    """Per group, whether gradients flow through its members.  reached: by region"""
    return [reached[group.leader] for group in groups]


def push_back(run, sorter, groups, through):
    """Run the backward functions of some groups, the last group first: see `Execution.push_back`.

    Returns the families that ran these groups, in the order of their first groups.
    """
    families = {}  # in order: sums are the same from run to run
    for k in range(len(groups)):
        group = groups[k]
        if through[k] and group.family is not None:
            families[group.family] = None
    for k in range(len(groups) - 1, -1, -1):
        group = groups[k]
        if group.family is not None:
            # Each group of a family has to make its part of the values that wait for all groups.
            if group.family in families:
                rows = group.family
                rows.backward(group)
        elif through[k]:
            if group.node.joined:
                share_out(group, sorter, run)
            elif group.template.n_given:
                run.back(group)
    return list(families)


def told(groups):
    """Return (node, number of members, `n`, `alone`, first member, its place) of each group."""
    found = []
    for group in groups:
        found.append((group.node, group.count, group.n, group.alone, group.leader, group.at))
    return found


def uneven(sorter, groups):
    """By region, the template's `flows`, where a result hands no gradient to some operands."""
    flows = {}
    family = None  # of the group before, which was even
    for group in groups:
        if group.node.joined or (group.family is not None and group.family is family):
            continue
        template = group.template if group.family is None else group.family.template
        if template.even:
            family = group.family
        else:
            members = sorter.members_of(group.at, group.count)
            flows.update(dict.fromkeys(members, template.flows))
    return flows


def told_apart(sorter, flows, seeds, ends, words):
    """Return those values in the set `ends` that gradients of the seeds come to.

    flows: `Template.flows` by region, for regions of which `Template.even` is false: the numbers
    of the operands, by the number of the result
    words: an array of two words for each value of the flush
    """
    doubtful = set(ends)
    n = len(words) // 2
    stack = address_of(words)
    seen = stack + 8 * n
    clear(seen, 8 * n)
    top = 0
    for at in seeds:
        at = sorter.root[at]
        if get(seen + 8 * at) == 0:
            put(seen + 8 * at, 1)
            put(stack + 8 * top, at)
            top += 1
    while top > 0 and doubtful:
        top -= 1
        at = get(stack + 8 * top)
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
                    if get(seen + 8 * at) == 0:
                        put(seen + 8 * at, 1)
                        put(stack + 8 * top, at)
                        top += 1
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


class TemplateKernel:
    """A function of a template in machine code, for operands of certain types.

    frame, made, numbers, fit     see `launch_at`
    makes     (make, shape, dtype) of each array to be made
    picks     which of the operands and these arrays are the results
    words     an array for all the addresses
    show      fills in results that lie in other arrays
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
        """The results for arrays, held values, or None for operands that are not used.

        None instead of the results if an array is not dense, or a kernel noted a failure.
        """
        outs = []
        for kind in self.makes:
            make, shape, dtype = kind
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


def call_with(frame, made, numbers, fit, operands, outs, words):
    """Run a frame on arrays, or held values (None for unused operands); see `launch_at`.

    words: an array for the addresses
    Returns 0 as well if an array is not dense.
    """
    start = at = address_of(words)
    values = []
    copies = []  # of operands in the processor's memory
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
        if frame.device is not None and x is not None:
            kept = frame.device.copied(v.buffer if isinstance(x, Value) else x)
            copies.append(kept)
            data = address_of(kept)
        put(at, data)
        at += 8
    for x in outs:
        values.append(None)
        put(at, address_of(x))
        at += 8
    return launch_at(frame, made, start, values, numbers, fit)


def gather_tail(slabs, grows, keeps, join):
    """Return (arrays or held values, key of their sizes) that gradients of parameters read.

    slabs: per array, its pieces from a flush or several
    grows: per array, whether it has rows
    keeps: per array, how many of its last dims are no rows, see `flat_rows`
    join: makes a single array of the pieces
    """
    arrays = []
    sizes = []
    for k in range(len(slabs)):
        slab = slabs[k]
        x = slab[0]
        if keeps[k] is not None or (grows[k] and len(slab) > 1):
            x = join(slab, keeps[k])
        arrays.append(x)
        if isinstance(x, Value):
            v = x
            sizes.append(v.type)
        else:
            sizes.append(x.shape)
    return arrays, tuple(sizes)
