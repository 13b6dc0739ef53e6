"""Modules made without first values."""

from __future__ import annotations

import inspect
from typing import Any

from wend.frontend.toolkit import no_grad
from wend.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters need not be initialized: they have some values.

    Raises RuntimeError if the class is no module, or takes no device.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with no_grad():
        return module_cls(*args, **kwargs)
