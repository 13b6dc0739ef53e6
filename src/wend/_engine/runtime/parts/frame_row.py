"""A frame for the launcher that runs the frames of several plans in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wend._engine.core._hot import Value
from wend._engine.core._types import TensorType
from wend._engine.runtime.compiled.arena import place_all
from wend._engine.runtime.compiled.handover import has_handovers
from wend._engine.runtime.native.launcher import launcher as _launch
from wend._engine.runtime.native.launcher import maker
from wend._engine.runtime.native.temporaries import aligned
from wend._engine.runtime.parts.link_owner import OWNER
from wend._engine.runtime.parts.slots import (
    FOUND,
    LEAF,
    MADE,
    SHOWN,
    Block,
    MemorySlot,
    Unlinkable,
    dense_strides,
    home_of,
    is_dense,
)


class Entry:
    """A frame that runs, with the slots of its leaves and results, or a copy or sum.

    native: the `_launch.LinkedPart`
    reads: (place in the table of the frame, slot) of leaves and results
    """

    __slots__ = ("donations", "finds", "native", "reads", "run")

    def __init__(self, native: Any) -> None:
        self.native = native
        self.reads: list[tuple[int, MemorySlot]] = []
        self.donations: list[tuple[Block, int]] = []
        self.finds: list[tuple[int, Block]] = []  # values that host steps make
        self.run: Any = None


class FrameRun:
    """A frame that has been added, and where its values lie.

    frame, plan: of the part     slots: of the frame's leaves, by value
    """

    def __init__(self, frame: Any, plan: Any, slots: dict[int, MemorySlot]) -> None:
        self.frame, self.plan, self.slots = frame, plan, slots
        self.made: list[MemorySlot] = []
        self.found: dict[int, MemorySlot] = {}  # by value: results of host steps
        self.entry: Any = None


class FrameRow:
    """Frames that run in turn, with the memory of all values.

    values: of the path
    """

    def __init__(self, values: list[Value]) -> None:
        self.values = values
        self.where: dict[int, MemorySlot] = {}  # by value of the path
        self.entries: list[Entry] = []
        self.blocks: list[Block] = []
        self.entering: dict[int, Block] = {}
        self.constants: list[Block] = []
        self.finds: list[Block] = []
        self.temporaries = 0
        self.places: dict[tuple[int, int], None] = {}  # args that extents depend on, as in frames

    # -- memory ----------------------------------------------------------------------------

    def slot_of(self, i: int) -> MemorySlot:
        """Where a value of the path lies; a value from outside enters."""
        slot = self.where.get(i)
        if slot is None:
            v = self.values[i]
            if v.buffer is None:
                raise Unlinkable("a value comes from no part")
            self.entering[i] = block = Block(0, 0, leaf=i)
            slot = self.where[i] = MemorySlot(block, 0, None)
        return slot

    def block(self, n_bytes: int) -> Block:
        """New memory, in use from the next entry on."""
        block = Block(n_bytes, len(self.entries))
        self.blocks.append(block)
        return block

    def dense(self, slot: MemorySlot, type_: TensorType) -> MemorySlot:
        """A slot of the same elements that lie densely: the slot itself, or that of a copy."""
        if slot.strides is None:
            return slot
        size, n = type_.dtype.numpy.itemsize, math.prod(type_.shape)
        copy = MemorySlot(self.block(size * n), 0, None)
        words = [len(type_.shape)]
        for extent, stride in zip(type_.shape, slot.strides, strict=True):
            words += (extent, stride)
        native = _launch.LinkedPart(2)
        native.size = size
        native.words = np.array(words, np.int64)
        self.add(native, [(0, copy), (1, MemorySlot(slot.block, slot.offset, None))])
        return copy

    def sum_of(self, a: MemorySlot, b: MemorySlot, type_: TensorType) -> MemorySlot:
        """The slot of a sum of two gradients."""
        a, b = self.dense(a, type_), self.dense(b, type_)
        size = type_.dtype.numpy.itemsize
        native = _launch.LinkedPart(1)
        native.size = math.prod(type_.shape)
        native.wide = size == 8
        if type_.dtype.numpy not in (np.dtype(np.float32), np.dtype(np.float64)):
            native.dtype = type_.dtype.numpy
        total = MemorySlot(self.block(size * native.size), 0, None)
        self.add(native, [(0, total), (1, a), (2, b)])
        return total

    def add(self, native: Any, reads: list[tuple[int, MemorySlot]]) -> Entry:
        """Add an entry, which uses these slots."""
        entry = Entry(native)
        entry.reads = reads
        for _, slot in reads:
            slot.block.last = len(self.entries)
        self.entries.append(entry)
        return entry

    # -- frames ----------------------------------------------------------------------------

    def run(
        self, plan: Any, values: Sequence[Value], args: list[Any], slots: dict[int, MemorySlot]
    ) -> FrameRun:
        """Add the frame of a plan for these values and args.

        slots: of the leaves whose elements are read
        """
        compiled = getattr(plan, "compiled", None)
        bound = None if compiled is None else compiled.find(values, args)
        if bound is None:
            raise Unlinkable("a part has no machine code for these sizes")
        frame = bound.frame
        if has_handovers(frame.steps):
            raise Unlinkable("a part wants results before its end")
        run = FrameRun(frame, compiled, {})
        reads: list[tuple[int, MemorySlot]] = []
        for k, i in enumerate(frame.leaves):
            slot = slots.get(i)
            if slot is not None:
                run.slots[i] = slot = self.dense(slot, values[i].type)
                reads.append((1 + k, slot))
        donated = [row for step in frame.steps if step[0] == 2 for row in step[1]]
        at = 1 + len(frame.leaves)
        for _, shape, dtype, _ in frame.outs:
            slot = MemorySlot(self.block(max(1, math.prod(shape) * dtype.itemsize)), 0, None)
            run.made.append(slot)
            reads.append((at, slot))
            at += 1
        native = _launch.LinkedPart(0)
        native.frame = frame
        native.types = [v.type for v in values]
        run.entry = entry = self.add(native, reads)
        entry.run = run
        for k, i, _ in donated:
            slot = run.slots.get(i)
            if slot is not None and slot.block.leaf >= 0 and slot.offset == 0:
                run.made[k].block.over = slot.block.leaf
                entry.donations.append((run.made[k].block, slot.block.leaf))
        self.temporaries = max(self.temporaries, frame.arena_bytes)
        return run

    def located(self, run: FrameRun, source: int, k: int) -> MemorySlot:
        """Where a result of a frame lies: see `_launch.ArgumentBlock.gives`."""
        if source == MADE:
            return run.made[k]
        if source == LEAF:
            if k not in run.slots:
                raise Unlinkable("a result is an input that no op reads")
            return run.slots[k]
        if source == FOUND:
            return self.found(run, k)
        source, k, whole, shape, dtype, offset, strides = run.frame.shows[k]
        base = self.located(run, source, k)
        if whole:
            return base
        if base.strides is not None:
            raise Unlinkable("a view of a view")
        dense = is_dense(shape, strides, dtype.itemsize)
        return MemorySlot(base.block, base.offset + offset, None if dense else tuple(strides))

    def found(self, run: FrameRun, k: int) -> MemorySlot:
        """Where a result of a host step lies: in an array that the step makes."""
        slot = run.found.get(k)
        if slot is None:
            block = Block(0, len(self.entries) - 1)
            block.found = len(self.finds)
            self.finds.append(block)
            slot = run.found[k] = MemorySlot(block, 0, None)
            run.entry.finds.append((k, block))
        return slot

    # -- the frame -------------------------------------------------------------------------

    def frame(self, live: list[int], args: list[Any]) -> Any:
        """Return the frame of the link.

        live: the values that are handed out     args: of the path
        """
        self.drop_donations([self.slot_of(i).block.leaf for i in live])
        outs: list[tuple[Any, ...]] = []
        shows: list[tuple[Any, ...]] = []
        gives: list[tuple[int, int, int]] = []
        for i in live:
            gives.append((i, *self.hand_out(i, outs, shows)))
        n_in = len(self.entering) + len(self.constants)
        for n, block in enumerate([*self.entering.values(), *self.constants]):
            block.row = 1 + n
        for block in self.blocks:
            if block.given >= 0:
                block.row = 1 + n_in + block.given
        for n, block in enumerate(self.finds):
            block.row = 1 + n_in + len(outs) + n
        total = self.lay_out()
        row = np.zeros(1 + n_in + len(outs) + len(self.finds), np.int64)
        for block in self.constants:
            row[block.row] = _launch.address_of(block.constant)
        frame = _launch.ArgumentBlock(row)
        frame.table = _launch.address_of(row)
        frame.linked = [self.finish(entry) for entry in self.entries]
        frame.entering = tuple(self.entering)
        frame.first_out = 1 + n_in
        frame.leaves = tuple(range(len(self.values)))
        frame.types = tuple([v.type for v in self.values])
        frame.places = tuple([at for pair in self.places for at in pair])
        frame.sizes = _launch.sizes_among(frame.places, args)
        frame.outs, frame.shows = tuple(outs), tuple(shows)
        frame.gives = tuple(gives)
        frame.saves = frame.numbers = frame.moves = frame.weights = frame.steps = ()
        frame.arena_bytes = total
        frame.needs_types = False
        frame.owner = OWNER
        return frame

    def drop_donations(self, shown: list[int]) -> None:
        """Let no result overwrite a value from outside that is read later.

        shown: the values from outside that results are views of
        """
        for n, entry in enumerate(self.entries):
            for block, leaf in entry.donations:
                if leaf in shown or self.entering[leaf].last > n:
                    block.over = -1
            entry.donations = [row for row in entry.donations if row[0].over == row[1]]

    def hand_out(self, i: int, outs: list[Any], shows: list[Any]) -> tuple[int, int]:
        """Return where a value that is handed out lies; memory in the arena becomes an array."""
        slot, type_ = self.slot_of(i), self.values[i].type
        block, dtype = slot.block, type_.dtype.numpy
        n_bytes = math.prod(type_.shape) * dtype.itemsize
        if block.constant is not None:
            raise Unlinkable("a result that is a constant")
        whole = slot.strides is None and slot.offset == 0
        if block.found is not None:
            layout = slot.strides or dense_strides(type_.shape, dtype.itemsize)
            shows.append(
                (FOUND, block.found, False, tuple(type_.shape), dtype, slot.offset, layout)
            )
            return SHOWN, len(shows) - 1
        if block.leaf < 0 and block.given < 0:
            block.given = len(outs)
            shape = type_.shape if whole and block.n_bytes == n_bytes else (block.n_bytes,)
            kind = dtype if shape is type_.shape else np.dtype(np.uint8)
            outs.append((maker(shape, kind), tuple(shape), kind, block.over < 0))
        if block.leaf < 0:
            out = outs[block.given]
            if whole and out[1] == tuple(type_.shape) and out[2] == dtype:
                return MADE, block.given
        source, k = (MADE, block.given) if block.leaf < 0 else (LEAF, block.leaf)
        strides = slot.strides
        if strides is None:
            strides = dense_strides(type_.shape, dtype.itemsize)
        shows.append((source, k, False, tuple(type_.shape), dtype, slot.offset, strides))
        return SHOWN, len(shows) - 1

    def lay_out(self) -> int:
        """Find places in the arena behind the temporaries of frames; return the bytes in all."""
        inner = [b for b in self.blocks if b.given < 0 and b.found is None]
        places, total = place_all((n, b.n_bytes, b.first, b.last) for n, b in enumerate(inner))
        start = aligned(self.temporaries)
        for n, block in enumerate(inner):
            block.place = start + places[n]
        return start + total

    def finish(self, entry: Entry) -> Any:
        """Return an entry's native half, with words that say where its slots lie."""
        native = entry.native
        words: list[int] = []
        for place, slot in entry.reads:
            block = slot.block
            words += (8 * place, 8 * block.row, slot.offset + block.place)
        native.fills = np.array(words, np.int64)
        native.n_fills = len(entry.reads)
        native.at = _launch.address_of(native.fills)
        if native.words is not None:
            native.words_at = _launch.address_of(native.words)
        native.donations = tuple(
            [(b.given, leaf, 8 * b.row) for b, leaf in entry.donations if b.given >= 0]
        )
        native.finds = tuple([(i, b.found, 8 * b.row) for i, b in entry.finds])
        run = entry.run
        if run is not None and any(step[0] == 1 for step in native.frame.steps):
            types = native.types
            leaves = [
                (i, home_of(slot, tuple(types[i].shape), types[i].dtype.numpy))
                for i, slot in run.slots.items()
            ]
            outs = zip(run.made, native.frame.outs, strict=True)
            native.hosted = leaves, [home_of(slot, row[1], row[2]) for slot, row in outs]
        return native
