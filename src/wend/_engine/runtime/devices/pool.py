"""Memory of an accelerator: blocks that are used again, counted."""

from __future__ import annotations

import ctypes
import math
from bisect import bisect_right, insort
from collections.abc import Callable
from typing import Any

import numpy as np

from wend._engine.base.errors import OutOfMemoryError

#: Blocks are so many bytes, or a multiple; larger blocks are rounded to an eighth of a power of 2.
LEAST, FINE = 512, 3


def rounded(size: int) -> int:
    """The bytes of the block for so many bytes."""
    step = max(LEAST, 1 << max(0, size.bit_length() - 1 - FINE))
    return max(LEAST, -(-size // step) * step)


def readable(size: float) -> str:
    """A number of bytes for people: "2.5 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


class DeviceBlock:
    """A piece of a device's memory, which goes back to the pool when no array shows the piece."""

    __slots__ = ("__array_interface__", "address", "pool", "size")

    def __init__(self, pool: Pool, address: int, size: int, shape: Any, dtype: Any) -> None:
        self.pool, self.address, self.size = pool, address, size
        self.__array_interface__ = {
            "shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3,
        }  # fmt: skip

    def __del__(self) -> None:
        self.pool.take_back(self.address, self.size)


class Pool:
    """The memory of a device.

    allocate, free: of the driver
    wait: waits for the device
    allocated, reserved: bytes in arrays, and in all blocks; peak, most_reserved: the most so far
    """

    def __init__(
        self,
        name: str,
        allocate: Callable[[int], int],
        free: Callable[[int], None],
        wait: Callable[[], None],
    ) -> None:
        self.name = name
        self._allocate, self._free, self._wait = allocate, free, wait
        self._spare: dict[int, list[int]] = {}  # size -> addresses
        #: Whether blocks that come back wait in `_held`, as kernels may still use these.
        self.holds_back = False
        self._held: list[tuple[int, int]] = []
        self._starts: list[int] = []  # of all blocks
        self._sizes: dict[int, int] = {}
        self.allocated = self.reserved = self.peak = self.most_reserved = 0
        self.limit: int | None = None  # the most bytes to reserve
        self.count = 0  # of all arrays so far

    def empty(self, shape: Any, dtype: Any) -> Any:
        """Return an array without a content. Raises OutOfMemoryError."""
        dtype = np.dtype(dtype)
        shape = shape if isinstance(shape, tuple) else (shape,)
        size = rounded(math.prod(shape) * dtype.itemsize)
        spare = self._spare.get(size)
        address = spare.pop() if spare else self.reserve(size)
        block = DeviceBlock(self, address, size, shape, dtype)
        self.allocated += size
        self.count += 1
        self.peak = max(self.peak, self.allocated)
        array = np.asarray(block)
        # NumPy's protocol has no word for types of others, such as bfloat16.
        return array if array.dtype == dtype else array.view(dtype)

    def reserve(self, size: int) -> int:
        """Return the address of a new block. Raises OutOfMemoryError if nothing is left."""
        if self.limit is not None and self.reserved + size > self.limit:
            self.shed()
            if self.reserved + size > self.limit:
                raise self.no_memory(size, f"the limit is {readable(self.limit)}")
        try:
            address = self._allocate(size)
        except MemoryError:
            self.shed()
            try:
                address = self._allocate(size)
            except MemoryError as fault:
                raise self.no_memory(size, str(fault)) from None
        insort(self._starts, address)
        self._sizes[address] = size
        self.reserved += size
        self.most_reserved = max(self.most_reserved, self.reserved)
        return address

    def no_memory(self, size: int, why: str) -> OutOfMemoryError:
        """The error for a block that cannot be had."""
        return OutOfMemoryError(
            f"{self.name}: out of memory. Tried to allocate {readable(size)}: {why}. "
            f"{readable(self.allocated)} are in use by tensors; a smaller batch, "
            "torch.utils.checkpoint, or keeping fewer tensors helps. Nothing has been changed"
        )

    def take_back(self, address: int, size: int) -> None:
        """Keep a block for the next array of the same size."""
        if self.holds_back:
            self._held.append((address, size))
            return
        self.allocated -= size
        self._spare.setdefault(size, []).append(address)

    def release(self) -> None:
        """Take back the blocks that were held back: kernels that read and write there have run."""
        self.holds_back = False
        held, self._held = self._held, []
        for address, size in held:
            self.take_back(address, size)

    def shed(self) -> None:
        """Give all blocks back to the device that no array shows."""
        self._wait()
        for size, addresses in self._spare.items():
            while addresses:
                address = addresses.pop()
                self._starts.remove(address)
                del self._sizes[address]
                self.reserved -= size
                self._free(address)

    def holds(self, address: int) -> bool:
        """Whether an address lies in this memory."""
        k = bisect_right(self._starts, address) - 1
        return k >= 0 and address < self._starts[k] + self._sizes[self._starts[k]]

    def copy(self, array: Any) -> Any:
        """Return an array of this memory with the same elements, dense."""
        copy = self.empty(array.shape, array.dtype)
        np.copyto(copy, array)
        return copy


def copy_bytes(target: int, source: int, size: int) -> None:
    """Copy memory of the processor."""
    ctypes.memmove(target, source, size)
