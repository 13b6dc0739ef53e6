"""All that layers and optimizers use of the parts below them, in one place."""

from typing import Any

from wend._engine.base.devices import MetaPackage, placement
from wend._engine.base.devices import device as device_of
from wend._engine.base.dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    get_default_dtype,
    int64,
)
from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core._hot import Tensor, current_trace, native_new, synchronize
from wend._engine.core._modules import ACTIVE_HOOKS, ModuleBase
from wend._engine.core.primitive import REGISTRY, make_function, ops
from wend._engine.ops import placing
from wend._engine.ops.placing import beside
from wend._frontend.aliasing.rebinding import assign as _assign
from wend._frontend.autograd.backward import enable_grad, is_grad_enabled, no_grad
from wend._frontend.autograd.function import Function
from wend._frontend.creation import (
    arange,
    empty,
    empty_like,
    eye,
    full,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)

__all__ = [
    "ACTIVE_HOOKS",
    "REGISTRY",
    "Function",
    "ModuleBase",
    "NotImplementedInWend",
    "Tensor",
    "arange",
    "assign",
    "beside",
    "bfloat16",
    "bool_",
    "device_of",
    "empty",
    "empty_like",
    "enable_grad",
    "eye",
    "float16",
    "float32",
    "float64",
    "full",
    "full_beside",
    "get_default_dtype",
    "in_rule",
    "int64",
    "is_grad_enabled",
    "make_function",
    "meta_face",
    "native_new",
    "no_grad",
    "ones",
    "ones_like",
    "ops",
    "parse_to",
    "synchronize",
    "tensor",
    "zeros",
    "zeros_like",
]


def meta_face(cls: type, data: Any) -> Any:
    """A tensor of class `cls` on the device meta, of the size, type and strides of `data`."""
    plain = data.detach()
    return MetaPackage.load().face(cls, plain.value, plain._layout)


def full_beside(x: Tensor, shape: Any, value: complex, dtype: Any = None) -> Tensor:
    """y[...] = value, of the type of `x` if no other is given, on the same device."""
    constant = placing.full_beside(x, shape, value, dtype)
    if type(x) is not Tensor and x.is_meta:
        return MetaPackage.load().placed(constant)  # type: ignore[no-any-return]
    return constant


def in_rule() -> bool:
    """Whether ops are recorded for a rule (a composite, vmap, a graph), not for this program."""
    return current_trace().symbolic is not None


def assign(handle: Any, result: Any) -> None:
    """Make the value of `result` that of `handle`, as an in-place op does."""
    _assign(handle, result, None)


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
    """(device, dtype, non_blocking) of the arguments of a `to` method, None for those absent."""
    place = kwargs.pop("device", None)
    dtype = kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    for accepted in ("copy", "memory_format"):
        kwargs.pop(accepted, None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument {next(iter(kwargs))!r}")
    for i, argument in enumerate(args):
        if isinstance(argument, Tensor):
            place, dtype = argument.device, argument.dtype
        elif isinstance(argument, bool):
            non_blocking = argument
        elif isinstance(argument, (str, device_of, int)):
            place = argument
        elif hasattr(argument, "is_floating_point"):
            dtype = argument
        elif argument is not None:
            raise TypeError(
                f"to() received an invalid argument at position {i}: {type(argument).__name__}"
            )
    return placement(place, "to") if place is not None else None, dtype, non_blocking
