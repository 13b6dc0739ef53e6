"""Modules made without first values."""

from __future__ import annotations

import inspect
from typing import Any

from wend.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have some values: they are made on the device meta, where they
    cannot be initialized, and get memory then.

    kwargs: of the class; `device` is where the module ends up, by default the CPU

    Raises RuntimeError if the class is no module, or takes no device.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
