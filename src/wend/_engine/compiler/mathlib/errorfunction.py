"""erf, erfc and the inverse of erf."""

from __future__ import annotations

import math
from typing import Final

from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.exponential import (
    LOG2_E,
    exp,
    exp2_of_small,
    exp_of_small,
    reduced,
)
from wend._engine.compiler.mathlib.exponential import SHORT as SHORT_EXP
from wend._engine.compiler.mathlib.logarithm import log1p
from wend._engine.compiler.mathlib.parts import scaled, two_sum, wide

# fmt: off
# erf(x) / x - 1 in x**2: of float32 for |x| <= 0.85, of float64 for |x| <= 1
_SINGLE: Final = (0.12837916022911317, -0.3761257183635304, 0.11282717417775709,
                  -0.02680254883456222, 0.005051096934118958, -0.0006315142707394414)
_DOUBLE: Final = (0.1283791670955126, -0.37612638903183754, 0.11283791670955119,
                  -0.02686617064512972, 0.005223977625421891, -0.0008548327021839338,
                  0.000120553328987265, -1.4925647445882872e-05, 1.646204300750858e-06,
                  -1.636460871303004e-07, 1.4792090885958765e-08, -1.2162702248089792e-09,
                  8.702566973313225e-11, -4.220951088326008e-12)
# log(erfc(x)) for 0.84 <= x <= 4
_LOG: Final = (0.00015329780752442644, -1.1294098754451092, -0.6335634805250273,
               -0.10803739438152601, 0.024959880705098577, -0.00410957101815657,
               0.00042160346647377014, -1.99699285553274e-05)
# log2(Phi(-x)) for 0 <= x <= 5.5
_LOG_PHI: Final = (-0.9999999612398377, -1.151106513546598, -0.45920051298581765,
                   -0.05250596848664463, 0.0070455516212305355, -8.185218334879524e-05,
                   -0.00024020878206312902, 6.512756118691126e-05, -9.061092845743345e-06,
                   6.856834356721113e-07, -2.2287738941606707e-08)
# exp(x**2) erfc(x) (1 + 2 x) as a polynomial in (x - k) / (x + k), from x = 0.46 to where erfc
# is 0: (k, coefficients) of float32 and of float64.
_TAIL: Final = {
    False: (2.5, (
        1.264838184357543, -0.12235676330126308, -0.09902453767304871, 0.15762993388523439,
        -0.10296711739699851, 0.03276059795445319, 0.000932604531050017, -0.004379501176701267,
        0.00048820090753105464, 0.0006208888817865533, -8.005765302425367e-05,
        -8.906829791909703e-05)),
    True: (3.75, (
        1.2375126308378275, -0.14024059858554702, 0.003585415485463739, 0.0822767384901503,
        -0.10880393014171176, 0.0923043211602324, -0.058693398590402866, 0.028362277420781797,
        -0.009746579550093993, 0.0017556258411330768, 0.00029371361950540067,
        -0.00029015404212871695, 5.164925242167895e-05, 2.238420219026986e-05,
        -1.144440754276389e-05, -9.737269274211143e-07, 1.751674366104228e-06,
        -5.652954266271738e-08, -2.5790860748901604e-07, 2.2122899480290782e-08,
        3.716432999237651e-08, -2.8099645724205674e-09, -3.893178023477876e-09)),
}
# erfinv(x) / x, of w = -log(1 - x**2): in w - 2.5 for w < 5, in sqrt(w) - 3 from there on: to
# the x nearest 1 of float32, and of float64 (which a step of Halley's method then refines).
_NEAR: Final = (1.501409351128592, 0.24664027667808713, -0.004177318013980955,
                -0.0012527075898673414, 0.00021825102831213235, -4.996526177962291e-06,
                -3.417373083610445e-06, 4.790038404773168e-07, 1.3770863546534166e-08,
                -1.095125866300663e-08, 8.214348713786063e-10, 1.3554372045353913e-10,
                -2.0603744467945596e-11, -6.208588246516317e-13)
