"""Normalization layers: each a step, whose fused kernel keeps the row in cache.

Statistics and arithmetic are in float32 for float16 and bfloat16, rounded once at the end.
Variances are biased (divided by the count), as the layers normalize.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, finfo, float32
from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Scalar, Size, Sizes, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.composites.reduce import count_of, widened
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.numeric import FLOATING, accumulator, is_half, require
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


def _normalized(x: Tensor, axes: tuple[int, ...], eps: Scalar) -> tuple[Any, Any, Any]:
    """((x - mean) / sqrt(variance + eps), mean, variance) over rows, whose axes get extent 1.

    x is read with the mean as a number. Separately, `shift`, which is 0, carries the mean's own
    derivatives. So the gradient's sums are of g and g * deviation, and known before x is read
    again.
    """
    n = count_of(x, axes)
    mean = ops.div(ops.sum(x, axes, True), n)
    center = ops.stop_gradient(mean)
    deviation, shift = ops.sub(x, center), ops.sub(mean, center)
    squares = ops.div(ops.sum(ops.mul(deviation, deviation), axes, True), n)
    variance = ops.sub(squares, ops.mul(shift, shift))
    scale = ops.rsqrt(ops.add(variance, eps))
    return ops.sub(ops.mul(deviation, scale), ops.mul(shift, scale)), mean, variance


def _scaled(
    y: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[Any, ...] | None = None
) -> Tensor:
    """y * weight + bias, either of which may be None; reshaped to `shape` before."""
    for op, parameter in ((ops.mul, weight), (ops.add, bias)):
        if parameter is not None:
            parameter = widened(parameter)
            y = op(y, parameter if shape is None else ops.reshape(parameter, shape))
    return y


def _per_channel(x: Tensor) -> tuple[Any, ...]:
    """The shape in which a vector over channels broadcasts over x of (N, C, ...)."""
    return (x.shape[1], *(1,) * (len(x.shape) - 2))


def _check_channels(op: str, x: Tensor, **vectors: Tensor | None) -> None:
    require(op, FLOATING, x.dtype)
    for name, vector in vectors.items():
        if vector is None:
            continue
        if len(vector.shape) != 1 or vector.shape[0] != x.shape[1]:
            raise ShapeError(
                f"{op}: {name} should contain {x.shape[1]} elements, one per channel of the input "
                f"of shape {hints(x.shape)}, not be of shape {hints(vector.shape)}"
            )


def _require_rank(op: str, x: Tensor, least: int) -> None:
    """Raise ShapeError for fewer than `least` dims."""
    if len(x.shape) < least:
        raise ShapeError(
            f"{op}: expected at least {least} dims, but the input has shape {hints(x.shape)}"
        )


def _trailing(
    op: str, takes: frozenset[str], x: Tensor, normalized_shape: Sizes, **parameters: Tensor | None
) -> tuple[int, ...]:
    """The axes of x, of a dtype that the op takes, that `normalized_shape` names, checked."""
    require(op, takes, x.dtype)
    count = len(normalized_shape)
    shape = tuple(normalized_shape)
    if count == 0:
        raise ShapeError(
            f"{op}: expected normalized_shape to be at least 1-dimensional, i.e., containing at "
            "least one element, but got normalized_shape = ()"
        )
    rank = len(x.shape)
    if rank < count or any(a != b for a, b in zip(x.shape[rank - count :], shape, strict=True)):
        raise ShapeError(
            f"{op}: given normalized_shape={hints(shape)}, expected input with shape "
            f"(*, {', '.join(str(n) for n in hints(shape))}), but got input of shape "
            f"{hints(x.shape)}"
        )
    for name, parameter in parameters.items():
        if parameter is None:
            continue
        own = parameter.shape
        if len(own) != count or any(a != b for a, b in zip(own, shape, strict=True)):
            raise ShapeError(
                f"{op}: expected {name} to be of same shape as normalized_shape, but got {name} "
                f"of shape {hints(own)} and normalized_shape = {hints(shape)}"
            )
    return tuple(range(rank - count, rank))


def _onnx_parameter(
    g: OnnxBuilder, parameter: OnnxValue | None, shape: Sizes, number: float, dtype: DType
) -> OnnxValue:
    """A weight or bias in the type of the computation; a tensor of a number where none is given."""
    return (
        g.expand(g.constant(number, dtype), shape)
        if parameter is None
        else g.cast(parameter, dtype)
    )


def _is_plain(x: OnnxValue, eps: Scalar) -> bool:
    """Whether ONNX's normalizations say the op: in float32, eps a part of the model."""
    return accumulator(x.dtype) is float32 and isinstance(eps, (int, float))


