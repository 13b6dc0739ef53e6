"""The error function, its inverse, and the normal distribution."""

from __future__ import annotations

import math

import numpy as np

from wend._engine.ops.functions.blocks import Array, blockwise, polynomial, where_so
from wend._engine.ops.functions.tables import ERFCX

_CENTER = 3.75
# erf(x) / x in x**2, by Taylor's series: enough for |x| <= 1
_NEAR = [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(19)]
# Quotients of polynomials: the quantile near the median, in the tails, and far out, from Wichura's
# algorithm AS 241 (Applied Statistics 37, 1988).
# fmt: off
_MEDIAN = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3))
_TAIL = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9))
_FAR = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15))
# fmt: on


@blockwise
def erf(x: Array) -> Array:
    """The error function: Taylor's series up to 1, then 1 - erfc."""
    y = np.empty_like(x)
    a = np.abs(x)
    far = a > 1
    where_so(y, ~far, _near, x)
    # Beside 1 the tail may be rounded: the exponential need not be exact.
    where_so(y, far, lambda x, a: np.copysign(1 - np.exp(-a * a) * _scaled(a), x), x, a)
    return y


@blockwise
def erfc(x: Array) -> Array:
    """1 - erf(x), also where that is small."""
    y = np.empty_like(x)
    far = np.abs(x) > 0.5
    where_so(y, ~far, lambda x: 1 - _near(x), x)
    where_so(y, far, _erfc_far, x)
    return y


@blockwise
def erfcx(x: Array) -> Array:
    """exp(x**2) erfc(x)."""
    y = np.empty_like(x)
    below = x < 0
    where_so(y, ~below, _scaled, x)
    where_so(y, below, lambda x: 2 / _falling(x) - _scaled(-x), x)
    return y


@blockwise
def erfinv(x: Array) -> Array:
    """y with erf(y) = x; NaN beyond -1 and 1."""
    a = np.abs(x)
    return np.copysign(_quantile(0.5 * a, 0.5 * (1 - a)) * math.sqrt(0.5), x)


@blockwise
def ndtri(x: Array) -> Array:
    """The quantile of the standard normal distribution; NaN outside [0, 1]."""
    q = x - 0.5
    return np.copysign(_quantile(np.abs(q), np.minimum(x, 1 - x)), q)


@blockwise
def log_ndtr(x: Array) -> Array:
    """The logarithm of the standard normal distribution's cumulative function."""
    y = np.empty_like(x)
    z = x * math.sqrt(0.5)
    low = x < -1
    where_so(y, ~low, lambda z: np.log1p(-0.5 * erfc(z)), z)
    where_so(y, low, lambda x, z: np.log(0.5 * _scaled(-z)) - 0.5 * x * x, x, z)
    return y


def _near(x: Array) -> Array:
    """erf of |x| <= 1."""
    return x * polynomial(x * x, _NEAR)


def _scaled(x: Array) -> Array:
    """exp(x**2) erfc(x) of x >= 0: the form of Shepherd and Laframboise."""
    t = 1 - 2 * _CENTER / (x + _CENTER)
    return polynomial(t, ERFCX) / (1 + 2 * x)


def _falling(x: Array) -> Array:
    """exp(-x**2): of a number of few digits, whose square is exact, times that of the rest."""
    x = np.clip(x, -30, 30)
    short = np.rint(x * 16) * 0.0625
    return np.exp(-short * short) * np.exp((short - x) * (short + x))


def _erfc_above(x: Array) -> Array:
    """Erfc of x >= 0."""
    return _falling(x) * _scaled(x)


def _erfc_far(x: Array) -> Array:
    far = _erfc_above(np.abs(x))
    return np.where(x < 0, 2 - far, far)


def _quantile(q: Array, p: Array) -> Array:
    """The size of the quantile at p and 1 - p, p <= 1/2, which lies q beside the median."""
    y = np.empty_like(q)
    tail = ~(q <= 0.425)
    where_so(y, ~tail, lambda q: q * _ratio(0.180625 - q * q, _MEDIAN), q)
    where_so(y, tail, _in_tail, p)
    return y


def _in_tail(p: Array) -> Array:
    r = np.sqrt(-np.log(p))
    near = _ratio(r - 1.6, _TAIL)
    y = np.where(r <= 5, near, _ratio(np.minimum(r, 40) - 5, _FAR))
    return np.where(p == 0, np.inf, np.where(p > 0, y, np.nan))


def _ratio(x: Array, of: tuple[tuple[float, ...], tuple[float, ...]]) -> Array:
    return polynomial(x, of[0]) / polynomial(x, of[1])
