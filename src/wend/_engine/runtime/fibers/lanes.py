"""Turns of many fibers, run together: turns that took the same path form a batch.

The ops that a fiber records between two stops are a path in the trie, a *lane*.  Lanes that end in
the same state ran the same ops, on operands of the same types.  A `LaneBatch` runs such lanes
together: the batching rules put the path over an axis of lanes.  Finding the `LaneBatch` takes a
lookup per lane, for any number of ops.  Operands that are the same for all lanes (parameters) are
read in place.

Paths may run the same ops and differ only in where operands come from.  A constant in one path may
be a row of an earlier turn's result in another path, or a row that a view shows.  The `Pattern`s of
such paths have one `SharedProgram`, with the `LaneBatch`es in common.  Such lanes run together: the
lanes of each path, a *part*, lie behind the lanes of the part before.
"""

from __future__ import annotations

import operator
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.devices import CPU, accelerator_among
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, Record, State, Value
from wend._engine.core._types import LeafPrimitive, PrimitiveBase, TensorType
from wend._engine.ops.views.slicing import Select
from wend._engine.runtime.batching import _grouper_select
from wend._engine.runtime.batching.calls import block_of, kernel_if_ready
from wend._engine.runtime.batching.forward import structure_key
from wend._engine.runtime.batching.noted import why_unsuited
from wend._engine.runtime.batching.signatures import (
    BOOK,
    GRAD,
    LARGEST_OPERAND,
    LEAF,
    OUTSIDE,
    PARAMETER,
    SHARED,
    STACK,
    code,
    offset,
    ops_of,
)
from wend._engine.runtime.batching.slabs import MOST_CALLS, wideness
from wend._engine.runtime.batching.templates import Template, template_for, with_members
from wend._engine.runtime.fibers import _lanes_select
from wend._engine.runtime.native import _launch_select
from wend._engine.runtime.native.temporaries import aligned
from wend._engine.transforms.rows import batches as has_batching_rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

_grouper: ModuleType = _grouper_select.select()
_launch: ModuleType = _launch_select.select()
_lanes: Any = _lanes_select.select()

#: How often a path must have been taken before: a rare path is not worth a `LaneBatch`.
PASSED = 8
#: The key of a state's `Pattern`s among the plans of the state.
KEY = "patterns of lanes"
#: Most `LaneBatch`es that a `SharedProgram` keeps, by types, sizes and shared operands.
MOST_LANE_BATCHES = 64
#: Larger operands (bytes) that are the same for all lanes of a part are not repeated for each lane.
MOST_REPEATED = 1 << 12

#: The lanes of a path, which may run together with lanes of further paths.
Part = tuple["Pattern", list[FlushJob]]


class LaneOperand(_lanes.OperandFields):  # type: ignore[misc]
    """An operand from outside: a leaf, rows of a leaf that a view shows, or leaves joined by an op.

    Rows that a view shows are read at an address inside of the leaf.  Joined leaves are copied
    end to end into the gathered operand, so that the joining op does not run.

    picks: whether the view shows a single row, whose number is an arg
    """

    __slots__ = ()

    def __init__(
        self, index: int, leaves: tuple[int, ...], role: int, view: State | None = None
    ) -> None:
        if view is None:
            super().__init__(index, leaves[0], leaves, role, None, 0, 0, False)
            return
        n_args = len(view.prim.size_mask)
        picks = isinstance(view.prim, Select) and n_args == 1
        super().__init__(index, leaves[0], leaves, role, view.prim, view.arg0, n_args, picks)

    def place(self, value: Value, args: list[Any]) -> int:
        """Return the byte of a leaf's value at which the view begins; -1 for a view not dense."""
        key = (self.prim, value.type, tuple(args[self.arg0 : self.arg0 + self.n_args]))
        found = _grouper.OFFSETS.get(key)
        return offset(key) if found is None else int(found)

    def shown(self, batch: FlushJob) -> NDArray[Any]:
        """Return the rows that the view shows as an array."""
        value = batch.values[self.leaf]
        if value.extra is not None:
            value = _hot.held(value.type, np.array(value.buffer, order="C"))
        type_ = batch.values[self.index].type
        base = np.ascontiguousarray(value.buffer)
        at = self.place(value, batch.args) // type_.dtype.itemsize
        count = type_.nbytes // type_.dtype.itemsize
        return base.reshape(-1)[at : at + count].reshape(type_.dims)


