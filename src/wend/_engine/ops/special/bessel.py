"""Bessel functions and Airy's: not differentiable, as in PyTorch."""

from __future__ import annotations

import math

import numpy as np

from wend._engine.core.primitive import NO_GRADIENT
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import Elementwise
from wend._engine.ops.functions import bessel
from wend._engine.ops.numeric import Array
from wend._engine.ops.special.family import HostFunction


class Bessel(HostFunction, abstract=True):
    """A function of a float; the result needs no gradient."""

    vjp = NO_GRADIENT
    domain = (0.1, 4.0)


class AiryAi(Bessel):
    """y = Ai(input), the solution of y'' = x y that falls for positive x; NaN of infinity."""

    def reference(self, x: Array) -> Array:
        return bessel.airy(x)


class BesselJ0(Bessel):
    """y = J0(input), the Bessel function of the first kind of order 0."""

    def reference(self, x: Array) -> Array:
        return bessel.j0(x)


class BesselJ1(Bessel):
    """y = J1(input), the Bessel function of the first kind of order 1."""

    def reference(self, x: Array) -> Array:
        return bessel.j1(x)


class BesselY0(Bessel):
    """y = Y0(input), the Bessel function of the second kind of order 0."""

    def reference(self, x: Array) -> Array:
        return bessel.y0(x)


class BesselY1(Bessel):
    """y = Y1(input), the Bessel function of the second kind of order 1."""

    def reference(self, x: Array) -> Array:
        return bessel.y1(x)


class ModifiedBesselK0(Bessel):
    """y = K0(input), the modified Bessel function of the second kind of order 0."""

    def reference(self, x: Array) -> Array:
        return bessel.k0(x)


class ModifiedBesselK1(Bessel):
    """y = K1(input), the modified Bessel function of the second kind of order 1."""

    def reference(self, x: Array) -> Array:
        return bessel.k1(x)


class ScaledModifiedBesselK0(Bessel):
    """y = exp(input) K0(input)."""

    def reference(self, x: Array) -> Array:
        return bessel.k0e(x)


class ScaledModifiedBesselK1(Bessel):
    """y = exp(input) K1(input)."""

    def reference(self, x: Array) -> Array:
        return bessel.k1e(x)


class SphericalBesselJ0(Elementwise):
    """y = sin(input) / input; 1 at 0, 0 at infinity."""

    kind = "float"
    vjp = NO_GRADIENT
    domain = (0.1, 4.0)

    def reference(self, x: Array) -> Array:
        near = np.abs(x) < 0.01
        safe = np.where(near | np.isinf(x), x.dtype.type(1), x)
        square = np.where(near, x, x.dtype.type(0)) ** 2
        series = 1 - square / 6 * (1 - square / 20)
        values = np.where(near, series, np.sin(safe) / safe)
        return np.where(np.isinf(x), x.dtype.type(0), values)

    def emit(self, b: Builder, x: Value) -> Value:
        one, size = b.constant(1, x), b.abs(x)
        near = b.lt(size, b.constant(0.01, x))
        square = b.mul(x, x)
        rest = b.sub(one, b.div(square, b.constant(20, x)))
        series = b.sub(one, b.mul(b.div(square, b.constant(6, x)), rest))
        safe = b.select(near, one, x)
        values = b.select(near, series, b.div(b.sin(safe), safe))
        return b.select(b.eq(size, b.constant(math.inf, x)), b.constant(0, x), values)
