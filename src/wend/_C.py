"""torch._C: the names of PyTorch's binary that Python libraries ask for.

There are those that a program can use without the binary: classes, and questions that have an
answer. `hasattr` answers no for the rest.
"""

from __future__ import annotations

from contextlib import nullcontext as _nullcontext
from enum import Enum as _Enum
from types import SimpleNamespace
from typing import Any

from wend._engine.base.devices import device
from wend._engine.base.dtypes import DType as dtype
from wend._engine.base.errors import LinAlgError as _LinAlgError
from wend._engine.base.errors import NotImplementedInWend as _NotImplementedInWend
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor as TensorBase
from wend._frontend.api import get_default_device as _device_in_force
from wend._frontend.formats import layout, memory_format
from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.platform import nothing as _log_api_usage_once
from wend._frontend.random import Generator
from wend._frontend.toolkit import parse_to as _parse_to
from wend.accelerator import current_accelerator as _get_accelerator

__all__ = [
    "DisableTorchFunctionSubclass",
    "Generator",
    "PyTorchFileReader",
    "Size",
    "TensorBase",
    "_LinAlgError",
    "_disabled_torch_function_impl",
    "_get_accelerator",
    "_get_default_device",
    "_get_tracing_state",
    "_log_api_usage_once",
    "device",
    "dtype",
    "layout",
    "memory_format",
]

_DEVICES = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 Meta".split()
#: The places at which PyTorch chooses the function of an operator; Wend has a single place.
_KEYS: list[str] = [
    "Undefined",
    *(f"{kind}{device}" for kind in ("", "Sparse", "Autograd") for device in _DEVICES),
    *(f"Autocast{device}" for device in ("CPU", "CUDA", "XPU", "MPS", "PrivateUse1")),
    *"Python Functionalize ADInplaceOrView Autograd AutogradOther BackendSelect".split(),
    *"CompositeImplicitAutograd CompositeExplicitAutograd".split(),
]
DispatchKey: Any = _Enum("DispatchKey", _KEYS)  # type: ignore[misc]


class DispatchKeySet(frozenset[DispatchKey]):
    """A set of keys, united by `|`."""

    def __new__(cls, keys: Any = ()) -> DispatchKeySet:
        return super().__new__(cls, (keys,) if isinstance(keys, DispatchKey) else keys)

    def __or__(self, other: Any) -> DispatchKeySet:
        return type(self)(super().__or__(other))

    def has(self, key: Any) -> bool:
        """Whether the key is in the set."""
        return key in self


def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> Any:
    """A block that changes nothing: there are no keys to leave out."""
    return _nullcontext()


_TensorBase = TensorBase
_TensorMeta = type(TensorBase)


def _format_of(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    device, dtype, non_blocking = _parse_to(*args, **kwargs)
    return device, dtype, non_blocking, kwargs.get("memory_format")


_nn = SimpleNamespace(_parse_to=_format_of)


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Call a function without asking subclasses, as the plain class does."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _get_tracing_state() -> None:
    """None: nothing traces a program while it runs."""


def _get_default_device() -> str:
    """Name of the device in force."""
    return str(_device_in_force())


class PyTorchFileReader:
    """A reader of archives, in place of which there is `torch.load`."""

    def __init__(self, *args: Any) -> None:
        raise _NotImplementedInWend("torch._C.PyTorchFileReader: read the file by torch.load")
