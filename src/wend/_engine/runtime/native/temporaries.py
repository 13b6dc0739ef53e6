"""Arenas: memory for the temporaries of a flush."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.runtime.native.launcher import launcher as _launch

ALIGNMENT = 64


def aligned(size: int) -> int:
    """Return a number of bytes, or an address, rounded up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Arena:
    """A block of memory, in use by a single execution at a time."""

    __slots__ = ("address", "memory", "origin", "size")

    def __init__(self, size: int, make: Any = np.empty) -> None:
        """make: makes an array of a shape and a dtype"""
        self.memory = make(size + ALIGNMENT, np.uint8)
        self.origin = self.memory.ctypes.data
        self.address = aligned(self.origin)
        self.size = size

    def free(self) -> None:
        """Leave this arena to the next execution."""
        _launch.free_arena(self)

    def view(
        self, place: int, shape: tuple[int, ...], dtype: Any, offset: int, strides: Any
    ) -> Any:
        """Return the elements of a value, at least one, as an array.

        place: where the base of the value lies in the arena   offset, strides: in bytes
        """
        start = self.address - self.origin + place + offset
        return np.ndarray(shape, dtype, self.memory, start, strides)


_launch.fill("arena", Arena)
