"""Runs programs op by op, on addresses, if not even the regions come back from flush to flush.

In such programs only single ops come back, so that each op is a region of its own.  The forward and
backward functions of an op are bound once, as a `Cell`.  A flush is then a native loop over cells
in the order of recording, and its backward pass is a loop in reverse order.  Between cells,
`Forward.run` and `Execution.back` run the ops that have no machine code (yet).

The workload `random_programs` takes a twelfth of the time: see decision 020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import accumulate
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base.devices import device
from wend._engine.core import _hot
from wend._engine.runtime.backend import NoMachineCode
from wend._engine.runtime.batching import _slabs_select
from wend._engine.runtime.batching.backward import Execution
from wend._engine.runtime.batching.calls import words_of
from wend._engine.runtime.batching.deferred_backward import ParameterGradients
from wend._engine.runtime.batching.noted import Groups
from wend._engine.runtime.batching.signatures import SINGLES, RegionTrie, Sorter
from wend._engine.runtime.batching.slabs import Unsuited, is_wide
from wend._engine.runtime.batching.templates import Template, TemplateFunction
from wend._engine.runtime.native import _launch_select
from wend._engine.runtime.native.temporaries import ALIGNMENT, aligned

if TYPE_CHECKING:
    from wend._engine.runtime.batching._grouper import GroupNode

_launch: ModuleType = _launch_select.select()
_slabs: ModuleType = _slabs_select.select()

#: Most operands, results and backward results together, of an op that is run on addresses.
MOST_ENTRIES = 64
#: Bytes of the table of their addresses; the word before the table is the arena's address.
TABLE = aligned(8 * MOST_ENTRIES)
_NOTHING: AbstractContextManager[Any] = nullcontext()


class PerOpExecution(Execution):
    """A flush of single ops, and the gradients that flow through it."""

    def find_book(self, place: device | None) -> RegionTrie:
        """Return the trie of the flush's regions."""
        return SINGLES

    def quiet(self) -> AbstractContextManager[Any]:
        """Return a context that does nothing: `run_other` silences the warnings of NumPy itself."""
        return _NOTHING

    def forward(self) -> None:
        """Compute the marked values."""
        sorter = self.sorter
        self.ops = ops = _launch.Singles(
            self.values, _launch.address_of(self.words), self.n_steps, sorter.pool_at()
        )
        space, gradients = ops.lay_out(sorter.nodes, self.book.cells)
        #: (address, bytes) of gradients of results, which begin as zeros
        self.cleared: list[tuple[int, int]] = []
        start = self.piece(ALIGNMENT + TABLE + space, gradients if self.with_gradients else 0)
        ops.begin(start + ALIGNMENT + TABLE, space, start + ALIGNMENT)
        self.others: dict[int, Any] = {}  # the ops that the native loop has left, as groups
        n = len(sorter.nodes)
        g = ops.forward(0, sorter.needed)
        while g < n:
            g = ops.forward(self.run_other(g), sorter.needed)

    def piece(self, space: int, cleared: int) -> int:
        """Return the address of new memory.

        space: bytes at the start, with any content
        cleared: bytes behind these that are set to 0
        """
        address = int(self.room.take(space + cleared))
        _slabs.set_zero(address + space, cleared)
        if cleared:
            self.cleared.append((address + space, cleared))
        return address

    @np.errstate(all="ignore")
    def run_other(self, g: int) -> int:
        """Make a cell for op g if that is possible, or run the op without a cell.

        Returns the op to go on with: g itself if g has a cell now.  An op whose kernel noted a
        failure is run here too, and raises.
        """
        sorter = self.sorter
        node = sorter.nodes[g]
        if sorter.sequence is None:
            sorter.take_each()
        group = _slabs.Group(node, g, 1, g, sorter)
        if not node.joined:
            node.mask |= self.mask_of(g)
            if node not in self.book.cells and sorter.reached[g] == node.grad:
                types = self.types_of(group)
                entry = self.entry_of(group, types)
                template = entry.template
                if is_settled(template.forward.plan) and (
                    template.backward is None or is_settled(template.backward.plan)
                ):
                    cell = self.book.cells[node] = cell_of(node, template, types, entry.numbers)
                    if cell is not None:
                        address = self.piece(cell.space, cell.seed_bytes)
                        self.ops.give(g, cell, address, address + cell.space)
                        return g
        self.ops.give(g, None, 0, 0)
        self.others[g] = group
        if node.joined:
            self.lay(group)
        else:
            self.run(group)
        return g + 1

    def backward(self, seeds: dict[int, Any]) -> list[tuple[int, Any]]:
        """Return (index, gradient) of values from outside.

        seeds: the gradients of the roots by index; None for a gradient of ones
        """
        self.push_through(seeds, self.sorter.reached)
        if self.tails:
            with np.errstate(all="ignore"):
                for tail in self.tails.values():
                    self.finish_tail(*tail)
        return self.sums()

    def push_through(self, seeds: dict[int, Any], reached: list[bool]) -> None:
        """Run the backward functions of the ops that `reached` marks.

        Raises Unsuited if the gradient of an op has no machine code.
        """
        for i, seed in seeds.items():
            self.add_seed(i, seed)
        ops, ask = self.ops, self.make_leaf_gradient
        scratch = self.piece(ops.most_back(), 0)
        g = len(reached)
        while g >= 0:
            g = ops.backward(g - 1, reached, scratch, ask)
            if g == -2:
                raise Unsuited("the gradient of an op has no machine code")
            if g >= 0:
                group = self.others[g]
                if group.node.joined:
                    self.share_out(group)
                elif group.template.n_given:
                    with np.errstate(all="ignore"):
                        self.back(group)

    def push_again(self, seeds: dict[int, Any], reached: set[int]) -> None:
        """Run `push_through` over the ops in `reached`, perhaps not for the first time."""
        if self.passed:
            for address, size in self.cleared:
                _slabs.set_zero(address, size)
            for group in self.others.values():
                self.forget(group)
        self.push_through(seeds, [g in reached for g in range(len(self.sorter.nodes))])

    def backward_again(
        self, seeds: dict[int, Any], reached: set[int], ends: set[int], ledger: ParameterGradients
    ) -> list[tuple[int, Any]] | None:
        """Run `Execution.backward_again`; return None if a gradient has no machine code."""
        try:
            return super().backward_again(seeds, reached, ends, ledger)
        except Unsuited:  # `Unsuited` is a decision, no failure: nodes are passed singly
            return None

    def check_gradients(self) -> None:
        """Raises Unsuited if a later backward pass would add gradients of a type not supported."""
        for value in self.values:
            if value.requires_grad:
                is_wide(value.type.dtype.numpy)

    def leave_open(self, wanted: list[int]) -> None:
        """Leave a segment that a later backward pass can go through."""
        super().leave_open(wanted)
        self.ops.values = self.values  # the old values refer to this execution: no cycle

    def told(self) -> tuple[Groups, Callable[[], dict[int, int]]]:
        """Return functions that list the ops, and which op makes each value (`report.Noted`)."""
        return partial(summary_of, self.sorter), partial(owners_of, self.sorter)


