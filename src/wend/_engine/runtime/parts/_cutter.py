# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Cuts the pending ops of a flush into parts, each a path of its own: the native half of `parts`.

A loop of the program begins a part at each turn. The steps of a part are taken again on a trie of
parts, as if nothing had been recorded before. A part that comes back is known there, whatever
stands before the part.

Compiled by Cython with the types in `_cutter.pxd`; runs as plain Python too, on the stand-ins of
`_cutter_select`.
"""

from wend._engine.core._hot import FlushJob, State
from wend._engine.core._types import LeafPrimitive

PLAIN, LEAF, NODE, INFERENCE = 0, 1, 2, 3  # kinds of leaves, as `LeafPrimitive.grad`
LOOKED = 256  # lines of the program that a turn of a loop may have

ASK = ASK_ = {}  # calls of Python: see `parts`
SUITED = {}  # whether an op may be in a part, by primitive


class Cutter:
    """The steps of a trace or flush, and where they are cut.

    ends: where parts end, among the steps
    spent: values that no later part reads, after `take`
    fresh: how many of the steps taken so far were new on the trie of parts
    root: of that trie
    whole: whether the first part ends with the step of a backward pass, and is a path as it is

    Per value: the last part that reads the value; the part that has the value as an operand or
    result, and the place there.
    """

    def __init__(self, job, root):
        """job: a trace or a `FlushJob`"""
        self.states = job.states
        self.values = job.values
        self.args = job.args
        self.sites = job.sites
        self.root = root
        self.ends = []
        self.begin = 0
        self.number = 0
        self.fresh = 0
        self.whole = False

    def cut(self, least):
        """Find where parts end; False if there are steps that cannot be in parts.

        A line of the program that comes again has closed a turn of a loop. The turn begins with the
        line that the program came to first, among the lines in between. Where a line is a loop by
        itself, each composite that reads the result of its like is a turn. A value that becomes a
        leaf is read by later parts only.

        least: so many ops a part has at least
        """
        first, last, order = {}, {}, []  # by line: number of the first run; of the latest run
        before = 0
        since = 0
        head = None  # the op of the step before, if that is a composite
        first_made = end_made = 0  # the results of that step
        labelled = set()
        forced = 0  # ends before readers of values that become leaves
        for k in range(len(self.states)):
            step = record_at(self.states, k)
            if step.program is None:
                if step.n_in == 0 and type(step.prim) is LeafPrimitive:
                    continue
                if not step.is_step:
                    return False
                first, last, order = {}, {}, []
                before = since = 0
                labelled.clear()
                forced = 0
                self.ends.clear()
                self.ends.append(k + 1)
                self.whole = True
                continue
            suited = SUITED.get(step.prim)
            if suited is None:
                suited = SUITED[step.prim] = ASK_["suited"](step.prim)
            if not suited or step.mode.recompute != 0:
                return False
            if labelled and self.reads_any(step, labelled):
                self.ends.append(k)
                since = 0
                labelled.clear()
                forced += 1
            if step.prim.facts.labels_leaf:
                labelled.add(step.first)
            self.find_line(step, k)
            symbol = ((address(self.code) >> 4) << 18) + self.lasti
            if symbol == before:
                if step.prim is head and since and self.reads_between(step, first_made, end_made):
                    self.ends.append(k)
                    since = 0
            else:
                before = symbol
                m = len(order)
                found = first.get(symbol)
                if found is None:
                    first[symbol] = found = m
                f = found
                q = last.get(symbol)
                last[symbol] = m
                if q is not None and since >= least and self.heads(order, q + 1, f):
                    self.ends.append(k)
                    since = 0
                order.append(f)
            prim = step.prim
            head = prim if prim.is_composite else None
            first_made = step.first
            end_made = first_made + step.n_out
            since += 1
        if since:
            self.ends.append(len(self.states))
        return not labelled and (forced == 0 or len(self.ends) > forced + 1 + self.whole)

    def reads_between(self, step, first, end):
        """Whether a step reads a value from `first` to `end` among its first operands."""
        return first <= step.i0 < end or first <= step.i1 < end or first <= step.i2 < end

    def reads_any(self, step, labelled):
        """Whether a step reads any of these values."""
        if step.i0 in labelled or step.i1 in labelled or step.i2 in labelled:
            return True
        return step.rest is not None and not labelled.isdisjoint(step.rest)

    def find_line(self, step, k):
        """Find the user's line of step k: `code` and `lasti`."""
        self.code = step.code
        self.lasti = step.lasti
        if self.sites is not None:
            row = self.sites.get(k)
            if row is not None:
                self.code = row[0]
                self.lasti = row[1]

    def heads(self, order, after, first):
        """Whether no line since a place was first run before the `first`-th run."""
        if len(order) - after > LOOKED:
            return False
        for j in range(after, len(order)):
            if order[j] < first:
                return False
        return True

    def follow(self):
        """Find the last part that reads each value; return how many ops could run side by side.

        These are the ops that have another op of their kind at the same depth, without the first
        of each kind. Ops without operands do not count, nor does a first part that is a path.
        """
        n = len(self.values)
        self.words = ASK_["words"](3 * n)
        self.last = table_of(self.words)
        self.part_of = behind(self.last, n)
        self.place = behind(self.last, 2 * n)
        fill(self.last, 3 * n, -1)
        kinds = set()
        ops = 0
        start = 0
        for p in range(len(self.ends)):
            for k in range(start, self.ends[p]):
                step = record_at(self.states, k)
                if step.n_in == 0:
                    continue
                depth = self.reads(step.i0, p, 0)
                if step.n_in > 1:
                    depth = self.reads(step.i1, p, depth)
                if step.n_in > 2 and step.i2 >= 0:  # steps of backward passes have no third
                    depth = self.reads(step.i2, p, depth)
                if step.rest is not None:
                    for i in step.rest:
                        depth = self.reads(i, p, depth)
                for j in range(step.first, step.first + step.n_out):
                    self.place[j] = depth + 1  # until `want`
                if self.whole and p == 0:
                    continue
                ops += 1
                kinds.add(((address(step.prim) >> 4) << 18) + depth)
            start = self.ends[p]
        return ops - len(kinds)

    def reads(self, i, p, depth):
        """Note that part p reads a value; return the greatest depth of the step's operands."""
        self.last[i] = p
        if self.place[i] > depth:
            return self.place[i]
        return depth

    def want(self, live):
        """Keep the values that are wanted in the end."""
        n = len(self.ends)
        for i in live:
            self.last[i] = n
        fill(self.part_of, len(self.values), -1)

    def place_of(self, i):
        """The place of a value in the part that is taken; a value from outside enters."""
        if self.part_of[i] == self.number:
            return self.place[i]
        v = value_at(self.values, i)
        role = PLAIN
        if v.requires_grad:
            role = LEAF if v.leaf is not None else NODE
        elif v.inference:
            role = INFERENCE
        kind = v.type.kind
        prim = kind.leaves[role]
        index = len(self.own_values)
        state = self.state.child
        if state is None or state.prim is not prim:
            state = None
            if self.state.children is not None:
                state = self.state.children.get((prim, -1, -1, -1, None, None, None))
            if state is None:
                state = State(self.state, prim)
                state.born = COUNTS.flushes
                state.first = index
                state.n_out = 1
                state.requires_grad = role == LEAF or role == NODE
                adopt(self.state, state)
            else:
                self.state.child = state
        self.state = state
        self.own_states.append(state)
        self.own_values.append(v)
        if self.last[i] == self.number and v.trace is not None:
            self.spent.append(v)
        self.part_of[i] = self.number
        self.place[i] = index
        return index

    def take(self, serial):
        """The next part: (job, values to compute)."""
        self.state = self.root
        self.own_states = []
        self.own_values = []
        self.spent = []
        args = []
        live = []
        sites = None
        end = self.ends[self.number]
        if self.whole and self.number == 0:
            return self.take_path(end, serial)
        for k in range(self.begin, end):
            step = record_at(self.states, k)
            if step.program is None:
                continue
            prim = step.prim
            i0 = i1 = i2 = -1
            rest = None
            if step.n_in > 0:
                i0 = self.place_of(step.i0)
            if step.n_in > 1:
                i1 = self.place_of(step.i1)
            if step.n_in > 2:
                i2 = self.place_of(step.i2)
            if step.rest is not None:
                rest = tuple([self.place_of(i) for i in step.rest])
            n = len(prim.size_mask)
            for j in range(step.arg0, step.arg0 + n):
                args.append(self.args[j])
            state = self.child_of(step, prim, i0, i1, i2, rest, args, n)
            self.state = state
            self.find_line(step, k)
            if self.code is not state.code or self.lasti != state.lasti:
                if sites is None:
                    sites = {}
                sites[len(self.own_states)] = (self.code, self.lasti)
            self.own_states.append(state)
            for j in range(step.first, step.first + step.n_out):
                if self.last[j] > self.number:
                    live.append(len(self.own_values))
                self.part_of[j] = self.number
                self.place[j] = len(self.own_values)
                self.own_values.append(value_at(self.values, j))
        job = FlushJob(self.own_states, self.own_values, args, self.state, sites, serial, [], None)
        self.begin = end
        self.number += 1
        return job, live

    def take_path(self, end, serial):
        """The first part, of so many steps, as a separate path: the path begins at the root."""
        step = record_at(self.states, end - 1)
        n = step.first + step.n_out
        sites = None
        if self.sites is not None:
            sites = {k: row for k, row in self.sites.items() if k < end}
        live = [i for i in range(n) if self.last[i] > 0 and value_at(self.values, i).buffer is None]
        state = step if step.linked else None
        job = FlushJob(
            self.states[:end], self.values[:n], self.args, state, sites, serial, [], None
        )
        self.begin = end
        self.number = 1
        return job, live

    def child_of(self, step, prim, i0, i1, i2, rest, args, n_args):
        """The state of a step behind those of the part so far."""
        child = self.state.child
        if (
            child is not None
            and child.prim is prim
            and child.i0 == i0
            and child.i1 == i1
            and child.i2 == i2
            and child.mode is step.mode
            and child.program is step.program
            and child.rest == rest
        ):
            return child
        if self.state.children is not None:
            child = self.state.children.get((prim, i0, i1, i2, rest, step.mode, step.program))
            if child is not None:
                self.state.child = child
                return child
        self.fresh += 1
        child = State(self.state, prim)
        child.born = COUNTS.flushes
        child.many = step.many
        child.i0 = i0
        child.i1 = i1
        child.i2 = i2
        child.rest = rest
        child.n_in = step.n_in
        child.mode = step.mode
        child.program = step.program
        child.first = len(self.own_values)
        child.n_out = step.n_out
        child.arg0 = len(args) - n_args
        child.requires_grad = step.requires_grad
        child.code = step.code
        child.lasti = step.lasti
        child.within = step.within
        t0 = value_at(self.values, step.i0).type if step.n_in > 0 else None
        t1 = value_at(self.values, step.i1).type if step.n_in > 1 else None
        t2 = value_at(self.values, step.i2).type if step.n_in > 2 else None
        more = None
        if step.rest is not None:
            more = [value_at(self.values, i).type for i in step.rest]
        outs = tuple(
            [value_at(self.values, j).type for j in range(step.first, step.first + step.n_out)]
        )
        if step.n_out == 1 and not step.many:
            outs = outs[0]
        set_types(child, t0, t1, t2, more, outs, args[len(args) - n_args :] if n_args else None)
        adopt(self.state, child)
        return child


def count(root, states):
    """Count a part that has been computed: see `core._trie_policy`."""
    count_pass(root, states)
