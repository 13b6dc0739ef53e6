"""The backward pass of a flush off the trie, group by group in reverse."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import defects
from wend._engine.core import _hot
from wend._engine.core._hot import Value
from wend._engine.core._types import TensorType
from wend._engine.core.provenance import current_site
from wend._engine.runtime.batching import _grouper_select, _slabs_select
from wend._engine.runtime.batching.deferred_backward import ParameterGradients, apart_from, run_tail
from wend._engine.runtime.batching.forward import Forward, dense
from wend._engine.runtime.batching.slabs import GroupFields, Unsuited, is_wide
from wend._engine.runtime.batching.templates import Template
from wend._engine.runtime.devices.moves import ADD, CLEAR, duplicate, sum_of
from wend._engine.runtime.devices.queue import KernelFailure
from wend._engine.runtime.native import _launch_select

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wend._engine.runtime.batching._grouper import GroupNode

_grouper: ModuleType = _grouper_select.select()
_launch: ModuleType = _launch_select.select()
_slabs: ModuleType = _slabs_select.select()


class Execution(Forward):
    """A flush, and the gradients that flow through it."""

    def share_out(self, group: GroupFields) -> None:
        """Push the gradient of a join's result back to the joined parts."""
        _slabs.share_out(group, self.sorter, self)

    def backward(self, seeds: dict[int, Any]) -> list[tuple[int, Any]]:
        """Return (index, gradient) of values from outside.

        seeds: the gradients of the roots by index; None for a gradient of ones
        """
        self.push_back(seeds, _slabs.are_reached(self.groups, self.sorter.reached))
        for tail in self.tails.values():
            self.finish_tail(*tail)
        found = self.sums()
        ends = self.ends_of(seeds, {i for i, _ in found})
        return [row for row in found if row[0] in ends]

    def push_back(self, seeds: dict[int, Any], through: list[bool]) -> None:
        """Run the backward functions of some groups.

        The arrays that gradients of parameters read are kept in `tails`.

        seeds: the gradients of the roots, by index
        through: for each group, whether gradients flow through it
        """
        for i, seed in seeds.items():
            self.add_seed(i, seed)
        for family in _slabs.push_back(self, self.sorter, self.groups, through):
            if family.used and family.waiting:
                self.put_off(
                    family.node, family.template, family.sources, family.numbers, family.kept()
                )

    def sums(self) -> list[tuple[int, Any]]:
        """Return (index, gradient) of the values from outside, in order of index."""
        found = []
        with np.errstate(all="ignore"):
            for i, parts in sorted(self.totals.items()):
                total = parts[0]
                if len(parts) > 1:
                    total = self.sum_of(parts)
                found.append((i, total))
        return found

    def sum_of(self, parts: list[NDArray[Any]]) -> NDArray[Any]:
        """Return the sum of gradients, in order."""
        total = parts[0]
        if self.accelerator is None:
            for part in parts[1:]:
                total = total + part
            return dense(total)
        summed: NDArray[Any] = sum_of(self.accelerator, list(map(dense, parts)))
        return summed

    def copied(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of a dense array, where the flush runs."""
        if self.accelerator is None:
            return array.copy()
        made: NDArray[Any] = duplicate(self.accelerator, array)
        return made

    def forget(self, group: GroupFields) -> None:
        """Set the gradients that a backward pass has left in a group to zero."""
        if group.family is not None:
            group.family.clear(group)
        for seed in group.seeds:
            self.move(CLEAR, _launch.address_of(seed), 0, seed.nbytes)
        if group.seed:
            (at,) = self.sorter.made_of(group.leader)
            self.move(CLEAR, group.seed, 0, self.values[at].type.nbytes)

    def reach(self, seeds: list[int]) -> tuple[set[int], set[int]] | None:
        """Return the regions and the outside values that gradients of the seeds reach.

        None if gradients reach only some members of groups whose derivative may be infinite.  The
        backward function would compute with gradients of 0 there, and 0 times infinity is not 0.
        """
        marks, ends = self.sorter.flow(seeds)
        ends.update(base for base in (int(self.root[i]) for i in seeds) if self.is_outside(base))
        rough: dict[Any, set[bool]] = {}
        for group in self.groups:
            if not group.node.smooth:
                key = group.family or group
                members = self.sorter.members_of(group.at, group.count)
                rough.setdefault(key, set()).update([marks[i] for i in members])
        if any(len(found) > 1 for found in rough.values()):
            return None
        return {i for i, on in enumerate(marks) if on}, self.ends_of(seeds, ends)

    def ends_of(self, seeds: Iterable[int], regions_tell: set[int]) -> set[int]:
        """Return those outside values in `regions_tell` that gradients of the seeds come to.

        These are all of `regions_tell` if each result of a region hands a gradient to all operands.
        Otherwise a leaf that no seed depends on would get a gradient of 0 instead of none.
        """
        flows = _slabs.uneven(self.sorter, self.groups)
        if not flows:
            return regions_tell
        words = np.empty(2 * len(self.region), np.int64)
        found: set[int] = _slabs.told_apart(self.sorter, flows, seeds, regions_tell, words)
        return found

    def push_again(self, seeds: dict[int, Any], reached: set[int]) -> None:
        """Run `push_back` through the regions in `reached`, perhaps not for the first time."""
        if self.passed:
            for group in self.groups:
                self.forget(group)
        members_of = self.sorter.members_of
        each = [members_of(group.at, group.count) for group in self.groups]
        self.push_back(seeds, [not reached.isdisjoint(members) for members in each])

    def backward_again(
        self, seeds: dict[int, Any], reached: set[int], ends: set[int], ledger: ParameterGradients
    ) -> list[tuple[int, Any]] | None:
        """Run the backward pass through some regions of a flush that is kept.

        The gradients of leaves go to the ledger; those of the remaining outside values are
        returned.
        Returns None, with nothing in the ledger, if a backward function has failed.

        seeds: the gradients of the roots, by index
        reached: the regions that gradients flow through, see `reach`
        ends: the outside values that gradients come to, see `reach`
        """
        self.totals = {}
        for i in self.sorter.leaves:
            self.gradients[i] = 0
        try:
            with self.quiet():
                self.push_again(seeds, reached)
        except Unsuited:
            raise
        except Exception as fault:
            if self.passed:  # a part has been passed: single nodes can no longer take over
                raise
            if not isinstance(fault, KernelFailure):  # the nodes tell which op has failed
                defects.note(fault, site=current_site())
            return None
        self.passed = True
        if _hot.current_trace().fiber is not None:
            self.keep_tails()
        ledger.put_off(self, ends)
        found = []
        for i, g in self.sums():
            value = self.values[i]
            if i not in ends:
                continue  # only members of the groups that no gradient flows through read the value
            if value.leaf is None:
                found.append((i, g))
            else:
                ledger.add(value, g)
        return found

    def keep_tails(self) -> None:
        """Copy what the gradients of parameters read.

        Fibers take turns within their passes, and the next pass writes to the same memory.
        """
        for _, slabs, *_ in self.tails.values():
            for rows in slabs:
                rows[:] = [x if type(x) is Value else x.copy() for x in rows]

    def covers(self, roots: list[int]) -> bool:
        """Whether the backward pass reaches the regions that make these values."""
        region, root, reached = self.region, self.root, self.sorter.reached
        for i in roots:
            g = region[root[i]]
            if g < 0 or not reached[g]:
                return False
        return True

    def check_gradients(self) -> None:
        """Raises Unsuited if a later backward pass would add gradients of a type not supported."""
        made_of = self.sorter.made_of
        results = [at for group in self.groups for at in made_of(group.leader)]
        for i in (*results, *self.sorter.leaves):
            value = self.values[i]
            if value.requires_grad:
                is_wide(value.type.dtype.numpy)

    def add_seed(self, i: int, seed: NDArray[Any] | None) -> None:
        """Add a seed to the collected gradient of a root; a seed of None stands for ones."""
        type_ = self.values[i].type
        base = int(self.root[i])
        if self.is_outside(base):  # the root is a view of a value that the flush began with
            self.make_leaf_gradient(base)
        target = self.target_of(base)
        if target == 0:
            return
        if seed is None:
            seed = ones(type_)
        else:
            seed = dense(np.asarray(seed))
        self.add_array(target + int(self.offset[i]), seed)

    def add_array(self, target: int, array: NDArray[Any]) -> None:
        """Add the elements of a dense array to those at an address."""
        if self.accelerator is not None:
            array = self.accelerator.copied(array)
        self.move(ADD, target, _launch.address_of(array), array.nbytes, is_wide(array.dtype))

    def back(self, group: GroupFields) -> None:
        """Push the gradients of a group's values back to the group's operands."""
        template, sorter = group.template, self.sorter
        if not template.gives:
            return
        types = template.gradient_types(group.types, group.numbers)
        arrays = group.arrays + group.seeds
        found: list[Any] = []
        if template.backward is not None:
            found = template.backward(arrays, types, group.numbers)
        operands = sorter.operands_of(group.leader)
        for k, g in zip(template.targets, found):
            g = dense(g)
            if self.accelerator is not None:
                g = self.accelerator.copied(g)
            if template.grows[k] and not group.alone:
                size = g.nbytes // group.n
                wide = is_wide(g.dtype)
                address, by_rows = _launch.address_of(g), group.by_rows
                sorter.scatter(group.at, group.count, k, size, self, address, by_rows, wide)
                self.make_moves(wide)
            else:
                self.add_to(operands[k], apart_from(arrays, g, self.place))
        if template.late:
            made = iter(found[len(template.targets) :])
            kept = [arrays[i] if i >= 0 else next(made) for i in template.border]
            self.put_off(group.node, template, operands, group.numbers, kept)

    def put_off(
        self,
        node: GroupNode,
        template: Template,
        operands: list[int],
        numbers: list[Any],
        kept: list[Any],
    ) -> None:
        """Keep the arrays that the gradients of parameters read.

        operands: the operands of a member; parameters are the same for all members
        """
        shared = tuple([at for at, on in zip(operands, template.grows, strict=True) if not on])
        key = (node, template, shared)
        entry = self.tails.get(key)
        if entry is None:
            targets = [operands[k] for k in template.late]
            entry = self.tails[key] = (template, [[] for _ in kept], targets, numbers)
        for slab, array in zip(entry[1], kept, strict=True):
            slab.append(array)

    def finish_tail(
        self, template: Template, slabs: list[list[Any]], targets: list[int], numbers: list[Any]
    ) -> None:
        """Compute the gradients of parameters over the rows of all groups, and add them up."""
        for at, g in zip(targets, run_tail(template, slabs, numbers), strict=True):
            self.add_to(at, g)

    def add_to(self, at: int, g: NDArray[Any]) -> None:
        """Add g to the gradient of the value `at`."""
        base = int(self.root[at])
        if self.is_outside(base):
            if base == at:
                g = dense(g)
                if self.room.holds(_launch.address_of(g)) is not None:
                    g = self.copied(g)  # g lies in memory that the next flush reuses
                self.totals.setdefault(base, []).append(g)
                return
            self.make_leaf_gradient(base)
        target = self.target_of(base)
        if target:
            g = dense(g)
            self.add_array(target + int(self.offset[at]), g)

    def target_of(self, base: int) -> int:
        """Return the address where gradients of a value are added up; 0 for nowhere."""
        target = int(self.gradients[base])
        if target & 1:  # see `_grouper.Grouper.put_first`
            target -= 1
            self.move(CLEAR, target, 0, self.values[base].type.nbytes)
            self.gradients[base] = target
        return target

    def make_leaf_gradient(self, base: int) -> None:
        """Make memory for the gradient of a value from outside, if the value requires grad."""
        if self.gradients[base] == 0 and self.values[base].requires_grad:
            type_ = self.values[base].type
            made = self.empty(type_.dims, type_.dtype.numpy)
            self.sorter.move(CLEAR, _launch.address_of(made), 0, made.nbytes)
            self.totals.setdefault(base, []).append(made)
            self.gradients[base] = _launch.address_of(made)


_ONES: dict[Any, Any] = {}  # arrays of a single element, 1, by dtype


def ones(type_: TensorType) -> NDArray[Any]:
    """Return the gradient of ones, for a root whose gradient is not given."""
    if type_.dims:
        return np.ones(type_.dims, type_.dtype.numpy)
    found = _ONES.get(type_.dtype)
    if found is None:
        found = _ONES[type_.dtype] = np.ones((), type_.dtype.numpy)
    return found
