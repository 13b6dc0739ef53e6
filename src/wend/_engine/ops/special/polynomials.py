"""Orthogonal polynomials of order n at x: 0 for n < 0, n cut to a whole number.

Each is a recurrence over the order, p(k + 1) of p(k) and p(k - 1), that begins with p(0) = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.core.op_facts import OpSchedule
from wend._engine.core.primitive import NO_GRADIENT
from wend._engine.ops.numeric import Array
from wend._engine.ops.special.family import HostFunction

#: From this order on Chebyshev's polynomials inside of (-1, 1) are functions of the angle.
_BY_ANGLE = 9


class OrthogonalPolynomial(HostFunction, abstract=True):
    """The polynomial of order n at input, by its recurrence; not differentiable."""

    signature = "input: operand, n: operand"
    vjp = NO_GRADIENT
    schedule = OpSchedule(
        library="", unlowered="each element has an order, which is the number of terms"
    )
    domain = ((-0.9, 0.9), (0.0, 5.0))

    def first(self, x: Array) -> Array:
        """p(1)."""
        raise NotImplementedError

    def following(self, k: int, x: Array, now: Array, before: Array) -> Array:
        """p(k + 1), from p(k) and p(k - 1)."""
        raise NotImplementedError

    def reference(self, x: Array, n: Array) -> Array:
        x, n = np.broadcast_arrays(x, n)
        with np.errstate(all="ignore"):
            return self.of_orders(x, orders(n))

    def of_orders(self, x: Array, order: Array) -> Array:
        """The values for whole orders; -1 for those below 0."""
        one = np.ones_like(x)
        values = np.where(order == 0, one, x.dtype.type(0))
        before, now = one, self.first(x)
        for k in range(1, int(order.max(initial=0)) + 1):
            values = np.where(order == k, now, values)
            before, now = now, self.following(k, x, now, before)
        return values


def orders(n: Array) -> Array:
    """n cut to whole numbers; -1 where n is negative or not finite."""
    known = np.isfinite(n)
    whole = np.where(known, np.trunc(n), -1)
    return np.where(whole < 0, -1, whole).astype(np.int64)


class Chebyshev(OrthogonalPolynomial, abstract=True):
    """p(k + 1) = 2 x p(k) - p(k - 1). Inside of (-1, 1) a function of the angle with cosine x."""

    shifted: bool = False  # at 2 x - 1 in place of x

    def following(self, k: int, x: Array, now: Array, before: Array) -> Array:
        return 2 * x * now - before

    def by_angle(self, angle: Array, order: Array) -> Array:
        """The values at the cosine of an angle between 0 and pi."""
        raise NotImplementedError

    def of_orders(self, x: Array, order: Array) -> Array:
        if self.shifted:
            x = x + x - 1
        inside = (np.abs(x) < 1) & (order >= _BY_ANGLE)
        values = super().of_orders(x, np.where(inside, -1, order))
        if not inside.any():
            return values
        angle = np.arccos(np.where(inside, x, x.dtype.type(0)))
        return np.where(inside, self.by_angle(angle, order.astype(x.dtype)), values)


class _KindT(Chebyshev, abstract=True):
    def first(self, x: Array) -> Array:
        return x

    def by_angle(self, angle: Array, order: Array) -> Array:
        return np.cos(order * angle)


class _KindU(Chebyshev, abstract=True):
    def first(self, x: Array) -> Array:
        return 2 * x

    def by_angle(self, angle: Array, order: Array) -> Array:
        return np.sin((order + 1) * angle) / np.sin(angle)


class _KindV(Chebyshev, abstract=True):
    def first(self, x: Array) -> Array:
        return 2 * x - 1

    def by_angle(self, angle: Array, order: Array) -> Array:
        return np.cos((order + _half(order)) * angle) / np.cos(angle * _half(order))


class _KindW(Chebyshev, abstract=True):
    def first(self, x: Array) -> Array:
        return 2 * x + 1

    def by_angle(self, angle: Array, order: Array) -> Array:
        return np.sin((order + _half(order)) * angle) / np.sin(angle * _half(order))


def _half(like: Array) -> Any:
    return like.dtype.type(0.5)


class ChebyshevPolynomialT(_KindT):
    """y = T_n(input), Chebyshev's polynomial of the first kind: cos(n t) at cos t."""


class ChebyshevPolynomialU(_KindU):
    """y = U_n(input), Chebyshev's polynomial of the second kind: sin((n + 1) t) / sin t."""


class ChebyshevPolynomialV(_KindV):
    """y = V_n(input), Chebyshev's polynomial of the third kind: cos((n + 1/2) t) / cos(t / 2)."""


class ChebyshevPolynomialW(_KindW):
    """y = W_n(input), Chebyshev's polynomial of the fourth kind: sin((n + 1/2) t) / sin(t / 2)."""


class ShiftedChebyshevPolynomialT(_KindT):
    """y = T_n(2 input - 1)."""

    shifted = True


class ShiftedChebyshevPolynomialU(_KindU):
    """y = U_n(2 input - 1)."""

    shifted = True


class ShiftedChebyshevPolynomialV(_KindV):
    """y = V_n(2 input - 1)."""

    shifted = True


class ShiftedChebyshevPolynomialW(_KindW):
    """y = W_n(2 input - 1)."""

    shifted = True


class HermitePolynomialH(OrthogonalPolynomial):
    """y = H_n(input), Hermite's polynomial of the physicists."""

    def first(self, x: Array) -> Array:
        return 2 * x

    def following(self, k: int, x: Array, now: Array, before: Array) -> Array:
        return 2 * (x * now - k * before)


class HermitePolynomialHe(OrthogonalPolynomial):
    """y = He_n(input), Hermite's polynomial of probability theory."""

    def first(self, x: Array) -> Array:
        return x

    def following(self, k: int, x: Array, now: Array, before: Array) -> Array:
        return x * now - k * before


class LaguerrePolynomialL(OrthogonalPolynomial):
    """y = L_n(input), Laguerre's polynomial."""

    def first(self, x: Array) -> Array:
        return 1 - x

    def following(self, k: int, x: Array, now: Array, before: Array) -> Array:
        return ((2 * k + 1 - x) * now - k * before) / (k + 1)


class LegendrePolynomialP(OrthogonalPolynomial):
    """y = P_n(input), Legendre's polynomial."""

    def first(self, x: Array) -> Array:
        return x

    def following(self, k: int, x: Array, now: Array, before: Array) -> Array:
        return ((2 * k + 1) * x * now - k * before) / (k + 1)
