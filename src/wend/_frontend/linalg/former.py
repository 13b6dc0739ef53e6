"""Functions that PyTorch has removed, and still names: they raise, and say what to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core.primitive import publish

__all__ = ["eig", "lstsq", "matrix_rank", "solve", "symeig"]


def _removed(name: str, successor: str) -> Callable[..., Any]:
    def function(*args: object, **kwargs: object) -> Any:
        raise NotImplementedInWend(
            f"{name}: this function was deprecated since version 1.9 and is now removed; use "
            f"torch.linalg.{successor} instead"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed from PyTorch: raises, and names linalg.{successor}."
    publish(function, (name,), () if name == "matrix_rank" else (name,))
    return function


eig = _removed("eig", "eig")
lstsq = _removed("lstsq", "lstsq")
matrix_rank = _removed("matrix_rank", "matrix_rank")
solve = _removed("solve", "solve")
symeig = _removed("symeig", "eigh")
