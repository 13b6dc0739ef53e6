"""Elementwise ops: arithmetic, comparisons, logic, activations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import wend
import wend.nn.functional as F
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.support import is_float, legacy_operand, number
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.sizes import known_of


def _unary(name: str, function: Callable[..., Tensor]) -> None:
    op(name)(lambda node, x: function(x))


for _name, _function in {
    "Abs": wend.abs,
    "Acos": wend.acos,
    "Acosh": wend.acosh,
    "Asin": wend.asin,
    "Asinh": wend.asinh,
    "Atan": wend.atan,
    "Atanh": wend.atanh,
    "BitwiseNot": wend.bitwise_not,
    "Cos": wend.cos,
    "Cosh": wend.cosh,
    "Erf": wend.erf,
    "Exp": wend.exp,
    "IsNaN": wend.isnan,
    "Log": wend.log,
    "Neg": wend.neg,
    "Not": wend.logical_not,
    "Reciprocal": wend.reciprocal,
    "Relu": wend.relu,
    "Sigmoid": wend.sigmoid,
    "Sign": wend.sign,
    "Sin": wend.sin,
    "Sinh": wend.sinh,
    "Softsign": F.softsign,
    "Sqrt": wend.sqrt,
    "Tan": wend.tan,
    "Tanh": wend.tanh,
    "Mish": F.mish,
    "HardSwish": F.hardswish,
}.items():
    _unary(_name, _function)


@op("Ceil", "Floor", "Round")
def rounded(node: OpNode, x: Tensor) -> Tensor:
    """To a whole number: up, down, or the nearest, of two the even number."""
    function = {"Ceil": wend.ceil, "Floor": wend.floor, "Round": wend.round}[node.op_type]
    return function(x)


def _binary(name: str, function: Callable[..., Tensor]) -> None:
    op(name)(lambda node, x, y: function(x, legacy_operand(node, x, y)))


for _name, _function in {
    "Add": wend.add,
    "Sub": wend.sub,
    "Mul": wend.mul,
    "Equal": wend.eq,
    "Less": wend.lt,
    "LessOrEqual": wend.le,
    "Greater": wend.gt,
    "GreaterOrEqual": wend.ge,
    "And": wend.logical_and,
    "Or": wend.logical_or,
    "Xor": wend.logical_xor,
    "BitwiseAnd": wend.bitwise_and,
    "BitwiseOr": wend.bitwise_or,
    "BitwiseXor": wend.bitwise_xor,
}.items():
    _binary(_name, _function)


@op("Div")
def div(node: OpNode, x: Tensor, y: Tensor) -> Tensor:
    """x / y; of ints without the remainder, towards zero."""
    y = legacy_operand(node, x, y)
    return wend.div(x, y) if is_float(x) else wend.div(x, y, rounding_mode="trunc")


@op("Mod")
def mod(node: OpNode, x: Tensor, y: Tensor) -> Tensor:
    """The remainder with the sign of y, or with `fmod` that of x."""
    return wend.fmod(x, y) if node.get("fmod") else wend.remainder(x, y)


@op("Pow")
def power(node: OpNode, x: Tensor, y: Tensor) -> Tensor:
    """x to the y, in the type of x."""
    y = legacy_operand(node, x, y)
    if not is_float(x) and is_float(y):
        return wend.pow(x.to(y.dtype), y).to(x.dtype)
    known = None if y.requires_grad else known_of(y)
    if is_float(x) and known is not None and len(known) == 1 and y.ndim <= x.ndim:
        return wend.pow(x, known[0])  # squares and roots of numbers have code of their own
    return wend.pow(x, y.to(x.dtype))


@op("BitShift")
def bit_shift(node: OpNode, x: Tensor, y: Tensor) -> Tensor:
    """Bits moved left or right."""
    left = node.get("direction") == "LEFT"
    return wend.bitwise_left_shift(x, y) if left else wend.bitwise_right_shift(x, y)


def _fold(name: str, function: Callable[..., Tensor]) -> None:
    op(name)(lambda node, *xs: functools.reduce(function, xs))


for _name, _function in {"Sum": wend.add, "Max": wend.maximum, "Min": wend.minimum}.items():
    _fold(_name, _function)


@op("Mean")
def mean(node: OpNode, *xs: Tensor) -> Tensor:
    """The mean of tensors, element by element."""
    return functools.reduce(wend.add, xs) / len(xs)


@op("IsInf")
def is_inf(node: OpNode, x: Tensor) -> Tensor:
    """Whether elements are infinite, of the signs asked for."""
    inf = math.inf if is_float(x) else 0
    none = wend.zeros(x.shape, dtype=wend.bool)
    above = x == inf if node.get("detect_positive", 1) else none
    return above | (x == -inf) if node.get("detect_negative", 1) else above


@op("Where")
def where(node: OpNode, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x where the condition holds, else y."""
    return wend.where(condition, x, y)


