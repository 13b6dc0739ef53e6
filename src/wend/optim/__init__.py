# ruff: noqa: F401, F403
"""Optimizers and schedules of learning rates."""

import importlib
from typing import Any

from wend.frontend.optim import *
from wend.optim import lr_scheduler, swa_utils


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"wend.optim.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module 'wend.optim' has no attribute {name!r}")
