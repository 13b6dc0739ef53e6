"""Runs what is pending off the trie by groups of regions, forward and backward.

A flush of structure that does not come back is sorted natively (see `_sort.py`).  Each group then
gathers the rows that it reads from outside, and runs its structure's functions once.  A backward
pass over what is pending runs at once, group by group in reverse: no node is looked at in Python.
What is not covered here (writes in place, users' functions, a graph that is kept) is left to
others: `Unsuited` is raised before anything has been changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base import config
from wend.base.collecting import CollectionPaused
from wend.core import _hot
from wend.core._hot import Batch, Segment, Value
from wend.runtime import _launch_select, _sort_select
from wend.runtime.batches import note
from wend.runtime.families import SMALL, Family, Room, Unsuited, is_ready, is_wide
from wend.runtime.later import Later, LazyPath, Ledger, run_tail
from wend.runtime.structure import BOOK, ops_of
from wend.runtime.templates import Template
from wend.transforms.history import note_history
from wend.transforms.hooks import retaining

_sort: Any = _sort_select.select()
_launch: Any = _launch_select.select()

#: An op of more operands leaves its flush to another executor.
MOST_OPERANDS = 4096
#: A path of so many ops is run by groups when it is met for the first time, as if off the trie.
LONG = 200
#: Groups of one kind in a flush from which on it pays to get everything ready for all of them.
FEWEST = 2
_NOT_YET: Any = object()
#: Whether a defect shows: else another executor runs what has failed here.
RAISES = False


class Group:
    """Members of one structure that run together."""

    __slots__ = (
        "alone", "arrays", "by_rows", "call", "family", "first", "lift", "members", "n", "node",
        "numbers", "seeds", "table", "template", "types",
    )  # fmt: skip

    alone: bool  # one member, or members that are one
    by_rows: bool
    n: int  # rows, or places on the stack
    lift: int  # places on the stack, 0 for none
    template: Template
    numbers: list[Any]  # run-time args
    types: list[Any]  # of the operands
    arrays: list[Any]  # operands and results that the backward pass reads
    #: The family that has run it; with its first row there, the backward call, addresses.
    family: Family | None
    first: int
    call: Any
    table: list[int]

    def __init__(self, node: Any, members: list[int], sorter: Any) -> None:
        self.node = node
        self.members = members
        self.seeds: list[Any] = []
        self.family = None
        # Members that all read the same are one.
        alone = self.alone = len(members) == 1 or False not in node.shared
        by_rows = self.by_rows = node.rows
        self.n = sorter.total(members) if by_rows else 1 if alone else len(members)
        self.lift = 0 if by_rows or alone else self.n


class Execution:
    """One flush."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.values = batch.values
        n = len(self.values)
        tables = [np.zeros(n, np.int64) for _ in range(7)]
        self.sorter = _sort.Sorter(*tables, np.empty(MOST_OPERANDS, np.int64))
        self.data, self.gradients, self.root, self.offset = (
            tables[4], tables[5], tables[2], tables[3],
        )  # fmt: skip
        self.used = tables[6]
        self.held: dict[int, Any] = {}  # arrays of values that have one of their own
        self.kept: list[Any] = []  # what addresses lead to
        self.groups: list[Group] = []
        self.totals: dict[int, list[Any]] = {}  # gradients of leaves, to be added up
        self.tails: dict[Any, Any] = {}
        self.passed = False  # whether a pass has left gradients in memory
        self.n_reached = 0
        self.families: dict[Any, Family | None] = {}
        self.room = Room()
        if not BOOK.begin():
            raise Unsuited
        before = BOOK.n
        if not self.sorter.scan(BOOK.root, batch.states, self.values, batch.args):
            raise Unsuited
        if not BOOK.learn(BOOK.n - before, len(batch.states), batch.state is not None):
            raise Unsuited
        for i in self.sorter.leaves:
            array = self.held[i] = dense(self.values[i].buffer)
            self.data[i] = _launch.address_of(array)

    # -- forward ----------------------------------------------------------------------------

    def forward(self, wanted: list[int], roots: list[int]) -> None:
        """Compute the wanted values, and what a backward pass from the roots reads."""
        sorter = self.sorter
        for i in (*wanted, *roots):
            self.used[self.root[i]] = 1
        kinds: list[Any] = []
        sorter.mark((*wanted, *roots), roots)
        sizes: dict[int, tuple[int, int, int]] = {}
        for kind, members in sorter.order():
            group = Group(sorter.nodes[members[0]], members, sorter)
            rows, most, many = sizes.get(kind, (0, 0, 0))
            sizes[kind] = (rows + group.n, max(most, group.n), many + 1)
            self.groups.append(group)
            kinds.append(kind)
        for kind, group in zip(kinds, self.groups, strict=True):
            key = (kind, group.n == 1)
            family = self.families.get(key, _NOT_YET)
            if family is _NOT_YET:
                rows, most, many = sizes[kind]
                other = self.families.get((kind, group.n != 1))
                family = self.family_of(group, other, rows, most) if many >= FEWEST else None
                self.families[key] = family
            if family is None or not family.forward(group):
                self.run(group)

    def family_of(self, group: Group, other: Family | None, rows: int, most: int) -> Family | None:
        """What runs groups of this kind on addresses; None if there is no machine code for it.

        other: what runs groups of this kind that have one row, or those that have more
        rows: of all groups     most: of one
        """
        node = group.node
        if False not in node.shared or not (node.rows or group.lift):
            return None
        types = []
        first = group.members[0]
        for k, at in enumerate(self.sorter.operands[first]):
            type_ = self.values[at].type
            if not node.shared[k]:
                shape = (group.n, *type_.dims[1:]) if node.rows else (group.n, *type_.dims)
                type_ = _hot.intern_type(shape, type_.dtype, type_.device)
            types.append(type_)
        entry = self.template_of(group, types)
        group.template = entry[0]
        if not is_ready(entry[0]):
            return None
        if other is not None and other.template is entry[0]:
            return other
        try:
            return Family(self, group, types, entry, rows, most)
        except LookupError:
            return None

    def template_of(self, group: Group, types: list[Any]) -> Any:
        """(template, run-time args, bound calls) of a group's structure."""
        node, first = group.node, group.members[0]
        mask = node.mask if node.smooth or node.single else self.mask_of(first)
        return find_template(group, types, mask, self.sorter.reached[first], self)

    def take_snapshots(self) -> None:
        """Copy what somebody else may write to before the backward pass reads it."""
        for i in self.sorter.leaves:
            value = self.values[i]
            if value.extra is not None:
                if self.values is self.batch.values:
                    self.values = list(self.values)
                array = self.held[i] = np.array(value.buffer, order="C")
                self.data[i] = _launch.address_of(array)
                self.values[i] = same = _hot.held(value.type, array)
                same.leaf, same.segment, same.seg_index = value.leaf, value.segment, value.seg_index
                same.requires_grad = value.requires_grad

    def run(self, group: Group) -> None:
        """Gather what a group reads and compute its values."""
        sorter, node, members = self.sorter, group.node, group.members
        first = members[0]
        if node.joined:
            self.lay(group, first)
            return
        alone, by_rows = group.alone, group.by_rows
        arrays, types = [], []
        for k, at in enumerate(sorter.operands[first]):
            type_ = self.values[at].type
            if node.shared[k] or alone:
                # A value from outside may have been packed for products.
                outside = sorter.region[at] == -1
                array = self.values[at] if outside else self.array(at)
            else:
                shape = (group.n, *type_.dims[1:]) if by_rows else (group.n, *type_.dims)
                array = np.empty(shape, type_.dtype.numpy)
                size = array.nbytes // group.n
                sorter.gather(members, k, size, _launch.address_of(array), by_rows)
                type_ = _hot.intern_type(shape, type_.dtype, type_.device)
            arrays.append(array)
            types.append(type_)
        template, group.numbers, _ = self.template_of(group, types)
        group.template = template
        group.types = types
        results = template.forward(arrays, types, group.numbers)
        for k, local in enumerate(template.exported):
            result = results[k] = dense(results[k])
            size = 0 if alone else result.nbytes // group.n
            sorter.place(members, local, size, _launch.address_of(result), by_rows, False)
            if alone:
                for i in members:
                    self.held[sorter.made[i][local]] = result
            else:
                self.kept.append(result)
        if template.keeps:
            everything = arrays + results
            group.arrays = [x if i in template.keeps else None for i, x in enumerate(everything)]
            self.make_seeds(group, results)

    def lay(self, group: Group, i: int) -> None:
        """Lay the operands of a region that joins one behind the other."""
        sorter = self.sorter
        (at,) = sorter.made[i]
        type_ = self.values[at].type
        array = self.held[at] = np.empty(type_.dims, type_.dtype.numpy)
        self.data[at] = address = _launch.address_of(array)
        sorter.lay(i, self.values, address)
        if sorter.reached[i] and sorter.grads[i] and type_.dtype.category >= 2:
            seed = np.zeros(type_.dims, type_.dtype.numpy)
            group.seeds.append(seed)
            self.gradients[at] = _launch.address_of(seed)

    def share_out(self, group: Group) -> None:
        """Push the gradient of what was joined back to its parts."""
        (i,) = group.members
        for base in self.sorter.joined_leaves(i):
            self.make_leaf_gradient(base)
        for seed in group.seeds:
            self.sorter.share_out(i, self.values, _launch.address_of(seed), is_wide(seed.dtype))

    def make_seeds(self, group: Group, results: list[Any]) -> None:
        """Memory for the gradients of a group's values."""
        template = group.template
        for k, on in enumerate(template.given):
            if on:
                seed = np.zeros(results[k].shape, results[k].dtype)
                group.seeds.append(seed)
                size = 0 if group.alone else seed.nbytes // group.n
                self.sorter.place(
                    group.members,
                    template.exported[k],
                    size,
                    _launch.address_of(seed),
                    group.by_rows,
                    True,
                )

    def mask_of(self, i: int) -> int:
        """Which values of a region are read outside of it."""
        return sum(1 << k for k, at in enumerate(self.sorter.made[i]) if self.used[at])

    def address(self, at: int) -> int:
        """Where a value lies."""
        return int(self.data[self.root[at]] + self.offset[at])

    def array(self, at: int) -> Any:
        """A value as an array."""
        base = int(self.root[at])
        array = self.held.get(base)
        type_ = self.values[at].type
        if base == at and array is not None:
            return array
        made = np.empty(type_.dims, type_.dtype.numpy)
        _sort.copy_bytes(_launch.address_of(made), self.address(at), made.nbytes)
        return made

    # -- backward ---------------------------------------------------------------------------

    def backward(self, seeds: dict[int, Any]) -> list[tuple[int, Any]]:
        """Gradients of values from outside, for those of the roots (None for ones)."""
        reached = self.sorter.reached
        self.push_back(seeds, [reached[group.members[0]] for group in self.groups])
        for tail in self.tails.values():
            self.finish_tail(*tail)
        return self.sums()

    def push_back(self, seeds: dict[int, Any], through: list[bool]) -> None:
        """Run the backward functions, of some groups; what gradients of parameters read is left."""
        for i, seed in seeds.items():
            self.add_seed(i, seed)
        # What waits for all groups of a family is made by each of them.
        passed = [group.family for group, on in zip(self.groups, through, strict=True) if on]
        families = dict.fromkeys(passed)  # in order: sums are the same from run to run
        for group, on in zip(reversed(self.groups), reversed(through), strict=True):
            if group.family is not None:
                if group.family in families:
                    group.family.backward(group)
            elif on and group.node.joined:
                self.share_out(group)
            elif on and group.template.n_given:
                self.back(group)
        for family in families:
            if family is not None and family.used and family.waiting:
                self.put_off(
                    family.node, family.template, family.sources, family.numbers, family.kept()
                )

    def sums(self) -> list[tuple[int, Any]]:
        """Gradients of values from outside."""
        found = []
        for i, parts in sorted(self.totals.items()):
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            found.append((i, dense(total)))
        return found

    def reach(self, seeds: list[int]) -> tuple[set[int], set[int]] | None:
        """The regions that gradients of these values flow through, and the values from outside
        that they come to; None if that is not told.

        Where a derivative may be infinite, a gradient of 0 is not the same as none.
        """
        marks, ends = self.sorter.flow(seeds)
        ends.update(base for base in (int(self.root[i]) for i in seeds) if self.is_outside(base))
        rough: dict[Any, set[bool]] = {}
        for group in self.groups:
            if not group.node.smooth:
                key = group.family or group
                rough.setdefault(key, set()).update([marks[i] for i in group.members])
        if any(len(found) > 1 for found in rough.values()):
            return None
        return {i for i, on in enumerate(marks) if on}, ends

    def backward_again(
        self, seeds: dict[int, Any], reached: set[int], ends: set[int], ledger: Ledger
    ) -> list[tuple[int, Any]]:
        """As `backward`, through some regions, of a flush that is kept: leaves go to the ledger.

        reached, ends: see `reach`
        """
        if self.passed:
            for group in self.groups:
                for seed in group.seeds:
                    seed.fill(0)
            for family in set(self.families.values()):
                if family is not None:
                    family.clear()
        self.passed = True
        self.totals = {}
        for i in self.sorter.leaves:
            self.gradients[i] = 0
        through = [not reached.isdisjoint(group.members) for group in self.groups]
        self.push_back(seeds, through)
        ledger.put_off(self)
        found = []
        for i, g in self.sums():
            value = self.values[i]
            if i not in ends:
                continue  # of members of the groups that no gradient flows through
            if value.leaf is None:
                found.append((i, g))
            else:
                ledger.add(value, g)
        return found

    def is_outside(self, at: int) -> bool:
        """Whether a value has entered the trace."""
        return bool(self.sorter.region[at] == -1)

    def summary(self) -> list[Any]:
        """Its groups, for whoever asks what was grouped (`batches.Noted`)."""
        made = self.sorter.made
        return [(g.node, len(g.members), g.n, g.alone, made[g.members[0]][0]) for g in self.groups]

    def covers(self, roots: list[int]) -> bool:
        """Whether the backward pass goes through all that these values depend on."""
        region, reached = self.sorter.region, self.sorter.reached
        regions = [region[self.root[i]] for i in roots]
        return all(g >= 0 and reached[g] for g in regions)

    def check_gradients(self) -> None:
        """Raises Unsuited if a later backward pass would add gradients of a type that it cannot."""
        made = self.sorter.made
        results = [at for group in self.groups for at in made[group.members[0]]]
        for i in (*results, *self.sorter.leaves):
            value = self.values[i]
            if value.requires_grad:
                is_wide(value.type.dtype.numpy)

    def add_seed(self, i: int, seed: Any) -> None:
        """Add the gradient of a root to where gradients of it are collected."""
        type_ = self.values[i].type
        base = int(self.root[i])
        if self.is_outside(base):  # a view of what the flush began with
            self.make_leaf_gradient(base)
        target = int(self.gradients[base])
        if target == 0:
            return
        if seed is None:
            seed = np.ones(type_.dims, type_.dtype.numpy)
        seed = dense(np.asarray(seed))
        _sort.add_bytes(
            target + int(self.offset[i]), _launch.address_of(seed), seed.nbytes, is_wide(seed.dtype)
        )

    def back(self, group: Group) -> None:
        """Push the gradients of a group's values back to what it read."""
        template, sorter, members = group.template, self.sorter, group.members
        if not template.keeps:
            return
        types = template.gradient_types(group.types, group.numbers)
        arrays = group.arrays + group.seeds
        found: list[Any] = []
        if template.backward is not None:
            found = template.backward(arrays, types, group.numbers)
        operands = sorter.operands[members[0]]
        for k, g in zip(template.targets, found):
            g = dense(g)
            if template.grows[k] and not group.alone:
                for base in sorter.leaves_of(members, k):
                    self.make_leaf_gradient(base)
                size = g.nbytes // group.n
                wide = is_wide(g.dtype)
                sorter.scatter(members, k, size, _launch.address_of(g), group.by_rows, wide)
            else:
                self.add_to(operands[k], g)
        if template.late:
            made = iter(found[len(template.targets) :])
            kept = [arrays[i] if i >= 0 else next(made) for i in template.border]
            self.put_off(group.node, template, operands, group.numbers, kept)

    def put_off(
        self, node: Any, template: Template, operands: list[int], numbers: Any, kept: list[Any]
    ) -> None:
        """Keep what the gradients of parameters read, for the operands of one of the members."""
        shared = tuple([at for at, on in zip(operands, template.grows, strict=True) if not on])
        key = (node, template, shared)
        entry = self.tails.get(key)
        if entry is None:
            targets = [operands[k] for k in template.late]
            entry = self.tails[key] = (template, [[] for _ in kept], targets, numbers)
        for slab, array in zip(entry[1], kept, strict=True):
            slab.append(array)

    def finish_tail(
        self, template: Any, slabs: Any, targets: list[int], numbers: list[Any]
    ) -> None:
        """The gradients of parameters, over the rows of all groups."""
        for at, g in zip(targets, run_tail(template, slabs, numbers), strict=True):
            self.add_to(at, g)

    def add_to(self, at: int, g: Any) -> None:
        """Add to the gradient of one value."""
        base = int(self.root[at])
        if self.sorter.region[base] == -1:
            if base == at:
                self.totals.setdefault(base, []).append(g)
                return
            self.make_leaf_gradient(base)
        target = int(self.gradients[base])
        if target:
            g = dense(g)
            at_byte = target + int(self.offset[at])
            _sort.add_bytes(at_byte, _launch.address_of(g), g.nbytes, is_wide(g.dtype))

    def make_leaf_gradient(self, base: int) -> None:
        """Memory for the gradient of a value from outside."""
        if self.gradients[base] == 0 and self.values[base].requires_grad:
            type_ = self.values[base].type
            made = np.zeros(type_.dims, type_.dtype.numpy)
            self.totals.setdefault(base, []).append(made)
            self.gradients[base] = _launch.address_of(made)

    # -- what comes of it -------------------------------------------------------------------

    def finish(self, wanted: list[int]) -> None:
        """Hand the wanted values their arrays."""
        results = {}
        for i in wanted:
            value = self.values[i]
            if value.buffer is None:
                array = self.held.get(i)
                if array is None or array.base is not None or value.extra is not None:
                    array = self.copy_of(i)
                results[i] = array
        for i, array in results.items():
            self.values[i].buffer = array

    def copy_of(self, i: int) -> Any:
        """A value as an array of its own."""
        type_ = self.values[i].type
        made = np.empty(type_.dims, type_.dtype.numpy)
        _sort.copy_bytes(_launch.address_of(made), self.address(i), made.nbytes)
        return made

    def leave_spent(self, wanted: list[int]) -> None:
        """A second backward pass from what is left finds the graph freed."""
        self.leave_segment(self.open_roots(wanted), LazyPath(self.batch))

    def leave_open(self, wanted: list[int]) -> None:
        """Let a later backward pass find the way on from here."""
        roots = self.open_roots(wanted)
        path = LazyPath(self.batch)
        self.n_reached = sum(self.sorter.reached)
        self.values = values = list(self.values)
        path.wait(Later(self, roots, {i: values[i] for i in self.sorter.leaves}))
        segment = self.leave_segment(roots, path)
        note_history(segment, self.batch)
        for i in roots:  # they lead here: what they lead to must not lead back
            values[i] = _hot.held(values[i].type, None)
        del self.batch  # its values lead here as well

    def open_roots(self, wanted: list[int]) -> list[int]:
        """Those of the values that a later backward pass may begin with."""
        values = self.values
        return [i for i in wanted if values[i].requires_grad and values[i].leaf is None]

    def leave_segment(self, roots: list[int], path: LazyPath) -> Any:
        """Mark the roots as results of a segment; returns it."""
        if not roots:
            return None
        batch, values = self.batch, self.values
        segment = Segment(_hot.fresh_serial(), path)
        segment.origin = batch.serial
        segment.types = path.types_of_values
        segment.args = batch.args
        segment.inputs = {}
        for i in self.sorter.leaves:
            value = values[i]
            if value.requires_grad:
                slim = _hot.held(value.type, None)
                slim.leaf, slim.segment = value.leaf, value.segment
                slim.seg_index = value.seg_index
                slim.requires_grad = True
                segment.inputs[i] = slim
        segment.saved = {}
        segment.sites = batch.sites
        for i in roots:
            values[i].segment = segment
            values[i].seg_index = i
        return segment


