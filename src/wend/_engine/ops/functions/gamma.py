"""The gamma function's logarithm and derivatives, Hurwitz's zeta function, incomplete gammas."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from wend._engine.ops.functions.blocks import Array, blockwise, polynomial, where_so
from wend._engine.ops.functions.errorfunction import erfc
from wend._engine.ops.functions.tables import BERNOULLI, ROOT, TEMME

_EULER = 0.5772156649015329
_HALF_LOG_2_PI = 0.9189385332046727
#: From here on the asymptotic series are exact enough.
_FAR = 10


# -- the logarithm -----------------------------------------------------------------------------


@blockwise
def lgamma(x: Array) -> Array:
    """log |gamma(x)|: a series around 1 and 2, Stirling's series, and the reflection below 0."""
    y = np.empty_like(x)
    below = x < 0
    where_so(y, ~below, _lgamma_above, x)
    where_so(y, below, _lgamma_below, x)
    return y


def _lgamma_below(x: Array) -> Array:
    sine = np.abs(np.sin(math.pi * (x - np.rint(x))))
    y = np.empty_like(x)
    # gamma(x) = gamma(x + 1) / x; the reflection would lose what is near log(pi).
    near = x > -0.5
    where_so(y, near, lambda x: _log_around_1(x) - np.log(-x), x)
    where_so(y, ~near, lambda x, s: math.log(math.pi) - np.log(s) - _lgamma_above(1 - x), x, sine)
    return np.where(np.isinf(x), x, np.where(sine == 0, np.inf, y))


def _lgamma_above(x: Array) -> Array:
    """lgamma of x >= 0, and of NaN."""
    y = np.empty_like(x)
    far = x >= _FAR
    small = x < 0.5
    where_so(y, far, _stirling, x)
    where_so(y, small, lambda x: _log_around_1(x) - np.log(x), x)
    where_so(y, ~(far | small), _lgamma_between, x)
    return y


def _lgamma_between(x: Array) -> Array:
    """lgamma of 1/2 <= x < 10, by gamma(x) = (x - 1) ... gamma(x - k), x - k near 2."""
    factor = np.ones_like(x)
    for _ in range(_FAR):
        above = x >= 2.5
        if not above.any():
            break
        x = np.where(above, x - 1, x)
        factor = np.where(above, factor * x, factor)
    low = x < 1.5
    z = np.where(low, x - 1, x - 2)
    return _log_around_1(z) + np.where(low, 0, np.log1p(z)) + np.log(factor)


@functools.cache
def _around_1() -> list[float]:
    """The coefficients of z**k in lgamma(1 + z) + log1p(z), from k = 1 on (DLMF 5.7.3)."""
    rests = [float(zeta(np.float64(k), np.float64(2))) for k in range(2, 30)]
    return [1 - _EULER, *((-1) ** k * rest / k for k, rest in enumerate(rests, 2))]


def _log_around_1(z: Array) -> Array:
    """lgamma(1 + z) of |z| <= 1/2."""
    return z * polynomial(z, _around_1()) - np.log1p(z)


def _stirling(x: Array) -> Array:
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    y = (x - 0.5) * np.log(x) - x + (_HALF_LOG_2_PI + polynomial(1 / (x * x), terms) / x)
    return np.where(np.isinf(x), np.inf, y)


# -- its derivatives ---------------------------------------------------------------------------


@blockwise
def digamma(x: Array) -> Array:
    """The derivative of lgamma; at 0 infinite, of the sign opposite to that of 0."""
    y = np.empty_like(x)
    near = np.abs(x - ROOT[0]) < 0.25
    below = x < 0.5
    where_so(y, near, _digamma_near_root, x)
    where_so(y, below, _digamma_below, x)
    where_so(y, ~(near | below), _digamma_above, x)
    return y


def _digamma_below(x: Array) -> Array:
    # psi(x) = psi(1 - x) - pi / tan(pi x), whose period is 1.
    y = _digamma_above(1 - x) - math.pi / np.tan(math.pi * (x - np.rint(x)))
    pole = (x == np.rint(x)) & (x < 0)
    y = np.where(pole | np.isinf(x), np.nan, y)
    return np.where(x == 0, np.copysign(np.inf, -x), y)