def _onnx_layer_norm(
    self: object,
    g: OnnxBuilder,
    x: OnnxValue,
    shape: Sizes,
    weight: OnnxValue | None,
    bias: OnnxValue | None,
    eps: Scalar,
) -> Any:
    if not _is_plain(x, eps):
        return NotImplemented
    scale = _onnx_parameter(g, weight, shape, 1, float32)
    shift = None if bias is None else g.cast(bias, float32)
    how: dict[str, Any] = {"axis": -len(shape), "epsilon": float(eps)}
    return g.cast(g.node("LayerNormalization", g.cast(x, float32), scale, shift, **how), x.dtype)


def _onnx_rms_norm(
    self: object,
    g: OnnxBuilder,
    x: OnnxValue,
    shape: Sizes,
    weight: OnnxValue | None,
    eps: Scalar | None,
) -> Any:
    eps = finfo(x.dtype).eps if eps is None else eps
    if g.opset < 23 or not _is_plain(x, eps):
        return NotImplemented
    scale = _onnx_parameter(g, weight, shape, 1, float32)
    how: dict[str, Any] = {"axis": -len(shape), "epsilon": float(eps)}
    return g.cast(g.node("RMSNormalization", g.cast(x, float32), scale, **how), x.dtype)


def _onnx_group_norm(
    self: object,
    g: OnnxBuilder,
    x: OnnxValue,
    groups: Size,
    w: OnnxValue | None,
    b: OnnxValue | None,
    eps: Scalar,
) -> Any:
    count = g.fixed(groups)
    if g.opset < 21 or not _is_plain(x, eps) or count is None or x.rank < 3:
        return NotImplemented
    channels = (x.shape[1],)
    scale = _onnx_parameter(g, w, channels, 1, float32)
    shift = _onnx_parameter(g, b, channels, 0, float32)
    how: dict[str, Any] = {"num_groups": count, "epsilon": float(eps)}
    return g.cast(g.node("GroupNormalization", g.cast(x, float32), scale, shift, **how), x.dtype)


def _onnx_batch_norm(
    self: object,
    g: OnnxBuilder,
    x: OnnxValue,
    mean: OnnxValue,
    var: OnnxValue,
    weight: OnnxValue | None,
    bias: OnnxValue | None,
    eps: Scalar,
) -> Any:
    wide = accumulator(x.dtype)
    if not isinstance(eps, (int, float)):
        return NotImplemented
    channels = (x.shape[1],)
    scale = _onnx_parameter(g, weight, channels, 1, wide)
    shift = _onnx_parameter(g, bias, channels, 0, wide)
    operands = g.cast(x, wide), scale, shift, g.cast(mean, wide), g.cast(var, wide)
    return g.cast(g.node("BatchNormalization", *operands, epsilon=float(eps)), x.dtype)


def _onnx_instance_norm(
    self: object,
    g: OnnxBuilder,
    x: OnnxValue,
    weight: OnnxValue | None,
    bias: OnnxValue | None,
    eps: Scalar,
) -> Any:
    if not _is_plain(x, eps):
        return NotImplemented
    channels, axes = (x.shape[1],), g.sizes(range(2, x.rank))
    scale = _onnx_parameter(g, weight, channels, 1, float32)
    shift = _onnx_parameter(g, bias, channels, 0, float32)
    wide = g.cast(x, float32)
    y = g.node("InstanceNormalization", wide, scale, shift, epsilon=float(eps))
    mean = g.node("ReduceMean", wide, axes, keepdims=1)
    deviation = g.node("Sub", wide, mean)
    squares = g.node("ReduceMean", g.node("Mul", deviation, deviation), axes, keepdims=0)
    return g.cast(y, x.dtype), g.node("Squeeze", mean, axes), squares


