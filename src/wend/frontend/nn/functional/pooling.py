"""Max pooling that also tells where the maxima were, if asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.frontend.nn._core import Tensor, ops

__all__ = [
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]


def _max_pool(dims: int) -> Callable[..., Any]:
    values = getattr(ops, f"max_pool{dims}d")
    with_indices = getattr(ops, f"max_pool{dims}d_with_indices")

    def max_pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        op = with_indices if return_indices else values
        return op(input, kernel_size, stride, padding, dilation, ceil_mode)

    max_pool.__name__ = f"max_pool{dims}d"
    max_pool.__doc__ = values.__doc__
    return max_pool


def _adaptive_max_pool(dims: int) -> Callable[..., Any]:
    with_indices = getattr(ops, f"adaptive_max_pool{dims}d")

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        found = with_indices(input, output_size)
        return found if return_indices else found[0]

    adaptive_max_pool.__name__ = f"adaptive_max_pool{dims}d"
    adaptive_max_pool.__doc__ = with_indices.__doc__
    return adaptive_max_pool


max_pool1d, max_pool2d, max_pool3d = (_max_pool(dims) for dims in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_max_pool(dims) for dims in (1, 2, 3)
)
