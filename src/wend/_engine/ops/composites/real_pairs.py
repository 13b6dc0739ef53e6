"""Functions of real numbers applied to complex tensors, real and imaginary parts by themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from wend._engine.core.kinds import Tensor
from wend._engine.core.primitive import ops


def on_real_pairs(body: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """`body`, the body of a composite whose first operand decides.

    If that operand is complex, each complex tensor becomes its pairs of real numbers, and each
    result is put together again: optimizers step the parts of a complex parameter by themselves.
    """

    @wraps(body)
    def on_pairs(first: Any, /, *rest: Any, **settings: Any) -> tuple[Any, ...]:
        if not first.dtype.is_complex:
            return body(first, *rest, **settings)
        results = body(*(_pairs(x) for x in (first, *rest)), **settings)
        return tuple(ops.view_as_complex(x) for x in results)

    return on_pairs


def _pairs(x: Tensor) -> Tensor:
    """The real pairs of a complex tensor; anything else as it is."""
    dtype = getattr(x, "dtype", None)
    return ops.view_as_real(x) if dtype is not None and dtype.is_complex else x
