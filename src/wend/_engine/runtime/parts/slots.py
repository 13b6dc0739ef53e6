"""Memory of a link of parts: blocks, and the slots of values in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from wend._engine.runtime.native.launcher import launcher

MADE, LEAF, FOUND, SHOWN = launcher.sources()


class Unlinkable(Exception):
    """Raised where the parts of a path have to run by themselves; says why."""


class NotYet(Unlinkable):
    """Raised where a part, or its backward step, has no machine code yet."""


class Block:
    """Memory of values: an array from outside, an array that is handed out, or in the arena.

    leaf: index of the value from outside, or -1
    constant: an array that never changes, or None
    n_bytes: of memory that the link has made
    first, last: the entries between which the memory is in use
    given: number among the arrays that are handed out, or -1
    over: the value from outside whose memory may be overwritten, or -1
    found: number among the arrays that host steps make, or None
    place: in the arena     row: where the link's table has the address
    """

    __slots__ = (
        "constant", "first", "found", "given", "last", "leaf", "n_bytes", "over", "place", "row",
    )  # fmt: skip

    def __init__(self, n_bytes: int, first: int, leaf: int = -1, constant: Any = None) -> None:
        self.n_bytes, self.first, self.last = n_bytes, first, first
        self.leaf, self.constant = leaf, constant
        self.given = self.over = -1
        self.found: int | None = None
        self.place = self.row = 0


class MemorySlot(NamedTuple):
    """Where a value lies: bytes from the begin of a block, and strides in bytes unless dense."""

    block: Block
    offset: int
    strides: tuple[int, ...] | None


def home_of(slot: MemorySlot, shape: tuple[int, ...], dtype: Any) -> tuple[Any, ...]:
    """Return where elements are while a link runs: (source, key, offset, shape, dtype, strides).

    key: a value from outside, a number among the arrays made or found, a place in the arena, or an
    array
    """
    block = slot.block
    layout = slot.offset, shape, dtype, dense_strides(shape, dtype.itemsize)
    if block.constant is not None:
        return SHOWN, block.constant, *layout
    if block.leaf >= 0:
        return LEAF, block.leaf, *layout
    if block.found is not None:
        return FOUND, block.found, *layout
    if block.given >= 0:
        return MADE, block.given, *layout
    return -1, block.place, *layout


def is_dense(shape: Sequence[int], strides: Sequence[int], size: int) -> bool:
    """Whether elements in strides lie without gaps, in order."""
    if 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != size:
            return False
        size *= extent
    return True


def dense_strides(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """The strides in bytes of elements without gaps, in order."""
    strides = []
    for extent in reversed(shape):
        strides.append(size)
        size *= max(1, extent)
    return tuple(reversed(strides))
