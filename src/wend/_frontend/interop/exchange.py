"""Tensors and the world outside: NumPy, DLPack, buffers, pickle, copies.

Reading computes pending values. `numpy()`, `__array__` and DLPack share memory in both directions,
as in PyTorch; results by value (`tolist`, pickle, deepcopy) are copies.
"""

from __future__ import annotations

import copy
import copyreg
import importlib
import sys
from typing import Any

import numpy as np

from wend._engine.base.devices import CPU, DeviceLike, usable
from wend._engine.base.dtypes import NAMES, bfloat16, from_numpy
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.aliasing.outside_memory import adopt, expose
from wend._frontend.interop.memory import KIND_CPU, array_from_dlpack

__all__ = ["array_of", "from_dlpack", "to_dlpack", "user_attributes"]

Array = np.ndarray[Any, Any]


def array_of(tensor: Tensor) -> Array:
    """A tensor's values, computed if pending. Not to be written to."""
    array: Array = _hot.ensure(_hot.refreshed(tensor))
    return array


# Entries of a tensor's __dict__ of the uncompiled core, beside the user's attributes.
CORE_STATE = frozenset(
    (
        "value leaf derived part layout _layout _grad version _views _moved "
        "_retired_leaf _uncounted _formers _stands_for"
    ).split()
)


def user_attributes(tensor: Tensor) -> dict[str, Any]:
    """The attributes that the user set on a tensor, by name."""
    state = getattr(tensor, "__dict__", {})
    return {name: value for name, value in state.items() if name not in CORE_STATE}


# --- NumPy ----------------------------------------------------------------------------------------


def numpy(self: Tensor, *, force: bool = False) -> Array:
    """The array that shares this tensor's memory: writes to either show in both.

    force: detach first if gradients are recorded (and then do not insist on sharing).
    Raises GraphError for a tensor that requires grad outside of no_grad, ArgumentTypeError for
    bfloat16, which NumPy lacks (`np.asarray(tensor)` gives an array of ml_dtypes' bfloat16).
    """
    if self.requires_grad:
        if not force and _hot.current_trace().mode.key[0]:
            raise GraphError(
                "numpy: can't call numpy() on Tensor that requires grad. "
                "Use tensor.detach().numpy() instead."
            )
        self = ops.detach(self)
    if not self.is_cpu:
        if not force:
            raise ArgumentTypeError(_not_on_host("numpy", self))
        self = ops.to_device(self, CPU, self.device)
    if self.dtype is bfloat16:
        raise ArgumentTypeError(
            "numpy: got unsupported ScalarType BFloat16; use tensor.float().numpy(), or "
            "np.asarray(tensor) for an array of ml_dtypes.bfloat16"
        )
    return expose(self)


def _not_on_host(name: str, tensor: Tensor) -> str:
    """The error for a tensor on an accelerator, in PyTorch's words."""
    return (
        f"{name}: can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to "
        "copy the tensor to host memory first."
    )


def to_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """The call behind `np.asarray(tensor)`: an array in shared memory, or of another dtype."""
    if self.requires_grad:
        if _hot.current_trace().mode.key[0]:
            raise GraphError(
                "__array__: can't call numpy() on Tensor that requires grad. "
                "Use tensor.detach().numpy() instead."
            )
        self = ops.detach(self)
    if not self.is_cpu:
        raise ArgumentTypeError(_not_on_host("__array__", self))
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is not None and wanted != self.dtype.numpy:
        if copy is False:
            raise ArgumentError(f"__array__: {self.dtype} cannot become {wanted} without a copy")
        return array_of(self).astype(wanted)
    if copy:
        return array_of(self).copy()
    return expose(self)


@short_errors
def wrap_array(
    self: Tensor, array: Array, context: object = None, return_scalar: bool = False
) -> Tensor:
    """The result of a NumPy function with a tensor among its arguments: a tensor."""
    return adopt(np.asarray(array).copy())