class Pattern(_lanes.PatternFields):  # type: ignore[misc]
    """A path and its wanted values: everything but types that lanes of the path have in common.

    locals     by index of a value that the path makes: the value's number in a `LaneBatch`
    numbers    by number in a `LaneBatch`: the index of the value
    entries    the operands from outside
    unsuited   why lanes of the path cannot run together, or ""
    """

    def __init__(self, batch: FlushJob, live: list[int]) -> None:
        self.live = live
        self.states = batch.states
        self.stride = len(batch.values)
        self.ops: list[Any] = []
        self.entries: list[LaneOperand] = []
        self.args: list[int] = []  # places of the run-time args that are not part of an address
        self.views: dict[int, LaneOperand] = {}  # the wanted views, by index
        self.locals: dict[int, int] = {}
        self.opens: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.unsuited = self._read(batch, set(live))
        #: Whether a backward pass may start from the wanted values of a lane.
        self.open = any(batch.values[i].requires_grad for i in live)
        if not self.unsuited:
            self.shared_program = shared_program_of(self)

    def _read(self, batch: FlushJob, live: set[int]) -> str:
        """Sort the steps into operands and ops; return why another executor has to take over."""
        leaves: list[int] = []
        roles: dict[int, int] = {}
        views: dict[int, LaneOperand] = {}
        entered: set[int] = set()
        for state in self.states:
            prim, first = state.prim, state.first
            if isinstance(prim, LeafPrimitive):
                value = batch.values[first]
                leaves.append(first)
                roles[first] = (
                    OUTSIDE
                    | (GRAD if value.requires_grad else 0)
                    | (LEAF if value.leaf is not None else 0)
                )
                continue
            if state.is_step or code(prim, state) == _grouper.UNSUITED:
                return why_unsuited([state])
            if state.mode.recompute:
                return "its backward pass computes values again (checkpoint)"
            ins = state.operand_indices()
            if ins and ins[0] in roles and is_leading(prim):
                view = LaneOperand(first, (ins[0],), roles[ins[0]] & ~LEAF, state)
                if view.place(batch.values[ins[0]], batch.args) >= 0:
                    views[first] = view
                    if first in live:
                        self.views[first] = view
                    continue
            if first not in live and all(i in roles for i in ins) and lays_out(state, batch):
                role = OUTSIDE | (GRAD if any(roles[i] & GRAD for i in ins) else 0)
                views[first] = LaneOperand(first, tuple(ins), role)
                continue
            if not has_batching_rules(prim, state.program):
                return f"{prim.name} has no batching rule"
            for i in ins:
                if i in entered or (i not in roles and i not in views):
                    continue
                entered.add(i)
                self.entries.append(views.get(i) or LaneOperand(i, (i,), roles[i]))
            self.ops.append(state)
            self.args.extend(range(state.arg0, state.arg0 + len(prim.size_mask)))
            for k in range(state.n_out):
                self.locals[first + k] = len(self.locals)
        self.numbers = list(self.locals)
        #: `locals` as a list by index; -1 for values that the path does not make.
        self.number_at = [self.locals.get(i, -1) for i in range(self.stride)]
        #: The wanted values, in the order in which a `LaneBatch` returns them.
        self.made = [i for i in self.numbers if i in live]
        self.indices = tuple([entry.index for entry in self.entries])
        self.places = {i: k for k, i in enumerate(self.indices)}
        self.leaves = tuple(leaves)
        #: Views that no op of the path reads: lanes may differ in the types of these views.
        self.loose = tuple([i for i in views if i not in self.places])
        self.roles = tuple([entry.role for entry in self.entries])
        #: By entry, the leaf if the entry is a leaf, which may be the same for all lanes; else -1.
        self.single = tuple(
            [e.leaf if e.prim is None and e.index == e.leaf else -1 for e in self.entries]
        )
        #: Leaves that gradients may flow to: (index, entry that gathers the leaf, number of leaves
        #: that the entry joins, place among these), or (index, -1, 1, place among all leaves).
        self.reads: list[tuple[int, int, int, int]] = []
        known: set[int] = set()
        for k, e in enumerate((*self.entries, *self.views.values())):
            for at, i in enumerate(e.leaves):
                if e.role & GRAD and i not in known:
                    known.add(i)
                    gathered = k < len(self.entries)
                    self.reads.append(
                        (i, k, len(e.leaves), at) if gathered else (i, -1, 1, leaves.index(i))
                    )
        #: By index of a wanted view: (view, place of the shown leaf among the leaves).
        self.shows = {i: (e, leaves.index(e.leaf)) for i, e in self.views.items()}
        #: The views that a gradient may come to.
        self.open_views = tuple([i for i in self.views if batch.values[i].requires_grad])
        #: The first value of the first op.
        self.begins = self.ops[0].first if self.ops else -1
        return "" if self.made else "no result of its ops is wanted"

    def open_from(self, given: tuple[int, ...]) -> tuple[int, ...]:
        """Return the indices of the values of a lane that a backward pass may begin with.

        given: the numbers of such values among the made ones; open views are added
        """
        found = self.opens.get(given)
        if found is None:
            found = self.opens[given] = (*[self.numbers[k] for k in given], *self.open_views)
        return found

    def references(self) -> list[tuple[int, ...]]:
        """Return the operands of each op: numbers of made values, or -1 - number of an entry."""
        locals_, places = self.locals, self.places
        return [
            tuple([locals_[i] if i in locals_ else -1 - places[i] for i in op.operand_indices()])
            for op in self.ops
        ]


