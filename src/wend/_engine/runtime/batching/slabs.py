"""Groups of a kind in a flush, run on addresses: no array is made for a single group.

A family is the groups of a kind.  The operands and results of a family lie in slabs, in the order
in which the groups run.  The rows of each group lie behind the rows of the groups before it.  The
rows that the gradients of parameters read therefore lie side by side for all groups.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wend._engine.core._types import TensorType
from wend._engine.runtime.backend import NoMachineCode
from wend._engine.runtime.batching import _slabs_select
from wend._engine.runtime.batching.calls import fitted
from wend._engine.runtime.batching.templates import Template, more
from wend._engine.runtime.devices.queue import Accelerator
from wend._engine.runtime.native import _launch_select
from wend._engine.runtime.native.temporaries import ALIGNMENT, aligned

if TYPE_CHECKING:
    from numpy.typing import NDArray

_launch: ModuleType = _launch_select.select()
_slabs: Any = _slabs_select.select()

#: Most bound calls that a structure keeps: by number of lanes, and by number of rows.  Calls for
#: different numbers of rows share a frame, so that more of these are kept.
MOST_CALLS, MOST_ROWS = 128, 1024
_REAL = frozenset({"f", "c"})
#: Bytes of a block of memory, and most bytes of blocks that are kept from flush to flush.
BLOCK, MOST_SPARE = 1 << 22, 1 << 26
#: Bytes of a block in a flush that keeps the memory until the backward pass comes later.
SMALL = 1 << 16
#: Bytes of a block of an accelerator's memory, which the pool keeps for the next flush.
DEVICE_BLOCK = 1 << 20
_SPARE: list[Any] = []  # blocks that no flush is using


class Unsuited(Exception):
    """Another executor has to run this."""


@cache
def is_wide(dtype: np.dtype[Any]) -> bool:
    """Whether gradients of this dtype are added as float64, not as float32.  Raises Unsuited."""
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if dtype.kind not in _REAL or size < 4:
        raise Unsuited(f"gradients of {dtype} are not added natively")
    return bool(size == 8)


def wideness(dtype: np.dtype[Any]) -> bool | None:
    """Return `is_wide` of the dtype; None if native code does not add gradients of the dtype."""
    try:
        return is_wide(dtype)
    except Unsuited:  # a type whose gradients are not added in memory
        return None


class SlabAllocator(_slabs.BumpAllocator):  # type: ignore[misc]
    """Memory of a flush, handed out from start to end."""

    blocks: list[Any]
    block = BLOCK

    def add_block(self, size: int) -> tuple[int, int]:
        """Begin a block of at least `size` bytes; return the addresses of the start and end."""
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
        """Return the block that an address lies in; None if there is no such block."""
        for block in self.blocks:
            if 0 <= address - _launch.address_of(block) < len(block):
                return block
        return None

    def view(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the memory at an address as an array."""
        block = self.holds(address)
        if block is None:  # an array of no bytes may lie at the very end of a block
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, block, address - _launch.address_of(block))

    def free(self) -> None:
        """Hand the blocks to the next flush."""
        kept = sum([len(block) for block in _SPARE])
        for block in reversed(self.blocks):  # the next flush begins with a block that is in cache
            kept += len(block)
            if kept > MOST_SPARE:
                break
            _SPARE.append(block)
        self.blocks = []


class DeviceSlabs(SlabAllocator):
    """Memory of a flush that an accelerator runs, of the accelerator's pool."""

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__()
        self.accelerator = accelerator

    def add_block(self, size: int) -> tuple[int, int]:
        """Begin a block of at least `size` bytes; return the addresses of the start and end."""
        block = self.accelerator.empty(max(size, DEVICE_BLOCK) + ALIGNMENT, np.uint8)
        self.blocks.append(block)
        address = int(_launch.address_of(block))
        return aligned(address), address + len(block)

    def free(self) -> None:
        """Leave the blocks to the pool."""
        self.blocks = []


def is_ready(template: Template) -> bool:
    """Whether there is machine code for the functions that run per group.

    A backward function without a plan hands gradients on as they are.
    """
    backward = template.backward
    return all(
        getattr(plan, "compiled", None) is not None
        for plan in (template.forward.plan, None if backward is None else backward.plan)
        if plan is not None
    )


class GroupFields(Protocol):
    """Members of the same structure that run together: see `_slabs.Group`."""

    node: Any
    at: int
    count: int
    leader: int
    alone: bool
    by_rows: bool
    n: int
    lift: int
    seeds: Any
    seed: int
    family: Any
    template: Any
    numbers: list[Any]
    types: list[Any]
    arrays: list[Any]


