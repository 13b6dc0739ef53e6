"""exp, exp2, expm1, sigmoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.parts import (
    layout,
    nearest,
    power_nearest,
    power_of_two,
    powers_nearest,
    quotient,
    scaled,
)

LOG2_E: Final = 1.4426950408889634
# ln 2 in two parts, of float32 and of float64.
_LN2: Final = {
    False: (0.6931471824645996, -1.9046542121259336e-09),
    True: (0.6931471805599453, 2.3190468138462996e-17),
}
# (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2: of float32, of float64, and a short one for
# float32 results computed in float64.
# fmt: off
EXP: Final = {
    False: (0.4999999344642165, 0.16666520632015952, 0.04166838828117204, 0.008368716723152233,
            0.0013814587749867674),
    True: (0.5, 0.16666666666666682, 0.041666666666666095, 0.008333333333317035,
           0.0013888888889115514, 0.0001984126989638248, 2.4801586926785993e-05,
           2.755723486323578e-06, 2.7557581754111075e-07, 2.5112036382794063e-08,
           2.0826648932148317e-09),
}
SHORT: Final = (0.5000000067686049, 0.16666665869016237, 0.04166629494228875, 0.008333497072274597,
                0.0013944659709339852, 0.00019790337803067678)
# (2**r - 1) / r for |r| <= 1/2
_EXP2: Final = {
    False: (0.6931472070861416, 0.24022650942785995, 0.05550326526253493, 0.00961805285538783,
            0.00134006751286509, 0.00015462815190433026),
    True: (0.6931471805599453, 0.24022650695910072, 0.0555041086648217, 0.009618129107628484,
           0.0013333558146389974, 0.00015403530393360757, 1.5252733856657473e-05,
           1.3215486817941362e-06, 1.0178051040695817e-07, 7.054893567658587e-09,
           4.4566983855539124e-10, 2.5734816535370285e-11),
}
SHORT2: Final = (0.6931471838168853, 0.24022650920772565, 0.05550400375033671,
                 0.009618056922133333, 0.0013341951348107403, 0.00015461366521880886,
                 1.3359726641381487e-05)
# fmt: on
# Below the first exp is 0, above the second infinite.
_RANGE: Final = {False: (-104.0, 89.0), True: (-746.0, 710.0)}
# From there on down exp is 0, and half of the exponent of 2 is nearest the second.
_LEAST: Final = {False: (-104.7, -76.0), True: (-746.0, -538.0)}
_RANGE2: Final = {False: (-151.0, 129.0), True: (-1076.0, 1025.0)}


def reduced(x: Operand, coefficients: Sequence[float] = ()) -> tuple[Operand, Operand, Operand]:
    """(r, q, n) with exp(x) = (1 + r + r**2 q) * 2**n, n whole, |r| < 0.35."""
    n = nearest(x, LOG2_E)
    return *_rest(x, n, coefficients), n


def _rest(x: Operand, n: Operand, coefficients: Sequence[float] = ()) -> tuple[Operand, Operand]:
    """r and q of `reduced`."""
    high, low = _LN2[x.is_double]
    r = n.fma(-low, n.fma(-high, x))
    return r, r.polynomial(coefficients or EXP[x.is_double])


def exp(x: Operand, coefficients: Sequence[float] = (), less: float = 0.0) -> Operand:
    """e**x * 2**-less, where `less` keeps finite results from becoming infinite."""
    x = x.at_most(_RANGE[x.is_double][1] + less)
    if x.b.scales_by_power(x.dtype):
        return _scaled_exp(x, coefficients, less)
    # Processors take long to round to nothing, and masked scores are all of that kind: there
    # a power of 2 is 0.
    lowest, least = _LEAST[x.is_double]
    x = x.at_least(lowest)
    n, a, b = powers_nearest(x, LOG2_E, least, less)
    r, q = _rest(x, n, coefficients)
    return r.fma(q, 1.0).fma(r, 1.0) * b * a


def exp_of_negative(x: Operand) -> Operand:
    """e**x of x <= 0."""
    if x.b.scales_by_power(x.dtype):
        return _scaled_exp(x)
    x = x.at_least(_LEAST[x.is_double][0])
    raised = layout(x).digits + 1
    n, power = power_nearest(x, LOG2_E, raised)
    r, q = _rest(x, n)
    return r.fma(q, 1.0).fma(r, 1.0) * power * 2.0**-raised


def _scaled_exp(x: Operand, coefficients: Sequence[float] = (), less: float = 0.0) -> Operand:
    """`exp` of an x with a finite result, by an instruction."""
    nothing = x < _RANGE[x.is_double][0]
    r, q, n = reduced(where(nothing, 0.0, x), coefficients)
    return where(nothing, 0.0, scaled(r.fma(q, 1.0).fma(r, 1.0), n - less if less else n))


def exp2(x: Operand) -> Operand:
    """2**x."""
    low, high = _RANGE2[x.is_double]
    x = x.at_least(low).at_most(high)
    n = x.round()
    return exp2_of_sum(x - n, n, _EXP2[x.is_double])


def exp2_of_sum(r: Operand, n: Operand, coefficients: Sequence[float] = ()) -> Operand:
    """2**(n + r) of whole n and small r."""
    return scaled(r.fma(r.polynomial(coefficients or _EXP2[r.is_double]), 1.0), n)


def exp2_of_small(x: Operand, factor: float = 1.0) -> Operand:
    """2**(x * factor), a normal number."""
    n, power = power_nearest(x, factor)
    r = x.fma(factor, -n)
    return r.fma(r.polynomial(_EXP2[x.is_double]), 1.0) * power


def expm1(x: Operand) -> Operand:
    """e**x - 1."""
    low, high = (-40.0, 710.0) if x.is_double else (-20.0, 89.0)
    r, q, n = reduced(x.at_least(low).at_most(high))
    p = (r * r).fma(q, r)
    # Half of 2**n is finite. Small x would lose the last digit there, and 0 the sign.
    half = power_of_two(n - 1.0)
    y = half.fma(p, half - 0.5) * 2.0
    return where(abs(x) < 1e-30, x, y)


def exp_of_small(x: Operand) -> Operand:
    """e**x of |x| < 87."""
    r, q, n = reduced(x)
    return r.fma(q, 1.0).fma(r, 1.0) * power_of_two(n)


def sigmoid(x: Operand) -> Operand:
    """1 / (1 + e**-x), also where the result is small."""
    if not x.is_double:
        return _short_sigmoid(x)
    e = exp_of_negative(-abs(x))
    return quotient(where(x < 0.0, e, 1.0), 1.0, e)


def _short_sigmoid(x: Operand) -> Operand:
    """`sigmoid` of float32: dividing takes no longer than a formula without division.

    Numerator and denominator are scaled by 2**-24, so that e**-x is finite until the quotient is 0.
    """
    one = 2.0**-24
    # Masked scores are divided by infinity: processors take long to round to 0.
    x = (-x).at_least(-60.0).at_most(105.4)
    n, power = power_nearest(x, LOG2_E, -24)
    r, q = _rest(x, n)
    total, finite = power + one, power.at_most(2.0**127)
    lost = one - (total - finite)  # of 1 beside 2**24 and more, where the loss would be missed
    lost = where(lost > 0.0, lost, x.constant(0.0))
    return one / (finite.fma((r * r).fma(q, r), lost) + total)
