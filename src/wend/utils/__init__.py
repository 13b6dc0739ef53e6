"""Tools beside the model: data loading, checkpointing, shared memory. They load when first used."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("checkpoint", "data", "dlpack"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
