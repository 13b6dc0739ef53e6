"""Tensors as flat arrays for the carrier of data, and results back into tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import (
    ArgumentTypeError,
    DTypeError,
    GraphError,
    NoDataError,
    ShapeError,
)
from wend._engine.core import _backward, _hot
from wend._engine.core._hot import Tensor
from wend._engine.runtime.native.launcher import maker_of
from wend._engine.transforms.grad import GradMode
from wend._frontend.aliasing.rebinding import assign
from wend.distributed._wire._transport import Array

__all__ = [
    "blank",
    "check_list",
    "check_same_type",
    "check_tensor",
    "describe",
    "read",
    "room",
    "write",
]


def check_tensor(name: str, parameter: str, tensor: Tensor) -> None:
    """Raise ArgumentTypeError (a TypeError) for anything but a tensor with elements of its own."""
    if type(tensor) is Tensor and tensor.value.extra is None:
        if _hot.current_trace().symbolic is None:
            return
    elif not isinstance(tensor, Tensor):
        raise ArgumentTypeError(
            f"{name}: Invalid function argument. Expected parameter `{parameter}` of type "
            f"torch.Tensor but got {type(tensor)} instead."
        )
    if tensor.is_meta:
        raise NoDataError(f"{name}: `{parameter}` is on the device meta, and has no elements")
    if tensor.is_sparse or tensor.layout is not _strided():
        raise ArgumentTypeError(
            f"{name}: `{parameter}` is sparse; communicate its parts, or `to_dense()`"
        )
    if _hot.current_trace().symbolic is not None:
        raise GraphError(
            f"{name}: processes cannot communicate inside vmap, a graph or a composite: no values "
            "are there yet; call the collective outside"
        )


def _strided() -> Any:
    from wend._frontend.formats import strided

    return strided


def check_list(name: str, parameter: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a list. Raises ArgumentTypeError (a TypeError) for anything else."""
    if not isinstance(tensors, (list, tuple)):
        raise ArgumentTypeError(
            f"{name}: Invalid function argument. Expected parameter `{parameter}` of type "
            f"List[torch.Tensor] but got {type(tensors)} instead."
        )
    for tensor in tensors:
        check_tensor(name, parameter, tensor)
    return list(tensors)


def check_same_type(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise DTypeError unless all tensors have the same type of elements."""
    type_names = {tensor.dtype.name for tensor in tensors}
    if len(type_names) > 1:
        raise DTypeError(
            f"{name}: the tensors are of several types: {', '.join(sorted(type_names))}"
        )


def describe(tensor: Tensor) -> str:
    """Type and shape of a tensor: float32[3, 4]."""
    return f"{tensor.dtype.name}{list(tensor.shape)}"


def read(tensor: Tensor) -> Array:
    """The elements of a tensor as a flat array, in row-major order; computes the tensor.

    The array must not be written to.
    """
    value = _hot.refreshed(tensor)
    trace = _hot.current_trace()
    array = _hot.ensure(value)
    trace.volatile = False
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return array if array.ndim == 1 else array.reshape(-1)


def write(tensor: Tensor, array: Array, function: Callable[..., Any]) -> None:
    """Let a flat array be the new elements of a tensor, as an in-place op does without gradient.

    The array belongs to the tensor from now on. Tensors that share the memory follow, and
    a tensor that needs a gradient keeps its history.
    function: the public function, for errors
    """
    type_ = _hot.refreshed(tensor).type
    shape = type_.dims
    if array.size != count_of(type_):
        raise ShapeError(
            f"{function.__name__}: the tensor had {array.size} elements when the collective "
            f"began, and has {tensor.numel()} now; keep the shape until `wait` has returned"
        )
    whole = array
    if array.shape != shape:
        whole = array.base  # the array that `blank` has made, which belongs to nobody else
        if whole is None or whole.shape != shape or whole.size != array.size:
            whole = array.reshape(shape)
    value = _hot.held(type_, whole)
    trace = _hot.current_trace()
    if is_alone(tensor, trace) and _backward.renew_value(tensor, tensor.value, value):
        return
    source = _hot.wrap(value)
    noted = len(trace.touched)
    with GradMode(False):
        assign(tensor, source, function)
    if trace.n == 0 and trace.journal is None:
        # Nothing is pending that could fail and take this back: the former array need not be kept.
        del trace.touched[noted:]


def is_alone(tensor: Tensor, trace: Any) -> bool:
    """Whether a write changes a tensor's value and version, and nothing else.

    Nobody may share the data, or have a gradient of it. Nothing may be pending in the thread: an
    op that fails would take the write back.
    """
    old = tensor.value
    return (
        trace.n == 0
        and trace.journal is None
        and trace.symbolic is None
        and not trace.mode.inference
        and tensor.alias is None
        and tensor._layout is None
        and tensor.leaf is None
        and not old.requires_grad
        and not old.inference
        and old.extra is None
        and old.buffer is not None
    )


def count_of(type_: Any) -> int:
    """The number of elements of a tensor of this type."""
    return int(type_.nbytes // type_.dtype.itemsize)


def blank(tensor: Tensor) -> Array:
    """A fresh flat array of a tensor's type and size, for `write`; see `room`."""
    type_ = tensor.value.type
    shape, numpy = type_.dims, type_.dtype.numpy
    array = maker_of(type_.nbytes)(shape, numpy)
    return array if len(shape) == 1 else array.reshape(-1)


def room(count: int, dtype: DType) -> Array:
    """A fresh flat array of NumPy's type `dtype`.

    Large arrays lie in memory that earlier results have left: the system need not clear pages.
    """
    return maker_of(count * dtype.itemsize)((count,), dtype)