@op("Clip")
def clip(node: OpNode, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Elements between two bounds: attributes before opset 11, inputs from there on."""
    low, high = node.get("min", low), node.get("max", high)
    for bound, function in ((low, wend.maximum), (high, wend.minimum)):
        if bound is not None:
            limit = bound if isinstance(bound, wend.Tensor) else wend.tensor(bound, dtype=x.dtype)
            x = function(x, limit)
    return x


@op("Identity")
def identity(node: OpNode, x: Tensor) -> Tensor:
    """The input."""
    return x


# --- activations ------------------------------------------------------------------


@op("Elu")
def elu(node: OpNode, x: Tensor) -> Tensor:
    """x above 0, alpha (exp(x) - 1) below."""
    return F.elu(x, node.get("alpha", 1.0))


@op("Celu")
def celu(node: OpNode, x: Tensor) -> Tensor:
    """x above 0, alpha (exp(x / alpha) - 1) below."""
    return F.celu(x, node.get("alpha", 1.0))


@op("Selu")
def selu(node: OpNode, x: Tensor) -> Tensor:
    """gamma times Elu."""
    old = node.version < 6
    alpha = node.get("alpha", 1.6732 if old else 1.67326319217681884765625)
    gamma = node.get("gamma", 1.0507 if old else 1.05070102214813232421875)
    return gamma * F.elu(x, alpha)


@op("LeakyRelu")
def leaky_relu(node: OpNode, x: Tensor) -> Tensor:
    """x above 0, alpha x below."""
    return F.leaky_relu(x, node.get("alpha", 0.01))


@op("PRelu")
def prelu(node: OpNode, x: Tensor, slope: Tensor) -> Tensor:
    """x above 0, slope x below; before opset 7 a vector holds a slope per channel."""
    if node.version < 7 and slope.ndim == 1 and slope.shape[0] > 1 and x.ndim > 1:
        slope = slope.reshape((-1,) + (1,) * (x.ndim - 2))
    return wend.where(x < 0, x * slope, x)


@op("ThresholdedRelu")
def thresholded_relu(node: OpNode, x: Tensor) -> Tensor:
    """x above alpha, 0 elsewhere."""
    return wend.where(x > node.get("alpha", 1.0), x, wend.zeros_like(x))


@op("HardSigmoid")
def hard_sigmoid(node: OpNode, x: Tensor) -> Tensor:
    """alpha x + beta between 0 and 1."""
    return wend.clamp(x * node.get("alpha", 0.2) + node.get("beta", 0.5), 0, 1)


@op("Softplus")
def softplus(node: OpNode, x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return wend.logaddexp(x, wend.zeros_like(x))


@op("Shrink")
def shrink(node: OpNode, x: Tensor) -> Tensor:
    """0 between -lambd and lambd, elsewhere nearer to 0 by bias."""
    bias, limit = node.get("bias", 0.0), node.get("lambd", 0.5)
    below = wend.where(x < -limit, x + bias, wend.zeros_like(x).to((x + bias).dtype))
    return wend.where(x > limit, x - bias, below).to(x.dtype)


@op("Gelu")
def gelu(node: OpNode, x: Tensor) -> Tensor:
    """x times the normal distribution's probability below x."""
    return F.gelu(x, approximate=node.get("approximate", "none"))


@op("Swish")
def swish(node: OpNode, x: Tensor) -> Tensor:
    """x sigmoid(alpha x)."""
    return x * wend.sigmoid(x * node.get("alpha", 1.0))


def _over_axis(node: OpNode, x: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """A softmax along an axis; before opset 13 over all axes from there on together."""
    if node.version >= 13:
        return function(x, node.get("axis", -1))
    axis = node.get("axis", 1) % (x.ndim or 1)
    rows = math.prod(x.shape[:axis])
    return function(x.reshape(rows, -1), 1).reshape(x.shape)


@op("Softmax")
def softmax(node: OpNode, x: Tensor) -> Tensor:
    """exp(x) divided by the sum of all."""
    return _over_axis(node, x, lambda y, dim: wend.softmax(y, dim))


@op("LogSoftmax")
def log_softmax(node: OpNode, x: Tensor) -> Tensor:
    """The logarithm of Softmax."""
    return _over_axis(node, x, lambda y, dim: wend.log_softmax(y, dim))


@op("Hardmax")
def hardmax(node: OpNode, x: Tensor) -> Tensor:
    """1 at the first of the largest elements, else 0."""

    def first(y: Tensor, dim: int) -> Tensor:
        place = wend.arange(y.shape[dim]).reshape((-1,) + (1,) * (y.ndim - 1 - dim % y.ndim))
        return (place == y.argmax(dim, keepdim=True)).to(y.dtype)

    return _over_axis(node, x, first)


@op("Dropout")
def dropout(
    node: OpNode, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """The input, or in training mode some elements scaled, the rest 0; and the mask of both."""
    rate = node.get("ratio", 0.5) if ratio is None else number(ratio)
    if training is not None and number(training) and rate:
        keep = wend.rand(x.shape) >= rate
        return wend.where(keep, x / (1 - rate), wend.zeros_like(x)), keep
    mask = wend.ones(x.shape, dtype=wend.bool) if node.wants(1) else None
    return x, mask if mask is None or node.version >= 10 else mask.to(x.dtype)
