"""Packages that come with an extra of Wend's, asked for by the few ops that need them."""

from __future__ import annotations

import importlib
from types import ModuleType

from wend._engine.base.errors import ModuleNotAvailable


def needed(name: str, op: str) -> ModuleType:
    """Import a module of SciPy for an op.

    Raises ModuleNotAvailable, with the extra to install, where SciPy is not there.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as fault:
        if str(fault.name).partition(".")[0] != "scipy":
            raise
        raise ModuleNotAvailable(
            f"{op}: needs SciPy, which is not installed: pip install 'wend-dl[full]'", name="scipy"
        ) from fault
