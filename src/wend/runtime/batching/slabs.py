"""Groups of one kind in a flush, run on addresses: no array is made for a single group.

What the groups of a family read and make lies in slabs, in the order in which they run: the rows of
one group behind those of the groups before it.  What the gradients of parameters read is then there
for all groups, side by side.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from wend.runtime.backend import NoMachineCode
from wend.runtime.batching import _slabs_select
from wend.runtime.batching.calls import fitted
from wend.runtime.batching.templates import more
from wend.runtime.compiled.arena import ALIGNMENT, aligned
from wend.runtime.native import _launch_select

_launch: Any = _launch_select.select()
_slabs: Any = _slabs_select.select()

#: Bound calls that one structure keeps, by the number of lanes; and of rows, for which frames are
#: shared.
MOST_CALLS, MOST_ROWS = 128, 1024
_REAL = frozenset({"f", "c"})
#: Memory is taken in blocks of so many bytes; so many are kept from flush to flush.
BLOCK, MOST_SPARE = 1 << 22, 1 << 26
#: Of a flush whose backward pass comes later, and which keeps its memory until then.
SMALL = 1 << 16
_SPARE: list[Any] = []  # blocks that no flush is using


class Unsuited(Exception):
    """Another executor has to run this."""


@cache
def is_wide(dtype: Any) -> bool:
    """Whether gradients of this dtype are added as float64, not as float32.  Raises Unsuited."""
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if dtype.kind not in _REAL or size < 4:
        raise Unsuited(f"gradients of {dtype} are not added natively")
    return bool(size == 8)


def wideness(dtype: Any) -> bool | None:
    """As `is_wide`; None if gradients are not added by native code."""
    try:
        return is_wide(dtype)
    except Unsuited:
        return None


class SlabAllocator(_slabs.BumpAllocator):  # type: ignore[misc]
    """Memory of one flush, handed out from one end to the other."""

    blocks: list[Any]
    block = BLOCK

    def add_block(self, size: int) -> tuple[int, int]:
        """Go on in a block of at least so many bytes: where it begins and ends."""
        block = None
        if self.block == BLOCK:
            for k in range(len(_SPARE) - 1, -1, -1):
                try:
                    if len(_SPARE[k]) >= size + ALIGNMENT:
                        block = _SPARE.pop(k)
                        break
                except IndexError:  # another thread was quicker
                    continue
        if block is None or len(block) < size + ALIGNMENT:
            block = np.empty(max(size, self.block) + ALIGNMENT, np.uint8)
        self.blocks.append(block)
        address = int(_launch.address_of(block))
        return aligned(address), address + len(block)

    def holds(self, address: int) -> Any:
        """The block that an address lies in; None for none."""
        for block in self.blocks:
            if 0 <= address - _launch.address_of(block) < len(block):
                return block
        return None

    def view(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """What lies at an address, as an array."""
        block = self.holds(address)
        if block is None:  # of no bytes, at the end
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, block, address - _launch.address_of(block))

    def free(self) -> None:
        """Let the next flush have it."""
        kept = sum([len(block) for block in _SPARE])
        for block in reversed(self.blocks):  # the next flush begins with the same, in cache
            kept += len(block)
            if kept > MOST_SPARE:
                break
            _SPARE.append(block)
        self.blocks = []


def is_ready(template: Any) -> bool:
    """Whether there is machine code for all that runs per group."""
    return all(
        function is None or getattr(function.plan, "compiled", None) is not None
        for function in (template.forward, template.backward)
    )


class Slab:
    """One value of groups of a structure: `size` bytes a row, 0 for what is the same for all."""

    __slots__ = ("dims", "dtype", "nbytes", "of_all", "size")

    def __init__(self, type_: Any, wider: Any, n: int) -> None:
        """type_, wider: of the value for n rows, and for more.

        Raises NoMachineCode if it depends on the number of rows in another way.
        """
        self.dims = type_.dims
        self.dtype = type_.dtype.numpy
        self.nbytes = type_.nbytes
        self.size = 0
        self.of_all = True  # whether all groups have their own rows, or each the same
        if wider.dims != self.dims:
            if self.dims[0] != n or wider.dims != (more(n), *self.dims[1:]):
                raise NoMachineCode
            self.size = self.nbytes // n

    def shape(self, rows: int) -> tuple[int, ...]:
        """Its shape for so many rows."""
        return (rows, *self.dims[1:]) if self.size else self.dims


class GroupRunner:
    """What runs groups of one structure, and what has been found out about it."""

    __slots__ = ("calls", "layout", "numbers", "template")

    def __init__(self, template: Any, numbers: list[Any]) -> None:
        self.template = template
        self.numbers = numbers
        self.calls: dict[int, Any] = {}  # bound to numbers of rows
        self.layout: SlabLayout | bool | None = None  # False: cannot run on addresses

    def calls_for(self, n: int) -> Any:
        """(forward, backward or None) for n rows; None if others have to run them."""
        found = self.calls.get(n)
        if found is not None:
            return found
        template, numbers = self.template, self.numbers
        assert type(self.layout) is SlabLayout
        types = template.widened(self.layout.types, n)
        try:
            forward, backward = fitted(template.forward, types, numbers), None
            if template.backward is not None:
                types = template.gradient_types(types, numbers)
                backward = fitted(template.backward, types, numbers)
        except NoMachineCode:
            return None
        if len(self.calls) >= MOST_ROWS:
            self.calls.clear()
        found = self.calls[n] = (forward, backward)
        return found


class SlabLayout(_slabs.Shape):  # type: ignore[misc]
    """How groups of one structure run on addresses, whatever their numbers of rows.

    slabs      of its values, by place: operands, results, their gradients, and what the backward
               function makes; None for operands that are the same for all
    sizes      of these, as `_slabs.Rows.lay_out` takes them
    """

    def __init__(self, entry: GroupRunner, types: list[Any], n: int) -> None:
        """types: of operands of n rows.  Raises NoMachineCode if that cannot be."""
        template, numbers = entry.template, entry.numbers
        self.types = types
        wider = template.widened(types, more(n))
        self.slabs: list[Any] = [
            Slab(t, w, n) if grows else None
            for t, w, grows in zip(types, wider, template.grows, strict=True)
        ]
        n_operands = len(types)
        forward = template.forward
        self.add(forward.made_types(types, numbers), forward.made_types(wider, numbers), n)
        self.n_results = len(self.slabs) - n_operands
        self.exported = tuple(zip(template.exported, forward.picks, strict=False))
        self.given: tuple[Any, ...] = ()
        self.scattered: tuple[Any, ...] = ()
        self.added: tuple[Any, ...] = ()
        order = [*range(n_operands), *forward.picks]
        if template.gives and template.n_given:
            given = [v for v, on in zip(template.exported, template.given, strict=True) if on]
            first = len(self.slabs)
            self.given = tuple(zip(given, range(first, first + len(given)), strict=True))
            now, later = [
                [t for t, on in zip(forward.out_types(ts, numbers), template.given) if on]
                for ts in (types, wider)
            ]
            self.add(now, later, n)
            order += range(first, len(self.slabs))
            if template.backward is not None:
                self.add_backward(entry, types, wider, n, order)
        self.order = tuple(order)
        self.sizes = np.array(
            [(-1, 0, 0) if s is None else (s.size, s.nbytes, s.of_all) for s in self.slabs],
            np.int64,
        )
        self.n_slabs, self.at_sizes = len(self.slabs), _launch.address_of(self.sizes)
        self.waits = bool(template.late)
        if 0 in [self.slabs[p].size for _, p in (*self.exported, *self.given)]:
            raise NoMachineCode

    def add(self, types: list[Any], wider: list[Any], n: int) -> None:
        """Add values of these types for n rows, and for more."""
        self.slabs += [Slab(t, w, n) for t, w in zip(types, wider, strict=True)]

    def add_backward(
        self, entry: GroupRunner, types: list[Any], wider: list[Any], n: int, order: list[int]
    ) -> None:
        """Add what the backward function makes; what waits is kept for all groups."""
        template, function = entry.template, entry.template.backward
        types = template.gradient_types(types, entry.numbers)
        wider = template.gradient_types(wider, entry.numbers)
        made = function.made_types(types, entry.numbers)
        first = len(self.slabs)
        self.add(made, function.made_types(wider, entry.numbers), n)
        order += range(first, len(self.slabs))
        waits = {order[p] for p in function.picks[len(template.targets) :]}
        for k in range(first, len(self.slabs)):
            self.slabs[k].of_all = k in waits
        scattered = []
        for k, pick in zip(template.targets, function.picks, strict=False):
            if not template.grows[k]:
                if pick < function.n or self.slabs[order[pick]].size:
                    raise NoMachineCode
                self.added += ((k, order[pick]),)
                continue
            type_ = types[pick] if pick < function.n else made[pick - function.n]
            scattered.append((k, pick, type_.nbytes // n, is_wide(type_.dtype.numpy)))
        self.scattered = tuple(scattered)


class Family(_slabs.Rows):  # type: ignore[misc]
    """Groups of one kind in one flush: their memory is laid out at once."""

    def add_shared(self) -> None:
        """Add gradients of operands that are the same for all members."""
        for k, place in self.added:
            self.run.add_to(self.sources[k], self.view(place).copy())

    def view(self, place: int) -> Any:
        """A value, of all rows that have been computed."""
        slab = self.layout.slabs[place]
        return self.run.room.view(self.address(place), slab.shape(self.used), slab.dtype)

    def kept(self) -> list[Any]:
        """What the gradients of parameters read: arrays of the rows of all groups."""
        template, order = self.template, self.order
        if template.backward is not None:
            carried = iter(template.backward.picks[len(template.targets) :])
        found = []
        for i in template.border:
            place = order[i if i >= 0 else next(carried)]
            if self.layout.slabs[place] is None:
                found.append(self.packable[place] or self.run.array(self.sources[place]))
            else:
                found.append(self.view(place))
        return found
