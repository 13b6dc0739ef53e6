"""Groups of one kind in a flush, run on addresses: no array is made for a single group.

What the groups of a family read and make lies in slabs, in the order in which they run: the rows of
one group behind those of the groups before it.  What the gradients of parameters read is then there
for all groups, side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.core import _hot
from wend.runtime import _launch_select, _sort_select
from wend.transforms.rows import with_rows

_sort: Any = _sort_select.select()
_launch: Any = _launch_select.select()

#: Bound calls that the regions of one structure keep, by the number of rows.
MOST_CALLS = 128
_REAL = frozenset({"f", "c"})
#: Memory is taken in blocks of so many bytes; so many are kept from flush to flush.
BLOCK, MOST_SPARE = 1 << 22, 1 << 26
#: Of a flush whose backward pass comes later, and which keeps its memory until then.
SMALL = 1 << 16
_ALIGNMENT = 64
_SPARE: list[Any] = []  # blocks that no flush is using


class Unsuited(Exception):
    """Another executor has to run this."""


def is_wide(dtype: Any) -> bool:
    """Whether gradients of this dtype are added as float64, not as float32.  Raises Unsuited."""
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if dtype.kind not in _REAL or size < 4:
        raise Unsuited
    return bool(size == 8)


class Room:
    """Memory of one flush, handed out from one end to the other."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        self.at = self.end = 0
        self.block = BLOCK

    def array(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array without a content."""
        size = -(-int(np.prod(shape, dtype=np.int64)) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        if self.at + size > self.end:
            self.add_block(size)
        found = np.ndarray(shape, dtype, self.blocks[-1], self.at)
        self.at += size
        return found

    def add_block(self, size: int) -> None:
        """Go on in a block of at least so many bytes."""
        block = None
        if _SPARE and self.block == BLOCK:
            try:
                block = _SPARE.pop()
            except IndexError:  # another thread was quicker
                pass
        if block is None or len(block) < size + _ALIGNMENT:
            block = np.empty(max(size, self.block) + _ALIGNMENT, np.uint8)
        self.blocks.append(block)
        self.at = -_launch.address_of(block) % _ALIGNMENT
        self.end = len(block)

    def free(self) -> None:
        """Let the next flush have it."""
        kept = sum([len(block) for block in _SPARE])
        for block in self.blocks:
            kept += len(block)
            if kept > MOST_SPARE:
                break
            _SPARE.append(block)
        self.blocks = []


class Call:
    """A function of a template, bound to operands of certain types."""

    __slots__ = ("frame", "made", "numbers")

    def __init__(self, function: Any, types: list[Any], numbers: list[Any]) -> None:
        """Raises LookupError if there is no machine code (yet), or a part of it is none."""
        compiled = getattr(function.plan, "compiled", None)
        if compiled is None:
            raise LookupError
        types = [*types, *function.made_types(types, numbers)]
        bound = compiled.find([_hot.held(t, None) for t in types], numbers)
        if bound is None:
            raise LookupError
        frame = self.frame = bound.frame
        made = _launch.sources()[0]
        if any(step[0] == 1 for step in frame.steps) or frame.shows:
            raise LookupError
        if any(source != made for _, source, _ in frame.gives):
            raise LookupError
        self.made = tuple(bound.made)
        self.numbers = tuple(
            [(at, _hot.evaluate(e, types, numbers), kind) for at, e, kind in frame.numbers]
        )

    def run(self, table: list[int], values: list[Any]) -> bool:
        """Compute; False if another way has to be found."""
        return bool(_launch.launch_at(self.frame, self.made, table, values, self.numbers) == 1)


class Slab:
    """Memory for one value of all groups: `size` bytes a row, 0 for what is the same for all."""

    __slots__ = ("address", "array", "size")

    def __init__(self, room: Room, type_: Any, wider: Any, n: int, rows: int) -> None:
        """type_, wider: of the value for n rows, and for more     rows: of all groups.

        Raises LookupError if it depends on the number of rows in another way.
        """
        shape = type_.dims
        self.size = 0
        if wider.dims != shape:
            if shape[0] != n or wider.dims != (more(n), *shape[1:]):
                raise LookupError
            self.size = type_.nbytes // n
            shape = (rows, *shape[1:])
        self.array = room.array(shape, type_.dtype.numpy)
        self.address = _launch.address_of(self.array)

    def part(self, rows: int) -> Any:
        """The first rows of it."""
        return self.array[:rows] if self.size else self.array


def is_ready(template: Any) -> bool:
    """Whether there is machine code for all that runs per group."""
    return all(
        function is None or getattr(function.plan, "compiled", None) is not None
        for function in (template.forward, template.backward)
    )


def more(n: int) -> int:
    """Another number of rows than n."""
    return 2 * n + 1


class Family:
    """Groups of one kind: what to do for each of them is sorted out once per flush."""

    def __init__(
        self, run: Any, group: Any, types: list[Any], entry: Any, rows: int, most: int
    ) -> None:
        """types: of the group's operands     rows: of all groups     most: of one group

        Raises LookupError if there is no machine code (yet).
        """
        self.run = run
        self.template, self.numbers, self.calls = entry
        template, n = self.template, group.n
        self.node = group.node
        self.by_rows = group.by_rows
        self.used = 0  # rows
        self.types = types
        if self.calls_for(n) is None:
            raise LookupError
        wider = self.widened(types, more(n))
        operands = self.sources = run.sorter.operands[group.members[0]]
        room = run.room
        self.values: list[Any] = []  # of operands that are the same for all
        self.table: list[int] = []
        self.operands: list[Any] = []
        for k, grows in enumerate(template.grows):
            at = operands[k]
            if grows:
                slab = Slab(room, types[k], wider[k], n, rows)
                self.operands.append(slab)
                self.table.append(slab.address)
                self.values.append(None)
            else:
                self.operands.append(None)
                self.table.append(run.address(at))
                self.values.append(run.values[at] if run.sorter.region[at] == -1 else None)
        self.results = self.slabs(template.forward, types, wider, n, rows)
        self.seeds = []
        self.made: list[Slab] = []
        if template.keeps and template.n_given:
            outs = template.forward.out_types(types, self.numbers)
            more_outs = template.forward.out_types(wider, self.numbers)
            for on, t, w in zip(template.given, outs, more_outs, strict=False):
                if on:
                    slab = Slab(room, t, w, n, rows)
                    slab.array[...] = 0
                    self.seeds.append(slab)
            if template.backward is not None:
                self.prepare_backward(types, wider, n, rows, most)
        picks = template.forward.picks
        sizes = [slab.size if slab else 0 for slab in (*self.operands, *self.results)]
        #: Whether gradients of parameters are put off until all groups have run.
        self.waiting = bool(template.late) and run.sorter.reached[group.members[0]]
        #: (number of the value in its region, place in the table, bytes a row)
        self.exported = [(v, p, sizes[p]) for v, p in zip(template.exported, picks, strict=False)]
        self.given = [v for v, on in zip(template.exported, template.given, strict=True) if on]
        if 0 in [size for _, _, size in self.exported] or 0 in [s.size for s in self.seeds]:
            raise LookupError

    def slabs(
        self, function: Any, types: list[Any], wider: list[Any], n: int, rows: int
    ) -> list[Slab]:
        """Memory for what a function makes."""
        made = function.made_types(types, self.numbers)
        larger = function.made_types(wider, self.numbers)
        return [Slab(self.run.room, t, w, n, rows) for t, w in zip(made, larger, strict=True)]

    def prepare_backward(
        self, types: list[Any], wider: list[Any], n: int, rows: int, most: int
    ) -> None:
        """Memory for what the backward function makes; what waits is kept for all groups."""
        template, function = self.template, self.template.backward
        types = template.gradient_types(types, self.numbers)
        wider = template.gradient_types(wider, self.numbers)
        made = function.made_types(types, self.numbers)
        larger = function.made_types(wider, self.numbers)
        waits = set(function.picks[len(template.targets) :])
        for k, (t, w) in enumerate(zip(made, larger, strict=True)):
            of_all = function.n + k in waits
            self.made.append(Slab(self.run.room, t, w, n, rows if of_all else most))
        self.waits = waits
        self.scattered = []  # (operand, place in the table, bytes a row, whether float64)
        self.added = []  # (operand, slab)
        for k, pick in zip(template.targets, function.picks, strict=False):
            if not template.grows[k]:
                if pick < function.n or self.made[pick - function.n].size:
                    raise LookupError
                self.added.append((k, self.made[pick - function.n]))
                continue
            type_ = types[pick] if pick < function.n else made[pick - function.n]
            self.scattered.append((k, pick, type_.nbytes // n, is_wide(type_.dtype.numpy)))

    def widened(self, types: list[Any], n: int) -> list[Any]:
        """The types of operands of n rows."""
        return [
            with_rows(t, n) if on else t for t, on in zip(types, self.template.grows, strict=True)
        ]

    def calls_for(self, n: int) -> Any:
        """(forward, backward or None) for n rows; None if others have to run them."""
        found = self.calls.get(n, False)
        if found is False:
            template = self.template
            types = self.widened(self.types, n)
            try:
                forward = Call(template.forward, types, self.numbers)
                backward = None
                if template.backward is not None:
                    types = template.gradient_types(types, self.numbers)
                    backward = Call(template.backward, types, self.numbers)
                found = (forward, backward)
            except LookupError:
                if not is_ready(template):
                    return None
                found = None
            if len(self.calls) >= MOST_CALLS:
                self.calls.clear()
            self.calls[n] = found
        return found

    def forward(self, group: Any) -> bool:
        """Gather what a group reads and compute its values; False if it has not been done."""
        calls = self.calls_for(group.n)
        if calls is None:
            return False
        sorter, members, first, by_rows = self.run.sorter, group.members, self.used, self.by_rows
        table = self.table.copy()
        for k, slab in enumerate(self.operands):
            if slab is not None:
                address = table[k] = slab.address + first * slab.size
                sorter.gather(members, k, slab.size, address, by_rows)
        for slab in self.results:
            table.append(slab.address + first * slab.size)
        if not calls[0].run(table, self.values):
            return False
        for local, place, size in self.exported:
            sorter.place(members, local, size, table[place], by_rows, False)
        for local, slab in zip(self.given, self.seeds, strict=False):
            sorter.place(members, local, slab.size, slab.address + first * slab.size, by_rows, True)
        self.used += group.n
        group.family = self
        group.first = first
        group.call = calls[1]
        group.table = table
        return True

    def backward(self, group: Any) -> None:
        """Push the gradients of a group's values back to what it read."""
        if group.call is None:
            return
        run, members, first = self.run, group.members, group.first
        sorter, template = run.sorter, self.template
        before = group.table
        n = len(self.operands)
        table = before[:n]
        table += [before[p] for p in template.forward.picks]
        table += [slab.address + first * slab.size for slab in self.seeds]
        at = len(table)
        for k, slab in enumerate(self.made):
            table.append(slab.address + (first * slab.size if at + k in self.waits else 0))
        values = self.values + [None] * (len(table) - n)
        if not group.call.run(table, values):
            raise RuntimeError("a backward kernel noted a failure")
        for k, place, size, wide in self.scattered:
            for base in sorter.leaves_of(members, k):
                run.make_leaf_gradient(base)
            sorter.scatter(members, k, size, table[place], self.by_rows, wide)
        for k, slab in self.added:
            run.add_to(self.sources[k], slab.array.copy())

    def clear(self) -> None:
        """Forget the gradients of a backward pass."""
        for slab in self.seeds:
            slab.array[...] = 0

    def kept(self) -> list[Any]:
        """What the gradients of parameters read: arrays of the rows of all groups."""
        template = self.template
        made = [*self.operands, *self.results]
        slabs = self.operands + [made[p] for p in template.forward.picks] + self.seeds
        found = []
        if template.backward is not None:
            picks = template.backward.picks[len(template.targets) :]
            carried = iter([(slabs + self.made)[p] for p in picks])
        for i in template.border:
            slab = slabs[i] if i >= 0 else next(carried)
            if slab is None:
                at = self.sources[i]
                found.append(self.values[i] or self.run.array(at))
            else:
                found.append(slab.part(self.used))
        return found