def dense(array: Any) -> Any:
    """A C-contiguous array of the same elements (or those of a value)."""
    if type(array) is Value:
        array = array.buffer
    if type(array) is np.ndarray and array.flags.c_contiguous and array.flags.aligned:
        return array
    array = np.asarray(array)
    return np.ascontiguousarray(array).reshape(array.shape)


def find_template(
    group: Group, types: list[Any], mask: int, grad: bool, run: Execution
) -> tuple[Template, list[Any], dict[int, Any]]:
    """The template of a group's structure, the group's run-time args, and calls bound to sizes.

    A node keeps those it has used, by what else tells them apart; those of other sizes are shared.
    """
    node = group.node
    few = group.n == 1 if group.by_rows else group.lift == 0
    short = (few, mask, grad)
    if node.template is None:
        node.template = {}
    found = node.template.get(short)
    if found is None:
        template = make_template(group, types, mask, grad, run)
        numbers = [a for op in ops_of(node) for a in op.args]
        found = node.template[short] = (template, numbers, {})
    return found  # type: ignore[no-any-return]


def make_template(
    group: Group, types: list[Any], mask: int, grad: bool, run: Execution
) -> Template:
    """A template, or the one that another node of the same structure has."""
    node = group.node
    nodes = ops_of(node)
    if group.lift:
        types = [run.values[at].type for at in run.sorter.operands[group.members[0]]]
    key = (structure_key(nodes, types), group.lift > 0, node.rows, node.shared, mask, grad)
    found: Template | None = BOOK.templates.get(key)
    if found is None:
        with CollectionPaused():
            found = BOOK.templates[key] = Template(node, types, group.lift, mask, grad)
    return found


