"""Elementwise exponentials, logarithms, trigonometric and hyperbolic functions.

Bools and ints give the default float type.
"""

from __future__ import annotations

import numpy as np

from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import ops
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import (
    ANY_NUMBER,
    FLOATING,
    LN2,
    LN10,
    REAL,
    Array,
    Elementwise,
    Grads,
    V,
)


class Transcendental(Elementwise, abstract=True):
    """A function of one float, or of a complex number: then with a complex derivative."""

    kind = "float"
    torch = TorchCall(inplace=True)
    facts = OpFacts(supports=ANY_NUMBER, holomorphic=True)


class Exp(Transcendental):
    """y = e ** input."""

    torch = TorchCall(names=("exp",))
    reference = staticmethod(np.exp)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * y,)


class Exp2(Transcendental):
    """y = 2 ** input."""

    torch = TorchCall(names=("exp2",))
    reference = staticmethod(np.exp2)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * y * LN2,)


class Expm1(Transcendental):
    """y = e ** input - 1, exact near 0."""

    torch = TorchCall(names=("expm1",))
    reference = staticmethod(np.expm1)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * (y + 1),)


class Log(Transcendental):
    """y = the natural logarithm of input."""

    torch = TorchCall(names=("log",))
    domain = (0.1, 4.0)
    reference = staticmethod(np.log)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g / x,)


class Log1p(Transcendental):
    """y = log(1 + input), exact near 0."""

    torch = TorchCall(names=("log1p",), grad_name="Log1PBackward0")
    domain = (-0.9, 3.0)
    reference = staticmethod(np.log1p)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g / (x + 1),)


class Log2(Transcendental):
    """y = the logarithm of input to base 2."""

    torch = TorchCall(names=("log2",))
    domain = (0.1, 4.0)
    reference = staticmethod(np.log2)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g / (x * LN2),)


class Log10(Transcendental):
    """y = the logarithm of input to base 10."""

    torch = TorchCall(names=("log10",))
    domain = (0.1, 4.0)
    reference = staticmethod(np.log10)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g / (x * LN10),)


class Sin(Transcendental):
    """y = sin(input), of radians."""

    torch = TorchCall(names=("sin",))
    reference = staticmethod(np.sin)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.cos(x),)


class Cos(Transcendental):
    """y = cos(input), of radians."""

    torch = TorchCall(names=("cos",))
    reference = staticmethod(np.cos)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (-g * ops.sin(x),)


class Tan(Transcendental):
    """y = tan(input), of radians."""

    torch = TorchCall(names=("tan",))
    domain = (-1.3, 1.3)
    reference = staticmethod(np.tan)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * (y * y + 1),)


class Asin(Transcendental):
    """y = arcsin(input), in radians; NaN outside [-1, 1]."""

    torch = TorchCall(names=("asin", "arcsin"))
    domain = (-0.9, 0.9)
    reference = staticmethod(np.arcsin)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.rsqrt(1 - x * x),)


class Acos(Transcendental):
    """y = arccos(input), in radians; NaN outside [-1, 1]."""

    torch = TorchCall(names=("acos", "arccos"))
    domain = (-0.9, 0.9)
    reference = staticmethod(np.arccos)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (-g * ops.rsqrt(1 - x * x),)


class Atan(Transcendental):
    """y = arctan(input), in radians."""

    torch = TorchCall(names=("atan", "arctan"))
    reference = staticmethod(np.arctan)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g / (x * x + 1),)