def summary_of(sorter: Sorter) -> list[Any]:
    """Return the ops of a flush as groups of a single member (`report.Noted`)."""
    return [(sorter.nodes[g], 1, 1, True, sorter.made_of(g)[0]) for g in needed_of(sorter)]


def owners_of(sorter: Sorter) -> dict[int, int]:
    """Return by value the number of the group of `summary_of` that makes the value."""
    return {i: k for k, g in enumerate(needed_of(sorter)) for i in sorter.made_of(g)}


def needed_of(sorter: Sorter) -> list[int]:
    """Return the numbers of the ops of a flush that were run."""
    return [g for g, on in enumerate(sorter.needed) if on]


def cell_of(node: GroupNode, template: Template, types: list[Any], numbers: list[Any]) -> Any:
    """Return a `Cell` that runs ops of a node on addresses; None if a part has no machine code."""
    forward, backward = template.forward, template.backward
    if node.n_out != 1 or template.exported != [0] or template.late:
        return None
    try:
        n = len(types)
        known = BoundFunction(forward, types, numbers, n)
        back, targets, seed_bytes, entries = NO_BOUND, [], 0, n + len(known.places)
        if template.n_given:
            (out, *_) = forward.out_types(types, numbers)
            is_wide(out.dtype.numpy)
            seed_bytes = aligned(out.nbytes)
        if backward is not None and template.n_given:
            types = template.gradient_types(types, numbers)
            back = BoundFunction(backward, types, numbers, len(types))
            table = [*types, *backward.made_types(types, numbers)]
            entries = max(entries, len(table))
            targets = [
                (k, pick, table[pick].nbytes, is_wide(table[pick].dtype.numpy))
                for k, pick in zip(template.targets, backward.picks, strict=True)
            ]
    except (NoMachineCode, Unsuited):
        # There is no machine code for the op: the op is a group by itself.
        return None
    if entries > MOST_ENTRIES:
        return None
    rows: list[Sequence[int]] = [
        known.places, known.views, forward.picks, back.places, back.views,
        [word for target in targets for word in target], known.plain, back.plain,
    ]  # fmt: skip
    memory = np.array([word for row in rows for word in row], np.int64)
    starts = accumulate((8 * len(row) for row in rows), initial=_launch.address_of(memory))
    places, views, picks, places_back, views_back, at, plain, plain_back, _ = starts
    return _launch.Cell(
        forward=known.frame, made=known.made, numbers=known.numbers,
        plain=plain if known.plain else 0, n_places=len(known.places), places=places, views=views,
        space=known.space, pick=forward.picks[0], n_picks=len(forward.picks), picks=picks,
        seed_bytes=seed_bytes, backward=back.frame, made_back=back.made,
        numbers_back=back.numbers, plain_back=plain_back if back.plain else 0,
        n_places_back=len(back.places), places_back=places_back, views_back=views_back,
        space_back=back.space, n_targets=len(targets), targets=at,
        arena_bytes=max(known.arena_bytes, back.arena_bytes),
        weighted=known.weighted or back.weighted, entries=entries, memory=memory,
    )  # fmt: skip


