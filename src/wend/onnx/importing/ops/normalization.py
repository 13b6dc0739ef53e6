"""Normalisation over batches, channels, groups and windows of channels."""

from __future__ import annotations

import math
from typing import Any

import wend
import wend.nn.functional as F
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.support import in_float32
from wend.onnx.importing.registry import OpNode, op


@op("BatchNormalization")
def batch_normalization(
    node: OpNode, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Tensor | tuple[Tensor, ...]:
    """Each channel by given statistics, or in training mode by those of the batch."""
    epsilon, momentum = node.get("epsilon", 1e-5), node.get("momentum", 0.9)
    shape = (-1,) + (1,) * (x.ndim - 2)

    def scaled(m: Tensor, v: Tensor) -> Tensor:
        m, v, s, b = (t.to(x.dtype).reshape(shape) for t in (m, v, scale, bias))
        return (x - m) / wend.sqrt(v + epsilon) * s + b

    training = node.get("training_mode", 0) if node.version >= 14 else 0
    if not training:
        return scaled(mean, variance)
    dims = (0, *range(2, x.ndim))
    own_mean = x.mean(dims)
    own_variance = x.var(dims, correction=0)
    running_mean = mean * momentum + own_mean * (1 - momentum)
    running_variance = variance * momentum + own_variance * (1 - momentum)
    return scaled(own_mean, own_variance), running_mean, running_variance


def _standardised(x: Tensor, dims: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    inverse = 1 / wend.sqrt((centred * centred).mean(dims, keepdim=True) + epsilon)
    return centred * inverse, mean, inverse


@op("InstanceNormalization")
def instance_normalization(node: OpNode, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Each channel of each instance by the mean and variance of that channel."""
    shape = (-1,) + (1,) * (x.ndim - 2)
    y, _, _ = _standardised(x, tuple(range(2, x.ndim)), node.get("epsilon", 1e-5))
    return y * scale.reshape(shape) + bias.reshape(shape)


@op("LayerNormalization")
def layer_normalization(
    node: OpNode, x: Tensor, scale: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The dims from an axis on by mean and variance; also the mean and the inverse deviation."""
    axis = node.get("axis", -1) % x.ndim
    dims, epsilon = tuple(range(axis, x.ndim)), node.get("epsilon", 1e-5)
    y, mean, inverse = _standardised(in_float32(x), dims, epsilon)
    y = y.to(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@op("GroupNormalization")
def group_normalization(node: OpNode, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Groups of channels by mean and variance; before opset 21 scale and bias are per group."""
    groups = node.get("num_groups")
    n, c = x.shape[:2]
    parts = in_float32(x).reshape(n, groups, -1)
    y, _, _ = _standardised(parts, (2,), node.get("epsilon", 1e-5))
    y = y.reshape(x.shape).to(x.dtype)
    if scale.shape[0] != c:
        scale, bias = (t.repeat_interleave(c // groups) for t in (scale, bias))
    shape = (-1,) + (1,) * (x.ndim - 2)
    return y * scale.reshape(shape) + bias.reshape(shape)


@op("LRN")
def lrn(node: OpNode, x: Tensor) -> Tensor:
    """Each element divided by a power of the squares in a window of channels."""
    size = node.get("size")
    before = (size - 1) // 2
    squares = (x * x).reshape(*x.shape[:2], math.prod(x.shape[2:]))
    full = F.pad(squares, (0, 0, before, size - 1 - before))
    total = full.narrow(1, 0, x.shape[1])
    for i in range(1, size):
        total = total + full.narrow(1, i, x.shape[1])
    base = node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * total
    return x / (base ** node.get("beta", 0.75)).reshape(x.shape)


@op("LpNormalization")
def lp_normalization(node: OpNode, x: Tensor) -> Tensor:
    """Divided by the 1-norm or 2-norm along an axis; where that is 0, the result is 0."""
    axis = node.get("axis", -1)
    if node.get("p", 2) == 1:
        size = x.abs().sum(axis, keepdim=True)
    else:
        size = wend.linalg.vector_norm(x, dim=axis, keepdim=True)
    return x / wend.where(size == 0, wend.ones_like(size), size)