def structure_key(nodes: list[Any], types: list[Any]) -> Any:
    """What two regions of one structure have in common, whatever their sizes."""
    concrete: dict[int, Any] = dict(enumerate(types))
    parts: list[Any] = []
    n = 0
    for op in nodes:
        ins = [concrete[ref - (1 << 20)] if ref >= 0 else concrete[-1 - ref] for ref in op.refs]
        program, outs = op.prim.typed(ins, list(op.args))
        parts.append((program, op.refs, op.kinds, tuple([type(a) for a in op.args]), op.grad))
        for out in outs:
            concrete[n - (1 << 20)] = out
            n += 1
    return tuple(parts)


#: The backward pass that the flush under way is to do: (execution, seeds, what it finds).
_ASKED: list[Any] = []


def backward_at_once(trace: Any, seeds: dict[int, Any]) -> list[tuple[Any, Any]] | None:
    """As `run_backward`, with all that is pending in memory: nothing of it is garbage before."""
    with CollectionPaused():
        return run_backward(trace, seeds)


def run_backward(trace: Any, seeds: dict[int, Any]) -> list[tuple[Any, Any]] | None:
    """Compute what is pending and the gradients that flow from the seeds (slot of `grad`).

    seeds: gradients (None for ones) by index.  Returns (value from outside, gradient) pairs; None
    if nothing was done, because another executor has to run this.
    """
    if trace.eager or not allowed() or not once_only(trace.state, trace.states):
        return None
    given = {}
    for i, g in seeds.items():
        if g is not None and _hot.value_of(g).buffer is None:
            return None
        given[i] = None if g is None else _hot.value_of(g).buffer
    batch = Batch(trace.states, trace.values, trace.args, trace.state, trace.sites, 0, [], None)
    try:
        execution = Execution(batch)
    except Unsuited:
        return None
    values = trace.values
    found: list[Any] = []
    _ASKED.append((execution, given, found))
    try:
        _hot.flush(trace)
    finally:
        _ASKED.clear()
    if not found:
        return None
    return [(values[i], _hot.wrap(_hot.held(values[i].type, g))) for i, g in found[0]]


