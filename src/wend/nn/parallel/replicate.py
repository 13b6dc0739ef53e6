"""Copies of a module on several devices, of which there is one: the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend.nn.modules.module import Module
from wend.nn.parallel.scatter_gather import check_devices

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """A list with the module, for the CPU. Raises DeviceError for other devices.

    detach: accepted; the module has its own parameters
    """
    check_devices("replicate", devices)
    return [network]
