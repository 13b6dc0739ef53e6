"""torch.func.functionalize: PyTorch rewrites in-place ops here; Wend records them so anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError

__all__ = ["functionalize"]

REMOVALS = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """func itself: recorded values are immutable, in-place ops only rebind handles.

    remove: 'mutations' or 'mutations_and_views', without effect; else raises ArgumentError.
    """
    if not callable(func):
        raise ArgumentTypeError(f"functionalize: a function is needed, not a {type(func).__name__}")
    if remove not in REMOVALS:
        raise ArgumentError(f"functionalize: remove is one of {REMOVALS}, not {remove!r}")
    return func