class Atan2(Transcendental):
    """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""

    signature = "input, other"
    torch = TorchCall(names=("atan2", "arctan2"))
    facts = OpFacts(supports=REAL)
    reference = staticmethod(np.arctan2)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        norm = x * x + other * other
        scale = g * ops.where(norm == 0, 0, ops.reciprocal(norm))
        return scale * other, -scale * x


class Sinh(Transcendental):
    """y = sinh(input)."""

    torch = TorchCall(names=("sinh",))
    reference = staticmethod(np.sinh)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.cosh(x),)


class Cosh(Transcendental):
    """y = cosh(input)."""

    torch = TorchCall(names=("cosh",))
    reference = staticmethod(np.cosh)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.sinh(x),)


class Tanh(Transcendental):
    """y = tanh(input)."""

    facts = OpFacts(smooth=True)

    torch = TorchCall(names=("tanh",))
    reference = staticmethod(np.tanh)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * (1 - y * y),)


class Asinh(Transcendental):
    """y = arsinh(input)."""

    torch = TorchCall(names=("asinh", "arcsinh"))
    reference = staticmethod(np.arcsinh)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.rsqrt(ops.square(x) + 1),)


class Acosh(Transcendental):
    """y = arcosh(input); NaN below 1."""

    torch = TorchCall(names=("acosh", "arccosh"))
    domain = (1.1, 4.0)
    reference = staticmethod(np.arccosh)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.rsqrt(ops.square(x) - 1),)


class Atanh(Transcendental):
    """y = artanh(input); NaN outside [-1, 1]."""

    torch = TorchCall(names=("atanh", "arctanh"))
    domain = (-0.9, 0.9)
    reference = staticmethod(np.arctanh)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g / (1 - ops.square(x)),)


class Sigmoid(Transcendental):
    """y = 1 / (1 + exp(-input))."""

    facts = OpFacts(smooth=True)

    torch = TorchCall(names=("sigmoid",))

    def reference(self, x: Array) -> Array:
        return 1 / (1 + np.exp(-x))

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ((1 - y) * y),)


class Logaddexp(Elementwise):
    """y = log(exp(input) + exp(other)), without overflow in between.

    Among complex numbers, the number with the larger real part is taken out of the sum.
    """

    signature = "input, other: operand"
    torch = TorchCall(numbers_inside=True, names=("logaddexp",))
    facts = OpFacts(supports=FLOATING | {"complex"}, holomorphic=True)

    def reference(self, x: Array, other: Array) -> Array:
        if x.dtype.kind != "c":
            return np.logaddexp(x, other)
        first = x.real >= other.real
        larger: Array = np.where(first, x, other)
        smaller: Array = np.where(first, other, x)
        # Infinities of one sign have no difference.
        ends = ~np.isfinite(larger.real) & (larger.real == smaller.real)
        y = larger + np.log1p(np.exp(smaller - larger))
        at_end = np.where(smaller.real < 0, smaller, np.log(np.exp(smaller) + np.exp(larger)))
        y = np.where(ends, at_end, y)
        nan = complex(np.nan, np.nan)
        return np.where(np.isnan(x) | np.isnan(other), nan, y).astype(x.dtype, copy=False)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        if b.dtype(x).is_complex:
            return _complex_logaddexp(b, x, other)
        larger = b.maximum(x, other)
        correction = b.log1p(b.exp(b.neg(b.abs(b.sub(x, other)))))
        # Equal infinities have no difference.
        both = b.eq(x, other)
        return b.add(larger, b.select(both, b.constant(LN2, x), correction))

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g * ops.sigmoid(x - other), g * ops.sigmoid(other - x)


def _complex_logaddexp(b: Builder, x: Value, other: Value) -> Value:
    """The steps of `Logaddexp.reference` for complex numbers."""
    first = b.ge(b.real(x), b.real(other))
    larger, smaller = b.select(first, x, other), b.select(first, other, x)
    ratio = b.exp(b.sub(smaller, larger))
    re, im = b.real(ratio), b.imag(ratio)
    one, two, half = (b.constant(k, re) for k in (1, 2, 0.5))
    excess = b.add(b.mul(re, b.add(re, two)), b.mul(im, im))  # |1 + ratio|^2 - 1
    angle = b.atan2(im, b.add(re, one))
    y = b.add(larger, b.complex(b.mul(half, b.log1p(excess)), angle))
    high, low = b.real(larger), b.real(smaller)
    infinite = b.eq(b.abs(high), b.constant(float("inf"), high))
    total = b.log(b.add(b.exp(smaller), b.exp(larger)))
    at_end = b.select(b.lt(low, b.constant(0, low)), smaller, total)
    y = b.select(b.bitwise_and(infinite, b.eq(high, low)), at_end, y)
    broken = b.bitwise_or(b.ne(x, x), b.ne(other, other))
    nan = b.constant(float("nan"), high)
    return b.select(broken, b.complex(nan, nan), y)
