"""Answers to questions about devices that are never there, and other questions of programs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from wend._engine.base.devices import CPU, DeviceLike, accelerator_kind, device, usable
from wend._engine.base.devices import device as Device
from wend._engine.base.errors import DeviceError, ExecutionError, OutOfMemoryError
from wend._engine.base.tracebacks import short_errors

NO_CUDA = "cuda: no CUDA device is available; Wend computes on 'cpu' so far"


class AcceleratorError(RuntimeError):
    """A device has failed, in PyTorch's terms; Wend raises DeviceError."""


def is_available() -> bool:
    """False: there is no such device."""
    return False


def device_count() -> int:
    """0: there is no such device."""
    return 0


def no_bytes(device: DeviceLike = None) -> int:
    """0: there is no such device, and no memory of that device in use."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no such device."""
    return False


def nothing(*args: object, **kwargs: object) -> None:
    """Seeding, synchronising or emptying the cache of devices that are not there."""


def refuse(*args: object, **kwargs: object) -> Any:
    """Raises DeviceError: the call needs a device that is not there."""
    raise DeviceError(NO_CUDA)


@short_errors
def get_device_module(device: DeviceLike = None) -> ModuleType:
    """The module of a kind of device: torch.cpu, torch.xpu; by default of the accelerator at hand.

    Raises ExecutionError (a RuntimeError) for a kind of device that has no module.
    """
    kind = Device(accelerator_kind() or "cpu" if device is None else device).type
    try:
        return importlib.import_module(f"wend.{kind}")
    except ImportError:
        raise ExecutionError(
            f"get_device_module: there is no module torch.{kind}; Wend computes on 'cpu' so far"
        ) from None


@contextmanager
def _flags(**unused: object) -> Iterator[None]:
    yield


__all__ = [
    "CPU",
    "KERNELS_OF_ATTENTION",
    "OutOfMemoryError",
    "device",
    "device_count",
    "is_available",
    "nothing",
    "refuse",
    "usable",
]


#: The kernels for attention that a program asks for: attention is computed as ever.
KERNELS_OF_ATTENTION = {
    "flash": True,
    "math": True,
    "mem_efficient": True,
    "cudnn": True,
    "reduced": False,
}


def itself(obj: object, *args: object, **kwargs: object) -> Any:
    """The result of torch.jit.script: the function, class or module unchanged."""
    return obj


def jit_marker(drop: object = False, **kwargs: object) -> Any:
    """A decorator, with or without arguments, that leaves the function unchanged."""
    return drop if callable(drop) else itself