def once_only(state: Any, states: list[Any]) -> bool:
    """Whether a path may never come back: one off the trie, and a long one that is new there.

    To find out how to run a path by itself takes far longer than running it by groups, once.
    """
    return state is None or (state.passed == 0 and len(states) >= LONG)


def allowed() -> bool:
    """Whether work may be batched, in an order that depends on what else there is."""
    settings = config.settings
    return settings.autobatch and not settings.verify and not settings.deterministic


def run_regions(batch: Batch, live: list[int]) -> bool:
    """Compute the live values of a flush by groups; False if another executor has to."""
    if not allowed() or not once_only(batch.state, batch.states):
        return False
    asked = _ASKED.pop() if _ASKED else None
    values = batch.values
    open_roots = [i for i in live if values[i].requires_grad and values[i].leaf is None]
    if asked is None and open_roots and (batch.extra is not None or retaining()):
        return False  # a later backward pass needs to know of single nodes
    with CollectionPaused(), np.errstate(all="ignore"):
        try:
            if asked is None:
                execution, seeds = Execution(batch), dict.fromkeys(open_roots)
                if open_roots:
                    execution.take_snapshots()
                    execution.room.block = SMALL
            else:
                execution, seeds, found = asked
                execution.batch = batch
            execution.forward(live, list(seeds))
            if asked is None and open_roots:
                execution.check_gradients()
            if asked is not None:
                if not execution.covers(open_roots):
                    return False
                gradients = execution.backward(seeds)
            execution.finish(live)
            note(batch.states, batch.sites, execution.summary())
            if asked is None and open_roots:
                execution.leave_open(live)
                return True
            execution.room.free()
            if asked is not None:
                execution.leave_spent(live)
                found.append(gradients)
            return True
        except Unsuited:
            return False
        except Exception:
            if RAISES:
                raise
            return False


def follow_settings() -> None:
    """Tell the core whether more work should wait so that it runs together."""
    _hot.set_autobatch(config.settings.autobatch)


config.settings.on_change(follow_settings)
follow_settings()
_hot.set_slot("backward_at_once", backward_at_once)
