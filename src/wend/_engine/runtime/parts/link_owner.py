"""The Python half of a link's frame: host steps of parts, and what native code cannot do."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from wend._engine.core import _hot
from wend._engine.runtime.native.launcher import launcher as _launch
from wend._engine.runtime.parts.slots import FOUND, LEAF, MADE


class LinkOwner:
    """The Python half of a link's frame."""

    value = None

    def host(
        self, link: Any, part: Any, op: Any, values: list[Any], args: list[Any], arrays: list[Any],
        kept: list[Any],
    ) -> None:  # fmt: skip
        """Run a host step of a part.

        values, arrays: those of the link     args: those of the part
        """
        frame = part.frame
        frame.arena = link.arena
        own_values: list[Any] = []
        own_outs: list[Any] = []
        try:
            if part.hosted is not None:
                leaves, outs = part.hosted
                own_values = [None] * len(part.types)
                for i, home in leaves:
                    array = self.array(link, home, values, arrays)
                    own_values[i] = _hot.held(part.types[i], array)
                own_outs = [self.array(link, home, values, arrays) for home in outs]
            _launch.owner_of(frame).host(frame, op, own_values, part.types, args, own_outs, kept)
        finally:
            frame.arena = None

    def array(self, link: Any, home: tuple[Any, ...], values: list[Any], arrays: list[Any]) -> Any:
        """Return the elements at a home (see `home_of`) as an array; None for none yet."""
        source, key, offset, shape, dtype, strides = home
        if 0 in shape:
            return np.empty(shape, dtype)
        if source == -1:
            return link.arena.view(key, shape, dtype, offset, strides)
        if source == LEAF:
            memory = self.dense(values[key].buffer)
        elif source == FOUND:
            memory = link.found[key]
        else:
            memory = arrays[key] if source == MADE else key
        if memory is None:
            return None
        return np.ndarray(shape, dtype, memory, offset)

    def dense(self, array: Any) -> Any:
        """Return a C-contiguous, aligned array of the same elements."""
        return np.require(array, None, ("C", "A", "E"))

    def add(self, part: Any, target: int, a: int, b: int) -> None:
        """Add arrays of a dtype that has no sum in native code.  target, a, b: addresses"""
        arrays = [array_at(address, part.size, part.dtype) for address in (a, b, target)]
        with np.errstate(all="ignore"):
            np.add(*arrays)


def array_at(address: int, n: int, dtype: Any) -> Any:
    """Return n elements at an address as an array."""
    memory = (ctypes.c_byte * (n * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype)


OWNER = LinkOwner()
