"""Bessel functions of order 0 and 1, and Airy's function, by polynomials of `tables`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from wend._engine.ops.functions import tables as t
from wend._engine.ops.functions.blocks import Array, blockwise, polynomial, where_so

Table = Sequence[float]


# -- modified, of the first kind -----------------------------------------------------------------


@blockwise
def i0e(x: Array) -> Array:
    """exp(-|x|) I0(x)."""
    return _first_scaled(np.abs(x), t.I0)


@blockwise
def i1e(x: Array) -> Array:
    """exp(-|x|) I1(x)."""
    a = np.abs(x)
    y = _first_scaled(a, t.I1)
    return np.copysign(np.where(a < 8, a * y, y), x)


@blockwise
def i0(x: Array) -> Array:
    """I0(x)."""
    a = np.abs(x)
    return np.exp(a) * _first_scaled(a, t.I0)


@blockwise
def i1(x: Array) -> Array:
    """I1(x)."""
    a = np.abs(x)
    y = _first_scaled(a, t.I1)
    return np.copysign(np.exp(a) * np.where(a < 8, a * y, y), x)


def _first_scaled(a: Array, of: tuple[Table, Table]) -> Array:
    y = np.empty_like(a)
    near = a < 8
    where_so(y, near, lambda a: polynomial(a * 0.25 - 1, of[0]), a)
    where_so(y, ~near, lambda a: polynomial(16 / a - 1, of[1]) / np.sqrt(a), a)
    return y


# -- modified, of the second kind ----------------------------------------------------------------


@blockwise
def k0(x: Array) -> Array:
    """K0(x)."""
    return _second(x, 0) * np.where(x <= 2, 1, np.exp(-np.maximum(x, 0)))


@blockwise
def k1(x: Array) -> Array:
    """K1(x)."""
    return _second(x, 1) * np.where(x <= 2, 1, np.exp(-np.maximum(x, 0)))


@blockwise
def k0e(x: Array) -> Array:
    """exp(x) K0(x)."""
    return _second(x, 0) * np.where(x <= 2, np.exp(x), 1)


@blockwise
def k1e(x: Array) -> Array:
    """exp(x) K1(x)."""
    return _second(x, 1) * np.where(x <= 2, np.exp(x), 1)


def _second(x: Array, order: int) -> Array:
    """K(x) up to 2, exp(x) K(x) from there on; infinite at 0, NaN below."""
    y = np.empty_like(x)
    near = x <= 2
    where_so(y, near, _k1_near if order else _k0_near, x)
    far = t.K1_FAR if order else t.K0_FAR
    where_so(y, ~near, lambda x: polynomial(4 / x - 1, far) / np.sqrt(x), x)
    return np.where(x == 0, np.inf, np.where(x < 0, np.nan, y))


def _k0_near(x: Array) -> Array:
    first = np.exp(x) * polynomial(x * 0.25 - 1, t.I0[0])
    return polynomial(0.5 * x * x - 1, t.K0_NEAR) - np.log(0.5 * x) * first


def _k1_near(x: Array) -> Array:
    first = np.exp(x) * polynomial(x * 0.25 - 1, t.I1[0])
    rest = polynomial(0.5 * x * x - 1, t.K1_NEAR) + np.log(0.5 * x) * first
    return 1 / x + x * rest


# -- Bessel's own --------------------------------------------------------------------------------


@blockwise
def j0(x: Array) -> Array:
    """J0(x)."""
    a = np.abs(x)
    return _split(a, _j0_near, lambda a: _waves(a, 0, t.P0, t.Q0)[0])


@blockwise
def j1(x: Array) -> Array:
    """J1(x)."""
    a = np.abs(x)
    return np.copysign(1.0, x) * _split(a, _j1_near, lambda a: _waves(a, 1, t.P1, t.Q1)[0])


@blockwise
def y0(x: Array) -> Array:
    """Y0(x); -infinity at 0, NaN below."""
    return _of_positive(x, _split(x, _y0_near, lambda a: _waves(a, 0, t.P0, t.Q0)[1]))


@blockwise
def y1(x: Array) -> Array:
    """Y1(x); -infinity at 0, NaN below."""
    return _of_positive(x, _split(x, _y1_near, lambda a: _waves(a, 1, t.P1, t.Q1)[1]))


def _split(a: Array, near: Callable[..., Array], far: Callable[..., Array]) -> Array:
    y = np.empty_like(a)
    close = a < 8
    where_so(y, close, near, a)
    where_so(y, ~close, far, a)
    return np.where(np.isposinf(a), 0, y)


def _of_positive(x: Array, y: Array) -> Array:
    return np.where(x == 0, -np.inf, np.where(x < 0, np.nan, y))


def _j0_near(a: Array) -> Array:
    return polynomial(a * a / 32 - 1, t.J0_NEAR)


def _j1_near(a: Array) -> Array:
    return a * polynomial(a * a / 32 - 1, t.J1_NEAR)


def _y0_near(x: Array) -> Array:
    return polynomial(x * x / 32 - 1, t.Y0_NEAR) + 2 / math.pi * np.log(x) * _j0_near(x)


def _y1_near(x: Array) -> Array:
    singular = np.log(x) * _j1_near(x) - 1 / x
    return x * polynomial(x * x / 32 - 1, t.Y1_NEAR) + 2 / math.pi * singular


def _waves(a: Array, order: int, p: Table, q: Table) -> tuple[Array, Array]:
    """(J, Y) of a >= 8, by Hankel's expansion (DLMF 10.17)."""
    u = 128 / (a * a) - 1
    p, q = polynomial(u, p), polynomial(u, q) / a
    sine, cosine = np.sin(a), np.cos(a)
    # The cosine and sine of a - pi / 4 and of a - 3 pi / 4, times sqrt(2), without rounding a.
    c, s = (sine - cosine, -sine - cosine) if order else (cosine + sine, sine - cosine)
    size = 1 / np.sqrt(math.pi * a)
    return size * (p * c - q * s), size * (p * s + q * c)


# -- Airy's --------------------------------------------------------------------------------------


#: 2/3 x**(3/2) of 2 and of 4.
_RIGHT, _LEFT = 4 / 3 * math.sqrt(2), 16 / 3


@blockwise
def airy(x: Array) -> Array:
    """Ai(x); NaN of infinities."""
    y = np.empty_like(x)
    left, right = x < -4, x > 2
    where_so(y, left, _airy_left, x)
    where_so(y, right, _airy_right, x)
    where_so(y, ~(left | right), lambda x: polynomial((x + 1) / 3, t.AIRY_MIDDLE), x)
    return np.where(np.isinf(x), np.nan, y)


def _airy_right(x: Array) -> Array:
    z = 2 / 3 * x * np.sqrt(x)
    series = polynomial(2 * _RIGHT / z - 1, t.AIRY_FAR)
    return np.exp(-z) * series / (2 * math.sqrt(math.pi) * np.sqrt(np.sqrt(x)))


def _airy_left(x: Array) -> Array:
    a = -x
    z = 2 / 3 * a * np.sqrt(a)
    u = 2 * (_LEFT / z) ** 2 - 1
    p, q = polynomial(u, t.AIRY_P), polynomial(u, t.AIRY_Q) / z
    sine, cosine = np.sin(z), np.cos(z)
    waves = p * (cosine + sine) + q * (sine - cosine)
    return waves / (math.sqrt(2 * math.pi) * np.sqrt(np.sqrt(a)))
