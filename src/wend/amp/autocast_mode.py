"""autocast: a block whose products are computed in a lower type."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from wend._engine.base.devices import count_of
from wend._engine.base.dtypes import DType, bfloat16, float16, float64
from wend._engine.core._hot import Tensor
from wend.amp._policies import STATE, enter

__all__ = [
    "autocast",
    "autocast_decorator",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]

#: The devices that PyTorch has autocast for.
_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "ipu", "xla", "mtia", "maia", "privateuseone")
_ABSENT = {"cuda": "CUDA is not available or torch_xla is imported. Disabling autocast."}
Function = Callable[..., Any]


def is_autocast_available(device_type: str) -> bool:
    """Whether PyTorch has autocast for devices of this type, be they present or not."""
    return device_type in _DEVICES


def _checked(device_type: str) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if not is_autocast_available(device_type):
        raise RuntimeError(f"autocast: no device type {device_type!r}: use one of {_DEVICES}")
    return device_type


# -- the state of a thread ------------------------------------------------------------------


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether this thread is inside of autocast for the device."""
    return STATE.enabled.get(_checked(device_type), False)


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """set_autocast_enabled(device_type, enabled): turn autocast on or off in this thread."""
    if enabled is None:  # the older form, which is about CUDA
        device_type, enabled = "cuda", device_type
    before = bool(STATE.on)
    STATE.enabled[_checked(device_type)] = bool(enabled)
    STATE.on = frozenset(kind for kind, is_on in STATE.enabled.items() if is_on and count_of(kind))
    if bool(STATE.on) is not before:
        enter(not before)


def get_autocast_dtype(device_type: str) -> DType:
    """The lower type: bfloat16 on the CPU and for XLA, float16 elsewhere, or as set."""
    return STATE.dtypes.get(_checked(device_type), float16)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the lower type of this thread."""
    STATE.dtypes[_checked(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether weights are converted once per block."""
    return STATE.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether weights are to be converted once per block."""
    STATE.cache_enabled = enabled


def clear_autocast_cache() -> None:
    """Forget the converted weights."""
    STATE.cache.clear()


def autocast_increment_nesting() -> int:
    """Enter a block; the depth."""
    STATE.nesting += 1
    return STATE.nesting


def autocast_decrement_nesting() -> int:
    """Leave a block; the depth."""
    STATE.nesting -= 1
    return STATE.nesting


def _older(device_type: str) -> tuple[Function, Function, Function, Function]:
    """PyTorch's older functions, with the device in their names."""

    def is_enabled() -> bool:
        """is_autocast_enabled of the device in the name."""
        return is_autocast_enabled(device_type)

    def set_enabled(enabled: bool) -> None:
        """set_autocast_enabled of the device in the name."""
        set_autocast_enabled(device_type, enabled)

    def get_dtype() -> DType:
        """get_autocast_dtype of the device in the name."""
        return get_autocast_dtype(device_type)

    def set_dtype(dtype: DType) -> None:
        """set_autocast_dtype of the device in the name."""
        set_autocast_dtype(device_type, dtype)

    return is_enabled, set_enabled, get_dtype, set_dtype


(
    is_autocast_cpu_enabled,
    set_autocast_cpu_enabled,
    get_autocast_cpu_dtype,
    set_autocast_cpu_dtype,
) = _older("cpu")
_, _, get_autocast_gpu_dtype, set_autocast_gpu_dtype = _older("cuda")
(
    is_autocast_ipu_enabled,
    set_autocast_ipu_enabled,
    get_autocast_ipu_dtype,
    set_autocast_ipu_dtype,
) = _older("ipu")
(
    is_autocast_xla_enabled,
    set_autocast_xla_enabled,
    get_autocast_xla_dtype,
    set_autocast_xla_dtype,
) = _older("xla")


# -- blocks ---------------------------------------------------------------------------------


class autocast:
    """A block, or by decoration a function, whose products are computed in a lower type.

    dtype: bfloat16 or float16; on the CPU bfloat16 if left out
    cache_enabled: convert weights once per block

    Which ops that concerns is PyTorch's choice: see `wend/amp/_policies.py`. For a device that is
    not present the block does nothing, with a warning.
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device: str = _checked(device_type)
        self.fast_dtype: DType = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = STATE.cache_enabled if cache_enabled is None else cache_enabled
        if not count_of(device_type):
            if enabled:
                text = f"User provided device_type of {device_type!r}, but {device_type.upper()} "
                text += "is not available. Disabling"
                warnings.warn(_ABSENT.get(device_type, text), stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in (bfloat16, float16):
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[tuple[bool, DType, bool]] = []

    def __enter__(self) -> autocast:
        device = self.device
        self._before.append(
            (is_autocast_enabled(device), get_autocast_dtype(device), STATE.cache_enabled)
        )
        set_autocast_enabled(device, self._enabled)
        set_autocast_dtype(device, self.fast_dtype)
        set_autocast_cache_enabled(self._cache_enabled)
        autocast_increment_nesting()
        return self

    def __exit__(self, *exc: object) -> None:
        enabled, dtype, cache = self._before.pop()
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, dtype)
        set_autocast_cache_enabled(cache)

    def __call__(self, func: Function) -> Function:
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Function) -> Function:
    """The function with the block around each call."""

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


# -- user-defined functions -----------------------------------------------------------------


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """Float tensors of the device, in tuples, lists and dicts too, as this type."""
    if isinstance(value, Tensor):
        eligible = (
            value.dtype.is_floating_point
            and value.device.type == device_type
            and value.dtype is not float64
        )
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = [_cast(v, device_type, dtype) for v in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def custom_fwd(
    fwd: Function | None = None, *, device_type: str, cast_inputs: DType | None = None
) -> Function:
    """Decorator for the forward of an autograd Function; `custom_bwd` is for its backward.

    cast_inputs: inside of autocast the inputs become this type, and autocast is off in the body;
        None: the body runs as the thread says
    """
    _checked(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        inside = is_autocast_enabled(device_type)
        if cast_inputs is None:
            args[0]._fwd_used_autocast = inside
            return forward(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        if not inside:
            return forward(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return forward(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return decorated


def custom_bwd(bwd: Function | None = None, *, device_type: str) -> Function:
    """Decorator for the backward of an autograd Function: autocast is as it was in the forward."""
    _checked(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, args[0]._dtype, enabled=args[0]._fwd_used_autocast):
            return backward(*args, **kwargs)

    return decorated