class SharedProgram:
    """The `LaneBatch`es of patterns that run the same ops, wherever the operands come from."""

    def __init__(self) -> None:
        self.lane_batches: dict[Any, LaneBatch | str] = {}
        #: The result of the last call of `lane_batch`: (*key, the result, the row of `large`).
        self.last: tuple[Any, ...] = (None, None, None, None, ())
        self.usual: dict[Any, tuple[bool, ...]] = {}  # shared operands, by signature and roles
        #: Large operands that are repeated for each lane, by signature and shared operands.
        self.large: dict[Any, list[int]] = {}

    def lane_batch(self, signature: tuple[TensorType, ...], parts: list[Part]) -> LaneBatch | str:
        """Return the `LaneBatch` that runs the lanes of these parts together.

        If there is none, return why: each part has to run by itself, or another executor has to
        run the lanes.
        """
        pattern, members = parts[0]
        roles = pattern.roles
        for other, _ in parts[1:]:
            if other.roles != roles:
                roles = tuple(map(operator.or_, roles, other.roles))
        if len(parts) == 1 and len(members) == 1:  # a single lane shares every operand
            shared = self.usual.get((signature, roles))
            if shared is None:
                flags = zip(pattern.single, roles, strict=True)
                shared = tuple([at >= 0 and role == PARAMETER for at, role in flags])
        else:
            shared = _lanes.shared_by(parts)
        last = self.last  # comparing with the last key takes much less time than hashing a key
        known = last[0] == signature and last[1] == roles and last[2] == shared
        large = last[4] if known else self.large_of(signature, shared)
        if large and len(parts) > 1 and repeats_much(large, parts):
            return "calls of several paths would need copies of a large operand"
        if known:
            return last[3]  # type: ignore[no-any-return]
        key = (signature, roles, shared)
        found = self.lane_batches.get(key)
        if found is None:
            if len(self.lane_batches) >= MOST_LANE_BATCHES:
                self.lane_batches.clear()
                self.usual.clear()
            with CollectionPaused():
                found = self.lane_batches[key] = make_lane_batch(pattern, members, roles, shared)
            self.usual[signature, roles] = shared
        self.last = (*key, found, large)
        return found

    def large_of(self, signature: tuple[TensorType, ...], shared: tuple[bool, ...]) -> list[int]:
        """Return the operands that are large, and not shared by the lanes."""
        large = self.large.get((signature, shared))
        if large is None:
            if len(self.large) >= MOST_LANE_BATCHES:
                self.large.clear()
            pairs = zip(signature, shared, strict=False)
            large = [k for k, (t, on) in enumerate(pairs) if not on and t.nbytes > MOST_REPEATED]
            self.large[signature, shared] = large
        return large


def repeats_much(large: list[int], parts: list[Part]) -> bool:
    """Whether parts together copy large operands that a part alone would read in place."""
    for part in parts:
        if len(part[1]) > 1:
            own = _lanes.shared_by([part])
            if any(own[k] for k in large):
                return True
    return False


#: The `SharedProgram`s by the key of their patterns, as long as any of these patterns exists.
SHARED_PROGRAMS: weakref.WeakValueDictionary[Any, SharedProgram] = weakref.WeakValueDictionary()


def shared_program_of(pattern: Pattern) -> SharedProgram:
    """Return the `SharedProgram` of all patterns with the same ops, on operands of the same kinds.

    The kind of an operand says whether it is a user's leaf, and how many leaves are joined.
    Whether a gradient is wanted is no part of the kind.
    """
    ops = zip(pattern.ops, pattern.references(), strict=True)
    key = (
        tuple([(op.prim, op.program, op.mode, op.requires_grad, refs) for op, refs in ops]),
        tuple([pattern.locals[i] for i in pattern.made]),
        tuple([(e.role if e.role & LEAF else 0, len(e.leaves)) for e in pattern.entries]),
    )
    found = SHARED_PROGRAMS.get(key)
    if found is None:
        found = SHARED_PROGRAMS[key] = SharedProgram()
    return found


