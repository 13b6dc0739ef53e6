"""Activation functions. Where branches meet, the gradient is PyTorch's choice of branch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, INT, float32, get_default_dtype, uint8
from wend._engine.base.errors import (
    ArgumentError,
    DTypeError,
    DTypeNotImplemented,
    ShapeError,
    ValueRefused,
)
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Scalar, Tensor
from wend._engine.core.primitive import Primitive, Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.composites.reduce import widened
from wend._engine.ops.elementwise.family import V
from wend._engine.ops.numeric import accumulator, require
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue

Samples = Iterator[Sample]
FLOATING = frozenset({"float"})


def _samples(rng: np.random.Generator, required: Any, example: Any) -> Samples:
    for shape in ((3, 4), (), (0, 2), (2, 1, 3)):
        yield Sample(np.asarray(rng.normal(size=shape) * 3), *required)
    if example:
        yield Sample(rng.normal(size=(3, 4)) * 3, *example)


def _activation(
    signature: str = "input",
    grad_name: str = "",
    required: tuple[Any, ...] = (),
    example: tuple[Any, ...] = (),
    ints: str = "",
    **facts: Any,
) -> Callable[[Callable[..., V]], Any]:
    """A composite that nn.functional publishes; the body sees float tensors, halves as float32.

    required, example: the further arguments of all samples, and of an extra sample
    ints: treatment of integers: refused (""), taken unchanged ("same"), converted first ("float")
    """

    def declare(body: Callable[..., V]) -> Any:
        name = body.__name__

        def guarded(input: V, *rest: Any) -> V:
            if input.dtype.category == INT and ints:
                x = ops.cast(input, get_default_dtype()) if ints == "float" else input
                return ops.cast(body(x, *rest), x.dtype)
            if input.dtype.category < FLOAT:
                raise DTypeNotImplemented(
                    f"{name}: not implemented for {input.dtype}; takes float tensors"
                )
            y = body(widened(input), *rest)
            return y if y.dtype is input.dtype else ops.cast(y, input.dtype)

        guarded.__name__, guarded.__doc__ = name, body.__doc__
        guarded.__module__ = body.__module__
        return composite(
            signature,
            functional=(name,),
            grad_name=grad_name,
            samples=lambda rng: _samples(rng, required, example),
            supports=FLOATING,
            **facts,
        )(guarded)

    return declare


def _onnx(node: str, *names: str, **fixed: float) -> Callable[..., Any]:
    """The ONNX rule of an activation that is a node.

    names: the node's attributes, from the numbers of the call     fixed: further attributes
    """

    def rule(self: Primitive, g: Any, x: Any, *numbers: Any) -> Any:
        wide = accumulator(x.dtype)
        if wide.category < FLOAT or not g.runs(node, wide):
            return NotImplemented
        if not all(isinstance(n, (int, float)) for n in numbers):
            return NotImplemented
        attributes = {name: float(n) for name, n in zip(names, numbers, strict=True)}
        return g.cast(g.node(node, g.cast(x, wide), **attributes, **fixed), x.dtype)

    return rule


def _onnx_gelu(self: Any, g: OnnxBuilder, x: OnnxValue) -> Any:
    if self.approximate != "tanh" or g.opset < 20 or accumulator(x.dtype) is not float32:
        return NotImplemented
    return g.cast(g.node("Gelu", g.cast(x, float32), approximate="tanh"), x.dtype)


def _onnx_softplus(
    self: Primitive, g: OnnxBuilder, x: OnnxValue, beta: Scalar, threshold: Scalar
) -> Any:
    # Beyond 20, where y is x, float32 cannot tell x from log(1 + exp(x)).
    if (beta, threshold) != (1, 20) or accumulator(x.dtype) is not float32:
        return NotImplemented
    return g.cast(g.node("Softplus", g.cast(x, float32)), x.dtype)


def _onnx_logsigmoid(self: Primitive, g: OnnxBuilder, x: OnnxValue) -> Any:
    if accumulator(x.dtype) is not float32:
        return NotImplemented
    turned = g.node("Neg", g.cast(x, float32))
    return g.cast(g.node("Neg", g.node("Softplus", turned)), x.dtype)


def _onnx_clip(self: Any, g: OnnxBuilder, x: OnnxValue) -> Any:
    wide = accumulator(x.dtype)
    if wide.category < FLOAT:
        return NotImplemented
    low, high = (self.min_val, self.max_val) if self.name == "hardtanh" else (0, 6)
    bounds = g.number(low, wide), g.number(high, wide)
    return g.cast(g.node("Clip", g.cast(x, wide), *bounds), x.dtype)


# -- of the sigmoid and exponential kind -----------------------------------------------------------


@_activation("input, approximate: str = 'none'", example=("tanh",), onnx=_onnx_gelu)
def gelu(input: V, approximate: str) -> V:
    """y = x * Phi(x), Phi the normal distribution's cumulative function.

    approximate: "none", or "tanh": 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
    (Hendrycks and Gimpel, Gaussian Error Linear Units, 2016). Raises ValueRefused for others.
    """
    if approximate == "none":
        return ops.normal_gate(input)
    if approximate != "tanh":
        raise ValueRefused(f"gelu: approximate must be 'none' or 'tanh', not {approximate!r}")
    inner = math.sqrt(2 / math.pi) * (input + 0.044715 * (input * input * input))
    return 0.5 * input * (1 + ops.tanh(inner))


@_activation()
def silu(input: V) -> V:
    """y = x * sigmoid(x)."""
    return input * ops.sigmoid(input)


@_activation(onnx=_onnx("Mish"))
def mish(input: V) -> V:
    """y = x * tanh(log(1 + exp(x))) (Misra, Mish, 2019)."""
    return input * ops.tanh(ops.logaddexp(input, 0.0))


@_activation(
    "input, beta: scalar = 1.0, threshold: scalar = 20.0", example=(2, 1.5), onnx=_onnx_softplus
)
def softplus(input: V, beta: V, threshold: V) -> V:
    """y = log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    scaled = input * beta
    return ops.where(scaled > threshold, input, ops.logaddexp(scaled, 0.0) / beta)


