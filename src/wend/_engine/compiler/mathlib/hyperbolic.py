"""sinh, cosh, tanh and their inverses."""

from __future__ import annotations

import math
from typing import Final

from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.exponential import EXP, LOG2_E, exp, exp_of_small
from wend._engine.compiler.mathlib.exponential import SHORT as SHORT_EXP
from wend._engine.compiler.mathlib.logarithm import log1p
from wend._engine.compiler.mathlib.parts import power_nearest, ratio, wide

# fmt: off
# (tanh(r) / r - 1) / r**2 as a polynomial in r**2 for |r| <= 0.55
_TANH: Final = (-0.333333333333333, 0.13333333333326558, -0.05396825396372295,
                0.021869488384747893, -0.008863232582794551, 0.003592091837046335,
                -0.001455541567834728, 0.0005884390935167249, -0.00023336750046842644,
                8.32957966934245e-05, -1.9481636613246164e-05)
# (sinh(r) / r - 1) / r**2 as a polynomial in r**2 for |r| <= 1
_SINH: Final = (0.16666666666666669, 0.008333333333333137, 0.00019841269841438524,
                2.7557319155061212e-06, 2.5052123443796283e-08, 1.6057236715186739e-10,
                7.75942515135197e-13)
# (asinh(r) / r - 1) / r**2 as a polynomial in r**2 for |r| <= 1/2
_ASINH: Final = (-0.16666666666666663, 0.07499999999998964, -0.04464285714169531,
                 0.030381944378658952, -0.022372156889092422, 0.017352716921324195,
                 -0.013964148358881358, 0.011544680134462394, -0.009709801187738471,
                 0.00812152284406612, -0.006325164174209615, 0.003925345580435212,
                 -0.0013648886535201445)
# fmt: on
# (1 - exp(-2 r) - 2 r) / 2 r**2 for |r| <= ln(2) / 4
_HALF_EXPM1 = tuple(c * (-2.0) ** (k + 1) for k, c in enumerate(EXP[False]))


def tanh(x: Operand) -> Operand:
    """Hyperbolic tangent."""
    if not x.is_double:
        sign = x.bits() & 1 << 31
        return (_short_tanh(abs(x).at_most(20.0)).bits() | sign).from_bits()
    a = abs(x)
    z = x * x
    near = (x * z).fma(z.polynomial(_TANH), x)
    far = 1.0 - 2.0 / (exp_of_small((a + a).at_most(80.0)) + 1.0)
    return where(a < 0.55, near, far).copysign(x)


def _short_tanh(a: Operand) -> Operand:
    """(1 - e**-2a) / (1 + e**-2a), both halved, for float32 a from 0 to 20: few operations.

    The terms near 1, not the terms near 0, are rounded last on both sides: errors do not add up.
    """
    n, power = power_nearest(a, -2.0 * LOG2_E)
    r = n.fma(0.5 * math.log(2.0), a)  # the lost part of n * ln 2 / 2 matters where tanh is 1
    p = (r * r).fma(r.polynomial(_HALF_EXPM1), r)  # (1 - e**-2r) / 2
    return ratio(power.fma(p, power.fma(-0.5, 0.5)), (-power).fma(p, power.fma(0.5, 0.5)))


def sinh(x: Operand) -> Operand:
    """Hyperbolic sine."""
    if not x.is_double:
        return _sinh(wide(x), True).to(x.dtype)
    return _sinh(x, False)


def _sinh(x: Operand, short: bool) -> Operand:
    a = abs(x)
    e = exp(a, SHORT_EXP if short else (), less=1.0)
    z = x * x
    near = (x * z).fma(z.polynomial(_SINH[:4] if short else _SINH), x)
    return where(a < 1.0, near, (e - 0.25 / e).copysign(x))


def cosh(x: Operand) -> Operand:
    """Hyperbolic cosine."""
    y = wide(x)
    e = exp(abs(y), () if x.is_double else SHORT_EXP, less=1.0)
    return (e + 0.25 / e).to(x.dtype)


def asinh(x: Operand) -> Operand:
    """Inverse hyperbolic sine."""
    y = wide(x)
    a = abs(y)
    z = a * a
    near = (a * z).fma(z.polynomial(_ASINH), a)
    large = a > 1e150
    t = log1p(where(large, a, a + z / ((z + 1.0).sqrt() + 1.0)))
    far = where(large, t + math.log(2.0), t)
    return where(a < 0.5, near, far).copysign(y).to(x.dtype)


def acosh(x: Operand) -> Operand:
    """Inverse hyperbolic cosine; NaN below 1."""
    y = wide(x)
    t = y - 1.0
    large = y > 1e150
    inverse = log1p(where(large, y, t + (t * (t + 2.0)).sqrt()))
    inverse = where(large, inverse + math.log(2.0), inverse)
    return where(y >= 1.0, inverse, math.nan).to(x.dtype)


def atanh(x: Operand) -> Operand:
    """Inverse hyperbolic tangent; NaN beyond -1 and 1."""
    y = wide(x)
    a = abs(y)
    t = a + a
    # 2 a / (1 - a), where small a would lose digits in 1 - a.
    ratio = where(a < 0.5, t + t * a / (1.0 - a), t / (1.0 - a))
    return (log1p(ratio) * 0.5).copysign(y).to(x.dtype)
