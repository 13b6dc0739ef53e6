"""The forward pass of a flush off the trie, run by groups, and the segment that the flush leaves.

Each group gathers the rows that it reads from outside, and runs its structure's functions once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import config
from wend._engine.base.devices import CPU, accelerator_among, device
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, Segment, Value
from wend._engine.runtime.backend import NoMachineCode
from wend._engine.runtime.batching import _grouper_select, _slabs_select
from wend._engine.runtime.batching.deferred_backward import (
    DeferredBackward,
    LazyPath,
    late_path_of,
    lazy_path_of,
)
from wend._engine.runtime.batching.noted import Groups
from wend._engine.runtime.batching.signatures import SINGLES, TERM, RegionTrie, book_at, ops_of
from wend._engine.runtime.batching.slabs import (
    DeviceSlabs,
    Family,
    GroupFields,
    GroupRunner,
    SlabAllocator,
    SlabLayout,
    Unsuited,
    is_ready,
    is_wide,
)
from wend._engine.runtime.batching.templates import Template, template_for
from wend._engine.runtime.devices.moves import ADD, CLEAR, COPY, make_moves, move_piece
from wend._engine.runtime.devices.queue import Accelerator, accelerator_at
from wend._engine.runtime.native import _launch_select
from wend._engine.transforms.history import note_history

if TYPE_CHECKING:
    from numpy.typing import NDArray

_grouper: ModuleType = _grouper_select.select()
_launch: ModuleType = _launch_select.select()
_slabs: ModuleType = _slabs_select.select()
#: Most bytes that the only region of a structure in a flush may read, if it is run by native code
#: as a stack of height 1: the operands have to be copied for that.
MOST_COPIED = 1 << 14


class Forward:
    """A flush run by groups: computes values, and leaves a segment for a later backward pass.

    book: the trie of the flush's regions
    accelerator: runs the groups; None for the processor
    """

    def __init__(self, batch: FlushJob) -> None:
        place = accelerator_among(v.type for v in batch.values)
        self.book = book = self.find_book(place)
        self.accelerator: Accelerator | None = None if place is None else accelerator_at(place)
        self.place = place or CPU
        self.batch = batch
        self.values = batch.values
        n, self.n_steps = len(self.values), len(batch.states)
        self.words = words = np.empty(_grouper.words_for(n, self.n_steps), np.int64)
        self.sorter = _grouper.Grouper(words, n, self.n_steps)
        self.region = words[:n]
        self.root, self.offset = words[2 * n : 3 * n], words[3 * n : 4 * n]
        self.data, self.gradients = words[4 * n : 5 * n], words[5 * n : 6 * n]
        self.held: dict[int, Any] = {}  # by value, the array of a value with an array of its own
        self.kept: list[Any] = []  # arrays kept alive, as only addresses refer to these
        self.groups: list[Any] = []
        self.totals: dict[int, list[Any]] = {}  # by leaf, gradients that are to be added up
        self.tails: dict[Any, Any] = {}
        self.passed = False  # whether a backward pass has left gradients in memory
        self.n_reached = 0
        self.with_gradients = False  # whether a backward pass follows
        self.room = SlabAllocator() if place is None else DeviceSlabs(accelerator_at(place))
        before = book.n
        states, merges = batch.states, book is not SINGLES
        if not self.sorter.scan(book.root, states, self.values, batch.args, merges):
            raise Unsuited("an op cannot be run in groups")
        if not book.learn(book.n - before, len(batch.states), batch.state is not None):
            raise Unsuited("most of its ops have not come in this order before")
        for i in self.sorter.leaves:
            array = self.values[i].buffer
            address = _launch.address_of(array)
            if address == -1:
                array = dense(array)
                address = _launch.address_of(array)
            if self.accelerator is not None:
                array = self.accelerator.resident(self.values[i], array, address)
                address = _launch.address_of(array)
            self.held[i] = array
            self.data[i] = address

        self.sorter.away = self.accelerator is not None

    def make_moves(self, wide: bool = False) -> None:
        """Have the device make the moves of rows that the sorter has noted.

        wide: whether elements that are added are of float64, not float32
        """
        moves = self.sorter.take_moves()
        if moves is not None:
            assert self.accelerator is not None
            make_moves(self.accelerator, moves.reshape(-1, 4), wide)

    def move(self, kind: int, target: int, source: int, n: int, wide: bool = False) -> None:
        """Clear, copy or add n bytes at once, where the flush runs.

        kind: of `devices.moves`
        wide: see `make_moves`
        """
        if self.accelerator is not None:
            self.make_moves()  # those that were noted come before
            move_piece(self.accelerator, kind, target, source, n, wide)
        elif kind == ADD:
            _grouper.add_bytes(target, source, n, wide)
        else:
            self.sorter.move(kind, target, source, n)

    def find_book(self, place: device | None) -> RegionTrie:
        """Return the trie of the flush's regions."""
        return book_at(place)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an array without a content, where the flush runs."""
        if self.accelerator is None:
            return np.empty(shape, dtype)
        made: NDArray[Any] = self.accelerator.empty(shape, dtype)
        return made

    def mark(self, wanted: list[int], roots: list[int]) -> None:
        """Mark the values to compute: the wanted ones, and those that a backward pass reads.

        roots: the values that the backward pass begins at
        """
        self.sorter.mark((*wanted, *roots), roots)
        self.with_gradients = bool(roots)

    def quiet(self) -> AbstractContextManager[Any]:
        """Return a context in which NumPy does not warn of infinities.

        An accelerator is waited for at the end. Raises KernelFailure.
        """
        accelerator = None if config.settings.verify else self.accelerator  # checks read at once
        context = ExitStack()
        context.enter_context(np.errstate(all="ignore"))
        if accelerator is not None:
            context.enter_context(accelerator.queued())
        return context

    def settle(self) -> None:
        """Wait for the device, so that Python may read results."""
        if self.accelerator is not None:
            self.accelerator.settle()

    def forward(self) -> None:
        """Compute the marked values."""
        order = self.sorter.order(self.book.flushes // TERM)
        _slabs.run_groups(self, self.sorter, self.groups, order, is_wide, Family)

    def family_of(
        self, group: GroupFields, other: Family | None, rows: int, most: int
    ) -> Family | None:
        """Return a `Family` that runs groups of this kind on addresses.

        None if there is no machine code, or if reading the operands in place is better.

        group: a group of the kind
        other: the family for groups of a single row if these have more rows, or the reverse
        rows: number of rows of all groups
        most: most rows of a group
        """
        node = group.node
        if False not in node.shared or group.n == 0:
            return None
        stacked = node.rows or group.lift
        if stacked and group.alone and rows == group.n:
            return None  # a single group of a single member reads the operands in place
        entry = self.entry_of(group, None) if stacked else self.entry_of_several(group)
        if entry is None:
            return None
        if entry.layout is None:
            if not is_ready(entry.template):
                return None
            try:
                entry.layout = SlabLayout(entry, self.types_of(group), group.n)
            except NoMachineCode:  # the structure has no layout by rows: groups run singly
                entry.layout = False
        if not entry.layout or entry.calls_for(group.n) is None:
            return None
        if other is not None and other.template is entry.template:
            return other
        return Family(self, group, entry, rows, most)

    def entry_of_several(self, group: GroupFields) -> GroupRunner | None:
        """Return the runner of stacks, if the group's only member may run as a stack of height 1.

        None if no stack of this structure has run before, or if the operands are too large to copy.
        """
        node = group.node
        found: GroupRunner | None = (node.template or {}).get(self.traits_of(group, False))
        if found is None or type(found.layout) is not SlabLayout:
            return None
        return found if self.is_small(group) else None

    def is_small(self, group: GroupFields) -> bool:
        """Whether the operands of a group's only member may be copied into a stack."""
        shared, first = group.node.shared, group.leader
        types = [self.values[at].type for at in self.sorter.operands_of(first)]
        copied = [t.nbytes for t, same in zip(types, shared, strict=True) if not same]
        return len(copied) > 0 and sum(copied) <= MOST_COPIED

    def traits_of(self, group: GroupFields, few: bool) -> tuple[bool, int, bool]:
        """Return the key of a node's runner: (few, mask of values read outside, whether reached).

        few: whether the group has a single row, or is not stacked
        """
        node, first = group.node, group.leader
        mask = node.mask if node.smooth or node.single else self.mask_of(first)
        return few, mask, self.sorter.reached[first]

    def types_of(self, group: GroupFields) -> list[Any]:
        """Return the types of a group's operands, of all members together, where these are read."""
        node, found = group.node, []
        for k, at in enumerate(self.sorter.operands_of(group.leader)):
            type_ = self.values[at].type
            shape = type_.dims
            if not (node.shared[k] or group.alone):
                shape = (group.n, *shape[1:]) if group.by_rows else (group.n, *shape)
            found.append(_types.intern_type(shape, type_.dtype, self.place))
        return found

    def entry_of(self, group: GroupFields, types: list[Any] | None) -> GroupRunner:
        """Return the runner of a group's structure; a node keeps its runners by `traits_of`.

        types: the types from `types_of`, if known
        """
        node = group.node
        short = self.traits_of(group, group.n == 1 if group.by_rows else group.lift == 0)
        if node.template is None:
            node.template = {}
        found: GroupRunner | None = node.template.get(short)
        if found is None:
            numbers = [a for op in ops_of(node) for a in op.args]
            types = types or self.types_of(group)
            template = make_template(group, types, numbers, *short[1:], self)
            found = node.template[short] = GroupRunner(template, numbers)
        return found

    def numbers_of(self, group: GroupFields, entry: GroupRunner) -> list[Any]:
        """Return the run-time args of a group's ops."""
        if group.node.free is None:
            return entry.numbers
        numbers: list[Any] = self.sorter.numbers_of(group.leader)
        return numbers

    def runner_in_place(self, group: GroupFields) -> GroupRunner | None:
        """Return a runner of the group's only member, for operands of just these types.

        The operands are read in place.  A runner with a layout of False cannot run on addresses;
        None if there is no machine code yet.
        """
        types = self.types_of(group)
        entry = self.entry_of(group, types)
        if not is_ready(entry.template):
            return None
        found = GroupRunner(entry.template, self.numbers_of(group, entry))
        try:
            found.layout = SlabLayout(found, types, 0)
            if found.layout.nbytes > MOST_COPIED or found.calls_for(group.n) is None:
                found.layout = False
        except (NoMachineCode, Unsuited):  # no way on addresses: the group runs on arrays
            found.layout = False
        return found

    def take_snapshots(self) -> None:
        """Copy leaves that may be written to before the backward pass reads these."""
        for i in self.sorter.leaves:
            value = self.values[i]
            if value.extra is not None:
                if self.values is self.batch.values:
                    self.values = list(self.values)
                array = self.held[i] = self.empty(value.type.dims, value.type.dtype.numpy)
                np.copyto(array, value.buffer)
                self.data[i] = _launch.address_of(array)
                self.values[i] = same = _hot.slim(value)
                same.buffer, same.requires_grad = array, value.requires_grad

    def run(self, group: GroupFields) -> None:
        """Gather a group's operands and compute its values.  Raises Unsuited without rows."""
        if group.n == 0:
            raise Unsuited("a group has no rows")
        sorter, node, members = self.sorter, group.node, (group.at, group.count)
        alone, by_rows = group.alone, group.by_rows
        arrays, types = [], self.types_of(group)
        for k, at in enumerate(sorter.operands_of(group.leader)):
            if node.shared[k] or alone:
                # A value from outside may have been packed for products.
                packs = self.is_outside(at) and self.accelerator is None
                array = self.values[at] if packs else self.array(at)
            else:
                array = self.empty(types[k].dims, types[k].dtype.numpy)
                size = array.nbytes // group.n
                sorter.gather(*members, k, size, _launch.address_of(array), by_rows)
            arrays.append(array)
        self.make_moves()
        entry = self.entry_of(group, types)
        template, group.numbers = entry.template, self.numbers_of(group, entry)
        group.template = template
        group.types = types
        results = template.forward(arrays, types, group.numbers)
        for k, local in enumerate(template.exported):
            result = dense(results[k])
            if self.accelerator is not None:
                result = self.accelerator.copied(result)
            results[k] = result
            size = 0 if alone else result.nbytes // group.n
            sorter.place(*members, local, size, _launch.address_of(result), by_rows, False)
            if alone:
                for i in sorter.members_of(*members):
                    self.held[sorter.made_of(i)[local]] = result
            else:
                self.kept.append(result)
        if template.gives:
            everything = arrays + results
            group.arrays = [x if i in template.keeps else None for i, x in enumerate(everything)]
            self.make_seeds(group, results)

    def lay(self, group: GroupFields) -> None:
        """Lay the operands of a join end to end."""
        _slabs.lay(group, self.sorter, self, self.values, is_wide)

    def make_seeds(self, group: GroupFields, results: list[Any]) -> None:
        """Make memory for the gradients of a group's values."""
        template = group.template
        group.seeds = []
        for k, on in enumerate(template.given):
            if on:
                seed = self.empty(results[k].shape, results[k].dtype)
                self.sorter.move(CLEAR, _launch.address_of(seed), 0, seed.nbytes)
                group.seeds.append(seed)
                size = 0 if group.alone else seed.nbytes // group.n
                self.sorter.place(
                    group.at,
                    group.count,
                    template.exported[k],
                    size,
                    _launch.address_of(seed),
                    group.by_rows,
                    True,
                )
        self.make_moves()

    def mask_of(self, i: int) -> int:
        """Return the values of region i that are read outside of the region, as bits."""
        return int(self.sorter.mask_of(i))

    def address(self, at: int) -> int:
        """Return the address of a value."""
        found: int = self.sorter.address_of(at)
        return found

    def array(self, at: int) -> Any:
        """Return a value as an array."""
        base = int(self.root[at])
        array = self.held.get(base)
        if base == at and array is not None:
            return array
        address, type_ = self.address(at), self.values[at].type
        if self.room.holds(address) is None:
            return self.copy_of(at)
        return self.room.view(address, type_.dims, type_.dtype.numpy)

    def own(self, regions: set[int]) -> set[int]:
        """Return those regions that a single backward pass may go through.

        A region that stands for equal ops of several calls is passed for each of these.
        """
        found: set[int] = regions - self.sorter.merged
        return found

    def is_outside(self, at: int) -> bool:
        """Whether a value has entered the trace from outside."""
        return bool(self.region[at] == -1)

    # -- results and the segment -----------------------------------------------------------

    def told(self) -> tuple[Groups, Callable[[], dict[int, int]]]:
        """Return functions that list the groups, and which makes each value (`report.Noted`)."""
        groups, members = _slabs.told(self.groups), self.sorter.sequence.words
        n, m = len(self.region), self.n_steps + 1
        made, starts = self.words[7 * n : 8 * n].copy(), self.words[8 * n + 5 * m :][:m].copy()
        return partial(groups_told, groups, made, starts), partial(
            owners_told, groups, members[2 * len(members) // 3 :], made, starts
        )

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

    def copy_of(self, i: int) -> NDArray[Any]:
        """Return a copy of a value as an array of its own."""
        type_ = self.values[i].type
        made = self.empty(type_.dims, type_.dtype.numpy)
        self.move(COPY, _launch.address_of(made), self.address(i), made.nbytes)
        return made

    def leave_spent(self, wanted: list[int]) -> None:
        """Leave a segment that is used up: a second backward pass finds the graph freed."""
        roots = self.open_roots(wanted)
        if roots:
            types: list[Any] = []
            self.leave_segment(roots, late_path_of(self.batch, self.sorter.leaves, types), types)

    def leave_open(self, wanted: list[int]) -> None:
        """Leave a segment that a later backward pass can go through."""
        roots = self.open_roots(wanted)
        types = _slabs.types_of(self.values)
        path = lazy_path_of(self.batch, types)
        self.n_reached = len(self.own({i for i, on in enumerate(self.sorter.reached) if on}))
        self.values = values = list(self.values)
        path.wait(DeferredBackward(self, roots, {i: values[i] for i in self.sorter.leaves}))
        segment = self.leave_segment(roots, path, types)
        note_history(segment, self.batch)
        for i in roots:  # the roots refer to this execution: referring back would be a cycle
            values[i] = _hot.held(values[i].type, None)
        del self.batch  # the batch's values refer to this execution as well

    def open_roots(self, wanted: list[int]) -> list[int]:
        """Return the wanted values that a later backward pass may begin with."""
        values = self.values
        return [i for i in wanted if values[i].requires_grad and values[i].leaf is None]

    def leave_segment(self, roots: list[int], path: LazyPath, types: list[Any]) -> Segment:
        """Mark the roots as results of a new segment, and return the segment.

        roots: at least one value
        types: gets the types of all values, once the nodes of the path are there
        """
        batch, values = self.batch, self.values
        segment = Segment(_hot.fresh_serial(), path)
        segment.origin = batch.serial
        segment.types = types
        segment.args = batch.args
        segment.inputs = {}
        for i in self.sorter.leaves:
            value = values[i]
            if value.requires_grad:
                segment.inputs[i] = _hot.slim(value)
        segment.saved = {}
        segment.sites = batch.sites
        for i in roots:
            values[i].segment = segment
            values[i].seg_index = i
        return segment


def groups_told(groups: list[Any], made: NDArray[Any], starts: NDArray[Any]) -> list[Any]:
    """Return the groups of a flush (`report.Noted`); see `Forward.told`."""
    return [
        (node, count, n, alone, int(made[starts[leader]]))
        for node, count, n, alone, leader, _ in groups
    ]


def owners_told(
    groups: list[Any], members: Sequence[int], made: NDArray[Any], starts: NDArray[Any]
) -> dict[int, int]:
    """Return by value the number of the group that makes the value; see `Forward.told`."""
    return {
        int(i): k
        for k, (_, count, _, _, _, at) in enumerate(groups)
        for r in members[at : at + count]
        for i in made[starts[r] : starts[r + 1]]
    }


def dense(array: NDArray[Any] | Value) -> NDArray[Any]:
    """Return the elements of an array or value as a C-contiguous, aligned array."""
    if type(array) is Value:
        array = array.buffer
    if type(array) is np.ndarray and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.require(array, None, ("C", "A", "E"))


def make_template(
    group: GroupFields, types: list[Any], numbers: list[Any], mask: int, grad: bool, run: Forward
) -> Template:
    """Return the template of a group's structure, shared by all nodes of that structure."""
    node = group.node
    nodes = ops_of(node)
    if group.lift:
        each = [run.values[at].type for at in run.sorter.operands_of(group.leader)]
        types = [_types.intern_type(t.dims, t.dtype, run.place) for t in each]
    key = (structure_key(nodes, types), group.lift > 0, node.rows, node.shared, mask, grad)
    return template_for(
        run.book.templates, key, types, group.lift, numbers,
        lambda: Template(node, types, group.lift, mask, grad, place=run.place),
    )  # fmt: skip


def structure_key(nodes: list[Any], types: list[Any]) -> tuple[Any, ...]:
    """Return a key that regions of a structure have in common, whatever the sizes."""
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
