"""Which accelerator a call is about: the device that was named, or the one that is current."""

from __future__ import annotations

from typing import Any, NoReturn

from wend._engine.base.devices import (
    CURRENT,
    accelerator,
    accelerator_kind,
    count_of,
    device,
    usable,
)
from wend._engine.base.errors import DeviceError, ValueRefused
from wend._engine.runtime.devices.queue import Accelerator, accelerator_at, opened


def refuse_kind(kind: str | None, name: str) -> NoReturn:
    """Raises DeviceError: there is no device of that kind."""
    word = {"cuda": "CUDA device", "xpu": "OpenCL device"}.get(kind or "", "accelerator")
    module = kind or "accelerator"
    raise DeviceError(
        f"{module}.{name}: no {word} is available; ask torch.{module}.is_available() first, or use "
        "device='cpu'"
    )


def kind_at_hand(kind: str | None, name: str) -> str:
    """The kind, or that of the current accelerator. Raises DeviceError if none is there."""
    there = accelerator_kind() if kind is None else kind
    if there is None or not count_of(there):
        refuse_kind(kind, name)
    return there


def place_of(kind: str | None, request: Any, name: str) -> device:
    """The device of a kind that is asked for; None names the current one.

    kind: None for the kind of the current accelerator     name: of the function, for messages
    Raises DeviceError, and ValueRefused for a device of another kind.
    """
    kind = kind_at_hand(kind, name)
    if request is None or (isinstance(request, int) and request < 0):
        return accelerator(kind, CURRENT.get(kind, 0))
    if isinstance(request, int):
        return usable(device(kind, request), name)
    place = device(request)
    if place.type != kind:
        raise ValueRefused(f"{name}: expected a {kind} device, but got: {place}")
    return usable(place, name)


def unit_at(kind: str | None, request: Any, name: str) -> Accelerator:
    """The accelerator that is asked for, opened."""
    return accelerator_at(place_of(kind, request, name))


def unit_in_use(kind: str | None, request: Any, name: str) -> Accelerator | None:
    """The accelerator that is asked for; None if it has not been used, or is not there."""
    there = accelerator_kind() if kind is None else kind
    if there is None or not count_of(there):
        return None
    return opened().get(place_of(kind, request, name))


def make_current(place: device) -> None:
    """Let names without a number mean this device from now on."""
    CURRENT[place.type] = place.index or 0