@_activation(grad_name="LogSigmoidBackward0", onnx=_onnx_logsigmoid, format_of="none")
def logsigmoid(input: V) -> V:
    """y = log(sigmoid(x)), without underflow."""
    return 0.0 - ops.logaddexp(-input, 0.0)


def _elu(x: V, alpha: V, scale: V, inner: V) -> V:
    """scale * (x if x > 0 else alpha * (exp(inner * x) - 1)).

    At 0 the slope is that of the latter, and the second derivative 0, as in PyTorch.
    """
    positive = x >= 0  # NaN takes the second branch, whose slope is NaN
    # The branch not taken must stay finite: the gradient there is multiplied by 0.
    below = ops.where(positive, 0, x)
    straight = ops.where(x > 0, x * scale, x * (alpha * scale * inner))
    return ops.where(positive, straight, alpha * scale * ops.expm1(below * inner))


@_activation("input, alpha: scalar = 1.0", example=(0.5,), onnx=_onnx("Elu", "alpha"))
def elu(input: V, alpha: V) -> V:
    """y = x if x > 0 else alpha * (exp(x) - 1)."""
    return _elu(input, alpha, 1.0, 1.0)


@_activation(functions=("selu",), grad_name="EluBackward0", onnx=_onnx("Selu"))
def selu(input: V) -> V:
    """y = 1.0507 * elu(x, 1.6733) (Klambauer et al., Self-Normalizing Neural Networks, 2017)."""
    return _elu(input, 1.6732632423543772, 1.0507009873554805, 1.0)


def _refuse_zero(op: Any, x: None, alpha: float) -> None:
    if alpha == 0:
        raise ValueRefused("celu: ZeroDivisionError: alpha cannot be 0 for CELU")


@_activation(
    "input, alpha: scalar = 1.0",
    functions=("celu",),
    example=(0.5,),
    onnx=_onnx("Celu", "alpha"),
    checked_numbers=_refuse_zero,
)
def celu(input: V, alpha: V) -> V:
    """y = x if x > 0 else alpha * (exp(x / alpha) - 1). Raises ValueRefused for an alpha of 0."""
    return _elu(input, alpha, 1.0, 1.0 / alpha)


