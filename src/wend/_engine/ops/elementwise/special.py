"""Elementwise special functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, finfo
from wend._engine.base.errors import ExecutionError, ValueRefused, ValuesRefused
from wend._engine.core.kinds import Scalar
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import (
    ANY_NUMBER,
    Array,
    Elementwise,
    Grads,
    V,
    is_number,
    zeros_like,
)
from wend._engine.ops.functions import bessel, errorfunction, gamma
from wend._engine.ops.gradient_nodes import NodeBuilder


class Special(Elementwise, abstract=True):
    """A function of one float."""

    kind = "float"


class Angle(Special):
    """y = the angle of a complex number, in radians; pi where a real number is negative, else 0.

    NaN of NaN; gradient 0 at 0.
    """

    torch = TorchCall(names=("angle",))
    facts = OpFacts(supports=ANY_NUMBER)

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        targets, out = super().dtypes_of(*operands)
        return targets, out.to_real()

    def reference(self, x: Array) -> Array:
        if x.dtype.kind == "c":
            return np.arctan2(x.imag, x.real)
        return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(math.pi), x.dtype.type(0)))

    def emit(self, b: Builder, x: Value) -> Value:
        if b.dtype(x).is_complex:
            return b.atan2(b.imag(x), b.real(x))
        zero = b.constant(0, x)
        side = b.select(b.lt(x, zero), b.constant(math.pi, x), zero)
        return b.select(b.ne(x, x), x, side)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        if not x.dtype.is_complex:
            return (zeros_like(g),)
        square = ops.square(ops.real(x)) + ops.square(ops.imag(x))
        turn = ops.where(square == 0, 0, g / square)
        return (ops.complex(-turn * ops.imag(x), turn * ops.real(x)),)


class Erf(Special):
    """y = 2 / sqrt(pi) * the integral of exp(-t^2) from 0 to input."""

    torch = TorchCall(names=("erf",), inplace=True)

    def reference(self, x: Array) -> Array:
        return errorfunction.erf(x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * (ops.exp(-ops.square(x)) * (2 / math.sqrt(math.pi))),)


class Erfc(Special):
    """y = 1 - erf(input), exact where erf is near 1."""

    torch = TorchCall(names=("erfc",), inplace=True)

    def reference(self, x: Array) -> Array:
        return errorfunction.erfc(x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * (ops.exp(-ops.square(x)) * (-2 / math.sqrt(math.pi))),)


class NormalGate(Special):
    """y = x * Phi(x), Phi the normal distribution's cumulative function.

    An op of its own for the gradient: g times a function of x alone, so that only x is kept. The
    gradients of the formula's parts need Phi(x) as well, as much memory again.
    """

    def reference(self, x: Array) -> Array:
        return x * (0.5 * (1 + errorfunction.erf(x * math.sqrt(0.5))))

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.normal_slope(x),)


class NormalSlope(Special):
    """The derivative of NormalGate: y = Phi(x) + x phi(x), phi the normal distribution's density.

    An op of its own since generated code needs half of the operations of the formula's parts.
    """

    def reference(self, x: Array) -> Array:
        share = 0.5 * (1 + errorfunction.erf(x * math.sqrt(0.5)))
        return share + x * (np.exp(-0.5 * (x * x)) * math.sqrt(0.5 / math.pi))

    def vjp(self, g: V, y: V, x: V) -> Grads:
        square = x * x
        return (g * (ops.exp(-0.5 * square) * (2.0 - square) * math.sqrt(0.5 / math.pi)),)


class Erfinv(Special):
    """y with erf(y) = input; NaN outside [-1, 1]."""

    torch = TorchCall(names=("erfinv",), inplace=True)
    domain = (-0.9, 0.9)

    def reference(self, x: Array) -> Array:
        return errorfunction.erfinv(x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * (ops.exp(y * y) * (math.sqrt(math.pi) / 2)),)


class Xlogy(Special):
    """y = input * log(other); 0 where input is 0, unless other is NaN."""

    signature = "input: operand, other: operand"
    torch = TorchCall(names=("xlogy",), inplace=True)
    domain = ((0.5, 2.0), (0.5, 2.0))

    def reference(self, x: Array, other: Array) -> Array:
        return np.where((x == 0) & (other == other), x.dtype.type(0), x * np.log(other))

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        zero = b.constant(0, x)
        nothing = b.bitwise_and(b.eq(x, zero), b.eq(other, other))
        return b.select(nothing, zero, b.mul(x, b.log(other)))

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return _unless_both(x, other, 0, ops.xlogy(g, other)), g * x / other

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: object, other: object) -> object:
        """By which of the two is a number."""
        return n.Xlogy2(x) if is_number(other) else n.Xlogy1(other) if is_number(x) else None


class Xlog1py(Special):
    """y = input * log1p(other); 0 where input is 0, unless other is NaN."""

    signature = "input: operand, other: operand"
    domain = ((0.5, 2.0), (0.5, 2.0))

    def reference(self, x: Array, other: Array) -> Array:
        return np.where((x == 0) & (other == other), x.dtype.type(0), x * np.log1p(other))

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        zero = b.constant(0, x)
        nothing = b.bitwise_and(b.eq(x, zero), b.eq(other, other))
        return b.select(nothing, zero, b.mul(x, b.log1p(other)))

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return _unless_both(x, other, -1, ops.xlog1py(g, other)), g * x / (other + 1)


def _unless_both(x: V, other: V, end: float, slope: V) -> V:
    """The slope, and 0 where x is 0 and other not inside of the logarithm's domain."""
    if is_number(x):
        return None
    if is_number(other):
        outside = ops.logical_not(ops.full((), other, dtype=slope.dtype) > end)  # NaN, too
    else:
        outside = other <= end
    return ops.where(ops.logical_and(x == 0, outside), 0, slope)


