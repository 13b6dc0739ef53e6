# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Sorts pending ops into regions and groups, and moves rows: the native part of batching.

A *region* is an op that stands alone or is heavy, and the light work that depends on this op and
stays aligned with it.  The structure of regions is kept in a trie of `GroupNode`s: a node per op,
behind those of the ops before.  Two regions that end in the same node are alike in everything but
the data, by exact comparison.

Compiled by Cython with the types in `_grouper.pxd`; runs as plain Python too, on the stand-ins of
`_grouper_select`.
"""

from heapq import heappop, heappush
from random import Random

from wend._engine.core._types import LeafPrimitive, same_tail

# How a region reads an operand from outside.
STACK = 0  # a tensor per member, all of the same type: a new leading dim
ROW = 1  # the operand's rows behind those of the members before
SHARED = 2  # the same tensor for all members

# The kind of an op, before its operands are looked at.
PLAIN = 0
LEADING = 1  # a view of some rows
STARTER = 2  # begins a region
UNSUITED = 3  # leave the whole trace to another executor
JOIN = 4  # lays tensors end to end: a region of its own, and no more than copies

# The role of an operand from outside of a region: a sum.
GRAD = 1  # requires grad
OUTSIDE = 2  # is from outside of the trace
LEAF = 4  # is a user's leaf
# In place of OUTSIDE and LEAF, for single ops: an op is the same wherever its operands come from,
# as no rows are gathered and no gradient is put off. Else each combination would need a plan.
ANYWHERE = 8

# The kind of an operand is the way of reading, in two bits, and its role behind these.
HOW = 3
ROLE_SHIFT = 2

# The kinds of moves of rows, see `devices.moves`.
MOVE_CLEAR, MOVE_COPY, MOVE_ADD = 0, 1, 2

NEW = 1  # added to the address of memory for a gradient that nobody has written to yet

ROW_, PLAIN_, UNSUITED_ = ROW, PLAIN, UNSUITED
LEADING_, STARTER_, JOIN_ = LEADING, STARTER, JOIN
GRAD_, ANYWHERE_, HOW_, ROLE_SHIFT_, NEW_ = GRAD, ANYWHERE, HOW, ROLE_SHIFT, NEW

MOST_OPS = 48  # of a region
MOST_VALUES = 60  # of a region, and of an op
MOST_OPERANDS = 4096  # of an op; if there are more, another executor takes the flush

RANKS = 1 << 16  # places in an order of kinds: see `Schedule`
TRIALS = 24  # of new ranks, per node
SLICE = 1 << 17  # regions that are put in such an order, per flush
MOST_RANKED = 1 << 21  # regions times kinds: beyond, no order is learned

DRAWS = Random(0)  # of its own: users' draws are not touched, and orders are those of the last run

OFFSETS = OFFSETS_ = {}  # where leading views begin, in bytes, by (primitive, type, args)
PLACES = PLACES_ = {}  # the same by (primitive, type), then by the only arg: `x[i]` for each i
REPEATED = REPEATED_ = {}  # kinds of ops on leaves of which equal ones came: see `find_twin`
ASK = ASK_ = {}  # calls of Python: see `signatures`


class GroupNode:
    """An op of regions of equal structure, behind those of its parent.

    refs     per operand: number of a value of the region, or -1 - number of an operand from outside
    kinds    per operand, if from outside: the way in which the region reads it, and its role
    types    per operand, if from outside: the type (of no rows where the operand goes by rows)
    joins    False: such an op begins a region of its own instead
    severed  numbers of operands that no gradient comes to; None for none
    free     by arg, whether it may be any number: of a draw, whose seed and offset never come twice
    mask     which values of regions that end here were read outside of these lately, as bits: in
             this term of `Grouper.order` and the term before; `recent`: in this term
    """

    def __init__(
        self, parent, prim, refs, kinds, types, args, grad, n_out, program=None, free=None
    ):
        self.parent = parent
        self.prim = prim
        self.refs = refs
        self.kinds = kinds
        self.types = types
        self.args = args
        self.program = program  # compared where args are free
        self.free = free
        self.n_in = len(refs)
        self.words = ASK_["words"](2 * self.n_in)
        self.table = table_of(self.words)  # refs, then kinds
        for k in range(self.n_in):
            self.table[k] = refs[k]
            self.table[self.n_in + k] = kinds[k]
        self.seen = [None] * self.n_in  # types of operands from outside that suited lately
        # An op that reads its own region alone, and no numbers, is told by a few compares.
        self.inner = 0 < self.n_in <= 3 and min(refs) >= 0 and len(args) == 0
        self.inner = self.inner and prim.region_code == PLAIN_ + 1
        self.ref0, self.ref1, self.ref2 = (*refs, -1, -1, -1)[:3] if self.inner else (-1, -1, -1)
        self.grad = grad
        self.flows = grad or (parent is not None and parent.flows)  # whether gradients go through
        self.n_out = n_out
        self.children = {}
        self.child = None
        self.joins = True
        self.rows = False
        self.heavy = False
        self.smooth = True
        self.single = False
        self.joined = False  # whether the op is a `JOIN`, of any number of operands
        self.n_ops = 0 if parent is None else parent.n_ops + 1
        self.n_values = 0 if parent is None else parent.n_values + n_out
        self.n_operands = 0
        self.mask = 0
        self.recent = 0
        self.term = -1
        self.severed = None
        self.shared = ()  # per operand from outside: whether all members read the same value
        self.template = None
        self.in_place = {}  # runners of single members, by mask, whether reached, and types
        self.hint = 0  # the kind of the last region that ended here, in `Grouper.order`
        self.rank = -1  # place in the learned order; -1: none
        self.trials = 0  # of new ranks


def words_for(n_values, n_states):
    """Number of words that a `Grouper` begins with; operands may take more words, elsewhere."""
    return 8 * n_values + 12 * (n_states + 1) + MOST_OPERANDS


class Grouper:
    """The regions of a flush.

    Per value: region (-1: from outside, -2: rows of another value, -3: all of another value, see
    `find_twin`), number in its region, value whose rows are shown, and from which byte; address of
    the data, and of the gradient; whether the value is read outside of its region.

    Per region: depth; rows; where in `pool` the operands are, how many, with room for how many;
    where in `made` the values are; whether the region is fixed, as it depends on leaves alone; the
    first arg of the op that has begun the region.
    Every op may be a region; the table of `made` has an entry more.

    words: for these tables, in this order, and then for operands
    """

    def __init__(self, words, n_values, n_states):
        self.words = words
        self.lay_tables(table_of(words), n_values, n_states + 1)
        self.pool_room = len(words) - 8 * n_values - 8 * (n_states + 1) - MOST_OPERANDS
        self.pooled = 0
        self.nodes = []  # per region
        self.needed = []
        self.reached = []
        self.leaves = []
        self.joins = {}  # nodes of joining ops, by primitive and whether the op requires grad
        self.twins = {}  # the first result of each fixed op, see `find_twin`
        self.merged = set()  # regions of fixed ops that stand for several
        self.sequence = None
        self.viewed = self.viewing = None  # type and primitive of the last view by a single arg
        self.places = {}  # places that such views show, by that arg
        self.away = False  # whether a device moves rows: moves are noted, not made
        self.moves = self.gradient  # (kind, target, source, bytes) of each
        self.moves_words = None  # keeps these words alive
        self.n_moves = 0
        self.moves_room = 0

    def lay_tables(self, table, n, m):
        """Let the tables of n values and m regions lie in these words."""
        fill(table, n, -1)  # this covers values that no op of this flush makes
        fill(behind(table, 3 * n), 4 * n, 0)  # the rest is written before any read
        self.region = table
        self.local = behind(table, n)
        self.root = behind(table, 2 * n)
        self.offset = behind(table, 3 * n)
        self.data = behind(table, 4 * n)
        self.gradient = behind(table, 5 * n)
        self.used = behind(table, 6 * n)
        self.made = behind(table, 7 * n)
        table = behind(table, 8 * n)
        self.depths = table
        self.rows = behind(table, m)
        self.reads_at = behind(table, 2 * m)
        self.n_reads = behind(table, 3 * m)
        self.room = behind(table, 4 * m)
        self.made_at = behind(table, 5 * m)
        self.fixed = behind(table, 6 * m)
        self.arg0 = behind(table, 7 * m)
        self.ins = behind(table, 8 * m)  # of the op that is looked at
        self.pool = behind(self.ins, MOST_OPERANDS)  # operands of regions: values from outside

    def scan(self, root_node, states, values, args, merges):
        """Sort all ops into regions; False if there are ops that only another executor can run.

        merges: whether equal ops on leaves alone are merged, see `find_twin`
        """
        self.args = args
        root, region, local, nodes = self.root, self.region, self.local, self.nodes
        for number in range(len(states)):
            ask_ahead(states, number)
            state = record_at(states, number)
            first = state.first
            ask_ahead(values, first)
            if state.n_out > 1:
                ask_ahead(values, first + 1)
            n_in = state.n_in
            # No local names of nodes here: each would count a reference.
            if n_in > 0:
                target = region[state.i0]
                if (
                    target >= 0
                    and inner_child(nodes, target, state, region, local)
                    and state.mode.recompute == 0
                ):
                    at = values_of(nodes, target)
                    to_child(nodes, target)
                    for k in range(state.n_out):
                        region[first + k] = target
                        local[first + k] = at + k
                        root[first + k] = first + k
                    continue
            if state.program is None:  # only ops have a program
                if n_in == 0 and type(state.prim) is LeafPrimitive:
                    region[first] = -1
                    root[first] = first
                    self.leaves.append(first)
                    continue
                return False
            if state.mode.recompute != 0:
                return False
            prim = prim_of(state.prim)
            code = prim.region_code - 1
            if code < 0:
                code = ASK_["code"](prim, state)
                prim.region_code = code + 1
            if code == UNSUITED_ or n_in > MOST_OPERANDS or state.n_out > MOST_VALUES:
                return False  # the values of a region are bits of a word
            newest = self.read_operands(state, n_in)
            if code == LEADING_ and self.place_view(state, prim, values, args):
                continue
            known = 0
            if merges and newest < 0 and self.is_fixed(state, prim, n_in, values):
                known = self.find_twin(state, prim, n_in, values, args)
                if known == 2:
                    continue
            if code == JOIN_ and self.join_all(root_node, state, values):
                self.fixed[region[state.first]] = known
                continue
            arg0 = state.arg0
            n_args = len(prim.size_mask)
            target = -1
            node = None
            if newest >= 0 and code != STARTER_:
                target = region[newest]
                parent = node_at(nodes, target)
                if parent.n_ops < MOST_OPS and parent.n_values < MOST_VALUES and not parent.single:
                    node = self.find(parent, state, prim, n_in, target, values, args, arg0, n_args)
                    if not node.joins or not self.allowed(node, n_in, target):
                        node = None
            if node is None:
                target = self.begin(root_node, n_in)
                self.arg0[target] = arg0
                node = self.find(root_node, state, prim, n_in, target, values, args, arg0, n_args)
            self.join(node, state, n_in, target, values)
            self.fixed[target] = known
        self.number_values(len(values))
        return True

    def read_operands(self, state, n_in):
        """Note an op's operands in `ins`; return the newest operand that is in a region, or -1.

        A region that depends on leaves alone does not count: ops on such values are no part of it.
        """
        ins, region, fixed = self.ins, self.region, self.fixed
        newest = -1
        if n_in > 0:
            ins[0] = at = self.value_itself(state.i0)
            if region[at] >= 0 and not fixed[region[at]]:
                newest = at
        if n_in > 1:
            ins[1] = at = self.value_itself(state.i1)
            if at > newest and region[at] >= 0 and not fixed[region[at]]:
                newest = at
        if n_in > 2:
            ins[2] = at = self.value_itself(state.i2)
            if at > newest and region[at] >= 0 and not fixed[region[at]]:
                newest = at
        if n_in > 3:
            rest = state.rest
            for k in range(3, n_in):
                ins[k] = at = self.value_itself(rest[k - 3])
                if at > newest and region[at] >= 0 and not fixed[region[at]]:
                    newest = at
        return newest

    def value_itself(self, at):
        """A value, or the equal value that is computed in its place."""
        return self.root[at] if self.region[at] == -3 else at

    def is_fixed(self, state, prim, n_in, values):
        """Whether an op depends on users' leaves alone, such as the transpose of a parameter."""
        if n_in == 0:
            return False
        for k in range(n_in):
            base = self.root[self.ins[k]]
            g = self.region[base]
            if g >= 0:
                if not self.fixed[g]:
                    return False
            elif g != -1 or value_at(values, base).leaf is None:
                return False
        return ASK_["repeats"](prim, state)

    def find_twin(self, state, prim, n_in, values, args):
        """Let the results of an op on leaves be those of an equal op before, and return 2.

        Without an equal op, returns 1 if ops like this have come twice in a flush, or else 0.  Only
        the former are kept apart from the ops that read them.  Where inputs are leaves, too, whole
        programs depend on leaves alone, and should run by regions as any other.

        A program that computes something of its parameters in each call means the same value each
        time.  Groups may then share it, and gradients are added up before they reach the leaves.
        """
        arg0 = state.arg0
        first = state.first
        kind = (prim, type_of(values, self.ins[0]))
        numbers = tuple(args[arg0 : arg0 + len(prim.size_mask)])
        key = (
            prim,
            state.requires_grad,
            tuple([self.ins[k] for k in range(n_in)]),
            numbers,
            repr(numbers),  # tells 0.0 from -0.0, and 1 from True
        )
        twin = self.twins.setdefault(key, first)
        if twin == first:
            return 1 if kind in REPEATED_ else 0
        REPEATED_[kind] = True
        for k in range(state.n_out):
            self.region[first + k] = -3
            self.root[first + k] = twin + k
            self.offset[first + k] = 0
        self.merged.add(self.region[twin])
        return 2

    def place_view(self, state, prim, values, args):
        """Note which bytes of its operand a view of leading rows shows; False if not dense."""
        at = self.ins[0]
        v = value_at(values, at)
        arg0 = state.arg0
        n_args = len(prim.size_mask)
        if n_args == 1:
            if v.type is not self.viewed or prim is not self.viewing:
                self.viewed, self.viewing = v.type, prim
                self.places = PLACES_.setdefault((prim, v.type), {})
            found = self.places.get(args[arg0])
            if found is None:
                found = self.places[args[arg0]] = ASK_["offset"]((prim, v.type, (args[arg0],)))
        else:
            key = (prim, v.type, tuple(args[arg0 : arg0 + n_args]))
            found = OFFSETS_.get(key)
            if found is None:
                found = ASK_["offset"](key)
        if found < 0:
            return False
        first = state.first
        self.region[first] = -2
        self.root[first] = self.root[at]
        self.offset[first] = self.offset[at] + found
        return True

    def number_values(self, n):
        """Note where the values of each region are among `made`."""
        at = 0
        k = 0
        for node in self.nodes:
            self.made_at[k] = at
            at += node.n_values
            k += 1
        self.made_at[k] = at
        made, made_at, region, local = self.made, self.made_at, self.region, self.local
        for i in range(n):
            k = region[i]
            if k >= 0:
                made[made_at[k] + local[i]] = i

    def add_read(self, target, at, room):
        """Append to the operands of a region; room: space to reserve for a region without any."""
        n = self.n_reads[target]
        if n == self.room[target]:
            if n > 0:
                room = 2 * n
            start = self.pooled
            if start + room > self.pool_room:
                self.enlarge_pool(2 * (start + room))
            old = self.reads_at[target]
            for k in range(n):
                self.pool[start + k] = self.pool[old + k]
            self.reads_at[target] = start
            self.room[target] = room
            self.pooled = start + room
        self.pool[self.reads_at[target] + n] = at
        self.n_reads[target] = n + 1

    def enlarge_pool(self, n):
        """Move the operands of regions to memory with room for n of these."""
        words = ASK_["words"](n)
        pool = table_of(words)
        for k in range(self.pooled):
            pool[k] = self.pool[k]
        self.pool = pool
        self.pool_words = words  # keeps the words alive
        self.pool_room = n

    def pool_at(self):
        """Address of the operands of regions."""
        return address(self.pool)

    def local_of(self, at, i):
        """The number of a value in a region; -1 if the value is not of that region."""
        return int(self.local[at]) if self.region[at] == i else -1

    def operands_of(self, i):
        """The values from outside that a region reads."""
        at = self.reads_at[i]
        return [int(self.pool[at + k]) for k in range(self.n_reads[i])]

    def made_of(self, i):
        """The values of a region."""
        return [int(self.made[k]) for k in range(self.made_at[i], self.made_at[i + 1])]

    def address_of(self, at):
        """Where a value lies."""
        return int(self.data[self.root[at]] + self.offset[at])

    def numbers_of(self, i):
        """The args of the only op of a region."""
        at = self.arg0[i]
        return self.args[at : at + len(node_at(self.nodes, i).args)]

    def begin(self, node, n_in):
        """The number of a new region, for an op whose operands are known."""
        target = len(self.nodes)
        self.nodes.append(node)
        self.n_reads[target] = 0
        self.room[target] = 0
        depth = 0
        for k in range(n_in):
            g = self.region[self.root[self.ins[k]]]
            if g >= 0 and self.depths[g] >= depth:
                depth = self.depths[g] + 1
        self.depths[target] = depth
        self.rows[target] = -1
        return target

    def join_all(self, root_node, state, values):
        """Sort an op that lays its operands end to end; False if the op does more."""
        first = state.first
        n_in = state.n_in
        v = value_at(values, first)
        dtype = v.type.dtype
        for k in range(n_in):
            v = value_at(values, self.ins[k])
            if v.type.dtype is not dtype:
                return False
        key = (state.prim, state.requires_grad)
        node = self.joins.get(key)
        if node is None:
            node = GroupNode(root_node, state.prim, (), (), (), (), state.requires_grad, 1)
            node.joined = True
            node.single = True
            self.joins[key] = node
        target = self.begin(node, n_in)
        for k in range(n_in):
            self.add_read(target, self.ins[k], n_in)
            self.used[self.root[self.ins[k]]] = 1
        self.rows[target] = 1
        self.region[first] = target
        self.local[first] = 0
        self.root[first] = first
        return True

    def join(self, node, state, n_in, target, values):
        """Add an op to a region."""
        n = node.parent.n_operands
        table = node.table
        if node.n_operands > n:
            for k in range(n_in):
                if -1 - table[k] >= n:
                    at = self.ins[k]
                    self.used[self.root[at]] = 1
                    self.add_read(target, at, n_in if n_in > 4 else 4)
                    n += 1
                    if self.rows[target] < 0 and table[n_in + k] & HOW_ == ROW_:
                        v = value_at(values, at)
                        self.rows[target] = v.type.row[0]
        if self.rows[target] < 0:
            self.rows[target] = 1
        first = state.first
        for k in range(state.n_out):
            self.region[first + k] = target
            self.local[first + k] = node.parent.n_values + k
            self.root[first + k] = first + k
        put(self.nodes, target, node)

    def allowed(self, node, n_in, target):
        """Whether a region may read the operands of an op: only if it depends on these already."""
        n = node.parent.n_operands
        if node.n_operands == n:
            return True
        region, root, pool, table = self.region, self.root, self.pool, node.table
        start = self.reads_at[target]
        for k in range(n_in):
            if -1 - table[k] >= n:
                g = region[root[self.ins[k]]]
                if g >= 0:
                    known = False
                    for j in range(start, start + n):
                        if region[root[pool[j]]] == g:
                            known = True
                            break
                    if not known:
                        return False
        return True

    def find(self, parent, state, prim, n_in, target, values, args, arg0, n_args):
        """The node of an op behind `parent`; a new node if there is none yet."""
        child = parent.child
        if child is not None and self.fits(child, state, prim, n_in, target, values, args, arg0):
            return child
        found = parent.children.get(prim)
        if found is not None:
            for child in found:
                if self.fits(child, state, prim, n_in, target, values, args, arg0):
                    parent.child = child
                    return child
        operands = [self.ins[k] for k in range(n_in)]
        child = ASK_["child"](
            self, parent, state, operands, target, values, args[arg0 : arg0 + n_args]
        )
        parent.children.setdefault(prim, []).append(child)
        parent.child = child
        return child

    def fits(self, child, state, prim, n, target, values, args, arg0):
        """Whether a node stands for an op like this."""
        if child.prim is not prim or child.grad != state.requires_grad or child.n_in != n:
            return False
        region, ins, pool, table = self.region, self.ins, self.pool, child.table
        start = self.reads_at[target]
        n_known = child.parent.n_operands
        n_new = n_known
        n_rows = self.rows[target]  # new operands have as many, also where all operands are new
        for k in range(n):
            at = ins[k]
            ref = table[k]
            if ref >= 0:
                if region[at] != target or self.local[at] != ref:
                    return False
                continue
            if region[at] == target:
                return False
            ref = -1 - ref
            if ref < n_known:
                if pool[start + ref] != at:
                    return False
                continue
            if ref < n_new:  # a second time in this op
                for j in range(k):
                    if table[j] == -1 - ref:
                        if ins[j] != at:
                            return False
                        break
                continue
            for j in range(start, start + n_known):
                if pool[j] == at:
                    return False
            for j in range(k):
                if ins[j] == at:
                    return False
            n_new += 1
            kind = table[n + k]
            role = role_at(values, at, region[at])
            if kind >> ROLE_SHIFT_ & ANYWHERE_:
                if kind >> ROLE_SHIFT_ & GRAD_ != role & GRAD_:
                    return False
            elif kind >> ROLE_SHIFT_ != role:
                return False
            if not was_seen(child.seen, k, values, at):
                type_ = type_of(values, at)
                like = type_at(child.types, k)
                if kind & HOW_ != ROW_:
                    if type_ is not like:
                        return False
                elif type_.kind is not like.kind or type_.rank == 0 or not same_tail(type_, like):
                    return False
                put(child.seen, k, type_)
            if kind & HOW_ == ROW_:
                rows = rows_at(values, at)
                if n_rows >= 0 and rows != n_rows:
                    return False
                n_rows = rows
        wanted = child.args
        free = child.free
        if free is not None and state.program is not child.program:
            return False
        for k in range(len(wanted)):
            a = args[arg0 + k]
            b = wanted[k]
            if free is not None and free[k] and type(a) is type(b):
                continue
            if a is not b:
                if type(a) is not type(b) or a != b or (type(a) is float and a == 0.0):
                    return False
        return True

    def role(self, at, v):
        """Return the role of a value from outside of a region, as a sum.

        The terms are GRAD, OUTSIDE and LEAF.
        """
        return role_at([v], 0, self.region[at])

    # -- order ------------------------------------------------------------------------------

    def mark(self, wanted, roots):
        """Find out which regions are needed for the wanted values, which lead to the roots."""
        nodes, region, root, pool = self.nodes, self.region, self.root, self.pool
        n = len(nodes)
        self.needed = [False] * n
        self.reached = [False] * n
        for seeds, marks in ((roots, self.reached), (wanted, self.needed)):
            for at in seeds:
                self.used[root[at]] = 1
            through_gradients = marks is self.reached
            for at in seeds:
                g = region[root[at]]
                if g >= 0 and (not through_gradients or node_at(nodes, g).flows):
                    marks[g] = True
            for j in range(n):
                g = n - 1 - j  # a region reads values of regions that were begun before
                if not marks[g]:
                    continue
                start = self.reads_at[g]
                severed = node_at(nodes, g).severed if through_gradients else None
                for k in range(start, start + self.n_reads[g]):
                    h = region[root[pool[k]]]
                    if (
                        h >= 0
                        and not marks[h]
                        and (not through_gradients or node_at(nodes, h).flows)
                        and (severed is None or k - start not in severed)
                    ):
                        marks[h] = True

    def flow(self, seeds):
        """Per region, whether gradients of these values flow through; and the values reached."""
        marks = [False] * len(self.nodes)
        ends = set()
        stack = []
        for at in seeds:
            g = self.region[self.root[at]]
            if g >= 0 and self.reached[g] and not marks[g]:
                marks[g] = True
                stack.append(g)
        while stack:
            g = stack.pop()
            start = self.reads_at[g]
            severed = node_at(self.nodes, g).severed
            for k in range(start, start + self.n_reads[g]):
                if severed is not None and k - start in severed:
                    continue
                at = self.pool[k]
                h = self.region[self.root[at]]
                if h < 0:
                    ends.add(self.root[at])
                elif self.reached[h] and not marks[h]:
                    marks[h] = True
                    stack.append(h)
        return marks, ends

    def order(self, term):
        """Groups of regions that run together, in order (a `Sequence`).

        Each time the kind of the least mean depth runs, of those that could: a kind that can wait
        gathers more regions. If that takes more groups than necessary, another order of kinds is
        learned, and taken where it makes fewer groups.

        term: a number that changes from time to time; see `GroupNode.mask`
        """
        region, root, nodes = self.region, self.root, self.nodes
        n = len(nodes)
        schedule = Schedule(n, 1 + self.pooled)
        kinds, missing, heads = schedule.kinds, schedule.missing, schedule.heads
        following, users = schedule.following, schedule.users
        depth_of, count_of = schedule.keys, schedule.counts
        table = {}
        firsts = schedule.firsts
        entry = 0
        for j in range(n):
            i = n - 1 - j  # so that each list is in order
            if not self.needed[i]:
                continue
            for k in range(self.reads_at[i], self.reads_at[i] + self.n_reads[i]):
                g = region[root[self.pool[k]]]
                if g >= 0:
                    missing[i] += 1
                    entry += 1
                    users[entry] = i
                    following[entry] = heads[g]
                    heads[g] = entry
        for i in range(n):
            if not self.needed[i]:
                kinds[i] = -1
                continue
            node = node_at(nodes, i)
            mask = self.mask_of(i)
            if node.term != term:
                node.term = term
                node.mask = node.recent
                node.recent = 0
            node.mask |= mask
            node.recent |= mask
            kind = node.hint
            if node.single or kind >= len(firsts) or not self.alike(firsts[kind], i, mask):
                kind = len(firsts)
                if not node.single:
                    shared = self.operands_of(i)
                    shared = [shared[k] for k in range(len(shared)) if node.shared[k]]
                    smooth = node.smooth
                    key = (node, tuple(shared), self.reached[i], 0 if smooth else mask)
                    kind = table.setdefault(key, kind)
                    node.hint = kind
                if kind == len(firsts):
                    firsts.append(i)
            kinds[i] = kind
            depth_of[kind] += self.depths[i]
            count_of[kind] += 1
        self.sequence = schedule.shortest(nodes)
        self.members = self.sequence.members
        return self.sequence

    def take_each(self):
        """Make each region a group by itself, of the same number."""
        n = len(self.nodes)
        self.sequence = Sequence(n)
        self.members = self.sequence.members
        for i in range(n):
            self.members[i] = i

    def members_of(self, at, n):
        """The numbers of n regions of a group that begins there."""
        return [int(self.members[k]) for k in range(at, at + n)]

    def mask_of(self, i):
        """The values of a region that are read outside, as bits."""
        one = 1
        mask = 0
        start = self.made_at[i]
        for k in range(self.made_at[i + 1] - start):
            if self.used[self.made[start + k]]:
                mask |= one << k
        return mask

    def alike(self, a, b, mask):
        """Whether two regions, the second of this mask, are of a kind: shared values agree."""
        node = self.nodes[b]
        if self.nodes[a] is not node or self.reached[a] != self.reached[b]:
            return False
        if not node.smooth and self.mask_of(a) != mask:
            return False
        of_a, of_b = self.reads_at[a], self.reads_at[b]
        for k in range(self.n_reads[b]):
            if node.shared[k] and self.pool[of_a + k] != self.pool[of_b + k]:
                return False
        return True

    # -- rows -------------------------------------------------------------------------------

    # A group is given by where its members begin, and by the number of members.

    def rows_of(self, i):
        """How many rows a region has."""
        return int(self.rows[i])

    def total(self, start, count):
        """How many rows a group has."""
        n = 0
        for j in range(start, start + count):
            n += self.rows[self.members[j]]
        return n

    def gather(self, start, count, k, size, target, by_rows):
        """Copy operand number `k` of each member to `target`, end to end.

        size: bytes of a row, or of a member
        """
        for j in range(start, start + count):
            i = self.members[j]
            at = self.pool[self.reads_at[i] + k]
            n = size * self.rows[i] if by_rows else size
            self.move(MOVE_COPY, target, self.data[self.root[at]] + self.offset[at], n)
            target += n

    def place(self, start, count, k, size, address, by_rows, gradients):
        """Note where value number `k` of each member lies, or its gradient."""
        table = self.gradient if gradients else self.data
        for j in range(start, start + count):
            i = self.members[j]
            table[self.made[self.made_at[i] + k]] = address
            address += size * self.rows[i] if by_rows else size

    def lay(self, i, values, target):
        """Copy the operands of a joining region to `target`, end to end."""
        for k in range(self.reads_at[i], self.reads_at[i] + self.n_reads[i]):
            at = self.pool[k]
            v = values[at]
            source = self.data[self.root[at]] + self.offset[at]
            self.move(MOVE_COPY, target, source, v.type.nbytes)
            target += v.type.nbytes

    def share_out(self, i, run, source, wide):
        """Add the parts of a gradient to the gradients of the joined values that are collected."""
        values = run.values
        for k in range(self.reads_at[i], self.reads_at[i] + self.n_reads[i]):
            at = self.pool[k]
            v = values[at]
            n = v.type.nbytes
            self.add_gradient(at, run, values, source, n, wide)
            source += n

    def scatter(self, start, count, k, size, run, source, by_rows, wide):
        """Add the gradients of operand `k` of each member, which lie end to end.

        run: an `Execution`
        wide: whether the gradients are float64, not float32
        """
        values = run.values
        for j in range(start, start + count):
            i = self.members[j]
            at = self.pool[self.reads_at[i] + k]
            n = size * self.rows[i] if by_rows else size
            self.add_gradient(at, run, values, source, n, wide)
            source += n

    def add_gradient(self, at, run, values, source, n, wide):
        """Add n bytes to the gradient of a value, if that is collected: see `scatter`."""
        base = self.root[at]
        target = self.gradient[base]
        if target == 0 and self.region[base] == -1:
            run.make_leaf_gradient(base)
            target = self.gradient[base]
        if target & NEW_:
            self.put_first(at, values, source, n)
        elif target != 0 and self.away:
            self.move(MOVE_ADD, target + self.offset[at], source, n)
        elif target != 0:
            add_bytes(target + self.offset[at], source, n, wide)

    def put_first(self, at, values, source, n):
        """Write the first gradient of a value, of its view `at`, where nothing need be added yet.

        The address is odd while nobody has written to the memory of a gradient: see NEW.
        """
        base = self.root[at]
        target = self.gradient[base] - NEW_
        self.gradient[base] = target
        if base != at:
            v = values[base]
            self.move(MOVE_CLEAR, target, 0, v.type.nbytes)
        self.move(MOVE_COPY, target + self.offset[at], source, n)

    def settle(self, start, count, k, size, by_rows):
        """The gradients of value number `k` of members are complete: 0 where none has come."""
        for j in range(start, start + count):
            i = self.members[j]
            at = self.made[self.made_at[i] + k]
            target = self.gradient[at]
            if target & NEW_:
                target -= NEW_
                self.gradient[at] = target
                self.move(MOVE_CLEAR, target, 0, size * self.rows[i] if by_rows else size)

    # -- moves ------------------------------------------------------------------------------

    def move(self, kind, target, source, n):
        """Clear n bytes, or copy them from the source; a device does so later, see `away`."""
        if n == 0:
            return
        if not self.away:
            if kind == MOVE_CLEAR:
                clear(target, n)
            else:
                copy(target, source, n)
            return
        if self.n_moves == self.moves_room:
            self.enlarge_moves()
        k = 4 * self.n_moves
        self.moves[k] = kind
        self.moves[k + 1] = target
        self.moves[k + 2] = source
        self.moves[k + 3] = n
        self.n_moves += 1

    def erase(self, target, n):
        """Clear n bytes, as `move` does."""
        self.move(MOVE_CLEAR, target, 0, n)

    def enlarge_moves(self):
        """Have room for twice as many moves."""
        room = 2 * self.moves_room + 64
        words = ASK_["words"](4 * room)
        table = table_of(words)
        for k in range(4 * self.n_moves):
            table[k] = self.moves[k]
        self.moves = table
        self.moves_words = words
        self.moves_room = room

    def take_moves(self):
        """The words of the moves that were noted, which are forgotten here."""
        n = 4 * self.n_moves
        self.n_moves = 0
        return None if n == 0 else self.moves_words[:n].copy()