def _layer_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 4))
    yield Sample(x, (4,))
    yield Sample(x, (4,), rng.normal(size=4), rng.normal(size=4))
    yield Sample(x, (3, 4), rng.normal(size=(3, 4)), None, 1e-3)
    yield Sample(x[:0], (4,), rng.normal(size=4))
    yield Sample(x[0, 0], (4,))


@composite(
    onnx=_onnx_layer_norm,
    functions=("layer_norm",),
    functional=("layer_norm",),
    rows_of="input",
    grad_name="NativeLayerNormBackward0",
    supports=FLOATING,
    samples=_layer_samples,
    grad_nodes=lambda n, x, _, weight, bias, *how: n.NativeLayerNorm(x, weight, bias),
)
def layer_norm(
    input: Tensor,
    normalized_shape: Sizes,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Scalar = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) * weight + bias over the trailing dims.

    input: (*, *normalized_shape)   weight, bias: normalized_shape
    Raises ShapeError if shapes do not fit. Ba, Kiros, Hinton: Layer normalization (2016).
    """
    axes = _trailing("layer_norm", FLOATING, input, normalized_shape, weight=weight, bias=bias)
    y, _, _ = _normalized(widened(input), axes, eps)
    return ops.cast(_scaled(y, weight, bias), input.dtype)


def _rms_nodes(
    n: NodeBuilder, x: NodeOperand, _: Sizes, weight: NodeOperand | None, eps: Scalar | None
) -> object:
    y = n.Mul(x, n.Rsqrt(n.Add1(n.Mean1(n.Pow(x)))))
    return y if weight is None else n.Mul(y, weight)


def _rms_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 4))
    yield Sample(x, (4,))
    yield Sample(x, (4,), rng.normal(size=4), 1e-3)
    yield Sample(x, (3, 4), rng.normal(size=(3, 4)))


@composite(
    onnx=_onnx_rms_norm,
    functions=("rms_norm",),
    functional=("rms_norm",),
    rows_of="input",
    supports=FLOATING | {"complex"},
    samples=_rms_samples,
    grad_nodes=_rms_nodes,
)
def rms_norm(
    input: Tensor, normalized_shape: Sizes, weight: Tensor | None = None, eps: Scalar | None = None
) -> Tensor:
    """y = x / sqrt(mean(x**2) + eps) * weight over the trailing dims; eps: the dtype's by default.

    input: (*, *normalized_shape)   weight: normalized_shape
    Raises ShapeError if shapes do not fit. Zhang, Sennrich: Root mean square layer
    normalization (2019).
    """
    axes = _trailing("rms_norm", FLOATING | {"complex"}, input, normalized_shape, weight=weight)
    x = widened(input)
    if eps is None:
        eps = finfo(input.dtype).eps
    square = ops.div(ops.sum(ops.mul(x, x), axes, True), count_of(x, axes))
    y = ops.mul(x, ops.rsqrt(ops.add(square, eps)))
    return ops.cast(_scaled(y, weight, None), input.dtype)


def _group_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 6, 4, 3))
    yield Sample(x, 2)
    yield Sample(x, 3, rng.normal(size=6), rng.normal(size=6), 1e-3)
    yield Sample(x[..., 0, 0], 2, rng.normal(size=6))
    yield Sample(x[:0], 2)


@composite(
    onnx=_onnx_group_norm,
    functions=("group_norm",),
    functional=("group_norm",),
    grad_name="NativeGroupNormBackward0",
    supports=FLOATING,
    samples=_group_samples,
    grad_nodes=lambda n, x, _, weight, bias, *how: n.NativeGroupNorm(x, weight, bias),
    format_of="first",
)
def group_norm(
    input: Tensor,
    num_groups: Size,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Scalar = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over each group of channels.

    input: (N, C, ...)   weight, bias: (C,)
    Raises ShapeError unless num_groups divides C and the parameters have C elements.
    Wu, He: Group normalization (2018).
    """
    op = "group_norm"
    _require_rank(op, input, 2)
    if num_groups <= 0 or input.shape[1] % num_groups != 0:
        raise ShapeError(
            f"{op}: expected number of channels in input to be divisible by num_groups, but got "
            f"input of shape {hints(input.shape)} and num_groups={num_groups}"
        )
    _check_channels(op, input, weight=weight, bias=bias)
    n, channels, *rest = input.shape
    each = channels // num_groups
    # A single loop per dim: the reduction and the parameters see the same elements.
    x = ops.reshape(widened(input), (n, num_groups, each, *rest))
    y, _, _ = _normalized(x, tuple(range(2, len(x.shape))), eps)
    y = _scaled(y, weight, bias, (num_groups, each, *(1,) * len(rest)))
    return ops.cast(ops.reshape(y, input.shape), input.dtype)


