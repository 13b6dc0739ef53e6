"""Memory that processes share: tensors in it show what any process writes.

A block is a file without a name, mapped. Arrays in it are memory that the outside may write to, as
those of `from_numpy` are, so reads see what other processes have written.
"""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType
from wend._engine.base.shapes import contiguous_strides
from wend._engine.base.system import system
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.aliasing.outside_memory import adopt
from wend._frontend.strides import layout_of

__all__ = ["SharedBlock", "block_of", "is_shared", "mapped", "share_memory_", "tensor_in"]


class SharedBlock(mmap.mmap):
    """A mapped file without a name; the arrays in it keep it."""

    descriptor: int
    size_asked: int
    address: int

    def array(self, offset: int, count: int, dtype: Any) -> np.ndarray[Any, Any]:
        """Elements from a place on, in bytes."""
        return np.frombuffer(self, dtype=dtype, count=count, offset=offset)


def mapped(descriptor: int, size: int) -> SharedBlock:
    """The block of an open file, which belongs to the block from now on."""
    block = SharedBlock(descriptor, max(size, 1))
    block.descriptor, block.size_asked = descriptor, size
    block.address = _address(block.array(0, 1, np.uint8))
    weakref.finalize(block, os.close, descriptor)
    return block


def tensor_in(
    block: SharedBlock, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Tensor:
    """A tensor in a block; offset: of the first element, in bytes."""
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    count = 0 if 0 in shape else last + 1
    flat = adopt(block.array(offset, count, dtype.numpy))
    return ops.as_strided(flat, shape, strides, 0)  # type: ignore[no-any-return]


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def block_of(x: Tensor) -> tuple[SharedBlock | None, int]:
    """(the block that a tensor lies in, the place of its first element in bytes), or (None, 0)."""
    _hot.refreshed(x)
    alias = x.alias
    root = x if alias is None or alias.base is None else alias.base
    storage = None if root.alias is None else root.alias.storage
    shared = None if storage is None else storage.shared
    if shared is None:
        return None, 0
    memory = shared.array
    while isinstance(memory, np.ndarray):
        memory = memory.base
    block = memory.obj if isinstance(memory, memoryview) else memory
    if not isinstance(block, SharedBlock):
        return None, 0
    offset = layout_of(x)[1] * x.dtype.itemsize
    return block, _address(shared.array) - block.address + offset


def is_shared(self: Tensor) -> bool:
    """Whether the tensor lies in memory that processes share, or on an accelerator."""
    return not self.is_cpu or block_of(self)[0] is not None


def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor into memory that processes share: each sees what the others write.

    A tensor on an accelerator stays as it is.
    """
    if is_shared(self):
        return self
    array = np.ascontiguousarray(_hot.ensure(_hot.refreshed(self)))
    descriptor = system.unnamed_file("wend")
    os.ftruncate(descriptor, max(array.nbytes, 1))
    block = mapped(descriptor, array.nbytes)
    block.array(0, array.nbytes, np.uint8)[:] = array.reshape(-1).view(np.uint8)
    shape = tuple(self.shape)
    self.data = tensor_in(block, self.dtype, shape, tuple(contiguous_strides(shape)), 0)
    return self
