"""Gradients of convolutions, as functions of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.ops.placing import full_beside
from wend._frontend.autograd.backward import grad
from wend._frontend.toolkit import Tensor, enable_grad
from wend.nn import functional as F
from wend.nn.common_types import size_any_t

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _for_input(
    dims: int, size: Sequence[int], weight: Tensor, grad_output: Tensor, settings: tuple[Any, ...]
) -> Tensor:
    with enable_grad():
        input = full_beside(weight, tuple(size), 0).requires_grad_()
        output = getattr(F, f"conv{dims}d")(input, weight, None, *settings)
        return grad(output, input, grad_output)[0]  # type: ignore[no-any-return]


def _for_weight(
    dims: int, input: Tensor, size: Sequence[int], grad_output: Tensor, settings: tuple[Any, ...]
) -> Tensor:
    with enable_grad():
        weight = full_beside(input, tuple(size), 0).requires_grad_()
        output = getattr(F, f"conv{dims}d")(input, weight, None, *settings)
        return grad(output, weight, grad_output)[0]  # type: ignore[no-any-return]


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: size_any_t = 1,
    padding: size_any_t = 0,
    dilation: size_any_t = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` for an input of the given size."""
    return _for_input(1, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: size_any_t = 1,
    padding: size_any_t = 0,
    dilation: size_any_t = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` for a weight of the given size."""
    return _for_weight(1, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: size_any_t = 1,
    padding: size_any_t = 0,
    dilation: size_any_t = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` for an input of the given size."""
    return _for_input(2, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: size_any_t = 1,
    padding: size_any_t = 0,
    dilation: size_any_t = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` for a weight of the given size."""
    return _for_weight(2, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: size_any_t = 1,
    padding: size_any_t = 0,
    dilation: size_any_t = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` for an input of the given size."""
    return _for_input(3, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: size_any_t = 1,
    padding: size_any_t = 0,
    dilation: size_any_t = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` for a weight of the given size."""
    return _for_weight(3, input, weight_size, grad_output, (stride, padding, dilation, groups))
