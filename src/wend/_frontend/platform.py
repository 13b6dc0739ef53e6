"""Answers to questions about accelerators: there are none, and each answer is clear."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from wend._engine.base.devices import CPU, DeviceLike, device, usable
from wend._engine.base.devices import device as Device
from wend._engine.base.errors import DeviceError, ExecutionError
from wend._engine.base.errors import OutOfMemory as OutOfMemoryError
from wend._engine.base.tracebacks import short_errors

NO_CUDA = "cuda: no CUDA device is available; Wend computes on 'cpu' so far"


class AcceleratorError(RuntimeError):
    """A device has failed: never raised, as there is no such device."""


class Stream:
    """A queue of an accelerator's work. Raises DeviceError: there is no accelerator."""

    _refused_by_wend = True

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        refuse_queue(cls.__name__)


class Event:
    """A mark in a queue of an accelerator. Raises DeviceError: there is no accelerator."""

    _refused_by_wend = True

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        refuse_queue(cls.__name__)


def refuse_queue(name: str) -> NoReturn:
    """Raises DeviceError: there is no queue of that kind."""
    raise DeviceError(f"{name}: no accelerator is available; Wend computes on 'cpu' so far")


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


def current_accelerator(check_available: bool = False) -> device | None:
    """None: there is no accelerator."""
    return None


@short_errors
def get_device_module(device: DeviceLike = None) -> ModuleType:
    """torch.cpu, or the module of another kind of device, which answers that there is none.

    Raises ExecutionError (a RuntimeError) for a kind of device that has no module.
    """
    kind = Device("cpu" if device is None else device).type
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
    "current_accelerator",
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
