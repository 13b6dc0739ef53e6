"""torch.quantize_per_tensor and its kin: from floats to quantised tensors, and back."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Any

from wend._engine.base.dtypes import float32, float64, int32, int64
from wend._engine.base.errors import ArgumentError
from wend._engine.base.shapes import normalize_dim
from wend._engine.base.tracebacks import short_errors
from wend._frontend.quantized.tensor import DTYPES, QuantizedTensor, limits, spread, wrapped
from wend._frontend.toolkit import Tensor, ops

__all__ = [
    "dequantize",
    "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine",
    "int_repr",
    "q_per_channel_axis",
    "q_per_channel_scales",
    "q_per_channel_zero_points",
    "q_scale",
    "q_zero_point",
    "quantize_per_channel",
    "quantize_per_tensor",
    "quantize_per_tensor_dynamic",
]

_SINGLE = struct.Struct("f")


def whole(x: Tensor, scale: Any, zero: Any, dtype: Any) -> Tensor:
    """round(x / scale) + zero in the range of a quantised type, as whole numbers."""
    low, high = limits(dtype)
    x = ops.cast(x, float32)
    if DTYPES[dtype] is int32:
        y = ops.round(ops.div(ops.cast(x, float64), scale)) + zero
        return ops.cast(ops.clamp(y, low, high), int32)
    inverse = ops.div(1.0, scale) if isinstance(scale, Tensor) else _inverse(scale)
    return ops.round_to_bytes(x, inverse, zero, low, high, DTYPES[dtype])


def _single(x: float) -> float:
    """The nearest number of float32."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(x))[0])
    except OverflowError:
        # A number beyond float32 is infinite there.
        return math.copysign(math.inf, x)


@functools.lru_cache(1024)
def _inverse(scale: float) -> float:
    """1 / scale of numbers of float32, as PyTorch computes."""
    single = _single(scale)
    return _single(1.0 / single) if single else math.copysign(math.inf, single)


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """round(input / scale) + zero_point as a quantised tensor of `dtype`.

    input: float tensor, or a list of tensors with a scale and a zero point each
    Raises ArgumentTypeError for a dtype that is not quantised.
    """
    if isinstance(input, (list, tuple)):
        return [
            quantize_per_tensor(x, s, z, dtype)
            for x, s, z in zip(input, scale.tolist(), zero_point.tolist(), strict=True)
        ]
    scale, zero = _number(scale, float), _number(zero_point, int)
    low, high = limits(dtype)
    if not low <= zero <= high:
        raise ArgumentError(f"quantize_per_tensor: zero_point {zero} is not in {low} ... {high}")
    return wrapped(whole(input, scale, zero, dtype), scale, zero)


def _number(x: Any, kind: type) -> Any:
    return kind(x.item()) if isinstance(x, Tensor) else kind(x)


@short_errors
def quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> QuantizedTensor:
    """The tensor quantised by its own range. reduce_range: whether 7 bits are used, and not 8"""
    scale, zero = (
        ops.byte_scale(ops.amin(input), ops.amax(input), 127 if reduce_range else 255),
        ops.byte_point(ops.amin(input), ops.amax(input), 127 if reduce_range else 255),
    )
    low, _ = limits(dtype)
    shift = low // 2 if reduce_range else low
    result: QuantizedTensor = quantize_per_tensor(
        input, scale.item(), int(zero.item()) + shift, dtype
    )
    return result


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any
) -> QuantizedTensor:
    """As `quantize_per_tensor`, with a scale and a zero point for each slice along an axis.

    scales, zero_points: (input.shape[axis],)
    Raises ArgumentError for other sizes.
    """
    axis = normalize_dim(axis, input.ndim, "quantize_per_channel")
    for what, x in (("scales", scales), ("zero_points", zero_points)):
        if x.numel() != input.shape[axis]:
            raise ArgumentError(
                f"quantize_per_channel: {what} has {x.numel()} elements, and axis {axis} of "
                f"input has {input.shape[axis]}"
            )
    scale = spread(ops.cast(scales, float32), input.ndim, axis)
    zero = spread(zero_points, input.ndim, axis)
    data = whole(input, scale, zero, dtype)
    return wrapped(data, ops.cast(scales, float64), ops.cast(zero_points, int64), axis)


def dequantize(input: Any) -> Any:
    """The floats of a quantised tensor, or of each of a list; a float tensor itself."""
    if isinstance(input, Sequence):
        return [dequantize(x) for x in input]
    return input.dequantize() if isinstance(input, QuantizedTensor) else ops.cast(input, float32)


def _part(name: str) -> Any:
    method = getattr(QuantizedTensor, name)

    def function(input: QuantizedTensor) -> Any:
        if not isinstance(input, QuantizedTensor):
            raise ArgumentError(f"{name}: input is not quantised; use torch.quantize_per_tensor")
        return method(input)

    function.__name__, function.__doc__ = name, method.__doc__
    return function


int_repr = _part("int_repr")
q_scale = _part("q_scale")
q_zero_point = _part("q_zero_point")
q_per_channel_scales = _part("q_per_channel_scales")
q_per_channel_zero_points = _part("q_per_channel_zero_points")
q_per_channel_axis = _part("q_per_channel_axis")


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """input, rounded to numbers of a quantised tensor; the gradient passes within the range."""
    return _faked(input, scale, zero_point, quant_min, quant_max)


def _faked(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    """The op, in float32, with a result of x's dtype."""
    y = ops.fake_quantize(x, scale, zero, low, high)
    return y if y.dtype is x.dtype else ops.cast(y, x.dtype)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As `fake_quantize_per_tensor_affine`, with a scale and zero point for each slice."""
    axis = normalize_dim(axis, input.ndim, "fake_quantize_per_channel_affine")
    scale, zero = (spread(x, input.ndim, axis) for x in (scale, zero_point))
    return _faked(input, scale, zero, quant_min, quant_max)
