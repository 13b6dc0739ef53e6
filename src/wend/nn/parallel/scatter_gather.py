"""Arguments and results of calls on several devices: all are on the CPU, and stay there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.devices import DeviceLike, usable
from wend._engine.base.errors import ArgumentError

__all__ = ["check_devices", "gather", "scatter", "scatter_kwargs"]


def scatter(inputs: object, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """The inputs for each device: a list with these inputs, for the CPU.

    Raises DeviceError for other devices, ArgumentError for the CPU named twice.
    """
    check_devices("scatter", target_gpus)
    return [inputs]


def scatter_kwargs(
    inputs: Any, kwargs: Any, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Positional and keyword arguments for each device, as `scatter` gives these."""
    check_devices("scatter", target_gpus)
    return (tuple(inputs),), (dict(kwargs or {}),)


def gather(outputs: Any, target_device: DeviceLike, dim: int = 0) -> Any:
    """The single result of a list with a result for each device. Raises as `scatter`."""
    check_devices("gather", [target_device] * len(outputs))
    return outputs[0]


def check_devices(name: str, devices: Sequence[Any]) -> None:
    """Raise DeviceError unless the devices are the CPU, ArgumentError unless it is given once."""
    for place in devices:
        usable(place, name)
    if len(devices) != 1:
        raise ArgumentError(f"{name}: the CPU is the only device, and must be given once")
