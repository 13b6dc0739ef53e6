"""Between tensors and the blocks of memory that store them in a checkpoint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wend._engine.base.devices import CPU, device
from wend._engine.base.dtypes import DType, from_numpy
from wend._engine.base.shapes import contiguous_strides, is_contiguous
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Alias, Tensor
from wend._engine.core.primitive import ops
from wend._frontend.aliasing.versions import storage_of
from wend._frontend.strides import layout_of

__all__ = ["StoredView", "conjugated", "stored_view", "tensor_from_array", "view_of"]


class StoredView(NamedTuple):
    """A tensor as a strided view of a block of memory.

    identity: an object that tensors which share the memory have in common.
    elements: the whole block, 1-d.   strides, offset: in elements.   place: the tensor's device.
    """

    identity: Any
    dtype: DType
    elements: np.ndarray[Any, Any]
    strides: tuple[int, ...]
    offset: int
    place: device


def stored_view(tensor: Tensor) -> StoredView:
    """The place of `tensor` in the memory that it shares with its views and its base."""
    _hot.refreshed(tensor)
    alias = tensor.alias
    root = tensor if alias is None or alias.base is None else alias.base
    elements = np.ascontiguousarray(_hot.ensure(_hot.refreshed(root))).reshape(-1)
    strides, offset = layout_of(tensor)
    if elements.nbytes % tensor.dtype.itemsize == 0:
        elements = elements.view(tensor.dtype.numpy)
    if not is_contiguous(root.shape, layout_of(root)[0]) or not _inside(
        tensor.shape, strides, offset, elements.size
    ):
        # Where the layout is only a name, the tensor is stored by itself, in row-major order.
        return _dense(tensor)
    place = tensor.device
    return StoredView(storage_of(root), tensor.dtype, elements, tuple(strides), offset, place)


def _inside(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, count: int) -> bool:
    """Whether the strided view stays within `count` elements."""
    if 0 in shape:
        return True
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return 0 <= last < count


def _dense(tensor: Tensor) -> StoredView:
    elements = np.ascontiguousarray(_hot.ensure(_hot.refreshed(tensor))).reshape(-1)
    strides = contiguous_strides(tensor.shape)
    return StoredView(tensor, tensor.dtype, elements, strides, 0, tensor.device)


def tensor_from_array(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor that owns `array`, which nobody else may write to from now on."""
    held = _hot.held(_types.intern_type(array.shape, from_numpy(array.dtype), CPU), array)
    tensor: Tensor = _hot.wrap(held)
    return tensor


def conjugated(tensor: Tensor) -> Tensor:
    """The complex conjugate, by value: PyTorch marks a tensor to be conjugated when read."""
    return tensor_from_array(np.conj(_hot.ensure(_hot.refreshed(tensor))))


def view_of(whole: Tensor, size: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
    """Another tensor in the memory of `whole`, which is dense; writes to either show in both."""
    alias = _alias_of(whole)
    if tuple(whole.shape) == size and strides == contiguous_strides(size) and offset == 0:
        return alias
    return ops.as_strided(alias, size, strides, offset)


def _alias_of(tensor: Tensor) -> Tensor:
    """`tensor.detach()` of a tensor with a buffer; nothing is recorded or copied."""
    value = _hot.refreshed(tensor)
    view: Tensor = _hot.wrap(_hot.held(value.type, _hot.ensure(value)))
    storage = storage_of(tensor)
    if tensor.requires_grad:
        storage.data = view.value
    alias = Alias()
    alias.storage, alias.storage_version = storage, storage.version
    alias.writes = tensor.alias.writes
    view.version = alias.writes[0]
    view.alias = alias
    return view
