"""Batch normalization taken into the weights of the layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from wend._frontend.toolkit import Tensor, ones_like, zeros_like
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _evaluates(*layers: Any) -> None:
    if any(layer.training for layer in layers):
        raise AssertionError("Fusion only for eval!")


def _folded(
    weight: Tensor, bias: Tensor | None, bn: tuple[Any, ...], channel: int
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the layer followed by the normalization; `channel`: dim of outputs."""
    mean, variance, eps, scale, shift = bn
    bias = zeros_like(mean) if bias is None else bias
    scale = ones_like(mean) if scale is None else scale
    shift = zeros_like(mean) if shift is None else shift
    factor = scale * (variance + eps).rsqrt()
    shape = [1] * weight.dim()
    shape[channel] = -1
    folded_weight = (weight * factor.reshape(shape)).to(dtype=weight.dtype)
    folded_bias = ((bias - mean) * factor + shift).to(dtype=bias.dtype)
    return (
        Parameter(folded_weight.detach(), weight.requires_grad),
        Parameter(folded_bias.detach(), bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with a normalization behind it.

    transpose: of a transposed convolution
    """
    return _folded(conv_w, conv_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), int(transpose))


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of the convolution that does the normalization, too.  Both must be in eval mode."""
    _evaluates(conv, bn)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer with a normalization behind it."""
    return _folded(linear_w, linear_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), 0)


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """A copy of the linear layer that does the normalization, too.  Both must be in eval mode."""
    _evaluates(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
