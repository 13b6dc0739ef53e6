"""Runs what never repeats op by op, on addresses: of such programs only single ops come back.

Where not even regions are alike from flush to flush, each op is a region of its own, of which the
structure is known.  Its forward and backward functions are bound once (a `Cell`); a flush is then a
native loop over cells in the order of recording, and its backward pass one in reverse order.  What
has no machine code (yet) is run by `Forward.run` and `Execution.back` in between.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from wend.core import _hot
from wend.runtime import _launch_select, _slabs_select
from wend.runtime.arena import aligned
from wend.runtime.batches import Groups
from wend.runtime.calls import words_of
from wend.runtime.execution_backward import Execution
from wend.runtime.families import Unsuited, is_wide
from wend.runtime.structure import SINGLES

_launch: Any = _launch_select.select()
_slabs: Any = _slabs_select.select()

#: Operands, results, and what the backward pass makes, of an op that is run on addresses.
MOST_ENTRIES = 64
_NOTHING: AbstractContextManager[Any] = nullcontext()


class Alone(Execution):
    """One flush of single ops, and the gradients that flow through it."""

    book = SINGLES

    def quiet(self) -> AbstractContextManager[Any]:
        """Of most flushes nothing is run by NumPy; what is takes care of itself."""
        return _NOTHING

    def forward(self) -> None:
        """Compute what is marked."""
        sorter = self.sorter
        pool, address_of = np.asarray(sorter.pool), _launch.address_of
        self.ops = ops = _launch.Singles(
            self.values, address_of(self.words), self.n_steps, address_of(pool)
        )
        space, gradients = ops.lay_out(sorter.nodes, self.book.cells)
        #: (address, bytes) of gradients of results, which begin as zeros
        self.cleared: list[tuple[int, int]] = []
        start = self.piece(8 * MOST_ENTRIES + space, gradients if self.with_gradients else 0)
        ops.begin(start + 8 * MOST_ENTRIES, space, start)
        self.others: dict[int, Any] = {}  # what the loop has left
        n = len(sorter.nodes)
        g = ops.forward(0, sorter.needed)
        while g < n:
            g = ops.forward(self.run_other(g), sorter.needed)

    def piece(self, space: int, cleared: int) -> int:
        """Address of memory for some bytes, and some more that are 0."""
        address = int(self.room.take(space + cleared))
        _slabs.set_zero(address + space, cleared)
        if cleared:
            self.cleared.append((address + space, cleared))
        return address

    @np.errstate(all="ignore")
    def run_other(self, g: int) -> int:
        """Run an op that has no cell, or make it one if that can be; returns where to go on.

        An op whose kernel noted a failure is run here too, and raises.
        """
        sorter = self.sorter
        node = sorter.nodes[g]
        group = _slabs.Group(node, [g], sorter)
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
        """Gradients of values from outside, for those of the roots (None for ones)."""
        self.push_through(seeds, self.sorter.reached)
        if self.tails:
            with np.errstate(all="ignore"):
                for tail in self.tails.values():
                    self.finish_tail(*tail)
        return self.sums()

    def push_through(self, seeds: dict[int, Any], reached: list[bool]) -> None:
        """Run the backward functions of some ops.  Raises Unsuited."""
        for i, seed in seeds.items():
            self.add_seed(i, seed)
        ops, ask = self.ops, self.make_leaf_gradient
        scratch = self.piece(ops.most_back(), 0)
        g = len(reached)
        while g >= 0:
            g = ops.backward(g - 1, reached, scratch, ask)
            if g == -2:
                raise Unsuited
            if g >= 0:
                group = self.others[g]
                if group.node.joined:
                    self.share_out(group)
                elif group.template.n_given:
                    with np.errstate(all="ignore"):
                        self.back(group)

    def push_again(self, seeds: dict[int, Any], reached: set[int]) -> None:
        """As `push_through`, perhaps not for the first time."""
        if self.passed:
            for address, size in self.cleared:
                _slabs.set_zero(address, size)
            for group in self.others.values():
                self.forget(group)
        self.push_through(seeds, [g in reached for g in range(len(self.sorter.nodes))])

    def backward_again(
        self, seeds: dict[int, Any], reached: set[int], ends: set[int], ledger: Any
    ) -> list[tuple[int, Any]] | None:
        """As that of `Execution`; None if a kernel could not be run."""
        try:
            return super().backward_again(seeds, reached, ends, ledger)
        except Unsuited:
            return None

    def check_gradients(self) -> None:
        """Raises Unsuited if a later backward pass would add gradients of a type that it cannot."""
        for value in self.values:
            if value.requires_grad:
                is_wide(value.type.dtype.numpy)

    def leave_open(self, wanted: list[int]) -> None:
        """Let a later backward pass find the way on from here."""
        super().leave_open(wanted)
        self.ops.values = self.values  # no longer those that lead here

    def told(self) -> tuple[Groups, Callable[[], dict[int, int]]]:
        """What says later what its ops were, and which one makes a value (`batches.Noted`)."""
        return partial(summary_of, self.sorter), partial(owners_of, self.sorter)


def summary_of(sorter: Any) -> list[Any]:
    """The ops of a flush as groups of one (`batches.Noted`)."""
    rows = zip(sorter.nodes, sorter.made_at, sorter.needed, strict=False)
    return [(node, 1, 1, True, int(sorter.made[at])) for node, at, on in rows if on]


def owners_of(sorter: Any) -> dict[int, int]:
    """Which of the groups of `summary_of` makes a value."""
    made, starts = sorter.made, sorter.made_at
    needed = [g for g, on in enumerate(sorter.needed) if on]
    return {
        int(i): k for k, g in enumerate(needed) for i in made[int(starts[g]) : int(starts[g + 1])]
    }


def cell_of(node: Any, template: Any, types: list[Any], numbers: list[Any]) -> Any:
    """What runs ops of a node on addresses; None if a part of it is no machine code."""
    forward, backward = template.forward, template.backward
    if node.n_out != 1 or template.exported != [0] or template.late:
        return None
    try:
        n = len(types)
        known = Bound(forward, types, numbers, n)
        cell = _launch.Cell(
            forward=known.frame, made=known.made, numbers=known.numbers, places=known.places,
            space=known.space, copies=known.copies, pick=forward.picks[0],
            picks=tuple(forward.picks), seed_bytes=0, backward=None, made_back=(),
            numbers_back=(), places_back=(), space_back=0, copies_back=(), targets=(),
            weighted=known.weighted, entries=n + len(known.places),
        )  # fmt: skip
        if template.n_given:
            (out, *_) = forward.out_types(types, numbers)
            is_wide(out.dtype.numpy)
            cell.seed_bytes = aligned(out.nbytes)
        if backward is not None and template.n_given:
            fill_backward(cell, template, types, numbers)
        return cell if cell.entries <= MOST_ENTRIES else None
    except (LookupError, Unsuited):
        return None


def fill_backward(cell: Any, template: Any, types: list[Any], numbers: list[Any]) -> None:
    """Add what a cell's backward pass runs.  Raises LookupError, Unsuited."""
    function = template.backward
    types = template.gradient_types(types, numbers)
    known = Bound(function, types, numbers, len(types))
    cell.backward, cell.made_back, cell.numbers_back = known.frame, known.made, known.numbers
    cell.places_back, cell.space_back, cell.copies_back = known.places, known.space, known.copies
    cell.weighted |= known.weighted
    cell.entries = max(cell.entries, len(types) + len(known.places))
    table = [*types, *function.made_types(types, numbers)]
    cell.targets = tuple(
        [
            (k, pick, table[pick].nbytes, is_wide(table[pick].dtype.numpy))
            for k, pick in zip(template.targets, function.picks, strict=True)
        ]
    )