class Sequence:
    """Groups in the order in which they run.

    n          number of groups
    kinds      the kind of each group
    ends       the end of each group among `members`, which are its regions
    words      memory of these tables
    """

    def __init__(self, m):
        """m: regions"""
        self.words = ASK_["words"](3 * m)
        table = table_of(self.words)
        self.kinds = table
        self.ends = behind(table, m)
        self.members = behind(table, 2 * m)
        self.n = 0


class Schedule:
    """The regions of a flush by kind, and which of them wait for which.

    Per region: kind (-1: not needed); how many of its operands other regions make; where the list
    of its readers begins in `users` and `following` (0 ends it).
    Per kind: the first member; the number of members; the key. Among the kinds that could run, the
    kind of the least key runs first.  The ready regions of a kind are a list: the first and last
    region, and for each region the next.
    """

    def __init__(self, n, m):
        self.words = ASK_["words"](10 * n + 2 * m)
        table = table_of(self.words)
        fill(table, 7 * n + 2 * m, 0)
        self.n = n
        self.kinds = table
        self.missing = behind(table, n)
        self.heads = behind(table, 2 * n)
        self.keys = behind(table, 3 * n)
        self.counts = behind(table, 4 * n)
        self.left = behind(table, 5 * n)
        self.longest = behind(table, 6 * n)
        table = behind(table, 7 * n)
        self.following = table
        self.users = behind(table, m)
        table = behind(table, 2 * m)
        self.ready = table
        self.latest = behind(table, n)
        self.next = behind(table, 2 * n)
        self.firsts = []

    def shortest(self, nodes):
        """The groups in the order of least mean depth, or in the learned order if that makes fewer.

        The rank of a node is its place in the learned order. Trials, some per flush, draw a new
        rank for a node; a rank that takes no more groups on that flush is kept. A flush that
        cannot be improved counts for some of the trials that are worthwhile.
        """
        n_kinds = len(self.firsts)
        keys, top = self.keys, 1
        ranked = []
        known, open_ = 0, False
        for kind in range(n_kinds):
            node = node_at(nodes, self.firsts[kind])
            if node.single:
                keys[kind] = -1  # a kind that runs alone in any case runs at once: more gets ready
                continue
            keys[kind] = keys[kind] * RANKS // self.counts[kind]
            if keys[kind] > top:
                top = keys[kind]
            if self.counts[kind] > 1:
                ranked.append(node)
                known += node.rank >= 0
                open_ = open_ or node.trials < TRIALS
        if len(nodes) * n_kinds > MOST_RANKED or not (known or open_):
            return self.groups()
        settled = known == len(ranked) and not open_
        if not settled:
            groups = self.groups()
            if not known and groups.n <= self.fewest():
                for node in ranked:
                    node.trials += TRIALS // 8
                return groups
        for kind in range(n_kinds):
            node = node_at(nodes, self.firsts[kind])
            if node.single:
                continue
            keys[kind] = keys[kind] * RANKS // (top + 1)
            if node.rank >= 0:
                keys[kind] = node.rank
            elif self.counts[kind] > 1:
                node.rank = keys[kind]
        found = self.groups()
        if settled:
            return found
        if open_:
            found = self.improve(nodes, ranked, found)
        if found.n < groups.n:
            return found
        for node in ranked:
            if node.trials >= TRIALS:
                node.rank = -1  # in vain
        return groups

    def improve(self, nodes, ranked, found):
        """Try new ranks for the nodes that were tried least: the groups by the best ranks."""
        for _ in range(1 + SLICE // len(nodes)):
            node = ranked[0]
            for other in ranked:
                if other.trials < node.trials:
                    node = other
            if node.trials >= TRIALS:
                break
            node.trials += 1
            before = node.rank
            node.rank = int(DRAWS.random() * RANKS)
            self.put(node, nodes)
            groups = self.groups()
            if groups.n <= found.n:
                found = groups
            else:
                node.rank = before
                self.put(node, nodes)
        return found

    def put(self, node, nodes):
        """Give the kinds of a node the node's rank."""
        for kind in range(len(self.firsts)):
            if nodes[self.firsts[kind]] is node:
                self.keys[kind] = node.rank

    def groups(self):
        """The groups by the keys that kinds have."""
        kinds, heads = self.kinds, self.heads
        following, users = self.following, self.users
        left, ready, after = self.left, self.ready, self.next
        n = self.n
        found = Sequence(n)
        members = found.members
        fill(ready, len(self.firsts), -1)
        heap = []
        for i in range(n):
            left[i] = self.missing[i]
            if kinds[i] >= 0 and left[i] == 0:
                self.let_run(kinds[i], i, heap)
        at = 0
        while heap:
            kind = heappop(heap)[1]
            start = at
            i = ready[kind]
            ready[kind] = -1
            while i >= 0:
                members[at] = i
                at += 1
                i = after[i]
            found.kinds[found.n] = kind
            found.ends[found.n] = at
            found.n += 1
            for k in range(start, at):
                entry = heads[members[k]]
                while entry > 0:
                    j = users[entry]
                    entry = following[entry]
                    left[j] -= 1
                    if left[j] == 0:
                        self.let_run(kinds[j], j, heap)
        return found

    def let_run(self, kind, i, heap):
        """Append a region to the ready regions of its kind; the first puts the kind on the heap."""
        if self.ready[kind] < 0:
            self.ready[kind] = i
            heappush(heap, (self.keys[kind], kind))
        else:
            self.next[self.latest[kind]] = i
        self.latest[kind] = i
        self.next[i] = -1

    def fewest(self):
        """Fewer groups there cannot be: per kind, the most members of which each needs another."""
        kinds, heads, following, users = self.kinds, self.heads, self.following, self.users
        longest = self.longest
        n = self.n
        found = 0
        for kind in range(len(self.firsts)):
            if self.counts[kind] == 1:
                found += 1
                continue
            most = 0
            fill(longest, n, 0)
            for i in range(n):
                length = longest[i]
                if kinds[i] == kind:
                    length += 1
                    if length > most:
                        most = length
                entry = heads[i]
                while entry > 0:
                    j = users[entry]
                    entry = following[entry]
                    if longest[j] < length:
                        longest[j] = length
            found += most
        return found


def copy_bytes(target, source, n):
    """Copy n bytes from one address to another."""
    copy(target, source, n)


def add_bytes(target, source, n, wide):
    """Add numbers of n bytes to those at another address: float64 if wide, else float32."""
    if wide:
        add64(target, source, n >> 3)
    else:
        add32(target, source, n >> 2)