def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers; a number for a 0-d tensor."""
    explored = getattr(_hot.current_trace().symbolic, "explores", None)
    if explored is not None and explored(self):
        if self.dim() == 0:
            return self.item()
        if type(self.shape[0]) is int:
            return [x.tolist() for x in self.unbind(0)]
    array = _hot.ensure(_hot.refreshed(self))
    if self.dtype is bfloat16:
        array = array.astype(np.float32)
    return array.tolist()


# --- DLPack and buffers ---------------------------------------------------------------------------


def dlpack(
    self: Tensor,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule of this tensor's memory.

    Raises BufferError for a tensor that requires grad and for bfloat16, which NumPy, through which
    the capsule is made, does not export.
    """
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.dtype is bfloat16:
        raise BufferError(
            "__dlpack__: bfloat16 cannot be exported; use tensor.float(), or view(torch.int16)"
        )
    if not self.is_cpu:
        raise BufferError(f"__dlpack__: the data lies on {self.device}; use tensor.cpu()")
    if stream not in (None, -1):
        raise BufferError("__dlpack__: stream must be None: the data lies on the cpu")
    if dl_device is not None and tuple(dl_device) != (KIND_CPU, 0):
        raise BufferError(f"__dlpack__: the data lies on the cpu, not on device {dl_device}")
    array = array_of(self).copy() if copy else expose(self, watch=False)
    return array.__dlpack__(max_version=max_version)


#: DLPack's numbers of kinds of accelerators.
_KINDS = {"cuda": 2, "xpu": 14}


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """(kind, index) of the device in DLPack's terms: (1, 0) for the cpu."""
    place = self.device
    return _KINDS.get(place.type, KIND_CPU), place.index or 0


def to_dlpack(tensor: Tensor) -> Any:
    """The DLPack capsule of a tensor."""
    return dlpack(tensor)


@short_errors
def from_dlpack(
    ext_tensor: object, *, device: DeviceLike = None, copy: bool | None = None
) -> Tensor:
    """The tensor that shares the memory of an object with `__dlpack__`, or of a capsule.

    Raises ArgumentTypeError for any other object, ArgumentError for memory of another device,
    BufferError for a tensor that requires grad.
    """
    if isinstance(ext_tensor, Tensor):
        if ext_tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        shared: Tensor = ops.detach(ext_tensor)
    else:
        shared = adopt(array_from_dlpack(ext_tensor), pinned=True)
    return ops.clone(shared) if copy else shared


def buffer(self: Tensor, flags: int) -> memoryview:
    """The buffer protocol (`memoryview(tensor)`), which Python offers to classes from 3.12 on."""
    return memoryview(numpy(self))  # type: ignore[arg-type]


# --- pickle and copies ----------------------------------------------------------------------------


def reduce(self: Tensor, protocol: int) -> tuple[Any, ...]:
    """Pickled by value. `wend.save` has a way of its own, which keeps shared memory shared.

    The order of dims in memory stays, so that a transposed tensor comes back with its strides.
    """
    array, order = array_of(self), None
    if not self.is_contiguous():
        strides = self.stride()
        order = sorted(range(self.ndim), key=lambda dim: -strides[dim])
        if ops.permute(self.detach(), order).is_contiguous():
            array = array.transpose(order)
        else:
            order = None  # there are gaps, or elements that lie at several places
    array = np.ascontiguousarray(array).reshape(array.shape)  # (this makes a 0-d array 1-d)
    bits = array.view(np.uint16) if self.dtype is bfloat16 else array
    return restored, (
        type(self),
        bits,
        self.dtype.name,
        self.requires_grad,
        user_attributes(self),
        order,
        None if self.is_cpu else str(self.device),
    )


