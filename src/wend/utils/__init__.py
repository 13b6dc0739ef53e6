"""Tools beside the model: data loading, checkpointing, shared memory. All load when first used."""

import importlib
from typing import Any

_MODULES = frozenset(
    "checkpoint data dlpack flop_counter hooks model_zoo _pytree tensorboard".split()
)
#: Names that load with their module, when first used.
_ELSEWHERE = {"swap_tensors": "wend._frontend.swapping"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