class BoundFunction:
    """A function bound to types.  Raises NoMachineCode if a part of it has no machine code."""

    def __init__(
        self, function: TemplateFunction | None, types: list[Any], numbers: list[Any], n: int
    ) -> None:
        """n: how many values come before the values that the function makes"""
        self.frame: Any = None
        self.made: tuple[int, ...] = ()
        self.numbers: tuple[Any, ...] = ()
        self.places: tuple[int, ...] = ()
        self.views = [0]  # see `_launch.copy_views`
        self.plain: list[int] = []  # see `_launch.run_plain`
        self.space = self.arena_bytes = 0
        self.weighted = False
        if function is None or function.plan is None:
            return
        compiled = getattr(function.plan, "compiled", None)
        if compiled is None:
            raise NoMachineCode
        made = function.made_types(types, numbers)
        found = compiled.bind([_hot.held(t, None) for t in (*types, *made)], numbers)
        if found is None:
            raise NoMachineCode
        frame = found.frame
        if any(step[0] == 1 for step in frame.steps):
            raise NoMachineCode
        spaces = [aligned(t.nbytes) for t in made]
        *places, self.space = accumulate(spaces, initial=0)
        self.places = tuple(places)
        copies = [copied(frame, found, *give) for give in shown(frame)]
        self.views = [len(copies), *[word for copy in copies for word in copy]]
        if any(step[0] == 0 for step in frame.steps):
            self.weighted = bool(frame.weights)
            self.frame, self.made = frame, found.plan.made
            self.numbers = words_of(frame, types, numbers)
            if not frame.release:
                self.plain = plain_words(frame, self.made, self.numbers)
                self.arena_bytes = frame.arena_bytes


#: A stand-in for an op without a backward function.
NO_BOUND = BoundFunction(None, [], [], 0)


def plain_words(frame: Any, made: Sequence[int], numbers: Sequence[Any]) -> list[int]:
    """Return the words that `_launch.run_plain` reads: for operands that are not packed."""
    sources = [(-1, 0), *[(i, 0) for i in (*frame.leaves, *made)]]
    places = dict(enumerate(sources))
    words = [(at, bits_of(number) if kind == 2 else int(number)) for at, number, kind in numbers]
    for _, _, place, home, offset, private, choices, _ in frame.weights:
        places[place // 8] = (sources[home // 8][0], offset) if private < 0 else (-1, private)
        words += [(at, packed_else) for at, _, packed_else in choices]
    start = (frame.patches - _launch.address_of(frame.memory)) // 8
    patches: list[int] = []
    for k in range(start, start + 3 * frame.n_patches, 3):
        at, place, offset = frame.memory[k : k + 3].tolist()
        i, more = places[place]
        patches += (at, i, offset + more)
    runs = [(frame.fault + s[1], s[2], frame.scratch) for s in frame.steps if s[0] == 0]
    return [
        frame.n_patches, *patches,
        len(words), *[word for at, bits in words for word in (frame.fault + at, bits)],
        frame.fault,
        len(runs), *[word for run in runs for word in run],
    ]  # fmt: skip


def bits_of(number: float) -> int:
    """Return the bits of a float64 as an int64."""
    return int(np.float64(number).view(np.int64))


def shown(frame: Any) -> list[tuple[int, Any]]:
    """Return (value, the row that locates it) for results that have no array of their own.

    The row is as in `frame.shows`: the array that holds the result, and the result's place there.
    """
    made, _, _, lies = _launch.sources()
    return [
        (i, frame.shows[k] if source == lies else (source, k, True, None, None, 0, None))
        for i, source, k in frame.gives
        if source != made
    ]


def copied(frame: Any, found: Any, value: int, show: Any) -> list[int]:
    """Return the words that `_launch.copy_views` reads to make a dense copy of a result.

    Raises NoMachineCode if the result is all of an array, or lies in another kind of array.
    """
    made, leaf, _, _ = _launch.sources()
    source, k, whole, shape, dtype, offset, strides = show
    if source not in (made, leaf) or whole:
        raise NoMachineCode
    if source == made:
        k = found.plan.made[k]
    lies = [word for pair in zip(shape, strides, strict=True) for word in pair]
    return [k, value, offset, dtype.itemsize, len(shape), *lies]


def is_settled(plan: object) -> bool:
    """Whether a plan has machine code or will never have any; also true if there is no plan."""
    return (
        plan is None
        or getattr(plan, "compiled", None) is not None
        or getattr(plan, "hopeless", True)
    )
