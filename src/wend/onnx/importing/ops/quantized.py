"""Whole numbers for floats: quantisation, and products of quantised tensors."""

from __future__ import annotations

from typing import Any

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.carried import aware
from wend.onnx.importing.ops import byte_products
from wend.onnx.importing.ops.casts import SMALL_FLOATS, SMALL_INTS, to_element
from wend.onnx.importing.ops.convolution import convolve
from wend.onnx.importing.ops.support import in_float32
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.types import ELEMENTS, Carried, dtype_of, element_of, plain


def _spread(node: OpNode, t: Tensor, x: Tensor) -> Tensor:
    """Scales or zero points spread over x: a single number, a number per slice, or blocks."""
    if t.ndim == 0 or t.numel() == 1:
        return t.reshape(())
    axis = node.get("axis", 1) % x.ndim
    block = node.get("block_size", 0)
    if t.ndim == 1 and not block:
        return t.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    if block:
        t = t.repeat_interleave(block, dim=axis)
        return t.narrow(axis, 0, x.shape[axis])
    return t


def limits(element: int) -> tuple[int, int]:
    """The least and greatest whole number of an element type."""
    if element in SMALL_INTS:
        bits, signed = SMALL_INTS[element]
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    info = wend.iinfo(ELEMENTS[element][2])
    return info.min, info.max


def quantize(
    x: Tensor, scale: Tensor, zero: Tensor | None, element: int, saturate: bool = True
) -> Tensor | Carried:
    """round(x / scale) + zero in the range of the element type; small floats are only divided."""
    scaled = x / scale
    if element in SMALL_FLOATS or element == 24:
        return to_element(scaled, element, saturate)
    low, high = limits(element)
    whole = wend.round(scaled)
    whole = whole if zero is None else whole + zero.to(whole.dtype)
    return to_element(wend.clamp(whole, low, high).to(wend.int64), element)


@aware
@op("QuantizeLinear")
def quantize_linear(
    node: OpNode, x: Tensor, scale: Tensor, zero: Tensor | Carried | None = None
) -> Tensor | Carried:
    """Floats as whole numbers of a scale."""
    element = node.get("output_dtype") or (2 if zero is None else element_of(zero))
    point = None if zero is None else _spread(node, plain(zero), x)
    precise = dtype_of(node.get("precision") or 1)
    y = x.to(precise) if x.dtype.is_floating_point else x.to(wend.float32)
    saturate = bool(node.get("saturate", 1))
    return quantize(y, _spread(node, scale, x).to(y.dtype), point, element, saturate)


@aware
@op("DequantizeLinear")
def dequantize_linear(
    node: OpNode, x: Tensor | Carried, scale: Tensor, zero: Tensor | Carried | None = None
) -> Tensor:
    """Whole numbers of a scale as floats."""
    y = in_float32(plain(x))
    y = y if y.dtype.is_floating_point else y.to(wend.float32 if y.itemsize < 4 else wend.float64)
    if zero is not None:
        y = y - _spread(node, plain(zero), y).to(y.dtype)
    result = y * _spread(node, scale, y).to(y.dtype)
    return result.to(dtype_of(node.get("output_dtype") or element_of(scale)))


def _less(x: Any, zero: Tensor | Carried | None, per_row: bool = False) -> Tensor:
    """x - zero in float64, where all products of 8 bits are exact."""
    x = x.double()
    if zero is None:
        return x
    point = plain(zero).double()
    if per_row and point.ndim == 1 and point.shape[0] > 1:
        point = point.unsqueeze(-1)
    return x - point


def _scale(scale: Tensor, per_row: bool) -> Tensor:
    scale = scale.double()
    return scale.unsqueeze(-1) if per_row and scale.ndim == 1 and scale.shape[0] > 1 else scale


@aware
@op("QLinearMatMul")
def qlinear_matmul(
    node: OpNode,
    a: Tensor | Carried,
    sa: Tensor,
    za: Tensor | Carried,
    b: Tensor | Carried,
    sb: Tensor,
    zb: Tensor | Carried,
    sy: Tensor,
    zy: Any,
) -> Tensor | Carried:
    """The product of quantised matrices, quantised."""
    if element_of(a) in SMALL_FLOATS:
        product = wend.matmul(plain(a) * sa.float(), plain(b) * sb.float())
        return to_element(product / sy.float(), element_of(zy))
    sums = _product(a, za, b, zb)
    product = sums if sums.dtype.is_floating_point else sums.double()
    factor = _scale(sa, True) * _scale(sb, False) / sy.double()
    return quantize(product * factor, wend.tensor(1.0), zy, element_of(zy))


@op("MatMulInteger")
def matmul_integer(
    node: OpNode, a: Tensor, b: Tensor, za: Tensor | None = None, zb: Tensor | None = None
) -> Tensor:
    """The product of matrices of small whole numbers, in int32."""
    return _product(a, za, b, zb).to(wend.int32)


def _product(a: Any, za: Any, b: Any, zb: Any) -> Tensor:
    """The product of matrices less their zero points: in int32, or exact in float64."""
    if byte_products.suited(a, b):
        y = byte_products.matmul(a, za, b, zb)
        if y is not None:
            return y
    return wend.matmul(_less(a, za, True), _less(b, zb))


def _convolution(node: OpNode, x: Tensor, zx: Any, w: Tensor, zw: Any) -> Tensor:
    """The convolution less zero points: in int32, or exact in float64."""
    y = byte_products.convolve(node, x, zx, w, zw)
    return convolve(node, _less(x, zx), _channels(w, zw)) if y is None else y


@op("ConvInteger")
def conv_integer(
    node: OpNode, x: Tensor, w: Tensor, zx: Tensor | None = None, zw: Tensor | None = None
) -> Tensor:
    """The convolution of small whole numbers, in int32."""
    return _convolution(node, x, zx, w, zw).to(wend.int32)


def _channels(w: Tensor, zero: Tensor | None) -> Tensor:
    """Weights less zero points: a single number, or a number per output channel."""
    if zero is not None and zero.numel() > 1:
        zero = zero.reshape((-1,) + (1,) * (w.ndim - 1))
    return _less(w, None if zero is None else zero)


@op("QLinearConv")
def qlinear_conv(
    node: OpNode,
    x: Tensor,
    sx: Tensor,
    zx: Tensor,
    w: Tensor,
    sw: Tensor,
    zw: Tensor,
    sy: Tensor,
    zy: Tensor,
    bias: Tensor | None = None,
) -> Tensor | Carried:
    """The convolution of quantised tensors, quantised."""
    y = _convolution(node, x, zx, w, zw).double()
    shape = (-1,) + (1,) * (y.ndim - 2)
    if bias is not None:
        y = y + bias.double().reshape(shape)
    scale = sw.double().reshape(shape) if sw.numel() > 1 else sw.double()
    return quantize(y * (sx.double() * scale / sy.double()), wend.tensor(1.0), zy, element_of(zy))