_FAR: Final = {
    False: (2.8329768022489943, 1.0016752402274058, 0.009445253856479029, -0.007642878077241583,
            0.005688172548696867, -0.0035663220193162147, 0.001473474740939127,
            -0.00012178045067370193, -0.00027501957103549346, 0.00016179841540056608,
            -3.093850720389221e-05),
    True: (2.8329768084142746, 1.0016754982774967, 0.009445055222617276, -0.007647303748387094,
           0.005690819859556673, -0.0035456602248574855, 0.0014566638530052987,
           -0.0001563067337374624, -0.0002346281038897692, 0.00017312763053734502,
           -6.156476978299006e-05, 1.2685318839244274e-05, -1.4478034236394239e-06,
           7.104789044221597e-08),
}
# fmt: on


def erf(x: Operand) -> Operand:
    """Error function."""
    a = abs(x)
    near = _near(x)
    if x.is_double:
        return where(a < 1.0, near, (1.0 - _tail(a, True)).copysign(x))
    far = 1.0 - exp_of_small(a.at_most(4.0).polynomial(_LOG))
    return where(a < 0.85, near, far.copysign(x))


def _near(x: Operand) -> Operand:
    """erf of small x."""
    return x.fma((x * x).polynomial(_DOUBLE if x.is_double else _SINGLE), x)


def erfc(x: Operand) -> Operand:
    """1 - erf(x), also where that is small."""
    y = wide(x)
    a = abs(y)
    near = 1.0 - _near(y)
    far = _tail(a, x.is_double)
    far = where(y < 0.0, 2.0 - far, far)
    return where(a < 0.475, near, far).to(x.dtype)


def _tail(a: Operand, double: bool) -> Operand:
    """erfc of a float64 a >= 0.46; some number for smaller a."""
    center, coefficients = _TAIL[double]
    a = a.at_most(28.0)
    t = (a - center) / (a + center)
    square = a * a
    if not double:
        return exp(-square, SHORT_EXP) * (t.polynomial(coefficients) / (a + a + 1.0))
    # e**-square and the quotient, each with the rest that the last rounding lost.
    r, q, n = reduced((-square).at_least(-800.0))
    power, power_low = two_sum(r.constant(1.0), r.fma(q, 1.0) * r)
    power_low = power_low - a.fma(a, -square) * power
    above, above_low = two_sum(t.constant(coefficients[0]), t * t.polynomial(coefficients[1:]))
    below = a + a + 1.0
    ratio = above / below
    lost = (a + a) - (below - 1.0)
    rest = ((-ratio).fma(below, above) + (above_low - ratio * lost)) / below
    return scaled(power.fma(ratio, power_low * ratio + power * rest), n)


def normal_gate(x: Operand) -> Operand:
    """x * Phi(x), Phi the normal distribution's cumulative function."""
    return x * _phi(x)


def normal_slope(x: Operand) -> Operand:
    """The derivative of `normal_gate`."""
    square = x * x
    if x.is_double:
        density = exp(square * -0.5)
    else:
        density = where(square > 170.0, 0.0, exp2_of_small(square, -0.5 * LOG2_E))
    return (x * math.sqrt(0.5 / math.pi)).fma(density, _phi(x))


def _phi(x: Operand) -> Operand:
    """The normal distribution's cumulative function; of float32 0 or 1 beyond 5.5."""
    if x.is_double:
        return (erf(x * math.sqrt(0.5)) + 1.0) * 0.5
    a = abs(x)
    # Far out the polynomial is nonsense, infinite perhaps, and is never used.
    rest = where(a > 5.5, 0.0, exp2_of_small(a.polynomial(_LOG_PHI)))
    return where(x < 0.0, rest, 1.0 - rest)


def erfinv(x: Operand) -> Operand:
    """y with erf(y) = x; NaN beyond -1 and 1."""
    v = wide(x)
    a = abs(v)
    w = -log1p(-(a * a))
    root = w.sqrt().at_most(6.2 if x.is_double else 4.25) - 3.0
    factor = where(w < 5.0, (w - 2.5).polynomial(_NEAR), root.polynomial(_FAR[x.is_double]))
    y = a * factor
    if x.is_double:
        error = where(a < 0.8, a - _near(y), _tail(y, True) - (1.0 - a))
        step = error * exp(y * y) * (math.sqrt(math.pi) / 2)
        y = y + step / (1.0 - y * step)
    y = where(a.equals(1.0), math.inf, y)
    return where(a <= 1.0, y, math.nan).copysign(v).to(x.dtype)
