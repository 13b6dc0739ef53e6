"""log, log1p, log2, log10."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.parts import (
    is_ordinary,
    power_of_two,
    rarely,
    split,
    split_ordinary,
    two_product,
    two_sum,
)

# ln 2 in two parts; products of the first with an exponent are exact.
_LN2: Final = {
    False: (float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cp-20")),
    True: (float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")),
}
_LOG10_2: Final = (float.fromhex("0x1.344p-2"), float.fromhex("0x1.3509f8p-18"))
_LOG2_E: Final = (1.4426950408889634, 2.0355273740931033e-17)
_LOG10_OF_2: Final = (0.3010299956639812, -2.8037281277851704e-18)
_TWO_THIRDS: Final = (0.6666666666666666, 3.700743415417188e-17)
# fmt: off
# (log(1 + f) - f) / f**2 for sqrt(1/2) <= 1 + f < sqrt(2)
_SINGLE: Final = (-0.4999998816318987, 0.3333332421731157, -0.25001598726106217,
                  0.20002089108925114, -0.16608792046438337, 0.14179226534087896,
                  -0.13242715207102237, 0.12922131331460007, -0.0764523901036105)
# log2(1 + f) / f and log10(1 + f) / f there
_SINGLE2: Final = (1.4426950408301527, -0.7213473515014248, 0.48089824095531325,
                   -0.3606966484001836, 0.288567413526062, -0.23961743870487676,
                   0.2046005477845331, -0.19106237965403916, 0.1861752026870036,
                   -0.10995069224009313)
_SINGLE10: Final = (0.43429448188554803, -0.21714719009469824, 0.14476479538959414,
                    -0.10858051050391981, 0.08686744724251672, -0.07213203653434333,
                    0.061590902012426174, -0.05751550731880534, 0.056044320457609514,
                    -0.033098456408286965)
# (log((1 + s) / (1 - s)) - 2 s) / s**3 as a polynomial in s**2 for |s| <= 0.1716
_DOUBLE: Final = (0.6666666666666735, 0.39999999999411123, 0.2857142874325655, 0.22222198476535607,
                  0.18183569713907372, 0.15313903868413864, 0.14797501706600352)
SHORT: Final = (0.6666666667584639, 0.39999995604731503, 0.28572111135908573, 0.22176099644106628,
                0.19585520140940962)
# the same without the first term, 2/3
_LONG: Final = (0.4, 0.28571428571428376, 0.22222222222291063, 0.18181818169176447,
                0.15384616760163833, 0.1333324005729204, 0.11768685997498306, 0.10422689603738626,
                0.11014896913430487)
# fmt: on


def _ends(x: Operand, y: Operand) -> Operand:
    """y, or the common result of logarithms where x is not a finite number above 0."""
    y = where(x.equals(math.inf), x, y)
    y = where(x.equals(0.0), -math.inf, y)
    return where(x >= 0.0, y, math.nan)


def _logarithm(x: Operand, formula: Callable[[Operand, Operand], Operand]) -> Operand:
    """formula(m - 1, e) of x = m * 2**e."""
    m, e = split_ordinary(x)

    def anything() -> Operand:
        m, e = split(x)
        return _ends(x, formula(m - 1.0, e))

    return rarely(~is_ordinary(x), formula(m - 1.0, e), anything)


def log(x: Operand) -> Operand:
    """Natural logarithm."""
    return _logarithm(x, _natural)


def log1p(x: Operand) -> Operand:
    """log(1 + x), also of small x."""
    u = x + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)  # 1 + x = u + lost
    m, e = split_ordinary(u)
    # Where e is beyond this, the lost part does not count, and 2**-e would be no number.
    scale = power_of_two((-e).at_least(-60.0))
    usual = _natural(lost.fma(scale, m - 1.0), e).copysign(x)
    return rarely(~is_ordinary(u), usual, lambda: _ends(u, usual))


def _natural(f: Operand, e: Operand) -> Operand:
    """log(1 + f) + e log 2."""
    high, low = _LN2[f.is_double]
    if not f.is_double:
        return e.fma(high, (f * f).fma(f.polynomial(_SINGLE), e.fma(low, f)))
    s = f / (f + 2.0)
    z = s * s
    square = f * f * 0.5
    return e * high - ((square - s.fma(square + z * z.polynomial(_DOUBLE), e * low)) - f)


def natural_of_single(x: Operand, coefficients: Sequence[float] = SHORT) -> Operand:
    """log of a finite float64 above 0, near enough for a float32."""
    m, e = split(x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    return e.fma(math.log(2.0), (s * z).fma(z.polynomial(coefficients), s + s))


def log2(x: Operand) -> Operand:
    """Logarithm to base 2."""
    if not x.is_double:
        return _logarithm(x, lambda f, e: f.fma(f.polynomial(_SINGLE2), e))
    high, low = log2_in_two(x)
    return _ends(x, high + low)


def log10(x: Operand) -> Operand:
    """Logarithm to base 10."""
    if not x.is_double:
        high, low = _LOG10_2
        return _logarithm(x, lambda f, e: e.fma(high, f.fma(f.polynomial(_SINGLE10), e * low)))
    high_part, low_part = log2_in_two(x)
    p, t = two_product(high_part, _LOG10_OF_2[0])
    rest = low_part.fma(_LOG10_OF_2[0], high_part.fma(_LOG10_OF_2[1], t))
    return _ends(x, p + rest)


def log2_in_two(x: Operand) -> tuple[Operand, Operand]:
    """log2 of finite x > 0 as an exact sum of two floats, to about 65 binary digits."""
    m, e = split(x)
    f = m - 1.0
    below = m + 1.0
    lost = m - (below - 1.0)  # m + 1 = below + lost
    s = f / below
    s_low = ((-s).fma(below, f) - s * lost) / below
    z, z_low = two_product(s, s)
    z_low = (s + s).fma(s_low, z_low)
    w, w_low = two_sum(z.constant(_TWO_THIRDS[0]), z * z.polynomial(_LONG))
    w_low = w_low + _TWO_THIRDS[1]
    v, v_low = two_product(z, w)
    v_low = z.fma(w_low, z_low.fma(w, v_low))
    t, t_low = two_sum(v.constant(2.0), v)
    t_low = t_low + v_low
    y, y_low = two_product(s, t)
    y_low = s.fma(t_low, s_low.fma(t, y_low))
    g, g_low = two_product(y, _LOG2_E[0])
    g_low = y.fma(_LOG2_E[1], y_low.fma(_LOG2_E[0], g_low))
    high, high_low = two_sum(e, g)
    return high, high_low + g_low
