# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Runs groups of regions on addresses: the native part of `families`.

Compiled by Cython with the types in `_slabs.pxd`; runs as plain Python too, on the stand-ins of
`_slabs_select`.
"""

from wend.runtime._launch import launch_at

ALIGNMENT = 64
WORDS = 2  # of a place: address, bytes a row (0: the same for all)


class Group:
    """Members of one structure that run together.

    alone      one member, or members that are one     by_rows: see `Sorter.nodes`
    n          rows, or places on the stack            lift: places on the stack, 0 for none
    seeds      arrays in which gradients of its values are collected
    seed       address of such an array, for what joins (0 for none)

    What ran it, if that was machine code on addresses: `family`, its `first` row there, the `call`
    of its backward pass.  Else: `template`, run-time `numbers`, `types` of the operands, and
    `arrays` that the backward pass reads.
    """

    def __init__(self, node, members, sorter):
        self.node = node
        self.members = members
        self.seeds = ()
        self.seed = 0
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
    calls      by number of rows: (forward, backward or None), each (frame, made, numbers)
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
        frame, made, numbers = pair[0]
        if launch_at(frame, made, self.table, self.packable, numbers) != 1:
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
        frame, made, numbers = group.call
        if launch_at(frame, made, self.table, self.packable, numbers) != 1:
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


def types_of(values):
    """The types of values: of all of a flush, most of which are not in cache."""
    found = []
    for v in values:
        found.append(v.type)
    return found


def set_zero(address, n):
    """Fill n bytes with zeros."""
    clear(address, n)
