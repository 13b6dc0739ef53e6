"""The backward pass of a flush that ran by groups of regions, for passes later or in parts.

The segment of such a flush keeps the `Execution`, with the slabs that the groups' backward
functions read.  A plain backward pass runs through the `Execution` group by group, like a pass over
pending ops.  Gradients of parameters are put off further, over all flushes of the pass.  Passes
with hooks, `create_graph` or `grad` to certain inputs need single nodes.  For these passes the
path is computed again, node by node, from the values that the flush began with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import config
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.devices import CPU, device
from wend._engine.core import _hot, _types
from wend._engine.core._hot import FlushJob, Record, Segment, Tensor, Value
from wend._engine.core.graph import PathGraph
from wend._engine.runtime.batching import _slabs_select
from wend._engine.runtime.batching.calls import kernel_if_ready
from wend._engine.runtime.batching.flat_rows import flat
from wend._engine.runtime.batching.templates import Template
from wend._engine.runtime.devices.moves import CLEAR, add_to, duplicate, joined, move_piece, sum_of
from wend._engine.runtime.devices.queue import Accelerator, accelerator_at
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.verify.flushes import Account, Shadow
from wend._engine.transforms.backward_ways import BackwardContext
from wend._engine.transforms.hooks import has_hooks
from wend._engine.transforms.quick import release

if TYPE_CHECKING:
    from numpy.typing import NDArray

_slabs: ModuleType = _slabs_select.select()

#: Most kernels for parameters' gradients that a template keeps, by the sizes of their operands.
MOST_TAILS = 128


class LazyPath(PathGraph):
    """The path of a flush that ran by groups, whose nodes are made when first read."""

    def __init__(self, content: Callable[[], tuple[list[Any], list[Any], list[Any]]]) -> None:
        """content: returns the steps, the types of all values, and the run-time args"""
        self.known: list[Any] = []
        self._made = content

    def __getattr__(self, name: str) -> Any:
        if name not in PathGraph.__slots__ or "_made" not in self.__dict__:
            raise AttributeError(name)
        states, types, args = self.__dict__.pop("_made")()
        super().__init__(states, [_hot.held(t, None) for t in types], args)
        if self.later is None:
            self.spent = {node.outputs[0] for node in self.nodes if node.grad}
        return getattr(self, name)

    @property
    def is_made(self) -> bool:
        """Whether the nodes have been made."""
        return "_made" not in self.__dict__

    def wait(self, later: object) -> None:
        """Note that the backward pass has not run yet.

        later: the object that runs the pass
        """
        self.later = later
        self.spent = set()

    def spend(self) -> None:
        """Note that the backward pass has run through the whole path."""
        self.later = None
        if "_made" in self.__dict__:
            del self.spent  # `__getattr__` finds the spent nodes once the nodes are made
        else:
            self.spent = {node.outputs[0] for node in self.nodes if node.grad}


def lazy_path_of(batch: FlushJob, types: list[Any]) -> LazyPath:
    """Return the path of a flush.

    types: the types of the flush's values
    """
    states, args = batch.states, batch.args
    return LazyPath(lambda: (states, types, args))


def is_off(step: Record) -> bool:
    """Whether a step is not on the trie."""
    return not step.linked


def late_path_of(batch: FlushJob, leaves: list[int], types: list[Any]) -> LazyPath:
    """Return the path of a flush, whose types are found together with the nodes.

    Steps off the trie keep the types of their results, so that these can be read later.  Steps on
    the trie keep the types of the latest results only, which therefore are read now.

    leaves: the values from outside
    types: a list that the types of all values are put into when the nodes are made
    """
    states, args, n = batch.states, batch.args, len(batch.values)
    first = bisect_left(states, True, key=is_off)  # a trace that has left the trie stays away
    begun = _slabs.types_of(batch.values[: states[first].first if first < len(states) else n])
    entered = _slabs.types_of([batch.values[i] for i in leaves])

    def content() -> tuple[list[Any], list[Any], list[Any]]:
        found: list[Any] = [None] * n  # None remains for results of steps that were left out
        for step in states:
            if step.many:
                found[step.first : step.first + step.n_out] = step.outs
            elif step.out_type is not None:
                found[step.first] = step.out_type
        found[: len(begun)] = begun
        for i, type_ in zip(leaves, entered, strict=True):
            found[i] = type_
        types[:] = found
        return states, types, args

    return LazyPath(content)


def lead_to(states: list[Any], roots: Iterable[int], seeds: Collection[int]) -> bool:
    """Whether gradients of the seeds flow through all of the roots.

    Regions do not tell: a region may have two results of which only one leads to the seeds.
    """
    left = set(roots).difference(seeds)
    reached = set(seeds)
    for state in reversed(states):
        if not left:
            return True
        first = state.first
        if state.requires_grad and any(first + k in reached for k in range(state.n_out)):
            reached.update(state.operand_indices())
            left -= reached
    return not left


class DeferredBackward:
    """The backward pass of a flush, as the segment keeps it (`PathGraph.later`)."""

    by_groups = True  # a pass puts the gradients of parameters off

    def __init__(self, execution: Any, roots: list[int], leaves: dict[int, Value]) -> None:
        self.execution = execution
        self.roots = roots
        self.leaves = leaves
        self.spent: set[int] = set()  # regions that a pass has gone through
        self.seeds: set[int] = set()  # the values that these passes began with
        self.states = execution.batch.states

    def pass_on(self, owner: BackwardContext, segment: Segment, seeds: dict[int, Any]) -> bool:
        """Push gradients of the flush's results back to its leaves; False if nodes are needed.

        owner: the `Pass`
        seeds: the gradients of the results, by id
        """
        execution = self.execution
        arrays = {i: _hot.ensure(_hot.value_of(g)) for i, g in seeds.items()}
        if segment.structure.later is not self:  # meanwhile another fiber's pass has needed nodes
            return False
        way = None
        if owner.plain() and not segment.hooks and not self.is_hooked():
            way = execution.reach(list(seeds))
        if way is None or self.too_few(way[0]):
            self.resolve(segment)
            return False
        reached, ends = way
        if not self.spent.isdisjoint(execution.own(reached)):
            self.resolve(segment)  # single nodes tell whether they are used up
            return False
        if owner.ledger is None:
            owner.ledger = ParameterGradients(owner.pending | {-segment.serial: seeds})
        if owner.ledger.account is not None:
            values = dict(self.leaves)
            path: PathGraph = segment.structure
            leaves = {i: _hot.ensure(v) for i, v in values.items()}
            shadow = Shadow(path, leaves, segment.types, path.args)
            owner.ledger.account.pass_by(segment, shadow, arrays, values)
        with CollectionPaused(), np.errstate(all="ignore"):
            found = execution.backward_again(arrays, reached, ends, owner.ledger)
        if found is None:
            self.resolve(segment)
            return False
        if not owner.retain:
            self.spent.update(execution.own(reached))
            self.seeds.update(seeds)
            done = len(self.spent) == execution.n_reached
            if done and lead_to(self.states, self.roots, self.seeds):
                segment.structure.spend()
        for i, g in found:
            owner.ledger.hand_on(owner, segment.inputs[i], g)
        return True

    def is_hooked(self) -> bool:
        """Whether users' code wants to see a leaf's gradient once complete."""
        leaves = [value.leaf for value in self.leaves.values() if value.requires_grad]
        return any(has_hooks(leaf) for leaf in leaves if leaf is not None)

    def too_few(self, reached: set[int]) -> bool:
        """Whether a pass reaches so few members of the groups that single nodes are quicker."""
        return not self.spent and 8 * len(reached) < self.execution.n_reached

    def resolve(self, segment: Segment) -> None:
        """Compute the path again, node by node, so that the segment keeps what its nodes read."""
        values = []
        for i, type_ in enumerate(segment.types):
            value = self.leaves.get(i)
            if value is None:
                value = _hot.held(type_, None)
            values.append(value)
        compute_again(segment, values, self.roots, self.spent_nodes(segment.structure))

    def spent_nodes(self, path: PathGraph) -> list[int]:
        """Return the results of the nodes that passes have gone through."""
        reached = set(self.seeds)
        found: list[int] = []
        if reached:
            for node in reversed(path.nodes):
                if node.grad and not reached.isdisjoint(node.outputs):
                    reached.update(node.inputs)
                    found += node.outputs
        return found


def compute_again(
    segment: Segment, values: list[Value], roots: list[int], spent: list[int]
) -> None:
    """Compute a segment's path node by node, so that the segment keeps what its nodes need.

    values: the values of the path, of which the leaves have data
    roots: the values that a pass may begin with
    spent: results of the nodes that passes have used up, which no second pass may go through
    """
    path = segment.structure
    for i in roots:
        values[i].requires_grad = True
    plan = ReferencePlan(path, frozenset(roots), frozenset(roots))
    plan.run(FlushJob(path.states, values, path.args, None, segment.sites, 0, [], None))
    segment.saved = values[roots[0]].segment.saved
    path.later = None
    if spent:
        segment.spent = frozenset(spent)
        release(segment)


class ParameterGradients:
    """The gradients of leaves and parameters that a pass over several flushes has found."""

    def __init__(self, pending: dict[int, dict[int, Any]]) -> None:
        """pending: gradients that came to segments before, by negative serial and id"""
        self.account = Account(pending) if config.settings.verify else None
        self.tails: dict[Any, Any] = {}
        self.totals: dict[int, list[Any]] = {}  # by id of the leaf: [leaf, type, array, own]
        self.parts: dict[int, list[Any]] = {}  # which an accelerator is to add to `totals`
        self.sums: dict[int, Any] = {}  # gradients of earlier flushes' results, of its own

    def put_off(self, execution: Any, ends: set[int]) -> None:
        """Take over the arrays that the gradients of parameters read.

        ends: the values that have gradients
        """
        values, root = execution.values, execution.root
        for (node, template, shared), (_, slabs, targets, numbers) in execution.tails.items():
            # Shared operands that the flush made belong to this flush alone, hence the execution.
            known = tuple([values[at] if execution.is_outside(at) else execution for at in shared])
            key = (node, template, tuple(map(id, known)))
            found = [values[at] if int(root[at]) in ends else None for at in targets]
            have = self.tails.get(key)
            if have is None:
                self.tails[key] = template, slabs, found, numbers, known
                continue
            pairs = zip(have[2], found, strict=True)
            have[2][:] = [old if new is None else new for old, new in pairs]
            for slab, more in zip(have[1], slabs, strict=True):
                slab.extend(more)
        execution.tails = {}

    def wait_for(
        self,
        key: tuple[Any, ...],
        template: Template,
        arrays: list[Any],
        targets: list[Value],
        numbers: list[Any],
        known: list[Value],
    ) -> None:
        """Put off gradients of parameters, the first of their kind: `SavedLanes.push` adds rows.

        key: `Backward.name`, and the ids of `known`
        arrays: the arrays that these gradients read, of a run
        targets: the parameters
        known: the operands that are the same for all members
        """
        slabs = [[array] for array in arrays]
        self.tails[key] = template, slabs, targets, numbers, tuple(known)

    def add(self, value: Value, g: NDArray[Any]) -> None:
        """Add an array to the gradient of a leaf."""
        have = self.totals.get(id(value.leaf))
        if have is None:
            self.totals[id(value.leaf)] = [value.leaf, value.type, g, False]
        elif value.type.device is not CPU:
            self.parts.setdefault(id(value.leaf), []).append(g)
        elif have[3]:
            np.add(have[2], g, out=have[2])
        else:  # the first array may be part of another array, so that adding in place is no option
            have[2:] = [np.asarray(have[2] + g), True]

    def hand_on(
        self, owner: BackwardContext, value: Value, g: NDArray[Any], at: int | None = None
    ) -> None:
        """Add g to the gradient of a result of an earlier flush, at once: no op is recorded.

        at: number of the element that g begins with; None if g covers all elements
        """
        segment = value.segment
        if segment is None:
            return
        have = owner.pending.get(-segment.serial, {}).get(value.seg_index)
        fresh = id(have) not in self.sums
        accelerator = accelerator_of(value.type.device)
        if accelerator is not None:
            g = np.ascontiguousarray(g)
        if not fresh:
            total = self.sums[id(have)].value.buffer
        elif at is None:
            total = np.array(g) if accelerator is None else duplicate(accelerator, g)
        elif accelerator is not None:
            total = accelerator.empty(value.type.dims, g.dtype)
            move_piece(accelerator, CLEAR, total.ctypes.data, 0, total.nbytes)
        else:
            total = np.zeros(value.type.dims, g.dtype)
        if accelerator is not None:
            if at is not None or not fresh:
                add_to(accelerator, total, g, at or 0)
        elif at is not None:
            part = total.reshape(-1)[at : at + g.size]
            np.add(part, g.reshape(-1), out=part)
        elif not fresh:
            np.add(total, g, out=total)
        if fresh:
            mine = _hot.wrap(_hot.held(value.type, total))
            owner.hand_on(value, mine)
            if have is None:
                self.sums[id(mine)] = mine

    def note(self, value: Value, g: Tensor) -> None:
        """Note a gradient that another way of passing a segment has handed to an earlier one."""
        if self.account is not None:
            self.account.note(value, g)

    def close(self) -> list[tuple[Any, Any]]:
        """Compute the put-off gradients; return (leaf, gradient) for each leaf."""
        for template, slabs, targets, numbers, _ in self.tails.values():
            for value, g in zip(targets, run_tail(template, slabs, numbers), strict=True):
                if value is not None:
                    self.add(value, g)
        self.tails = {}
        for key, parts in self.parts.items():
            total = self.totals[key]
            arrays = list(map(np.ascontiguousarray, [total[2], *parts]))
            total[2] = sum_of(accelerator_at(total[1].device), arrays)
        found = [(leaf, _hot.wrap(_hot.held(t, g))) for leaf, t, g, _ in self.totals.values()]
        self.totals, self.parts = {}, {}
        if self.account is not None:
            self.account.close(found)
        return found


def run_tail(template: Template, slabs: list[list[Any]], numbers: list[Any]) -> list[Any]:
    """Return the gradients of parameters, over the rows of all groups that put them off."""
    join = partial(one_behind_the_other, template.place)
    arrays, sizes = _slabs.gather_tail(slabs, template.border_grows, template.border_keeps, join)
    settings = config.settings
    if not settings.deterministic:
        key = (sizes, repr(numbers)) if numbers else sizes  # exact bits, as in `Backward.find_name`
        kernel = template.tails.get(key, template)
        if kernel is template:
            kernel = tail_kernel(template, arrays, key, numbers)
        found: list[Any] | None = None if kernel is None else kernel.run(arrays)
        if found is not None:
            return found
    found = template.tail(arrays, tail_types(template, arrays), numbers)  # type: ignore[misc]
    return [apart_from(arrays, g, template.place) for g in found]


def accelerator_of(place: device) -> Accelerator | None:
    """Return the accelerator at a place; None for the processor."""
    return None if place is CPU else accelerator_at(place)


def one_behind_the_other(place: device, slab: list[Any], kept: int | None) -> NDArray[Any]:
    """Return the rows of several flushes as a single array.

    place: where the array is read
    kept: how many of the last dims are no rows
    """
    each = [x.buffer if type(x) is Value else x for x in slab]
    if kept is not None:
        each = [x.reshape(flat(x.shape, kept)) for x in each]
    accelerator = accelerator_of(place)
    if len(each) == 1:
        return each[0]  # type: ignore[no-any-return]
    if accelerator is None:
        return np.concatenate(each)
    return joined(accelerator, each)  # type: ignore[no-any-return]


def tail_types(template: Template, arrays: list[Any]) -> list[Any]:
    """Return the types of the arrays that the gradients of parameters read."""
    return [
        x.type if type(x) is Value else _types.intern_type(x.shape, t.dtype, t.device)
        for x, t in zip(arrays, template.tail_types, strict=True)
    ]


def tail_kernel(template: Template, arrays: list[Any], key: object, numbers: list[Any]) -> Any:
    """Return a kernel that makes a tail's gradients in separate memory; None if none is ready.

    key: the kernel's key in `template.tails`
    """
    known = template.tails
    found = kernel_if_ready(template.tail, tail_types(template, arrays), numbers)
    if found is None:
        return None
    if found.show is not None or min(found.picks) < len(arrays):
        found = None
    if len(known) >= MOST_TAILS:
        known.clear()
    known[key] = found
    return found


def apart_from(arrays: list[Any], g: NDArray[Any], place: device) -> NDArray[Any]:
    """Return the gradient, copied if in the memory of the arrays it was made from.

    place: where the gradient lies
    These arrays may be memory of the flush, which another pass through the flush overwrites.
    """
    for array in arrays:
        if type(array) is np.ndarray and np.may_share_memory(array, g):
            accelerator = accelerator_of(place)
            return np.array(g) if accelerator is None else duplicate(accelerator, g)
    return g