def is_leading(prim: PrimitiveBase) -> bool:
    """Whether an op is a view of some rows of its operand."""
    return bool(prim.is_view) and getattr(prim, "dim", None) == 0


def lays_out(state: Record, batch: FlushJob) -> bool:
    """Whether an op only lays the operands end to end, without conversion."""
    values, prim = batch.values, state.prim
    out = values[state.first].type
    types = [values[i].type for i in state.operand_indices()]
    if any(t.dtype is not out.dtype for t in types) or sum(t.nbytes for t in types) != out.nbytes:
        return False
    if not prim.is_composite:
        return bool(prim.joins_rows())
    graph = state.program.graph
    *shaped, last = graph.nodes
    names = {i: i for i in range(graph.n_inputs)}
    for node in shaped:
        if not (node.prim.is_view and node.prim.facts.checks_strides):
            return False
        names[node.outputs[0]] = names.get(node.inputs[0], -1)
    return bool(last.prim.joins_rows()) and [names.get(i, -1) for i in last.inputs] == list(
        range(graph.n_inputs)
    )


def make_lane_batch(
    pattern: Pattern, members: list[FlushJob], roles: tuple[int, ...], shared: tuple[bool, ...]
) -> LaneBatch | str:
    """Return a new `LaneBatch`; if there can be none, return why."""
    values = members[0].values
    for entry, on in zip(pattern.entries, shared, strict=True):
        type_ = values[entry.index].type
        if type_.nbytes == 0:
            return "an operand is empty"
        if not on and type_.nbytes > LARGEST_OPERAND:
            return f"an operand of more than {LARGEST_OPERAND >> 10} KB is not copied"
    if False not in shared:
        return "all calls read the same operands"
    if any(values[i].type.nbytes == 0 for i in pattern.live):
        return "a wanted value is empty"
    return LaneBatch(pattern, members[0], roles, shared, len(members))


class BoundLanes:
    """The kernel and memory layout of a `LaneBatch` for a certain number of lanes."""

    def __init__(self, lane_batch: LaneBatch, n: int) -> None:
        self.types = lane_batch.lifted(n)
        #: By operand, its place in a block: (offset, bytes of each lane, shape, dtype, strides);
        #: None for operands that are the same for all lanes.
        self.rows: list[Any] = []
        space = 0
        for t, on, size in zip(self.types, lane_batch.shared, lane_batch.sizes, strict=True):
            if on:
                self.rows.append(None)
                continue
            like = np.empty(t.dims, t.dtype.numpy)
            self.rows.append((space, size, like.shape, like.dtype, like.strides))
            space += aligned(like.nbytes)
        #: The (make, shape, dtype) of the operands' block.
        self.gathered = block_of(space, lane_batch.place)
        self.place = lane_batch.place
        self.kernel: Any = None
        self.inner: tuple[Any, ...] = ()  # places of results in a block, see `LaneKernel`
        self.slots: Any = None  # see `_lanes.SavedLanes`
        self.room: Any = None  # see `_lanes.SavedLanes`

    def find_slots(self, lane_batch: LaneBatch, results: list[Any]) -> None:
        """Lay out the memory for gradients of results: sets `slots` and `room`."""
        self.slots = [None] * (max(lane_batch.given, default=-1) + 1)
        space = 0
        for k, array in zip(lane_batch.exported, results, strict=False):
            if k not in lane_batch.given:
                continue
            row = array.nbytes // array.shape[0]
            wide = wideness(array.dtype)
            self.slots[k] = space, row, array.shape, array.dtype, array.strides, wide
            space += aligned(array.nbytes)
        self.room = block_of(space, self.place)

    def ready(self, lane_batch: LaneBatch) -> Any:
        """Return the kernel; None as long as there is no machine code."""
        if self.kernel is None:
            forward = lane_batch.template.forward
            kernel = kernel_if_ready(forward, self.types, lane_batch.numbers, _lanes.LaneKernel)
            if kernel is None:
                return None
            inner = self.lay_out_block(kernel, set(kernel.picks[: len(lane_batch.exported)]))
            n = len(self.types)
            self.inner = tuple([inner[k - n] if k >= n else None for k in kernel.picks])
            self.kernel = kernel
        return self.kernel

    def lay_out_block(self, kernel: Any, apart: set[int]) -> tuple[Any, ...]:
        """Let the arrays that a kernel makes lie in a block; return `LaneKernel.inner`.

        apart: the numbers of the arrays outside of the block, behind the operands
        """
        inner: list[Any] = []
        space = 0
        for k, (_, shape, dtype) in enumerate(kernel.makes, len(self.types)):
            if k in apart:
                inner.append(None)
                continue
            array = np.empty(shape, dtype)
            inner.append((space, shape, dtype, array.strides))
            space += aligned(array.nbytes)
        kernel.use_block(tuple(inner), block_of(space, self.place))
        return tuple(inner)


