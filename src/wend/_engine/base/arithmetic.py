"""Arithmetic of numbers as processors do it: infinities and NaN where Python raises an error."""

from __future__ import annotations

import math

from wend._engine.base.errors import ArgumentError

MOST_BITS = 1 << 16  # of a power of whole numbers: more are no size, and would take for ever


def quotient(a: complex, b: complex) -> complex:
    """a / b; infinite or NaN for b = 0, as PyTorch's numbers are."""
    try:
        return a / b
    except ZeroDivisionError:
        # The rules of floats give the result that Python refuses.
        if isinstance(a, complex):
            return complex(_over_zero(a.real, 0.0), _over_zero(a.imag, 0.0))
        return _over_zero(a, b.real)


def _over_zero(a: float, zero: float) -> float:
    """a / 0, by the signs of both."""
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, zero)


def power(a: complex, b: complex) -> complex:
    """a ** b; infinite or NaN where a real number has no power, or none so large.

    Raises ArgumentError for whole numbers beyond all sizes.
    """
    if isinstance(a, int) and isinstance(b, int) and b > 1 and a.bit_length() * b > MOST_BITS:
        raise ArgumentError(f"a size or number is to be {a} to the power of {b}")
    try:
        raised: complex = a**b
    except (ZeroDivisionError, OverflowError):
        # The rules of floats give the result that Python refuses.
        odd = not isinstance(b, complex) and math.fmod(b, 2) in (1, -1)
        return math.copysign(math.inf, a.real) if odd else math.inf
    if isinstance(raised, complex) and not isinstance(a, complex) and not isinstance(b, complex):
        return math.nan  # a root of a number below 0
    return raised
