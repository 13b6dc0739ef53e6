"""Max pooling that also tells where the maxima were, if asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.frontend.toolkit import Tensor, ops
from wend.nn.functional._extended import with_indices

__all__ = [
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]


max_pool1d = with_indices(ops.max_pool1d, ops.max_pool1d_with_indices)
max_pool2d = with_indices(ops.max_pool2d, ops.max_pool2d_with_indices)
max_pool3d = with_indices(ops.max_pool3d, ops.max_pool3d_with_indices)

# Functions that always return indices take the argument too, and ignore it, as in PyTorch.
max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = (
    with_indices(op, op)
    for op in (
        ops.max_pool1d_with_indices,
        ops.max_pool2d_with_indices,
        ops.max_pool3d_with_indices,
    )
)


def _adaptive_max_pool(dims: int) -> Callable[..., Any]:
    with_indices = getattr(ops, f"adaptive_max_pool{dims}d")

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        found = with_indices(input, output_size)
        return found if return_indices else found[0]

    adaptive_max_pool.__name__ = f"adaptive_max_pool{dims}d"
    adaptive_max_pool.__doc__ = with_indices.__doc__
    return adaptive_max_pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_max_pool(dims) for dims in (1, 2, 3)
)