def _batch_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 2, 4))
    yield Sample(x)
    yield Sample(x, rng.normal(size=2), rng.normal(size=2), 1e-3)
    yield Sample(x[..., 0], rng.normal(size=2))
    yield Sample(rng.normal(size=(2, 2, 3, 3)), None, rng.normal(size=2))


@composite(
    result=tuple,
    grad_name="NativeBatchNormBackward0",
    supports=FLOATING,
    samples=_batch_samples,
    grad_nodes=lambda n, x, weight, bias, _: n.NativeBatchNorm(x, weight, bias),
    format_of="first",
)
def batch_norm_train(
    input: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: Scalar = 1e-5
) -> tuple[Tensor, ...]:
    """(y, mean, var): y = (x - mean) / sqrt(var + eps) * weight + bias, per channel.

    input: (N, C, ...)   weight, bias, mean, var: (C,); the statistics are those of the batch
    Raises ShapeError if shapes do not fit. Ioffe, Szegedy: Batch normalization (2015).
    """
    _require_rank("batch_norm", input, 2)
    _check_channels("batch_norm", input, weight=weight, bias=bias)
    x, axes = widened(input), (0, *range(2, len(input.shape)))
    # Unlike rows, channels do not stay in a cache between a sum and its use: to keep the mean's
    # derivatives apart would only add work.
    n = count_of(x, axes)
    mean = ops.div(ops.sum(x, axes, True), n)
    deviation = ops.sub(x, mean)
    variance = ops.div(ops.sum(ops.mul(deviation, deviation), axes, True), n)
    y = ops.mul(deviation, ops.rsqrt(ops.add(variance, eps)))
    y = ops.cast(_scaled(y, weight, bias, _per_channel(input)), input.dtype)
    return y, ops.squeeze(mean, axes), ops.squeeze(variance, axes)


def _instance_nodes(
    n: NodeBuilder, x: NodeOperand, weight: NodeOperand | None, bias: NodeOperand | None, _: Scalar
) -> object:
    repeated = [None if v is None else n.Repeat(v) for v in (weight, bias)]
    return n.View(n.NativeBatchNorm(n.View(x), *repeated))


def _eval_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for sample in _batch_samples(rng):
        x, *rest = sample.args
        yield Sample(x, rng.normal(size=2), rng.uniform(0.5, 2, size=2), *rest)