class Logit(Special):
    """y = log(input / (1 - input)); input is clamped to [eps, 1 - eps] first if eps is given.

    The gradient is NaN outside of [0, 1], or 0 where input was clamped.
    """

    signature = "input, eps: scalar? = None"
    torch = TorchCall(names=("logit",), inplace=True)
    domain = (0.05, 0.95)

    def reference(self, x: Array, eps: Scalar | None) -> Array:
        if eps is not None:
            x = np.minimum(np.maximum(x, eps), 1 - eps)
        return np.log(x / (1 - x))

    def emit(self, b: Builder, x: Value, eps: Value) -> Value:
        one = b.constant(1, x)
        if eps is not None:
            x = b.minimum(b.maximum(x, eps), b.sub(one, eps))
        return b.log(b.div(x, b.sub(one, x)))

    def vjp(self, g: V, y: V, x: V, eps: V) -> Grads:
        low, high = (0, 1) if eps is None else (eps, 1 - eps)
        outside = math.nan if eps is None else 0
        inside = ops.logical_and(x >= low, x <= high)
        return (ops.where(inside, g / (x * (1 - x)), outside),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from (Sample(self.draw(rng, 0, shape)) for shape in ((3, 4), (), (0, 2)))
        yield Sample(rng.uniform(0, 1, size=(8,)), eps=0.2)


class Entr(Special):
    """y = -input log(input); 0 at 0, -inf below."""

    domain = (0.05, 3.0)

    def reference(self, x: Array) -> Array:
        inside = np.where(x == 0, x.dtype.type(0), -x * np.log(x))
        return np.where(x < 0, x.dtype.type(-math.inf), inside)

    def emit(self, b: Builder, x: Value) -> Value:
        zero = b.constant(0, x)
        inside = b.neg(b.mul(x, b.log(x)))
        below = b.select(b.lt(x, zero), b.constant(-math.inf, x), inside)
        return b.select(b.eq(x, zero), zero, below)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * -(1 + ops.log(x)),)


class I0e(Special):
    """y = exp(-|input|) I0(input), I0 the modified Bessel function of order 0."""

    def reference(self, x: Array) -> Array:
        return bessel.i0e(x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * (ops.i1e(x) - ops.sign(x) * y),)


class I1e(Special):
    """y = exp(-|input|) I1(input), I1 the modified Bessel function of order 1."""

    def reference(self, x: Array) -> Array:
        return bessel.i1e(x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        away = _away_from_0(x)
        safe = ops.where(away, x, 1)
        slope = ops.i0e(x) - y * (ops.sign(safe) + 1 / safe)
        return (g * ops.where(away, slope, 0.5),)


class I0(Special):
    """y = I0(input), the modified Bessel function of order 0."""

    torch = TorchCall(names=("i0",), inplace=True)

    def reference(self, x: Array) -> Array:
        return bessel.i0(x)

    def emit(self, b: Builder, x: Value) -> Value:
        return b.mul(b.exp(b.abs(x)), b.i0e(x))

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.i1(x),)


class I1(Special):
    """y = I1(input), the modified Bessel function of order 1."""

    def reference(self, x: Array) -> Array:
        return bessel.i1(x)

    def emit(self, b: Builder, x: Value) -> Value:
        return b.mul(b.exp(b.abs(x)), b.i1e(x))

    def vjp(self, g: V, y: V, x: V) -> Grads:
        away = _away_from_0(x)
        slope = ops.i0(x) - y / ops.where(away, x, 1)
        return (g * ops.where(away, slope, 0.5),)


