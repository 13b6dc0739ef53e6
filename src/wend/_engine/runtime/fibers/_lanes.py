# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Runs lanes of fibers together, forward and backward: the native part of `lanes`.

Members are batches of the same path, each of which has a row.

Compiled by Cython with the types in `_lanes.pxd`; runs as plain Python too, on the stand-ins of
`_lanes_select`.
"""

from wend._engine.core._hot import Segment, Value, ensure, fresh_serial, refreshed, slim
from wend._engine.core.step_log import NEVER_BACK
from wend._engine.runtime.batching._grouper import OFFSETS, add_bytes, copy_bytes
from wend._engine.runtime.batching._slabs import TemplateKernel, types_of
from wend._engine.runtime.native._launch import address_of, launch_at, new_array, part_at, row_at

MOST_RECENT = 8  # groups of lanes that the next ones are compared with
NOTHING = frozenset()

# Why sorting leaves out a lane: see also `lanes.Pattern.unsuited`.
SELDOM = "its path has not come back often enough"
HOOKED = "hooks were put on its values"


class OperandFields:
    """The fields of an operand from outside that running lanes reads: see `lanes.LaneOperand`."""

    def __init__(self, *given):
        """given: index, leaf, leaves, role, prim, arg0, n_args, picks"""
        (
            self.index, self.leaf, self.leaves, self.role, self.prim, self.arg0, self.n_args,
            self.picks,
        ) = given  # fmt: skip


class PatternFields:
    """The common properties of lanes of a path that running lanes reads: see `lanes.Pattern`."""


def sort_lanes(batches, lives, least, key, new):
    """Lanes by common properties, and the lanes that are left out.

    least: how often a path must have been taken
    key: where a state keeps its patterns
    new: makes the `Pattern` of a batch and its wanted values
    Returns ({(program, signature): {pattern: members}}, [(batch, wanted values, why left out)])
    """
    groups = {}
    rest = []
    recent = []  # (state, wanted values, first member, its indices, its places, members)
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
        if state is None:
            rest.append((batch, live, NEVER_BACK))
            continue
        if state.passed < least:
            rest.append((batch, live, SELDOM))
            continue
        if batch.extra is not None:
            rest.append((batch, live, HOOKED))
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
        if pattern.unsuited:
            rest.append((batch, live, pattern.unsuited))
            continue
        name = pattern.shared_program, signature_of(batch, pattern.indices, pattern.args)
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
    """Whether lanes of the same path have the same signature, as far as a quick look shows."""
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
    """Return the key that tells lanes of a path apart: types of values, and run-time numbers."""
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
    """Return for each operand whether all members of these parts have the same value there.

    parts: (pattern, members)
    """
    found = []
    part = parts[0]
    pattern, members = part
    batch = members[0]
    first = batch.values
    begun = pattern.single
    for n in range(len(begun)):
        i = begun[n]
        on = i >= 0
        if on:
            v = first[i]
            for part in parts:
                pattern, members = part
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


class LaneKernel(TemplateKernel):
    """A function of a `LaneBatch` in machine code, for a certain number of lanes.

    inner     per array that the function makes: the place where `run_in_block` puts the array in a
              single block, (offset, shape, dtype, strides), or None for an array of its own
    room      of the block (make, shape, dtype)
    """

    def use_block(self, inner, room):
        """Set `inner` and `room`, which `run_in_block` needs."""
        self.inner = inner
        self.room = room

    def run_in_block(self, operands, rows, gathered):
        """As `run`; returns (results, block): None among the results stands for those in the block.

        rows: the places of the operands that are None, see `gather_operands`
        gathered: the block where these operands lie
        """
        make, shape, dtype = self.room
        if self.show is not None or shape[0] == 0:
            return self.run(as_arrays(operands, rows, gathered)), None
        block = new_array(make, shape, dtype)
        inside = address_of(block)
        first = address_of(gathered)
        start = at = address_of(self.words)
        values = []
        copies = []  # of operands in the processor's memory
        for k in range(len(operands)):
            x = operands[k]
            if x is None:
                values.append(None)
                place = rows[k]
                data = place[0]
                data += first
            else:
                v = x if isinstance(x, Value) else None
                values.append(v)
                x = x if v is None else v.buffer
                if self.frame.device is not None:
                    x = self.frame.device.copied(x)
                    copies.append(x)
                data = address_of(x)
                if data == -1:
                    return None, None
            put(at, data)
            at += 8
        given = len(values)
        outs = []
        for k in range(len(self.makes)):
            place = self.inner[k]
            values.append(None)
            if place is None:
                kind = self.makes[k]
                make, shape, dtype = kind
                x = new_array(make, shape, dtype)
                outs.append(x)
                put(at, address_of(x))
            else:
                outs.append(None)
                offset = place[0]
                put(at, inside + offset)
            at += 8
        if launch_at(self.frame, self.made, start, values, self.numbers, self.fit) != 1:
            return None, None
        found = []
        for k in self.picks:
            x = outs[k - given] if k >= given else operands[k]
            if x is None and k < given:
                x = own_operand(rows, k, gathered)
            found.append(x)
        return found, block

    def run_back(self, lanes, seeds):
        """As `run`, for the values that lanes keep (`SavedLanes`) and gradients of these results.

        None also where a result lies in another result.
        """
        if self.show is not None:
            return None
        start = at = address_of(self.words)
        values = []
        copies = []  # of operands in the processor's memory
        inside = 0 if lanes.saved is None else address_of(lanes.saved)
        gathered = address_of(lanes.gathered)
        n = len(lanes.operands)
        for k in range(n + len(lanes.results)):
            x = lanes.operands[k] if k < n else lanes.results[k - n]
            v = x if isinstance(x, Value) else None
            values.append(v)
            if x is not None:
                x = x if v is None else v.buffer
                if self.frame.device is not None:
                    x = self.frame.device.copied(x)
                    copies.append(x)
                data = address_of(x)
            else:
                place = lanes.place_of(k)
                data = place + (gathered if k < n else inside)
            if data == -1:
                return None
            put(at, data)
            at += 8
        for i in seeds:
            lanes.marks_of(i)
            slot = lanes.slots[i]
            place = slot[0]
            values.append(None)
            put(at, lanes.start + place)
            at += 8
        given = len(values)
        outs = []
        for kind in self.makes:
            make, shape, dtype = kind
            x = new_array(make, shape, dtype)
            outs.append(x)
            values.append(None)
            put(at, address_of(x))
            at += 8
        if launch_at(self.frame, self.made, start, values, self.numbers, self.fit) != 1:
            return None
        found = []
        for k in self.picks:
            found.append(outs[k - given] if k >= given else lanes.read(k, seeds))
        return found


def gather_operands(parts, at, dense):
    """The operands of lanes: values that are the same for all, or None for lanes' own.

    parts: (pattern, members)
    at: of `LaneBatch.bound`
    dense: a copy of an array that is C-contiguous
    Returns (operands, sources of the operands: a value, or the values of all lanes; offsets in
    these; the block that lanes' own operands lie in)
    """
    rows = at.rows
    make, shape, dtype = at.gathered
    block = new_array(make, shape, dtype)
    start = address_of(block)
    operands = []
    sources = []
    places = []
    for k in range(len(rows)):
        row = rows[k]
        offsets = None
        if row is None:
            part = parts[0]
            pattern, members = part
            i = pattern.single[k]
            batch = members[0]
            v = batch.values[i]
            sources.append(v)
            # A value seen from outside may change: a backward pass reads the value as of now.
            operands.append(v if v.extra is None else dense(v.buffer).copy())
        else:
            offset = row[0]
            target = start + offset
            size = row[1]
            found = []
            for part in parts:
                pattern, members = part
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
            operands.append(None)
            sources.append(found)
        places.append(offsets)
    return operands, sources, places, block


def own_operand(rows, k, block):
    """An operand that each lane has of its own, as an array."""
    row = rows[k]
    return part_at(block, row[2], row[3], row[0], row[4])


def as_arrays(operands, rows, block):
    """Operands of lanes, all as arrays or values: see `gather_operands`."""
    found = []
    for k in range(len(operands)):
        x = operands[k]
        found.append(own_operand(rows, k, block) if x is None else x)
    return found


def gather_rows(members, leaves, target, dense, found):
    """Copy these values of each member to an address, in this order.

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
    """As `gather_rows`, of the `size` bytes of a value that an `Entry` shows.

    offsets: takes where the parts begin, in bytes
    """
    for batch in members:
        v = batch.values[i]
        source = address_of(v.buffer)
        if source == -1:
            kept = dense(v.buffer)
            source = address_of(kept)
        place = place_in(entry, v, batch.args)
        copy_bytes(target, source + place, size)
        target += size
        found.append(v)
        offsets.append(place)


def place_in(entry, v, args):
    """The first byte of a value that a view (an `Entry`) shows."""
    arg0 = entry.arg0
    if entry.picks:
        number = args[arg0]
        if type(number) is int:
            n = v.type.dims[0]
            at = number
            return (at if at >= 0 else at + n) * (v.type.nbytes // n)
    place = OFFSETS.get((entry.prim, v.type, tuple(args[arg0 : arg0 + entry.n_args])))
    return entry.place(v, args) if place is None else place


def hand_out(parts, results):
    """Give the members of these parts, (pattern, members), their rows of the results."""
    part = parts[0]
    pattern = part[0]
    for k in range(len(pattern.made)):
        first = 0
        for part in parts:
            pattern, members = part
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


def run_lanes(lane_batch, parts, n, dense):
    """Compute the wanted values of n lanes; None if the lanes have to be computed elsewhere.

    parts: (pattern, members)
    dense: a copy of an array that is C-contiguous
    Returns the tuple that `save_lanes` takes, for a backward pass.
    """
    at = lane_batch.bound.get(n)
    if at is None:
        at = lane_batch.bound_to(n)
    operands, sources, places, block = gather_operands(parts, at, dense)
    rows = at.rows
    kernel = at.kernel
    if kernel is None:
        kernel = at.ready(lane_batch)
    if kernel is None:
        results, saved = lane_batch.compute(at, as_arrays(operands, rows, block))
    else:
        code = kernel
        results, saved = code.run_in_block(operands, rows, block)
    if results is None:
        return None
    hand_out(parts, results)
    first = 0
    for row in parts:
        pattern, members = row
        if pattern.views:
            for i, entry in pattern.views.items():
                place = pattern.places.get(i)
                if place is not None:
                    x = operands[place]
                    if x is None:
                        x = own_operand(rows, place, block)
                    hand_rows(members, i, x, first)
                    continue
                for batch in members:
                    v = batch.values[i]
                    v.buffer = entry.shown(batch)
        first += len(members)
    return at, operands, sources, places, block, results, saved


def save_lanes(lane_batch, parts, n, done, kind, lazy):
    """Let a later backward pass find its way from the wanted values of n lanes.

    done: the tuple that `run_lanes` has returned
    kind: of `SavedLanes`
    lazy: makes a path that waits for the saved lanes
    """
    at = done[0]
    if at.slots is None:
        at.find_slots(lane_batch, done[5])
    saved = kind(lane_batch, parts, n, at, done)
    segment = Segment(fresh_serial(), lazy(saved))
    segment.inputs = Inputs(saved)
    segment.saved = {}
    given = lane_batch.given
    first = 0
    for row in parts:
        pattern, members = row
        found = pattern.opens.get(given)
        if found is None:
            found = pattern.open_from(given)
        set_segment(members, segment, found, saved.stride, first)
        first += len(members) * saved.stride
    batch = members[len(members) - 1]
    segment.origin = batch.serial
    if saved.goes_on_from_spent():
        saved.note_depth(segment, batch)


def set_segment(members, segment, given, stride, first):
    """Note in the values `given` that these are results of a segment.

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
    """The values that a batch of lanes read, and gradients may flow to: `Segment.inputs`.

    lanes: the `SavedLanes`, until nothing can be computed from these any more
    parts: the parts of `lanes`
    columns: per part, by index of a leaf: the leaf's value, if all lanes of the part have the
    same, else the list of the lanes' values; None until somebody asks
    """

    def __init__(self, lanes):
        self.lanes = lanes
        self.stride = lanes.stride
        self.parts = lanes.parts
        self.columns = None

    def column(self, row, part):
        """Return the value, or the list of values, that the lanes of a part read for a leaf.

        row: the leaf's row of `Pattern.reads`
        """
        _, k, each, at = row
        lanes = self.lanes
        first = part[0]
        end = part[1]
        if k < 0:
            source = lanes.leaves
            pattern = part[2]
            each = len(pattern.leaves)
            start = part[3]
            start -= first * each
        else:
            source = lanes.sources[k]
            start = 0
            if not isinstance(source, list) or (each == 1 and end - first == lanes.n):
                return source
        return source[start + first * each + at : start + end * each : each]

    def all_columns(self):
        """See `columns`."""
        if self.columns is None:
            found = []
            for part in self.parts:
                pattern = part[2]
                columns = {}
                for row in pattern.reads:
                    columns[row[0]] = self.column(row, part)
                found.append(columns)
            self.columns = found
        return self.columns

    def find(self, number):
        """A value, or None."""
        r = number // self.stride
        known = self.all_columns()
        for k in range(len(known)):
            part = self.parts[k]
            if r < part[1]:
                first = part[0]
                columns = known[k]
                column = columns.get(number % self.stride)
                return column[r - first] if isinstance(column, list) else column
        return None

    def __getitem__(self, number):
        found = self.find(number)
        if found is None:
            raise KeyError(number)
        return found

    def __contains__(self, number):
        return self.find(number) is not None

    def items(self):
        """(number, value) of all lanes."""
        found = []
        known = self.all_columns()
        for k in range(len(known)):
            part = self.parts[k]
            first = part[0]
            end = part[1]
            columns = known[k]
            for r in range(first, end):
                for i, column in columns.items():
                    v = column[r - first] if isinstance(column, list) else column
                    found.append((r * self.stride + i, v))
        return found

    def slim_down(self):
        """Keep of values only the chain that a gradient follows: the values, without data."""
        known = self.columns
        found = []  # new lists: the old ones have further users
        for k in range(len(self.parts)):
            part = self.parts[k]
            pattern = part[2]
            kept = {}
            for row in pattern.reads:
                column = self.column(row, part) if known is None else known[k][row[0]]
                if isinstance(column, list):
                    values = []
                    last = None
                    thin = None
                    for v in column:
                        if v is not last:
                            last = v
                            thin = slim(last)
                        values.append(thin)
                    kept[row[0]] = values
                else:
                    kept[row[0]] = slim(column)
            found.append(kept)
        self.columns = found
        self.lanes = None


class SavedLanes:
    """The values that a batch of lanes keeps for a backward pass, and the lanes' gradients.

    stride    how many numbers are set apart for the values of each lane
    n         the number of lanes
    lane_batch     the `LaneBatch` that ran the lanes
    operands, results     the arrays that the functions of the `LaneBatch` read
    gathered, rows     the block that holds the operands that are None here, and the place of each
    saved, inner       the block that holds the results that are None here, and the place of each
    sources, places    the values that the operands were gathered from, see `gather_operands`
    slots     by result, the place of its gradients, which have a row for each lane: (place, bytes
              of a row, shape, dtype, strides, whether float64; None if native code cannot add)
    block     the memory of all these gradients; `room` is its (make, shape, dtype)
    marks     by result: which rows have a gradient
    marked    as `marks`, with None for a result without gradients
    owner     the pass that is going to reach these lanes, which has brought these gradients
    waiting   the gradients that other passes have brought, by pass; None if there are none
    spent     the nodes that passes through all lanes have used up
    spent_in  the nodes that passes through some lanes have used up, by lane

    parts     (first lane, end, pattern, where the leaves begin, types): types are those of the
              first lane; the rest differs in the types of leaves, and of loose views
    args      the run-time numbers, by lane
    leaves    the leaves of all lanes, also those of which nothing but extents is read
    loose     the types of loose views, by lane if the lane has any
    """

    def __init__(self, lane_batch, parts, n, at, done):
        """Take over the lanes that have been run.

        at: of `LaneBatch.bound`
        done: the tuple that `run_lanes` returns
        """
        self.lane_batch = lane_batch
        self.n = n
        self.slots = at.slots
        self.room = at.room
        self.inner = at.inner
        self.rows = at.rows
        (
            _, self.operands, self.sources, self.places, self.gathered, self.results, self.saved,
        ) = done  # fmt: skip
        self.marks = {}
        self.marked = None
        self.block = None
        self.owner = None
        self.waiting = None
        self.start = 0
        self.stride = 0
        self.spent = NOTHING
        self.spent_in = {}
        self.args = []
        self.leaves = []
        self.loose = {}
        self.parts = []
        self.take(parts)

    def take(self, parts):
        """Take over the data that tells the lanes of these parts, (pattern, members), apart."""
        first = 0
        entered = self.leaves
        for part in parts:
            pattern, members = part
            end = first + len(members)
            batch = members[0]
            types = types_of(batch.values)
            self.parts.append((first, end, pattern, len(entered), types))
            self.stride = max(self.stride, pattern.stride)
            for batch in members:
                values = batch.values
                self.args.append(batch.args)
                for i in pattern.leaves:
                    entered.append(values[i])
                if pattern.loose:
                    shown = []
                    for i in pattern.loose:
                        v = values[i]
                        shown.append(v.type)
                    self.loose[first] = shown
                first += 1

    def part_of(self, r):
        """The part of a lane: see `parts`."""
        part = None
        for part in self.parts:
            end = part[1]
            if r < end:
                break
        return part

    def goes_on_from_spent(self):
        """Whether some operands are results of a flush that a backward pass has run through."""
        last = None
        for k in range(len(self.sources)):
            source = self.sources[k]
            v = source[0] if isinstance(source, list) else source
            segment = v.segment
            if segment is None or segment is last:
                continue
            last = segment
            if saved_lanes_of(segment) is None and segment.structure.later is None:
                return True
        return False

    def shown(self, i, r):
        """Return the value that view i of lane r shows, and the byte where the view begins."""
        part = self.part_of(r)
        first = part[0]
        pattern = part[2]
        at = part[3]
        shown = pattern.shows[i]
        entry, k = shown
        v = self.leaves[at + (r - first) * len(pattern.leaves) + k]
        return v, place_in(entry, v, self.args[r])

    def marks_of(self, i):
        """Return which rows of a result have a gradient; make memory for the gradient if needed."""
        if self.block is None:
            make, shape, dtype = self.room
            self.block = new_array(make, shape, dtype)
            self.start = address_of(self.block)
            clear(self.start, shape[0])
            self.marked = [None] * len(self.slots)
        found = self.marked[i]
        if found is None:
            found = self.marked[i] = self.marks[i] = bytearray(self.n)
        return found

    def seed(self, i):
        """The gradients of a result, a row for each lane."""
        self.marks_of(i)
        slot = self.slots[i]
        return part_at(self.block, slot[2], slot[3], slot[0], slot[4])

    def add_row(self, slot, i, r, g):
        """Add an array to the gradient of a result of lane r; False if the caller has to."""
        row = slot[1]
        source = address_of(g)
        if source == -1 or g.nbytes != row:
            return False
        marks = self.marks_of(i)
        marks[r] = 1
        place = slot[0]
        add_bytes(self.start + place + r * row, source, row, slot[5])
        return True

    def turn_to(self, owner):
        """Show the gradients that a pass has brought here; those of other passes wait.

        Fibers take turns within their passes.
        """
        if self.marks:
            if self.waiting is None:
                self.waiting = {}
            self.waiting[self.owner] = self.marks, self.marked, self.block, self.start
        known = None if self.waiting is None else self.waiting.pop(owner, None)
        if known is None:
            self.forget()
        else:
            self.marks, self.marked, self.block, self.start = known
        self.owner = owner

    def accept(self, owner, number, g):
        """Add to the gradient of a value of a lane."""
        if self.owner is not owner:
            self.turn_to(owner)
        r = number // self.stride
        i = number - r * self.stride
        found = self.number_of(r, i)
        if found >= 0:
            slot = self.slots[found]
            if slot[5] is not None and self.add_row(slot, found, r, g):
                return
        self.accept_apart(owner, r, i, found, g)

    def number_of(self, r, i):
        """The number of value i of lane r among the results; -1 for no result."""
        part = self.part_of(r)
        pattern = part[2]
        return pattern.number_at[i]

    def reached(self):
        """The lanes that a gradient has come to."""
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
        self.marked = None
        self.block = None
        self.owner = None

    def pass_on(self, owner, segment, seeds):
        """Push gradients of results back to the lanes' operands; False if nodes are needed."""
        lane_batch = self.lane_batch
        given = []
        for number, handle in seeds.items():
            given.append((number, ensure(refreshed(handle))))  # other fibers may run meanwhile
        if self.owner is not owner:
            self.turn_to(owner)
        if segment.structure.later is not self:  # the pass of another fiber has needed nodes
            self.give_back(seeds)
            return False
        if segment.hooks or is_hooked(self.sources, lane_batch.leafy) or not owner.plain():
            self.pass_by_nodes(segment, seeds)
            return False
        if owner.ledger is None:
            owner.ledger = self.new_ledger(owner, segment, seeds)
        for number, g in given:
            self.accept(owner, number, g)
        if owner.ledger.account is not None:
            self.check_in(owner, segment)
        known = None
        if self.marks and not self.spent and not self.spent_in:
            known = lane_batch.backward.get(frozenset(self.marks))
            if known is not None and not self.goes_on_alike(known.smooth):
                known = None
        if known is None:
            if not self.pass_in_parts(owner, segment):
                seeds.clear()
                self.pass_by_nodes(segment, seeds)
                return False
        else:
            self.push(owner, known, None, None)
            if not owner.retain:
                self.spent = known.nodes
                if len(self.spent) == lane_batch.n_differentiable:
                    self.let_go(segment)
        self.forget()
        return True

    def goes_on_alike(self, smooth):
        """Whether all lanes can be run, and all have gradients to hand on.

        smooth: by result, whether a gradient of 0 gives gradients of 0
        """
        uneven = False
        for k, marks in self.marks.items():
            if 0 in marks:
                if not smooth[k]:
                    return False
                uneven = True
        return not uneven or len(self.reached()) == self.n

    def read(self, k, seeds):
        """Return entry k of the operands, results and gradients that the backward function reads.

        seeds: the results whose gradients are read
        """
        n = len(self.operands)
        if k < n:
            found = self.operands[k]
            return own_operand(self.rows, k, self.gathered) if found is None else found
        k -= n
        n = len(self.results)
        if k >= n:
            return self.seed(seeds[k - n])
        found = self.results[k]
        if found is None and self.saved is not None:
            slot = self.inner[k]
            return part_at(self.saved, slot[1], slot[2], slot[0], slot[3])
        return found

    def place_of(self, k):
        """Where an operand begins in `gathered`, or a result in `saved`, that lies there."""
        n = len(self.operands)
        row = self.rows[k] if k < n else self.inner[k - n]
        return row[0]

    def push(self, owner, known, rows, reached):
        """Run the backward function for some lanes; hand on the gradients of those reached.

        known: how gradients flow
        rows: numbers of the lanes to run, None for all lanes
        reached: numbers of the lanes reached, None for all lanes
        """
        lane_batch = self.lane_batch
        template = known.template
        numbers = lane_batch.numbers
        seeds = known.seeds
        n = self.n if rows is None else len(rows)
        call = known.calls.get(n)
        if call is None or call[1] is None:
            call = known.bound_to(lane_batch, n)
        types, kernel = call
        read = None
        found = None
        if kernel is not None and rows is None:
            found = kernel.run_back(self, seeds)
        if found is None:
            read = []
            for k in range(len(self.operands) + len(self.results) + len(seeds)):
                read.append(self.read(k, seeds))
            if rows is not None:
                read = self.some(read, rows, types)
            found = known.compute(read, types, numbers, kernel)
        targets = known.targets
        if rows is None and reached is None:
            rest = self.hand_back(owner, targets, found, lane_batch.sizes)
        else:
            rest = []
            for k in range(len(targets)):
                rest.append((targets[k][0], found[k], None))
        for k, g, parts in rest:
            self.hand_on(owner, k, g, rows, reached, parts)
        late = template.late
        if not late:
            return
        made = len(targets)
        kept = []
        for i in template.border:
            if i < 0:
                kept.append(found[made])
                made += 1
            else:
                kept.append(self.read(i, seeds) if read is None else read[i])
        if known.name is None:
            known.find_name(kept, numbers)
        whole = []
        key = [known.name]
        for source in self.sources:
            if not isinstance(source, list):
                whole.append(source)
                key.append(id(source))
        ledger = owner.ledger
        name = tuple(key)
        entry = ledger.tails.get(name)
        if entry is None:
            values = []
            for k in late:
                values.append(self.sources[k])
            ledger.wait_for(name, template, kept, values, numbers, whole)
            return
        slabs = entry[1]
        for k in range(len(kept)):
            slabs[k].append(kept[k])

    def hand_back(self, owner, targets, found, sizes):
        """Add gradients of operands, a row for each lane, to those of the values that are shown.

        targets: (operand, whether its gradient is of float64; None if the caller has to add it)
        Returns the rest, not added: (operand, gradient, None, or rows as `scatter_rows` does).
        """
        rest = []
        number = 0
        for target in targets:
            k, wide = target
            g = found[number]
            number += 1
            source = self.sources[k]
            if wide is None or not isinstance(source, list):
                rest.append((k, g, None))
                continue
            data = address_of(g)
            if data == -1:
                rest.append((k, g, None))
                continue
            rows = scatter_rows(source, self.places[k], sizes[k], data, wide, owner)
            if rows:
                rest.append((k, g, rows))
        return rest


def saved_lanes_of(segment):
    """Return the `SavedLanes` of a segment of lanes, kept for a backward pass; None if none are."""
    inputs = segment.inputs
    if isinstance(inputs, Inputs):
        given = inputs
        return given.lanes
    return None


def scatter_rows(values, offsets, size, source, wide, owner):
    """Add gradients, which lie end to end, to those of these values.

    offsets: where in the value a part of `size` bytes begins; None if each is a whole value
    owner: the pass, which comes by the segments that gradients reach
    Returns the rest, not added: (bytes before it, bytes, value, offset in the value).
    """
    rest = []
    start = source
    n = size
    last = None
    saved = None
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
                    rest.append((source - start, n, v, at))
                break
            if segment is not last:
                last = segment
                saved = saved_lanes_of(segment)
                if saved is not None and saved.owner is not owner:
                    owner.come_by(segment)
                    saved.turn_to(owner)
            if saved is None:
                rest.append((source - start, n, v, at))
                break
            r = v.seg_index // saved.stride
            i = v.seg_index - r * saved.stride
            number = saved.number_of(r, i)
            if number < 0:  # a view: the gradient goes to the rows of the value shown
                v, more = saved.shown(i, r)
                at += more
                continue
            slot = saved.slots[number]
            marks = saved.marks_of(number)
            marks[r] = 1
            place = slot[0]
            row = slot[1]
            add_bytes(saved.start + place + r * row + at, source, n, wide)
            break
        source += n
    return rest


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