class Bound:
    """A function bound to types.  Raises LookupError if a part of it is no machine code."""

    def __init__(self, function: Any, types: list[Any], numbers: list[Any], n: int) -> None:
        """n: how many values there are before what it makes"""
        self.frame: Any = None
        self.made: tuple[int, ...] = ()
        self.numbers: tuple[Any, ...] = ()
        self.places: tuple[int, ...] = ()
        self.copies: tuple[Any, ...] = ()
        self.space = 0
        self.weighted = False
        if function.plan is None:
            return
        compiled = getattr(function.plan, "compiled", None)
        if compiled is None:
            raise LookupError
        made = function.made_types(types, numbers)
        found = compiled.bind([_hot.held(t, None) for t in (*types, *made)], numbers)
        if found is None:
            raise LookupError
        frame = found.frame
        if any(step[0] == 1 for step in frame.steps):
            raise LookupError
        spaces = [aligned(t.nbytes) for t in made]
        *places, self.space = accumulate(spaces, initial=0)
        self.places = tuple(places)
        self.copies = tuple([copied(frame, found, *give) for give in shown(frame)])
        self.weighted = bool(frame.weights)
        if any(step[0] == 0 for step in frame.steps):
            self.frame, self.made = frame, tuple(found.made)
            self.numbers = words_of(frame, types, numbers)


def shown(frame: Any) -> list[tuple[int, Any]]:
    """(value, how it lies in another) of results that have no array of their own."""
    made, _, _, lies = _launch.sources()
    return [
        (i, frame.shows[k] if source == lies else (source, k, True, None, None, 0, None))
        for i, source, k in frame.gives
        if source != made
    ]


def copied(frame: Any, found: Any, value: int, show: Any) -> tuple[Any, ...]:
    """(source, value, offset, bytes of an element, shape, strides) of a dense copy."""
    made, leaf, _, _ = _launch.sources()
    source, k, whole, shape, dtype, offset, strides = show
    if source not in (made, leaf) or whole:
        raise LookupError
    return (found.made[k] if source == made else k, value, offset, dtype.itemsize, shape, strides)


def is_settled(plan: Any) -> bool:
    """Whether there is machine code, or nothing to compute, or never will be."""
    return (
        plan is None
        or getattr(plan, "compiled", None) is not None
        or getattr(plan, "hopeless", True)
    )
