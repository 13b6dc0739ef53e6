"""The backward pass of lanes that ran together (see `lanes`), which is run together, too.

Each run leaves a segment for all of its lanes.  In the segment, value i of lane r has the number
r * stride + i, for any path of the lane.  Gradients between the runs of different flushes are
rows added to rows, without recording ops.  Gradients of parameters are put off, and computed once
over the rows of all flushes.  For passes that need single nodes, the nodes are made from the paths
of all lanes, end to end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import defects
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.errors import GraphError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, Record, Segment, Value
from wend._engine.runtime.batching.calls import kernel_if_ready
from wend._engine.runtime.batching.deferred_backward import (
    LazyPath,
    ParameterGradients,
    compute_again,
)
from wend._engine.runtime.batching.flat_rows import row_of
from wend._engine.runtime.batching.signatures import ops_of
from wend._engine.runtime.batching.slabs import MOST_CALLS
from wend._engine.runtime.fibers import _lanes_select
from wend._engine.runtime.fibers.lanes import LaneBatch, Pattern
from wend._engine.runtime.native import _launch_select
from wend._engine.runtime.verify.flushes import Shadow
from wend._engine.transforms.backward_ways import BackwardContext
from wend._engine.transforms.differentiate import FREED
from wend._engine.transforms.history import note_history
from wend._engine.transforms.rows import is_smooth

if TYPE_CHECKING:
    from numpy.typing import NDArray

_launch: ModuleType = _launch_select.select()
_lanes: Any = _lanes_select.select()


class Backward:
    """The backward function of a `LaneBatch` from some of its results, for any number of lanes."""

    def __init__(self, lane_batch: LaneBatch, seeded: frozenset[int]) -> None:
        """seeded: numbers of the results that gradients flow back from"""
        self.template = lane_batch.template.seeded(seeded)
        self.seeds = [k for k in lane_batch.given if k in seeded]
        #: The (operand, whether float64) of each gradient, for `SavedLanes.hand_back`.
        self.targets = tuple([(k, lane_batch.wide(k)) for k in self.template.targets])
        self.calls: dict[int, list[Any]] = {}
        self.name: object = None  # the key of put-off gradients, see `ParameterGradients.wait_for`
        #: The nodes that a pass from these results uses up.
        self.nodes = reached_nodes(lane_batch, seeded)
        #: By result, whether a gradient of 0 for the result gives gradients of 0.
        self.smooth = {k: self.is_smooth(lane_batch, k) for k in self.seeds}

    def is_smooth(self, lane_batch: LaneBatch, k: int) -> bool:
        """Whether a gradient of 0 for result k gives gradients of 0: see `smooth`."""
        ops = ops_of(lane_batch.node)
        nodes = reached_nodes(lane_batch, frozenset([k]))
        return all(is_smooth(ops[at].prim, lane_batch.programs[at]) for at in nodes)

    def bound_to(self, lane_batch: LaneBatch, n: int) -> list[Any]:
        """Return [types of the backward function's operands, kernel or None] for n lanes."""
        found = self.calls.get(n)
        template = self.template
        function = template.backward
        if found is None:
            if len(self.calls) >= MOST_CALLS:
                self.calls.clear()
            types = template.gradient_types(lane_batch.lifted(n), lane_batch.numbers)
            found = self.calls[n] = [types, None]
        if found[1] is None and function is not None and function.plan is not None:
            found[1] = kernel_if_ready(function, found[0], lane_batch.numbers, _lanes.LaneKernel)
        return found

    def compute(
        self, read: list[Any], types: list[Any], numbers: list[Any], kernel: Any
    ) -> list[Any]:
        """Return the arrays that the backward function makes.

        read: the operands
        types: the types of the operands
        kernel: machine code, or None
        """
        found = None
        if kernel is not None:
            try:
                found = kernel.run(read)
            except Exception as fault:  # noted; the plan of the backward function runs
                defects.note(fault)
        if found is None:
            function = self.template.backward
            with np.errstate(all="ignore"):
                found = [] if function is None else function(list(read), types, numbers)
        return found

    def find_name(self, kept: list[Any], numbers: list[Any]) -> None:
        """Set `name`: flushes of the same name put off gradients of parameters together.

        A template serves all sizes and numbers, but only rows of the same size go together.

        kept: the arrays that gradients of parameters read
        """
        sizes = tuple(map(row_of, kept, self.template.border_keeps))
        # Keys compare exact bits, hence as text.
        self.name = self.template, sizes, repr(numbers) if numbers else None


def reached_nodes(lane_batch: LaneBatch, seeded: frozenset[int]) -> frozenset[int]:
    """Return the numbers of the ops that gradients of the seeded values flow through."""
    found: set[int] = set()
    needed = set(seeded)
    first = lane_batch.node.n_values
    ops = ops_of(lane_batch.node)
    for at in range(len(ops) - 1, -1, -1):
        op = ops[at]
        first -= op.n_out
        if op.grad and not needed.isdisjoint(range(first, first + op.n_out)):
            found.add(at)
            needed.update(op.refs)
    return frozenset(found)


class LaneBatchBackward(_lanes.SavedLanes):  # type: ignore[misc]
    """The values that the lanes of a run keep for the backward pass (`PathGraph.later`).

    Results go by their local numbers (`Pattern.locals`), values of a lane by their indices.
    """

    by_groups = True
    spent: frozenset[int]
    spent_in: dict[int, set[int]]

    def note_depth(self, segment: Segment, batch: FlushJob) -> None:
        """Warn of a history that grows through flushes whose backward pass has run already."""
        note_history(segment, batch)

    def accept_apart(self, owner: BackwardContext, r: int, i: int, k: int, g: NDArray[Any]) -> None:
        """Add g to the gradient of value i of lane r.

        k: the number of the value if that is a result; -1 for a view, whose leaf gets g
        """
        if k < 0:
            value, at = self.shown(i, r)
            self.give(owner, value, g, at)
            return
        seed = self.seed(k)[r, ...]
        with np.errstate(all="ignore"):
            np.add(seed, g, out=seed)
        self.marks[k][r] = 1

    def new_ledger(
        self, owner: BackwardContext, segment: Segment, seeds: dict[int, Any]
    ) -> ParameterGradients:
        """Return the ledger of a pass that reaches a run of lanes for the first time."""
        return ParameterGradients(owner.pending | {-segment.serial: seeds})

    def check_in(self, owner: BackwardContext, segment: Segment) -> None:
        """Note the gradients that came here, and a shadow, which computes the reference's."""
        values, seeds = {}, {}
        stride = self.stride
        for r, pattern, _, leaves in lanes_of(self.parts, self.leaves):
            for i, value in zip(pattern.leaves, leaves, strict=True):
                values[r * stride + i] = value
            for k, marks in self.marks.items():
                if marks[r]:
                    seeds[r * stride + pattern.numbers[k]] = np.array(self.seed(k)[r, ...])
        path = segment.structure
        held = {i: value.buffer for i, value in values.items()}
        shadow = Shadow(path, held, path.types, path.args)
        owner.ledger.account.pass_by(segment, shadow, seeds, values)

    def pass_by_nodes(self, segment: Segment, seeds: dict[int, Any]) -> None:
        """Hand the collected gradients to single nodes, and let these run the pass."""
        self.give_back(seeds)
        self.resolve(segment)

    def pass_in_parts(self, owner: BackwardContext, segment: Segment) -> bool:
        """Push gradients back if lanes have gradients of different results, or some are used up.

        Returns False, with nothing done, if single nodes have to run the pass. Raises GraphError if
        a pass has gone through nodes that this pass needs.
        """
        parts = self.ways()
        if not all(rows is None or self.are_rows(rows, known) for rows, _, known in parts):
            return False
        for _, reached, known in parts:
            if not self.spent.isdisjoint(known.nodes) or any(
                not nodes.isdisjoint(known.nodes)
                for r, nodes in self.spent_in.items()
                if reached is None or r in reached
            ):
                raise GraphError(FREED)
        for rows, reached, known in parts:
            self.push(owner, known, rows, reached)
            if not owner.retain:
                self.use_up(segment, known.nodes, reached)
        return True

    def are_rows(self, lanes: list[int], known: Backward) -> bool:
        """Return whether all that a backward function reads has a row for each lane.

        The batching rule of an op may have put the rows of all lanes side by side.
        """
        types = known.bound_to(self.lane_batch, len(lanes))[0]
        for k, t in enumerate(types):
            x = self.read(k, known.seeds)
            if type(x) is not np.ndarray or x.shape == t.dims:
                continue
            if (*x.shape[:1], *t.dims) != (self.n, len(lanes), *x.shape[1:]):
                return False
        return True

    def ways(self) -> list[tuple[Any, Any, Backward]]:
        """Return the lanes that gradients have come to, by the results that have gradients.

        Each row is (lanes to run, lanes with gradients among these, `Backward`); None stands for
        all lanes.  Lanes without gradients may run with zeros if that gives gradients of 0.
        """
        marks = self.marks
        if not marks:
            return []
        known = self.backward(frozenset(marks))
        reached = self.reached()
        uneven = [k for k, m in marks.items() if 0 in m]
        if 2 * len(reached) > self.n and all(known.smooth[k] for k in uneven):
            return [(None, None if len(reached) == self.n else reached, known)]
        found: dict[frozenset[int], list[int]] = {}
        for r in reached:
            seeded = frozenset([k for k, m in marks.items() if m[r]])
            found.setdefault(seeded, []).append(r)
        return [(rows, rows, self.backward(seeded)) for seeded, rows in found.items()]

    def backward(self, seeded: frozenset[int]) -> Backward:
        """Return the `Backward` from these results, made once per `LaneBatch`."""
        found: Backward | None = self.lane_batch.backward.get(seeded)
        if found is None:
            with CollectionPaused():
                found = self.lane_batch.backward[seeded] = Backward(self.lane_batch, seeded)
        return found

    def give_back(self, seeds: dict[int, Any]) -> None:
        """Add the collected gradients to `seeds`, as handles by number, and forget all here."""
        stride = self.stride
        lanes = list(lanes_of(self.parts, self.leaves))
        for k, marks in self.marks.items():
            array = self.seed(k)
            for r, on in enumerate(marks):
                if on:
                    g = np.array(array[r, ...])
                    _, pattern, types, _ = lanes[r]
                    i = pattern.numbers[k]
                    like = types[i]
                    type_ = _types.intern_type(g.shape, like.dtype, like.device)
                    number, fresh = r * stride + i, _hot.wrap(_hot.held(type_, g))
                    seeds[number] = seeds[number] + fresh if number in seeds else fresh
        self.forget()

    def use_up(self, segment: Segment, nodes: frozenset[int], rows: list[int] | None) -> None:
        """Note that a pass has used up these nodes: a second pass raises an error.

        rows: the lanes of the pass; None for all lanes
        """
        if rows is None or len(rows) == self.n:
            self.spent = self.spent | nodes
        else:
            for r in rows:
                self.spent_in.setdefault(r, set()).update(nodes)
        everything = self.lane_batch.n_differentiable
        if len(self.spent) == everything or (
            len(self.spent_in) == self.n
            and all(len(self.spent | own) == everything for own in self.spent_in.values())
        ):
            self.let_go(segment)

    def let_go(self, segment: Segment) -> None:
        """Free the values that only the backward pass needs: all nodes are used up."""
        path = segment.structure
        path.spend()
        segment.types, segment.args = path.numbers_later()
        segment.inputs.slim_down()

    def some(self, read: list[Any], rows: list[int], types: list[Any]) -> list[Any]:
        """Return the rows of some lanes of the backward function's operands.

        read: the operands of all lanes
        types: the types of the operands of these lanes
        """
        return [
            x[rows]
            if type(x) is np.ndarray and t.dims[:1] == (len(rows),) and x.shape != t.dims
            else x
            for x, t in zip(read, types, strict=True)
        ]

    def hand_on(
        self,
        owner: BackwardContext,
        k: int,
        g: NDArray[Any],
        rows: Any,
        reached: Any,
        rest: list[Any] | None,
    ) -> None:
        """Add g to the gradients of the values that operand k was gathered from.

        g: a row for each of the lanes `rows`
        reached: see `push`
        rest: the pieces of g that `scatter_rows` has not added; None if `scatter_rows` has not run
        """
        source = self.sources[k]
        if type(source) is not list:
            self.give(owner, source, np.asarray(g))
            return
        offsets = self.places[k]
        if rows is None and reached is not None:
            g = g[reached]
        rows = range(self.n) if reached is None else reached
        if len(rows) < self.n:
            each = len(source) // self.n
            source = [v for r in rows for v in source[r * each : (r + 1) * each]]
            offsets = offsets and [offsets[r] for r in rows]
        g = np.ascontiguousarray(g)
        size, wide = g.nbytes // len(rows), self.lane_batch.wide(k)
        if rest is None and wide is None:
            start, rest = 0, []
            for j, v in enumerate(source):
                n = size if offsets else v.type.nbytes
                if v.requires_grad:
                    rest.append((start, n, v, offsets[j] if offsets else 0))
                start += n
        elif rest is None:
            data = _launch.address_of(g)
            rest = _lanes.scatter_rows(source, offsets, size, data, wide, owner)
        elements = g.reshape(-1)
        for start, n, v, at in rest or ():
            part = elements[start // g.itemsize : (start + n) // g.itemsize]
            self.give(owner, v, part, None if n == v.type.nbytes else at)

    def give(
        self, owner: BackwardContext, value: Value, g: NDArray[Any], at: int | None = None
    ) -> None:
        """Add g to the gradient of a value from outside.

        at: the byte of the value where g begins; None if g covers the whole value
        """
        with np.errstate(all="ignore"):
            self.add(owner, value, g, at)

    def add(self, owner: BackwardContext, value: Value, g: NDArray[Any], at: int | None) -> None:
        """Add g to the gradient of a value from outside: see `give`."""
        segment, leaf = value.segment, value.leaf
        if segment is None and leaf is None:
            return
        later = None if segment is None else segment.structure.later
        place = None if at is None else at // g.itemsize
        if leaf is None and type(later) is not LaneBatchBackward:
            g = g if at is not None else g.reshape(value.type.dims)
            owner.ledger.hand_on(owner, value, g, place)
            return
        if place is not None:
            whole = np.zeros(value.type.dims, g.dtype)
            whole.reshape(-1)[place : place + g.size] = g.reshape(-1)
            g = whole
        g = g.reshape(value.type.dims)
        if leaf is not None:
            owner.ledger.add(value, g)
        else:
            later.accept(owner, value.seg_index, g)  # type: ignore[union-attr]
            owner.come_by(segment)

    def resolve(self, segment: Segment) -> None:
        """Compute the path again, node by node, so that the segment keeps what its nodes read."""
        path = segment.structure
        stride = self.stride
        values = [_hot.held(t, None) for t in path.types]
        roots = []
        spent = []
        for r, pattern, _, leaves in lanes_of(self.parts, self.leaves):
            for i, value in zip(pattern.leaves, leaves, strict=True):
                values[r * stride + i] = value
            roots += [r * stride + i for i in pattern.open_from(self.lane_batch.given)]
            own = self.spent | self.spent_in.get(r, set())
            spent += [r * stride + pattern.ops[at].first for at in own]
        segment.types, segment.args = path.types, path.args
        segment.inputs = dict(segment.inputs.items())
        compute_again(segment, values, roots, spent)


class Paths(LazyPath):
    """The paths of all lanes of a run, as a single path whose nodes are made when first read."""

    def __init__(self, saved: LaneBatchBackward) -> None:
        # The path refers to the run until the run is spent; a reference back would be a cycle.
        super().__init__(
            functools.partial(
                content_of, saved.parts, saved.stride, saved.args, saved.leaves, saved.loose
            )
        )  # fmt: skip
        self.wait(saved)

    def numbers_later(self) -> tuple[list[Any], list[Any]]:
        """Return the types of all values and the run-time args.

        The lists are empty until the nodes are made, and are filled then.
        """
        if "_made" not in self.__dict__:
            return self.types, self.args
        types: list[Any] = []
        args: list[Any] = []
        self._made = functools.partial(filled, self._made, types, args)
        return types, args


def filled(
    content: Callable[[], tuple[list[Any], list[Any], list[Any]]],
    types: list[Any],
    args: list[Any],
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the content of a path, with its types and args put into the lists given."""
    states, types[:], args[:] = content()
    return states, types, args


def lanes_of(
    parts: list[tuple[Any, ...]], leaves: list[Value]
) -> Iterator[tuple[int, Pattern, list[Any], list[Value]]]:
    """Yield (number, pattern, types, leaves) of each lane.

    parts: see `_lanes.SavedLanes`
    leaves: see `_lanes.SavedLanes`
    """
    for first, end, pattern, at, types in parts:
        n = len(pattern.leaves)
        for r in range(first, end):
            yield r, pattern, types, leaves[at + (r - first) * n : at + (r - first + 1) * n]


def content_of(
    parts: list[tuple[Any, ...]],
    stride: int,
    args: list[list[Any]],
    leaves: list[Value],
    loose: dict[int, list[Any]],
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return (steps, types, args) of the paths of several lanes, end to end.

    The parameters are described in `_lanes.SavedLanes`.
    """
    found, patterns = [], []
    for r, pattern, types, entered in lanes_of(parts, leaves):
        own = list(types)
        for i, value in zip(pattern.leaves, entered, strict=True):
            own[i] = value.type
        for i, type_ in zip(pattern.loose, loose.get(r, ()), strict=True):
            own[i] = type_
        found += own
        found += own[:1] * (stride - len(own))  # any type will do for numbers without a value
        patterns.append(pattern)
    return copies_of(patterns, stride, args), found, flat(args)


def flat(rows: list[list[Any]]) -> list[Any]:
    """Return the elements of several lists as a single list."""
    return [x for row in rows for x in row]


COPIED = (
    "prim", "mode", "out_type", "code", "program", "outs", "lasti", "within", "n_in", "n_out",
    "requires_grad", "many",
)  # fmt: skip


def copies_of(patterns: list[Pattern], stride: int, args: list[list[Any]]) -> list[Any]:
    """Return copies of the steps of several lanes' paths, end to end."""
    found = []
    at = arg0 = 0
    for pattern, own in zip(patterns, args, strict=True):
        for state in pattern.states:
            copy = Record.__new__(Record)
            for name in COPIED:
                setattr(copy, name, getattr(state, name))
            copy.first = state.first + at
            copy.arg0 = state.arg0 + arg0
            for name in ("i0", "i1", "i2"):
                i = getattr(state, name)
                setattr(copy, name, i if i < 0 else i + at)
            if state.rest is not None:
                copy.rest = tuple([i + at for i in state.rest])
            found.append(copy)
        at += stride
        arg0 += len(own)
    return found
