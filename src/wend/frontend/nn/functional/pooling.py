"""Pooling."""

from __future__ import annotations

from typing import Any

from wend.frontend.nn._core import Tensor, ops
from wend.frontend.nn.utils import _ntuple

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "lp_pool1d",
    "lp_pool2d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
]

avg_pool1d = ops.avg_pool1d
avg_pool2d = ops.avg_pool2d
adaptive_avg_pool1d = ops.adaptive_avg_pool1d
max_pool1d_with_indices = ops.max_pool1d_with_indices
max_pool2d_with_indices = ops.max_pool2d_with_indices


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of (N, C, L) or (C, L); with its index if asked for."""
    op = ops.max_pool1d_with_indices if return_indices else ops.max_pool1d
    return op(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of (N, C, H, W) or (C, H, W); with its index if asked for."""
    op = ops.max_pool2d_with_indices if return_indices else ops.max_pool2d
    return op(input, kernel_size, stride, padding, dilation, ceil_mode)


def _adaptive_size(input: Tensor, output_size: Any, count: int) -> tuple[int, ...]:
    """The output's size; None stands for the input's."""
    sizes = _ntuple(output_size, count)
    return tuple(
        input.shape[i - count] if size is None else size for i, size in enumerate(sizes)
    )


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The mean of each of output_size windows that cover (N, C, H, W) or (C, H, W)."""
    return ops.adaptive_avg_pool2d(input, _adaptive_size(input, output_size, 2))


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d` and where the maxima were."""
    return ops.adaptive_max_pool1d(input, _adaptive_size(input, output_size, 1))


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maximum of each of output_size windows that cover (N, C, L) or (C, L)."""
    found = adaptive_max_pool1d_with_indices(input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d` and where the maxima were."""
    return ops.adaptive_max_pool2d(input, _adaptive_size(input, output_size, 2))


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maximum of each of output_size windows that cover (N, C, H, W) or (C, H, W)."""
    found = adaptive_max_pool2d_with_indices(input, output_size)
    return found if return_indices else found[0]


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The norm_type-norm of each window of (N, C, L) or (C, L)."""
    means = avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _root(means * kernel_size, norm_type)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The norm_type-norm of each window of (N, C, H, W) or (C, H, W)."""
    height, width = _ntuple(kernel_size, 2)
    means = avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _root(means * (height * width), norm_type)


def _root(sums: Tensor, norm_type: float) -> Tensor:
    return (ops.sign(sums) * ops.relu(sums.abs())).pow(1.0 / norm_type)


def _unpooled_size(
    input: Tensor, kernel: tuple[int, ...], stride: Any, padding: Any, output_size: Any
) -> list[int]:
    count = len(kernel)
    strides = kernel if stride is None else _ntuple(stride, count)
    paddings = _ntuple(padding, count)
    sizes = [
        (input.shape[i - count] - 1) * strides[i] + kernel[i] - 2 * paddings[i]
        for i in range(count)
    ]
    if output_size is None:
        return sizes
    wanted = list(output_size)[-count:]
    for i in range(count):
        if not sizes[i] - strides[i] < wanted[i] < sizes[i] + strides[i]:
            raise ValueError(
                f"invalid output_size {wanted} (dim {i} must be between "
                f"{sizes[i] - strides[i]} and {sizes[i] + strides[i]})"
            )
    return wanted


def _unpool(input: Tensor, indices: Tensor, sizes: list[int]) -> Tensor:
    count = len(sizes)
    front = list(input.shape[:-count])
    area = 1
    for size in sizes:
        area *= size
    rows = ops.full((*front, area), 0.0, dtype=input.dtype)
    flat = rows.scatter(-1, indices.reshape(*front, -1), input.reshape(*front, -1))
    return flat.reshape(*front, *sizes)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The maxima put back to where `max_pool1d` found them, zeros elsewhere."""
    sizes = _unpooled_size(input, _ntuple(kernel_size, 1), stride, padding, output_size)
    return _unpool(input, indices, sizes)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The maxima put back to where `max_pool2d` found them, zeros elsewhere."""
    sizes = _unpooled_size(input, _ntuple(kernel_size, 2), stride, padding, output_size)
    return _unpool(input, indices, sizes)