def restored(
    cls: type[Tensor],
    bits: Array,
    dtype: str,
    requires_grad: bool,
    state: dict[str, Any],
    order: list[int] | None = None,
    place: str | None = None,
) -> Tensor:
    """The tensor that `reduce` took apart.

    order: the tensor's dims in their order in `bits`; None for 0, 1, ...
    place: the accelerator; None for the CPU     Raises DeviceError if it is not there.
    """
    array = bits.view(NAMES[dtype].numpy)
    # Unpickled arrays may lie in a buffer that somebody else owns, or be read-only.
    array = array if array.flags.owndata and array.flags.writeable else array.copy()
    type_ = _types.intern_type(array.shape, from_numpy(array.dtype), CPU)
    tensor: Tensor = _hot.wrap(_hot.held(type_, array))
    if place is not None:
        tensor = ops.to_device(tensor, usable(place, "unpickling"), CPU)
    if order is not None:
        tensor = ops.permute(tensor, [order.index(dim) for dim in range(len(order))])
    return _dressed(tensor, cls, requires_grad, state)


def _dressed(tensor: Tensor, cls: type[Tensor], requires_grad: bool, state: Any) -> Tensor:
    if type(tensor) is not cls:
        tensor = tensor.as_subclass(cls)
    if requires_grad:
        tensor.requires_grad_()
    if state:
        tensor.__dict__.update(state)
    return tensor


def deepcopy(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy of the values; tensors that share memory share memory in the copy too.

    Raises GraphError for a tensor with a history.
    """
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise GraphError(
            "deepcopy: only Tensors created explicitly by the user (graph leaves) support the "
            "deepcopy protocol at the moment. Use tensor.detach().clone(), or copy before the "
            "forward pass"
        )
    duplicate = _copied_memory(self, memo)
    if duplicate.alias is None:
        duplicate.version = 1  # in PyTorch a write gives the copy its memory
    requires_grad = self.requires_grad
    memo[id(self)] = duplicate = _dressed(duplicate, type(self), requires_grad, None)
    state = user_attributes(self)
    if state:
        duplicate.__dict__.update(copy.deepcopy(state, memo))
    if self.grad is not None:
        duplicate.grad = copy.deepcopy(self.grad, memo)
    return duplicate


def _copied_memory(source: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A tensor without history in the copy of the memory that `source` lies in."""
    alias = source.alias
    if alias is not None and alias.base is not None:
        part = _copied_memory(alias.base, memo)
        for prim, args in alias.chain:
            part = _hot.record_list(prim, [part], list(args))
        return part
    storage = None if alias is None else alias.storage
    key = ("memory", id(source if storage is None else storage))
    first = memo.get(key)
    if first is not None:
        return ops.detach(first)
    duplicate: Tensor = ops.clone(ops.detach(source))
    memo[key] = duplicate
    # The key of memo must outlive memo: ids are reused.
    memo.setdefault(("alive", id(memo)), []).append(source if storage is None else storage)
    return duplicate


def shallow_copy(self: Tensor) -> Tensor:
    """The result of `copy.copy(tensor)`: another tensor in the same memory."""
    return _dressed(ops.detach(self), type(self), self.requires_grad, user_attributes(self))


def op_in(module: str, name: str) -> Any:
    """For pickling: the op that a public module exports under that name."""
    return getattr(importlib.import_module(module), name)


def reduce_op(op: _hot.OpFunction) -> str | tuple[Any, ...]:
    """The reference to an op in a copy or a pickle: its public name, so that the op stays the same.

    `nn.functional` exports some ops under a further signature; those keep the name there.
    """
    name = op.__name__
    for module in ("wend", "wend.nn.functional"):
        if getattr(sys.modules.get(module), name, None) is op:
            return op_in, (module, name)
    return op.__reduce__()


copyreg.pickle(_hot.OpFunction, reduce_op)  # type: ignore[arg-type]

METHODS = {
    "__array__": to_array,
    "__array_wrap__": wrap_array,
    # NumPy's operators leave `array * tensor` to the tensor.
    "__array_priority__": 1000,
    "__buffer__": buffer,
    "__copy__": shallow_copy,
    "__deepcopy__": deepcopy,
    "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device,
    "__reduce_ex__": reduce,
    "numpy": numpy,
    "tolist": tolist,
}
for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
