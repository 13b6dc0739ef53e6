"""wend.return_types: the named tuples that functions with several results return."""

from typing import Any

import wend
from wend._engine.core.primitive import REGISTRY as _REGISTRY
from wend._engine.core.primitive import RETURN_TYPES

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """The class of a function's results. Raises AttributeError."""
    if name not in RETURN_TYPES and not name.startswith("_"):
        for op in _REGISTRY.values():
            if isinstance(op.result, tuple) and name in (op.name, op.torch.label):
                op.result_wrap()
        if name.startswith("linalg_"):
            wend.linalg  # noqa: B018 (its functions name their results when they are loaded)
    try:
        return RETURN_TYPES[name]
    except KeyError:
        raise AttributeError(f"module 'wend.return_types' has no attribute {name!r}") from None
