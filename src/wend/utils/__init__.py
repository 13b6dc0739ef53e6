"""Tools beside the model: data loading, checkpointing, shared memory. All load when first used."""

import importlib
from typing import Any

_MODULES = frozenset(
    "checkpoint data dlpack flop_counter hooks model_zoo _pytree tensorboard".split()
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "swap_tensors":
        return importlib.import_module("wend._frontend.swapping").swap_tensors
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
