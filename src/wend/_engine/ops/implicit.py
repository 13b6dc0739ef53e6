"""Derivatives of random numbers by the parameters of their distribution.

A number z of cumulative function F(z; a) and density p(z; a) moves by dz/da = -(dF/da) / p, at the
same value of F. Figurnov, Mohamed, Mnih: Implicit reparameterization gradients (2018); for
Dirichlet numbers Jankowiak, Obermeyer: Pathwise derivatives beyond the reparameterization trick
(2018).

dF/da is the integral of p(t) times d log p(t) / da over t below z, or minus that over t above z.
The second factor changes its sign once, at the geometric mean of t. So the integral is taken on
the side of z where the sign is the same for all t: no digits are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import broadcast_shapes
from wend._engine.core.types import Spec
from wend._engine.ops.functions.gamma import digamma
from wend._engine.ops.numeric import FLOATING, Array, require

_FAR = 42.0  # exp(-_FAR) is nothing beside 1
_NODES = 40
_BEND = 10.0
_CHUNK = 1 << 13  # numbers at a time, each with all nodes


def in_front(batched: Sequence[bool], *operands: Tensor) -> list[Any]:
    """Operands whose batch axis lies before equally many dims, so that they broadcast."""
    ranks = [len(x.shape) - b for x, b in zip(operands, batched, strict=False)]
    out = []
    for x, is_batched, rank in zip(operands, batched, ranks, strict=False):
        for _ in range(max(ranks) - rank if is_batched else 0):
            x = ops.unsqueeze(x, 1)
        out.append(x)
    return out


class Slope(Primitive, abstract=True):
    """Base: a derivative of random numbers, element by element, computed in float64.

    drawn: which operand the random number is, whose dtype the result has. A gradient exists for
    the random number alone, as in PyTorch; asked for by a parameter, the op raises.
    """

    facts = OpFacts(supports=FLOATING)
    schedule = OpSchedule(unlowered="each element sums a series with a number of terms of its own")
    drawn: ClassVar[int]

    def infer(self, *operands: Spec) -> Spec:
        dtype = operands[self.drawn].dtype
        require(self.torch.label, self.facts.supports, dtype)
        shape = broadcast_shapes(self.torch.label, *(x.shape for x in operands))
        return Spec(shape, dtype)

    def vjp(self, g: Tensor, y: Tensor, *operands: Tensor) -> list[Tensor]:
        fault = f"the derivative for '{self.torch.label}' by a parameter is not implemented."
        slope = g * self.by_number(y, *operands)
        refused = ops.no_derivative(g, fault=fault)
        return [slope if i == self.drawn else refused for i in range(len(operands))]

    def by_number(self, y: Tensor, *operands: Any) -> Any:
        """The derivative of y by the random number, in ops: that of -(dF/da) / p."""
        raise NotImplementedError

    def batch(self, batched: Sequence[bool], size: Size, *operands: Any) -> Any:
        return getattr(ops, self.name)(*in_front(batched, *operands))

    def by_element(self, *flat: Array) -> Array:
        """The derivative, of 1-D float64 arrays of equal length."""
        raise NotImplementedError

    def reference(self, *operands: Array) -> Array:
        wide = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in operands))
        flat = [x.reshape(-1) for x in wide]
        y = np.empty(flat[0].size)
        with np.errstate(all="ignore"):
            for start in range(0, y.size, _CHUNK):
                part = slice(start, start + _CHUNK)
                y[part] = self.by_element(*(x[part] for x in flat))
        return y.reshape(wide[0].shape).astype(operands[self.drawn].dtype)


class GammaSlope(Slope):
    """y = dz/da of a gamma number z = output of shape a = input and scale 1.

    NaN unless both are positive.
    """

    signature = "input, output"
    torch = TorchCall(label="_standard_gamma_grad")
    drawn = 1

    def by_number(self, y: Tensor, a: Tensor, z: Tensor) -> Any:
        return ops.digamma(a) - ops.log(z) - y * ((a - 1) / z - 1)

    def by_element(self, a: Array, z: Array) -> Array:
        y = np.full(a.size, np.nan)
        valid = (a > 0) & (z > 0) & np.isfinite(a) & np.isfinite(z)
        series = valid & ((z <= 1) | ((z < a) & (a < 12)))
        y[series] = _gamma_by_series(a[series], z[series])
        rest = valid & ~series
        y[rest] = _gamma_by_integral(a[rest], z[rest])
        return y

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        # Whole parameters, of which no gradient is asked.
        yield Sample(rng.integers(1, 6, size=(3, 4)), rng.uniform(0.1, 9, size=(3, 4)))
        yield Sample(np.asarray(20), rng.uniform(10, 40, size=(3,)))
        yield Sample(np.zeros((0,), np.int64), np.zeros((0,)))


class DirichletSlope(Slope):
    """y = dx/d(alpha) / (1 - x) of x, an element of a Dirichlet number of concentration alpha.

    total: the sum of all concentrations. x is a beta number of (alpha, total - alpha). NaN where
    x, or alpha by the total, does not lie between 0 and 1.
    """

    signature = "x, alpha, total"
    torch = TorchCall(label="_dirichlet_grad")
    drawn = 0

    def by_number(self, y: Tensor, x: Tensor, alpha: Tensor, total: Tensor) -> Any:
        rest = 1 - x
        powers = (alpha - 1) / x - (total - alpha - 1) / rest
        own = ops.digamma(alpha) - ops.digamma(total) - ops.log(x) - y * rest * powers
        return (own + y) / rest

    def by_element(self, x: Array, alpha: Array, total: Array) -> Array:
        beta = total - alpha
        valid = (x > 0) & (x < 1) & (alpha > 0) & (beta > 0) & np.isfinite(total)
        y = np.full(x.size, np.nan)
        y[valid] = _beta_by_integral(x[valid], alpha[valid], beta[valid]) / (1 - x[valid])
        # 1 as rounded: the rest of the whole is less than a rounding.
        y[(x >= 1) & (alpha > 0)] = 0
        return y

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        shape = (3, 4)
        alpha, total = rng.integers(1, 5, size=shape), rng.integers(6, 9, size=shape)
        yield Sample(rng.uniform(0.1, 0.9, size=shape), alpha, total)
        yield Sample(rng.uniform(0.1, 0.9, size=(3,)), np.asarray(1), np.asarray(3))
        yield Sample(np.zeros((0,)), np.zeros((0,), np.int64), np.zeros((0,), np.int64))


def _gamma_by_series(a: Array, z: Array) -> Array:
    """-(dF/da) / p by the power series of F in z: z sum of t[n] (psi(a + n + 1) - log z).

    t[0] = 1 / a, t[n] = t[n-1] z / (a + n)
    """
    term, slope = 1 / a, digamma(a + 1) - np.log(z)
    y = np.zeros(a.size)
    n = 0
    while a.size and n < 500:
        step = term * slope
        y += step
        n += 1
        term = term * z / (a + n)
        slope = slope + 1 / (a + n)
        if np.all(np.abs(term * slope) <= 1e-17 * np.abs(y)):
            break
    return z * y


def _gamma_by_integral(a: Array, z: Array) -> Array:
    """With t = z exp(-v) below z < a, and t = z exp(v) above z >= a."""
    side = np.where(z < a, -1.0, 1.0)
    start = side * (np.log(z) - digamma(a))

    def fall(v: Array) -> Array:
        """Minus the logarithm of p(t) t by that at z."""
        return z * np.expm1(side * v) - side * a * v

    def slope(v: Array) -> Array:
        """The factor that keeps its sign."""
        return start + v

    return z * _tail(fall, slope, np.abs(z - a), z, np.zeros_like(z))


def _beta_by_integral(x: Array, a: Array, b: Array) -> Array:
    """By the logit: logit(t) = logit(x) - v below the geometric mean, + v above."""
    middle = digamma(a) - digamma(a + b)
    logs = np.log(x)
    below = logs < middle
    # As v grows, t or 1 - t shrinks, whichever lies on the side of the integral.
    shrunk, grown = np.where(below, x, 1 - x), np.where(below, 1 - x, x)
    of_shrunk, of_grown = np.where(below, a, b), np.where(below, b, a)

    def growth(v: Array) -> Array:
        near = -np.log1p(shrunk * np.expm1(-v))
        return np.where(v < 0.5, near, -np.log(grown + shrunk * np.exp(-v)))

    def fall(v: Array) -> Array:
        return of_shrunk * v - (of_shrunk + of_grown) * growth(v)

    def slope(v: Array) -> Array:
        return np.where(below, middle - logs + v - growth(v), logs - middle + growth(v))

    first = of_shrunk * grown - of_grown * shrunk
    bend = np.log(shrunk) - np.log(grown)
    second = (a + b) * x * (1 - x)
    return x * (1 - x) * _tail(fall, slope, first, second, np.maximum(bend, 0))


def _tail(
    fall: Callable[[Array], Array],
    slope: Callable[[Array], Array],
    first: Array,
    second: Array,
    bend: Array,
) -> Array:
    """The integral of exp(-fall(v)) slope(v) from 0 to infinity, per number.

    first, second: the derivatives of `fall` at 0, up to the sign
    bend: around this v `fall` turns from a straight line to another
    """
    if not first.size:
        return first
    # A straight line falls by _FAR within _FAR / first, a parabola within sqrt(2 _FAR / second).
    end = 2 * _FAR / (np.abs(first) + np.sqrt(_FAR * second / 2) + 1e-300)
    for _ in range(60):
        low = fall(end) < _FAR
        if not low.any():
            break
        end = np.where(low, 2 * end, end)
    least = np.zeros_like(end)
    for _ in range(8):
        middle = (least + end) / 2
        high = fall(middle) >= _FAR
        end, least = np.where(high, middle, end), np.where(high, least, middle)
    y = np.zeros_like(end)
    low = np.zeros_like(end)
    for bound in (bend - _BEND, bend + _BEND, end):
        high = np.minimum(np.maximum(bound, low), end)
        if (high > low).any():
            y += _part(fall, slope, low, high)
        low = high
    return y


def _part(
    fall: Callable[[Array], Array], slope: Callable[[Array], Array], low: Array, high: Array
) -> Array:
    places, weights = _gauss()
    half = (high - low) / 2
    y = np.zeros_like(low)
    for place, weight in zip(places, weights, strict=True):
        v = low + half * (1 + place)
        y += weight * np.exp(-fall(v)) * slope(v)
    return half * y


@cache
def _gauss() -> tuple[list[float], list[float]]:
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    return places.tolist(), weights.tolist()
