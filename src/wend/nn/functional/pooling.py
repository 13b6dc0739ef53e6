"""Max pooling that also tells where the maxima were, if asked for; windows at random places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError
from wend._frontend.random import rand
from wend._frontend.toolkit import Tensor, ops
from wend.nn.common_types import size_any_t
from wend.nn.functional._extended import with_indices

__all__ = [
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
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


def _adaptive_max_pool(dims: int, always: bool = False) -> Callable[..., Any]:
    with_indices = getattr(ops, f"adaptive_max_pool{dims}d")

    def adaptive_max_pool(
        input: Tensor, output_size: size_any_t, return_indices: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        pair = with_indices(input, output_size)
        return pair if return_indices or always else pair[0]

    adaptive_max_pool.__name__ = f"adaptive_max_pool{dims}d"
    adaptive_max_pool.__doc__ = with_indices.__doc__
    return adaptive_max_pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_max_pool(dims) for dims in (1, 2, 3)
)
(
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices,
) = (_adaptive_max_pool(dims, always=True) for dims in (1, 2, 3))


def _fractional_max_pool(dims: int, always: bool) -> Callable[..., Any]:
    with_samples = getattr(ops, f"fractional_max_pool{dims}d_with_samples")
    op = f"fractional_max_pool{dims}d"

    def fractional_max_pool(
        input: Tensor,
        kernel_size: object,
        output_size: object = None,
        output_ratio: object = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        if output_size is None and output_ratio is None:
            raise ArgumentError(
                f"{op} requires specifying either an output_size or an output_ratio"
            )
        if output_size is None:
            ratios = output_ratio if isinstance(output_ratio, tuple) else (output_ratio,) * dims
            if len(ratios) > dims:
                raise ArgumentError(
                    f"{op} requires output_ratio to either be a single Int or tuple of Ints."
                )
            sizes = input.shape[-dims:]
            output_size = tuple(int(n * r) for n, r in zip(sizes, ratios, strict=True))
        if _random_samples is None:
            front = input.shape[:-dims] if input.dim() == dims + 2 else (1, *input.shape[:-dims])
            _random_samples = rand(*front, dims, dtype=input.dtype, device=input.device)
        pair = with_samples(input, _random_samples, kernel_size, output_size)
        return pair if always or return_indices else pair[0]

    fractional_max_pool.__name__ = f"{op}_with_indices" if always else op
    fractional_max_pool.__doc__ = (
        f"The greatest elements of windows over {dims} dims that begin at random places.\n\n"
        "output_size, or output_ratio of the input's size: how many windows"
    )
    return fractional_max_pool


fractional_max_pool2d, fractional_max_pool3d = (_fractional_max_pool(d, False) for d in (2, 3))
fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices = (
    _fractional_max_pool(d, True) for d in (2, 3)
)