def _away_from_0(x: V) -> V:
    """Where 1 / x loses no digits of a slope near 1/2; not where x is NaN, as in PyTorch."""
    return ops.abs(x) > finfo(x.dtype).eps


class Lgamma(Special):
    """y = log |gamma(input)|."""

    torch = TorchCall(names=("lgamma",), inplace=True)
    domain = (0.2, 4.0)

    def reference(self, x: Array) -> Array:
        return gamma.lgamma(x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.digamma(x),)


class Digamma(Special):
    """y = the derivative of lgamma at input."""

    torch = TorchCall(names=("digamma",), inplace=True)
    domain = (0.2, 4.0)

    def reference(self, x: Array) -> Array:
        return gamma.digamma(x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.polygamma(1, x),)


class Polygamma(Special):
    """y = the n-th derivative of digamma at input, n >= 0."""

    signature = "n: int, input"
    n: int
    torch = TorchCall(functions=("polygamma",))
    domain = (0.2, 4.0)

    def infer(self, *operands: Any) -> Spec:
        if self.n < 0:
            raise ValueRefused(f"polygamma: n is {self.n}; it counts derivatives, from 0 on")
        return super().infer(*operands)

    def reference(self, x: Array) -> Array:
        return gamma.polygamma(self.n, x)

    def emit(self, b: Builder, x: Value) -> Value:
        return b.polygamma(self.n, x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.polygamma(self.n + 1, x),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for n in (0, 1, 2):
            yield Sample(n, self.draw(rng, 0, (3, 4)))
        yield Sample(1, self.draw(rng, 0, ()))


class Within(Special):
    """y = input, all of whose elements lie from low to high, and are NaN only if `nan`.

    Raises ValuesRefused (when the value is computed) if not, with the text `fault`.
    """

    signature = (
        "input, low: attr = 0.0, high: attr = 1.0, nan: bool = False, "
        "fault: str = 'values must lie from 0 to 1'"
    )
    domain = (0.05, 0.95)
    torch = TorchCall(grad_name="AliasBackward0")
    facts = OpFacts(fallible=True)
    low: float
    high: float
    nan: bool
    fault: str

    def reference(self, x: Array) -> Array:
        outside = (x < self.low) | (x > self.high)
        if np.any(outside if self.nan else outside | np.isnan(x)):
            raise ValuesRefused(self.fault)
        return x

    def emit(self, b: Builder, x: Value) -> Value:
        low, high = (b.constant(bound, x) for bound in (self.low, self.high))
        inside = b.bitwise_and(b.ge(x, low), b.le(x, high))
        b.require(b.bitwise_or(inside, b.ne(x, x)) if self.nan else inside, self.fault)
        return x

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g,)


class BinaryCrossEntropyTerm(Special):
    """y = -(target log(input) + (1 - target) log(1 - input)), each logarithm at least -100.

    The gradient is no derivative of that: it stays finite at 0 and 1, where the logarithms' bounds
    would stop it (as in PyTorch). Raises ExecutionError unless all elements of both lie from 0 to
    1.
    """

    signature = "input, target"
    domain = ((0.05, 0.95), (0.0, 1.0))
    torch = TorchCall(grad_name="BinaryCrossEntropyBackward0")
    facts = OpFacts(fallible=True)
    fault = "binary_cross_entropy: all elements of {} should be between 0 and 1"

    def reference(self, x: Array, target: Array) -> Array:
        for name, values in (("input", x), ("target", target)):
            if not np.all((values >= 0) & (values <= 1)):
                raise ExecutionError(self.fault.format(name))
        hit, miss = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
        return (target - 1) * miss - target * hit

    def emit(self, b: Builder, x: Value, target: Value) -> Value:
        least, zero, one = (b.constant(c, x) for c in (-100, 0, 1))
        for name, value in (("input", x), ("target", target)):
            inside = b.bitwise_and(b.ge(value, zero), b.le(value, one))
            b.require(inside, self.fault.format(name))
        hit = b.mul(target, b.maximum(b.log(x), least))
        miss = b.mul(b.sub(target, one), b.maximum(b.log1p(b.neg(x)), least))
        return b.sub(miss, hit)

    def vjp(self, g: V, y: V, x: V, target: V) -> Grads:
        spread = ops.maximum((1 - x) * x, 1e-12)
        return g * (x - target) / spread, g * (ops.log1p(-x) - ops.log(x))
