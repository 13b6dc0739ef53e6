"""Tensors that move to the device `meta`."""

from __future__ import annotations

from wend._engine.base.devices import META, device
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import NoDataError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.aliasing.rebinding import give_back
from wend._frontend.meta.classes import face
from wend._frontend.meta.values import Facts, has_data, meta_value
from wend._frontend.strides import layout_of

__all__ = ["moved", "placed"]


def placed(tensor: Tensor) -> Tensor:
    """A tensor that a creation function has just made, without its data."""
    if not has_data(tensor):
        return tensor
    value = _hot.refreshed(tensor)
    give_back(_hot.current_trace(), value)
    return face(Tensor, meta_value(value.type), _strides(tensor))  # type: ignore[no-any-return]


def _strides(x: Tensor) -> tuple[tuple[int, ...], int] | None:
    strides, offset = layout_of(x)
    return None if x.is_contiguous() and not offset else (strides, 0)


def moved(source: Tensor, dtype: DType | None, place: device, copy: bool = False) -> Tensor:
    """`source` on a device, converted; itself if nothing changes.

    Raises NoDataError for a tensor without data that is to get to the CPU.
    """
    if place is not META:
        raise NoDataError("Cannot copy out of meta tensor; no data!")
    if not has_data(source):
        same = dtype is None or dtype is source.dtype
        if same:
            return ops.clone(source) if copy else source  # type: ignore[no-any-return]
        return ops.cast(source, dtype)  # type: ignore[no-any-return]
    value = _hot.refreshed(source)
    type_ = value.type
    grad = bool(source.requires_grad) and bool(_hot.current_trace().mode.grad)
    facts = None
    if grad:
        facts = Facts("ToCopyBackward0", (source.leaf,) if source.leaf is not None else ())
    tensor: Tensor = face(Tensor, meta_value(type_, facts), _strides(source))
    tensor.value.requires_grad = grad
    return tensor if dtype is None or dtype is source.dtype else ops.cast(tensor, dtype)