def _digamma_above(x: Array) -> Array:
    """digamma of x >= 1/2."""
    y = np.empty_like(x)
    far = x >= _FAR
    where_so(y, far, _digamma_far, x)
    where_so(y, ~far, _digamma_between, x)
    return y


def _digamma_between(x: Array) -> Array:
    total = 1 / x
    for k in range(1, _FAR):
        total += 1 / (x + k)
    return _digamma_far(x + _FAR) - total


def _digamma_far(x: Array) -> Array:
    inverse = 1 / (x * x)
    terms = [-b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
    return np.log(x) + (inverse * polynomial(inverse, terms) - 0.5 / x)


@functools.cache
def _around_root() -> list[float]:
    """Taylor's coefficients from the first power on."""
    return [(-1) ** k * float(zeta(np.float64(k), np.float64(ROOT[0]))) for k in range(2, 25)]


def _digamma_near_root(x: Array) -> Array:
    step = (x - ROOT[0]) - ROOT[1]
    return step * polynomial(step, _around_root())


def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of digamma, n >= 0."""
    if n == 0:
        return digamma(x)
    scale = (-1.0) ** (n + 1) * math.gamma(n + 1)
    return x.dtype.type(scale) * zeta(x.dtype.type(n + 1), x)


# -- zeta --------------------------------------------------------------------------------------


@blockwise
def zeta(s: Array, q: Array) -> Array:
    """The sum over k >= 0 of (q + k) ** -s, by Euler's and Maclaurin's formula.

    Infinite for s = 1 and where a term is; NaN for s < 1, and for q < 0 unless s is a whole number.
    """
    y = np.empty_like(q)
    below = q < 0
    where_so(y, ~below, _zeta_above, s, q)
    where_so(y, below, _zeta_below, s, q)
    y = np.where((q <= 0) & (q == np.floor(q)), np.inf, y)
    y = np.where((q < 0) & (q != np.floor(q)) & (s != np.floor(s)), np.nan, y)
    return np.where(s == 1, np.inf, np.where(s < 1, np.nan, y))


def _zeta_above(s: Array, q: Array) -> Array:
    total = np.zeros_like(q)
    for k in range(_FAR):
        total += np.power(q + k, -s)
    z = q + _FAR
    power = np.power(z, -s)
    # Beyond the largest numbers, 0 times infinity is 0.
    total += np.where(power == 0, 0, power * (z / (s - 1) + 0.5))
    power /= z
    factor = s.copy()
    for k, b in enumerate(BERNOULLI, 1):
        total += np.where(power == 0, 0, power * factor * (b / math.factorial(2 * k)))
        factor *= (s + (2 * k - 1)) * (s + 2 * k)
        power /= z * z
    return total


def _zeta_below(s: Array, q: Array) -> Array:
    # Over all whole k the sum is a function of the fraction of q alone; less that over k < 0.
    fraction = q - np.floor(q)
    sign = np.where(s % 2 == 0, 1.0, -1.0)
    beyond = _zeta_above(s, 1 - fraction) - _zeta_above(s, 1 - q)
    return _zeta_above(s, fraction) + sign * beyond


# -- incomplete gamma functions ----------------------------------------------------------------

#: From this parameter on Temme's expansion is exact.
_LARGE = 1e4
#: Below it the series and the fraction take fewer steps.
_MOST_STEPS = 2000


@blockwise
def gammainc(a: Array, x: Array) -> Array:
    """P(a, x), the regularised lower incomplete gamma function, of a > 0 and x >= 0."""
    return _incomplete(a, x, False)


@blockwise
def gammaincc(a: Array, x: Array) -> Array:
    """Q(a, x) = 1 - P(a, x), also where that is small."""
    return _incomplete(a, x, True)


def _incomplete(a: Array, x: Array, upper: bool) -> Array:
    """By the series, by the continued fraction, or by Temme's expansion (DLMF 8.11, 8.9, 8.12)."""
    y = np.full_like(x, np.nan)
    valid = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    large = valid & (a >= _LARGE)
    tiny = valid & ~large & (x <= 1) & (x < a + 1) & upper
    low = valid & ~large & ~tiny & (x < a + 1)
    high = valid & ~large & (x >= a + 1)

    def other(values: Array, is_other: bool) -> Array:
        return 1 - values if is_other else values

    where_so(y, large, lambda a, x: _by_temme(a, x, upper), a, x)
    where_so(y, tiny, _upper_by_series, a, x)
    where_so(y, low, lambda a, x: other(_lower_by_series(a, x), upper), a, x)
    where_so(y, high, lambda a, x: other(_by_fraction(a, x), not upper), a, x)
    return y


def _density(a: Array, x: Array) -> Array:
    """x**a exp(-x) / gamma(a + 1), without the loss of digits of large powers."""
    small = a < 10
    a_large = np.where(small, 10, a)
    distance = (x - a_large) / a_large
    log = np.where(
        np.abs(distance) < 0.5,
        _log1p_less(np.clip(distance, -0.5, 0.5)),
        np.log(x / a_large) - distance,
    )
    inverse = 1 / (a_large * a_large)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    rest = polynomial(inverse, terms) / a_large
    large = np.exp(a_large * log - rest) / np.sqrt(2 * math.pi * a_large)
    return np.where(small, np.exp(a * np.log(x) - x - lgamma(a + 1)), large)


def _log1p_less(d: Array) -> Array:
    """log(1 + d) - d of |d| <= 1/2, by r = d / (2 + d): log(1 + d) = 2 artanh(r)."""
    r = d / (2 + d)
    square = r * r
    series = polynomial(square, [2 / (2 * k + 3) for k in range(18)])
    return r * square * series - d * r


def _settled(step: Callable[..., tuple[Array, ...]], *state: Array) -> Array:
    """The last of the state when no step changes it: state = step(n, *state), element by element.

    step: returns which elements are settled too, in front. Those are left out from time to time.
    """
    y, places = np.empty_like(state[0]), np.arange(state[0].size)
    for n in range(1, _MOST_STEPS):
        settled, *rest = step(n, *state)
        state = tuple(rest)
        if n % 16 == 0:
            y[places] = state[-1]
            if settled.all():
                break
            places = places[~settled]
            state = tuple([x[~settled] for x in rest])
    return y


def _lower_by_series(a: Array, x: Array) -> Array:
    def step(n: int, a: Array, x: Array, term: Array, total: Array) -> tuple[Array, ...]:
        term = term * (x / (a + n))
        total = total + term
        return term <= total * 1e-17, a, x, term, total

    return _density(a, x) * _settled(step, a, x, np.ones_like(x), np.ones_like(x))


def _upper_by_series(a: Array, x: Array) -> Array:
    """Q of x <= 1: 1 - x**a / gamma(a + 1) (1 + sum of a (-x)**n / ((a + n) n!))."""
    term, total = np.ones_like(x), np.zeros_like(x)
    for n in range(1, 20):
        term = term * (-x / n)
        total = total + term * (a / (a + n))
    log = a * np.log(x) - np.where(a > 0.5, lgamma(a + 1), _log_around_1(np.minimum(a, 0.5)))
    return -np.expm1(log) - np.exp(log) * total


def _by_fraction(a: Array, x: Array) -> Array:
    """Q by the continued fraction, from its head, as quotients of convergents (Lentz)."""

    def step(n: int, a: Array, b: Array, c: Array, d: Array, product: Array) -> tuple[Array, ...]:
        factor, b = -n * (n - a), b + 2
        c, d = b + factor / c, 1 / (factor * d + b)
        return np.abs(c * d - 1) <= 3e-16, a, b, c, d, product * (c * d)

    b = x + 1 - a
    return _density(a, x) * a * _settled(step, a, b, np.full_like(x, np.inf), 1 / b, 1 / b)


def _by_temme(a: Array, x: Array, upper: bool) -> Array:
    distance = (x - a) / a
    near = np.abs(distance) < 0.5
    log = np.where(near, _log1p_less(np.where(near, distance, 0)), np.log1p(distance) - distance)
    eta = np.copysign(np.sqrt(np.maximum(-2 * log, 0)), distance)
    # Far out the expansion is nonsense, and its factor is 0.
    close = np.clip(eta, -0.42, 0.42)
    total = np.zeros_like(x)
    for k, coefficients in enumerate(TEMME):
        total += polynomial(close, coefficients) / a**k
    rest = np.exp(a * log) / np.sqrt(2 * math.pi * a) * total
    sign = 1.0 if upper else -1.0
    return 0.5 * erfc(sign * eta * np.sqrt(a * 0.5)) + sign * rest