@_activation(
    grad_name="DivBackward0",
    ints="float",
    grad_nodes=lambda n, x: n.Div(x, n.Add(n.Abs(x), None)),
    onnx=_onnx("Softsign"),
)
def softsign(input: V) -> V:
    """y = x / (1 + |x|)."""
    return input / (1 + ops.abs(input))


@_activation(
    grad_name="SubBackward0",
    ints="float",
    grad_nodes=lambda n, x: n.Sub(x, n.Tanh(x)),
)
def tanhshrink(input: V) -> V:
    """y = x - tanh(x)."""
    return input - ops.tanh(input)


# -- of the piecewise linear kind ------------------------------------------------------------------


@_activation(
    "input, negative_slope: scalar = 0.01", example=(0.2,), onnx=_onnx("LeakyRelu", "alpha")
)
def leaky_relu(input: V, negative_slope: V) -> V:
    """y = x if x > 0 else negative_slope * x."""
    return ops.where(input > 0, input, input * negative_slope)


@_activation(
    "input, min_val: attr = -1.0, max_val: attr = 1.0",
    example=(-0.5, 2.0),
    ints="same",
    onnx=_onnx_clip,
)
def hardtanh(input: V, min_val: V, max_val: V) -> V:
    """y = x between min_val and max_val as bounds; gradient 0 at and beyond the bounds.

    Raises ArgumentError for min_val > max_val.
    """
    if min_val > max_val:
        raise ArgumentError(
            f"hardtanh: min_val cannot be greater than max_val, but got {min_val} and {max_val}"
        )
    if input.dtype is uint8:  # PyTorch takes uint8 if min_val is not negative
        raise DTypeNotImplemented("hardtanh: not implemented for torch.uint8; use clamp")
    below = ops.clamp(ops.stop_gradient(input), min=min_val)  # -0 stays -0
    return ops.where(input <= min_val, below, ops.where(input >= max_val, max_val, input))


@_activation(grad_name="HardtanhBackward0", ints="same", onnx=_onnx_clip)
def relu6(input: V) -> V:
    """y = min(max(x, 0), 6)."""
    below = ops.clamp(ops.stop_gradient(input), min=0)  # -0 stays -0
    return ops.where(input <= 0, below, ops.where(input >= 6, 6, input))


@_activation(onnx=_onnx("HardSigmoid", alpha=1 / 6, beta=0.5))
def hardsigmoid(input: V) -> V:
    """y = x / 6 + 1/2, between 0 and 1."""
    inside = ops.where(ops.abs(input) < 3, input, ops.stop_gradient(input))  # no slope of NaN
    return ops.where(input <= -3, 0, ops.where(input >= 3, 1, inside / 6 + 0.5))


@_activation(onnx=_onnx("HardSwish"))
def hardswish(input: V) -> V:
    """y = x * hardsigmoid(x)."""
    middle = ops.where(ops.abs(input) >= 3, 0, input)  # finite where not taken
    curved = middle * (middle + 3) / 6
    sloped = ops.where(input <= -3, 0, ops.where(input >= 3, input, curved))
    # PyTorch's values, infinities and zeros included; the slope is that of the pieces.
    x = ops.stop_gradient(input)
    return ops.graft(x * ops.clamp(x + 3, 0, 6) / 6, sloped)


@_activation(
    "input, lambd: scalar = 0.5", functions=("hardshrink",), methods=("hardshrink",), example=(1.0,)
)
def hardshrink(input: V, lambd: V) -> V:
    """y = 0 where |x| <= lambd, else x."""
    return ops.where(ops.abs(input) <= lambd, 0, input)


@_activation("input, lambd: attr = 0.5", example=(1.0,))
def softshrink(input: V, lambd: V) -> V:
    """y = x moved towards 0 by lambd, 0 where |x| <= lambd.

    Raises ValueRefused for a lambd below 0 or not finite.
    """
    if not 0 <= lambd < math.inf:
        raise ValueRefused(
            f"softshrink: lambda must not be negative, and be finite, but found {lambd}"
        )
    shrunk = ops.where(input < -lambd, input + lambd, ops.where(input == input, 0, input))
    return ops.where(input > lambd, input - lambd, shrunk)


