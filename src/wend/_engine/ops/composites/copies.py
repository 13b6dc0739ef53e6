"""The `*_copy` functions: results of view ops, in new memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.core.primitive import PUBLIC, ops
from wend._engine.ops.sugar import spelled, sugar

#: View ops (by name) that have a public copying twin.
VIEWS = (
    "alias",
    "as_strided",
    "diagonal",
    "expand",
    "narrow",
    "permute",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unfold",
    "unsqueeze",
    "view",
)


def _copying(view: str) -> Callable[..., Any]:
    def copy(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("implicit", None)  # says where `expand` comes from
        result = (PUBLIC.get(view) or getattr(ops, view))(*args, **kwargs)
        if isinstance(result, tuple):
            return tuple(map(ops.clone, result))
        return ops.clone(result)

    copy.__name__ = copy.__qualname__ = f"{view}_copy"
    copy.__doc__ = f"As `{view}`, in memory of its own."
    return spelled(out=True)(copy)


for _view in VIEWS:
    _name = f"{_view}_copy"
    # narrow_copy alone is a method too.
    sugar(functions=(_name,), methods=(_name,) if _view == "narrow" else ())(_copying(_view))