class LaneBatch:
    """Runs lanes of equal structure together.  Made values go by their numbers in `Pattern.locals`.

    exported   the wanted values, in the order of the template's results
    given      the wanted values that a gradient may come to
    leafy      the operands that are users' leaves
    """

    def __init__(
        self,
        pattern: Pattern,
        batch: FlushJob,
        roles: tuple[int, ...],
        shared: tuple[bool, ...],
        n: int,
    ) -> None:
        self.shared = shared
        self.node = region_of(pattern, batch, roles, shared)
        self.programs = [state.program for state in pattern.ops]
        place = accelerator_among(v.type for v in batch.values)
        self.place = place or CPU
        self.types = [batch.values[entry.index].type for entry in pattern.entries]
        if place is not None:  # all is read and made there
            self.types = [_types.intern_type(t.dims, t.dtype, place) for t in self.types]
        self.leafy = [k for k, role in enumerate(roles) if role & LEAF]
        self.exported = [pattern.locals[i] for i in pattern.made]
        mask = sum(1 << k for k in self.exported)
        grad = any(batch.values[i].requires_grad for i in pattern.made)
        nodes = ops_of(self.node)
        self.numbers = [a for op in nodes for a in op.args]
        key = ("lanes", structure_key(nodes, self.types), shared, mask, grad, place)
        # At least 2: with 1 lane, a dim that is always 1 would be taken for the lanes' axis.
        several = max(n, 2)
        self.template = template_for(
            BOOK.templates, key, self.types, several, self.numbers,
            lambda: Template(
                self.node, self.types, several, mask, grad, at_once=False, place=self.place
            ),
        )  # fmt: skip
        given = zip(self.exported, self.template.given, strict=True)
        self.given = tuple([k for k, on in given if on and self.template.body is not None])
        self.n_differentiable = sum(op.grad for op in nodes)
        self.bound: dict[int, BoundLanes] = {}
        self.backward: dict[frozenset[int], Any] = {}
        self.sizes = [t.nbytes for t in self.types]

    def wide(self, k: int) -> bool | None:
        """Whether gradients of operand k are added as float64; None if NumPy has to add."""
        return wideness(self.types[k].dtype.numpy)

    def lifted(self, n: int) -> list[Any]:
        """Return the types of the operands of n lanes."""
        return with_members(self.types, self.template.grows, n)

    def bound_to(self, n: int) -> BoundLanes:
        """Return the kernel and memory layout for n lanes."""
        found = self.bound.get(n)
        if found is None:
            if len(self.bound) >= MOST_CALLS:
                self.bound.clear()
            found = self.bound[n] = BoundLanes(self, n)
        return found

    def compute(self, at: BoundLanes, operands: list[Any]) -> tuple[list[Any] | None, Any]:
        """Return (results, None) like `LaneKernel.run_in_block`, without machine code."""
        with np.errstate(all="ignore"):
            found: list[Any] = self.template.forward(operands, at.types, self.numbers)
        return [np.ascontiguousarray(a).reshape(a.shape) for a in found], None


def region_of(
    pattern: Pattern, batch: FlushJob, roles: tuple[int, ...], shared: tuple[bool, ...]
) -> Any:
    """Return the path's ops as a region, of which a template can be made."""
    node = _grouper.GroupNode(None, None, (), (), (), (), False, 0)
    entered: set[int] = set()
    for state, refs in zip(pattern.ops, pattern.references(), strict=True):
        kinds: list[int] = []
        types: list[Any] = []
        for i, ref in zip(state.operand_indices(), refs, strict=True):
            if ref >= 0 or ref in entered:
                kinds.append(0)
                types.append(None)
                continue
            entered.add(ref)
            k = -1 - ref
            kinds.append((SHARED if shared[k] else STACK) | roles[k] << _grouper.ROLE_SHIFT)
            types.append(batch.values[i].type)
        args = batch.args[state.arg0 : state.arg0 + len(state.prim.size_mask)]
        node = _grouper.GroupNode(
            node, state.prim, refs, tuple(kinds), tuple(types), tuple(args),
            state.requires_grad, state.n_out,
        )  # fmt: skip
        node.n_operands = len(entered)
        node.smooth = True
    node.shared = shared
    return node