@_activation(
    "input, threshold: scalar, value: scalar",
    functions=("threshold",),
    required=(0.5, -2.0),
    ints="same",
)
def threshold(input: V, threshold: V, value: V) -> V:
    """y = x where x > threshold, else value."""
    return ops.where(input <= threshold, value, input)


# -- with weights, gates or norms ------------------------------------------------------------------


def _prelu_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)), rng.uniform(0.1, 0.5, size=(1,)))
    yield Sample(rng.normal(size=(3, 4)), rng.uniform(0.1, 0.5, size=(4,)))
    yield Sample(rng.normal(size=(2, 3, 2, 2)), rng.uniform(0.1, 0.5, size=(3,)))
    yield Sample(rng.normal(size=()), rng.uniform(0.1, 0.5, size=()))
    yield Sample(rng.normal(size=()), rng.uniform(0.1, 0.5, size=(1,)))
    yield Sample(rng.normal(size=(5,)), rng.uniform(0.1, 0.5, size=(1,)))


@composite(
    functions=("prelu",),
    methods=("prelu",),
    functional=("prelu",),
    grad_name="PreluKernelBackward0",
    samples=_prelu_samples,
    supports=FLOATING,
    grad_nodes=lambda n, x, weight: n.PreluKernel(x, n.View(weight)),
    format_of="first",
)
def prelu(input: Tensor, weight: Tensor) -> V:
    """y = x if x > 0 else weight * x.

    weight: 0-d or (1,), or (C,) for an input (N, C, ...). Raises ShapeError for another shape.
    """
    rank = len(input.shape)
    if len(weight.shape) > 1:
        raise ShapeError(f"prelu: weight must be a 0-d or 1-d tensor, not {hints(weight.shape)}")
    if len(weight.shape) == 1 and rank == 0:
        weight = ops.reshape(weight, ())
    elif len(weight.shape) == 1 and rank > 1:
        channels = weight.shape[0]
        if not (channels == input.shape[1] or channels == 1):
            raise ShapeError(
                f"prelu: weight has {channels} elements, and the input {hints(input.shape)} has "
                f"{input.shape[1]} channels in dim 1"
            )
        weight = ops.reshape(weight, (channels, *(1,) * (rank - 2)))
    if weight.dtype is not input.dtype:
        raise DTypeError(
            f"prelu: input and weight must be of one dtype, not {input.dtype} and {weight.dtype}"
        )
    positive = input > 0
    below = ops.where(positive, 0, input)  # finite where not taken
    # PyTorch's first derivative at 0 is the weight's, the second derivatives there are 0.
    slope = ops.where(input == 0, ops.stop_gradient(weight), weight)
    return ops.where(positive, input, below * slope)


def _glu_samples(rng: np.random.Generator) -> Samples:
    yield Sample(rng.normal(size=(3, 4)))
    yield Sample(rng.normal(size=(4, 3)), 0)
    yield Sample(rng.normal(size=(2, 2, 0)), dim=1)


@composite(functional=("glu",), samples=_glu_samples, supports=FLOATING, format_of="first")
def glu(input: Tensor, dim: int = -1) -> V:
    """y = a * sigmoid(b), a and b the halves of the input along dim.

    Raises ShapeError if dim is odd (Dauphin et al., Language Modeling with Gated Convolutional
    Networks, 2017).
    """
    require("glu", FLOATING, input.dtype)
    if len(input.shape) == 0:
        raise ShapeError("glu: does not support 0-dimensional tensors")
    dim = normalize_dim(dim, len(input.shape), "glu")
    extent = input.shape[dim]
    if extent % 2 != 0:
        raise ShapeError(f"glu: halving dimension must be even, but dimension {dim} is {extent}")
    half = extent // 2
    gate = ops.sigmoid(ops.slice(input, dim, half, extent))
    return ops.slice(input, dim, 0, half) * gate