@composite(
    onnx=_onnx_batch_norm,
    grad_name="NativeBatchNormBackward0",
    supports=FLOATING,
    samples=_eval_samples,
    grad_nodes=lambda n, x, mean, var, weight, bias, _: n.NativeBatchNorm(x, weight, bias),
    format_of="first",
)
def batch_norm_eval(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Scalar = 1e-5,
) -> Tensor:
    """y = (x - running_mean) / sqrt(running_var + eps) * weight + bias, per channel.

    input: (N, C, ...)   all else: (C,). Raises ShapeError if shapes do not fit.
    """
    op = "batch_norm"
    _require_rank(op, input, 2)
    _check_channels(
        op, input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    shape = _per_channel(input)
    # A factor and a term per channel, so that a convolution before can take both in.
    factor = ops.rsqrt(ops.add(widened(running_var), eps))
    if weight is not None:
        factor = ops.mul(factor, widened(weight))
    term = ops.neg(ops.mul(widened(running_mean), factor))
    if bias is not None:
        term = ops.add(term, widened(bias))
    y = ops.add(ops.mul(widened(input), ops.reshape(factor, shape)), ops.reshape(term, shape))
    return ops.cast(y, input.dtype)


@composite(
    result=tuple,
    name="instance_norm_train",
    onnx=_onnx_instance_norm,
    grad_name="NativeBatchNormBackward0",
    supports=FLOATING,
    samples=lambda rng: (s for s in _batch_samples(rng) if s.args[0].ndim > 2),
    grad_nodes=_instance_nodes,
)
def instance_norm_train(
    input: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: Scalar = 1e-5
) -> tuple[Tensor, ...]:
    """(y, mean, var): as batch_norm_train, of each example by itself; mean, var: (N, C).

    input: (N, C, ...). Ulyanov, Vedaldi, Lempitsky: Instance normalization (2016).
    """
    _require_rank("instance_norm", input, 3)
    _check_channels("instance_norm", input, weight=weight, bias=bias)
    axes = tuple(range(2, len(input.shape)))
    y, mean, variance = _normalized(widened(input), axes, eps)
    y = ops.cast(_scaled(y, weight, bias, _per_channel(input)), input.dtype)
    return y, ops.squeeze(mean, axes), ops.squeeze(variance, axes)


def _response_nodes(n: NodeBuilder, x: NodeOperand, *_: object) -> object:
    square = n.Mul(x, x)
    if x.rank == 3:
        mean = n.Squeeze1(n.AvgPool2D(n.ConstantPadNd(n.Unsqueeze(square))))
    else:
        mean = n.View(n.Squeeze1(n.AvgPool3D(n.ConstantPadNd(n.View(square)))))
    return n.Div(x, n.Pow(n.Add(n.Mul(mean, None), None)))


def _response_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 5, 4))
    yield Sample(x, 2)
    yield Sample(x, 3, 0.1, 0.5, 2.0)
    yield Sample(rng.normal(size=(1, 2, 2, 2)), 5)


@composite(
    functional=("local_response_norm",),
    grad_name="DivBackward0",
    supports=FLOATING,
    samples=_response_samples,
    grad_nodes=_response_nodes,
    format_of="first",
)
def local_response_norm(
    input: Tensor, size: Size, alpha: Scalar = 1e-4, beta: Scalar = 0.75, k: Scalar = 1.0
) -> Tensor:
    """y = x / (k + alpha * mean of x**2 over `size` neighbouring channels) ** beta.

    input: (N, C, ...). Raises ShapeError for fewer than 3 dims. Krizhevsky, Sutskever, Hinton:
    ImageNet classification with deep convolutional neural networks (2012).
    """
    _require_rank("local_response_norm", input, 3)
    if any(n == 0 for n in input.shape):
        return ops.clone(input)
    x = widened(input)
    rank = len(x.shape)
    around = (*(0,) * (2 * (rank - 2)), size // 2, (size - 1) // 2)
    squares = ops.transpose(ops.pad(ops.mul(x, x), around), 1, rank - 1)
    total = ops.sum(ops.patches(squares, (size,), (1,), (1,)), rank - 1)
    total = ops.transpose(total, 1, rank - 1)
    power = ops.pow(ops.add(ops.mul(ops.div(total, size), alpha), k), beta)
    y = ops.div(x, power)
    return ops.cast(y, input.dtype) if is_half(input.dtype) else y
