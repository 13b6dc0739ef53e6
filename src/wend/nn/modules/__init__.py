# ruff: noqa: F403
"""Layers by family; the families' modules load when first asked for."""

import importlib
from typing import Any

from wend.frontend.nn import *


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"wend.nn.modules.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module 'wend.nn.modules' has no attribute {name!r}")