class Slab:
    """A value of all groups of a structure: `size` bytes a row, 0 if all rows share the value."""

    __slots__ = ("dims", "dtype", "grows", "nbytes", "of_all", "size")

    def __init__(self, type_: TensorType, wider: TensorType, n: int) -> None:
        """Find out how the value depends on the number of rows.

        type_: the value's type for n rows
        wider: the value's type for `more(n)` rows
        n: 0 for a member by itself, whose values have a size and no rows
        Raises NoMachineCode if anything but the first dim depends on the number of rows.
        """
        self.dims = type_.dims
        self.dtype = type_.dtype.numpy
        self.nbytes = type_.nbytes
        self.size = 0 if n else self.nbytes
        self.of_all = True  # whether each group has rows of its own; else all groups share memory
        self.grows = wider.dims != self.dims
        if self.grows:
            if self.dims[0] != n or wider.dims != (more(n), *self.dims[1:]):
                raise NoMachineCode
            self.size = self.nbytes // n

    def shape(self, rows: int) -> tuple[int, ...]:
        """Return the value's shape for a number of rows."""
        return (rows, *self.dims[1:]) if self.grows else self.dims


class GroupRunner:
    """A template that runs the groups of a structure, with the calls and layout found so far."""

    __slots__ = ("calls", "layout", "numbers", "template")

    def __init__(self, template: Any, numbers: list[Any]) -> None:
        self.template = template
        self.numbers = numbers
        self.calls: dict[int, Any] = {}  # bound calls, by number of rows
        self.layout: SlabLayout | bool | None = None  # False: cannot run on addresses

    def calls_for(self, n: int) -> Any:
        """Return the calls for n rows, see `_slabs.Rows`; None without machine code."""
        found = self.calls.get(n)
        if found is not None:
            return found
        template, numbers = self.template, self.numbers
        layout = self.layout
        assert type(layout) is SlabLayout
        types = layout.types if layout.in_place else template.widened(layout.types, n)
        before = None
        backward: Any = None
        try:
            forward = fitted(template.forward, types, numbers)
            made = [*types, *template.forward.made_types(types, numbers)]
            if template.backward is not None:
                types = template.gradient_types(types, numbers)
                backward = ()
                if template.backward.plan is not None:
                    backward = fitted(template.backward, types, numbers)
                before = [*types, *template.backward.made_types(types, numbers)]
        except NoMachineCode:  # no machine code for this number of rows yet
            return None
        if len(self.calls) >= MOST_ROWS:
            self.calls.clear()
        found = self.calls[n] = (forward, backward, made, before)
        return found


class SlabLayout(_slabs.Shape):  # type: ignore[misc]
    """How groups of a structure run on addresses, for any numbers of rows.

    slabs      a `Slab` for each value, by place: operands, results, gradients of results, results
               of the backward function; None for operands that are the same for all members
    sizes      three words for each slab, as `_slabs.Rows.lay_out` takes them
    """

    def __init__(self, entry: GroupRunner, types: list[Any], n: int) -> None:
        """Lay out the values of a structure.

        types: the types of operands of n rows
        n: 0 for a member by itself, which reads all operands in place
        Raises NoMachineCode if the structure cannot run on addresses.
        """
        template, numbers = entry.template, entry.numbers
        self.types = types
        self.in_place = n == 0
        wider = types if self.in_place else template.widened(types, more(n))
        self.slabs: list[Any] = [
            Slab(t, w, n) if grows and n else None
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
        self.nbytes = sum([s.nbytes for s in self.slabs if s is not None])
        self.waits = bool(template.late)
        placed = [self.slabs[p] for _, p in (*self.exported, *self.given)]
        if any(slab is None or slab.size == 0 for slab in placed):
            raise NoMachineCode

    def add(self, types: list[Any], wider: list[Any], n: int) -> None:
        """Add a slab for each value.

        types: the types of the values for n rows
        wider: the types of the values for `more(n)` rows
        """
        self.slabs += [Slab(t, w, n) for t, w in zip(types, wider, strict=True)]

    def add_backward(
        self, entry: GroupRunner, types: list[Any], wider: list[Any], n: int, order: list[int]
    ) -> None:
        """Add the results of the backward function.

        Each group overwrites the results of the group before, except the results that gradients of
        parameters wait for: these have rows for all groups.
        """
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
            if not (template.grows[k] or self.in_place):
                if pick < function.n or self.slabs[order[pick]].size:
                    raise NoMachineCode
                self.added += ((k, order[pick]),)
                continue
            type_ = types[pick] if pick < function.n else made[pick - function.n]
            scattered.append((k, pick, type_.nbytes // (n or 1), is_wide(type_.dtype.numpy)))
        self.scattered = tuple(scattered)


class Family(_slabs.Rows):  # type: ignore[misc]
    """Groups of a kind in a flush, whose memory is laid out at once."""

    def add_shared(self) -> None:
        """Add gradients of operands that are the same for all members."""
        for k, place in self.added:
            self.run.add_to(self.sources[k], self.run.copied(self.view(place)))

    def view(self, place: int) -> Any:
        """Return the array of a value, of all rows that have been computed."""
        slab = self.layout.slabs[place]
        return self.run.room.view(self.address(place), slab.shape(self.used), slab.dtype)

    def kept(self) -> list[Any]:
        """Return the arrays that the gradients of parameters read, of the rows of all groups."""
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
