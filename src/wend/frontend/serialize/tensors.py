"""Between tensors and the blocks of memory that a checkpoint stores them as."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wend.base.devices import CPU
from wend.base.dtypes import DType, float32, from_numpy
from wend.base.shapes import contiguous_strides
from wend.core import _hot
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.core.types import Spec
from wend.frontend.aliasing import storage_of

__all__ = ["StoredView", "stored_view", "tensor_from_array", "view_of"]


class StoredView(NamedTuple):
    """A tensor as a strided view of a block of memory.

    identity: an object that tensors which share the memory have in common.
    elements: the whole block, 1-d.   strides, offset: in elements.
    """

    identity: Any
    dtype: DType
    elements: np.ndarray[Any, Any]
    strides: tuple[int, ...]
    offset: int


def stored_view(tensor: Tensor) -> StoredView:
    """How `tensor` lies in the memory that it shares with its views and its base."""
    value = _hot.refreshed(tensor)
    alias = tensor.alias
    root = tensor if alias is None or alias.base is None else alias.base
    strides: tuple[int, ...] = contiguous_strides(root.shape)
    offset, shape = 0, tuple(root.shape)
    if root is not tensor:
        for prim, args in alias.chain:
            step = _strided_step(prim, list(args), shape, strides)
            if step is None:
                # A view that no strides can express is stored by itself.
                return _dense(tensor, value)
            shape, strides, delta = step
            offset += delta
    elements = np.ascontiguousarray(_hot.ensure(_hot.refreshed(root))).reshape(-1)
    return StoredView(storage_of(root), tensor.dtype, elements, strides, offset)


def _strided_step(
    prim: Any, args: list[Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """(shape, strides, added offset) after one view op; None where no strides can say it."""
    params = prim.arrange([Spec(shape, float32)], args)
    step = None if prim.strides is None else prim.strides(shape, strides, *params[1:])
    if step is None:
        return None
    after, delta = step
    return tuple(prim.infer(*params).shape), tuple(after), delta


def _dense(tensor: Tensor, value: Any) -> StoredView:
    elements = np.ascontiguousarray(_hot.ensure(value)).reshape(-1)
    strides = contiguous_strides(tensor.shape)
    return StoredView(tensor, tensor.dtype, elements, strides, 0)


def tensor_from_array(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor that owns `array`, which nobody else may write to from now on."""
    held = _hot.held(_hot.intern_type(array.shape, from_numpy(array.dtype), CPU), array)
    tensor: Tensor = _hot.wrap(held)
    return tensor


def view_of(
    whole: Tensor, size: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Tensor:
    """Another tensor in the memory of `whole`, which is dense; writes to one show in the other."""
    view: Tensor = ops.detach(whole)
    if tuple(whole.shape) == size and strides == contiguous_strides(size) and offset == 0:
        return view
    return ops.as_strided(view, size, strides, offset)  # type: ignore[no-any-return]
