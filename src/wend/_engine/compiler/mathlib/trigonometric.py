"""sin, cos, tan and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.far_angles import nearest_quadrant
from wend._engine.compiler.mathlib.parts import nearest, rarely, two_sum, whole_bits, wide

# fmt: off
# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2 for |r| <= pi / 4, for
# results of float32 and of float64 computed in float64, and for float32 alone
_SIN: Final = {
    False: (-0.16666666641428007, 0.00833332936245005, -0.00019839327189267094,
            2.718237753778253e-06),
    True: (-0.16666666666666632, 0.008333333333322316, -0.000198412698297257,
           2.755731366221963e-06, -2.5050753288535336e-08, 1.5896506263235872e-10),
}
_COS: Final = {
    False: (0.04166666662247853, -0.00138888837227532, 2.4799511796871933e-05,
            -2.7209550353588656e-07),
    True: (0.0416666666666666, -0.001388888888887399, 2.4801587289395262e-05,
           -2.755731432612787e-07, 2.0875719571800227e-09, -1.1359449348431038e-11),
}
_SIN_SINGLE: Final = (-0.16666654873489306, 0.008332173549436548, -0.00019516656817289955)
_COS_SINGLE: Final = (0.04166664555482615, -0.0013887309882334678, 2.4432414694532527e-05)
# (atan(t) / t - 1) / t**2 in t**2 for |t| <= tan(pi / 8)
_ATAN: Final = {
    False: (-0.33333332510110564, 0.1999990475990264, -0.14282029109053046, 0.11044924024998899,
            -0.0847741128718802, 0.047461227971657916),
    True: (-0.333333333333332, 0.19999999999953672, -0.14285714280204656, 0.11111110783841845,
           -0.09090897767801685, 0.07692060374138626, -0.06663105594705787, 0.058478984108104495,
           -0.050393354886658005, 0.038065075468555656, -0.01790747823332678),
}
# (asin(t) / t - 1) / t**2 in t**2 for |t| <= 1 / 2
_ASIN: Final = {
    False: (0.16666667191579304, 0.07499948007465305, 0.04466020563528738, 0.030109707833126192,
            0.024621909334592566, 0.007457829146050038, 0.034706973191557175),
    True: (0.16666666666666763, 0.07499999999970097, 0.04464285717528679, 0.030381942675250812,
           0.022372215906560074, 0.017351595491070192, 0.01398101861153363, 0.0113972926723636,
           0.010789322019597564, 0.0036721860169186653, 0.02179063543729699,
           -0.021116690054265086, 0.032702136015259634),
}
# fmt: on
# pi / 2 in three parts; products of the first two with whole numbers below 2**20 are exact.
_PARTS: Final = (
    float.fromhex("0x1.921fb544p+0"),
    float.fromhex("0x1.0b4611a6p-34"),
    float.fromhex("0x1.3198a2e037073p-69"),
)
_TWO_OVER_PI: Final = 0.6366197723675814
#: Beyond this limit the C library does the work, on accelerators `far_angles`.
_LARGE: Final = 1e6
# The same three parts of float32, and the limit beyond which float64 reduces the argument.
_PARTS_SINGLE: Final = (
    float.fromhex("0x1.921fb6p+0"),
    float.fromhex("-0x1.777a5cp-25"),
    float.fromhex("-0x1.ee59dap-50"),
)
_LARGE_SINGLE: Final = 3e4
# Multiples of pi / 4 in two parts.
_QUARTER: Final = (0.7853981633974483, 3.061616997868383e-17)
_HALF: Final = (1.5707963267948966, 6.123233995736766e-17)
_THREE: Final = (2.356194490192345, 9.184850993605148e-17)
_PI: Final = (3.141592653589793, 1.2246467991473532e-16)


class _Reduced(NamedTuple):
    """|x| = n pi / 2 + r, |r| <= pi / 4: sine and cosine of r, and the last bits of n.

    sine_low, cosine_low: the parts that the last roundings lost, for results of float64
    """

    sine: Operand
    cosine: Operand
    quadrant: Operand
    sine_low: Operand | None = None
    cosine_low: Operand | None = None


def _reduced(x: Operand, double: bool) -> _Reduced:
    """`_Reduced` of a float64 0 <= x < _LARGE, for results of float32 or float64."""
    first, second, third = _PARTS
    n = nearest(x, _TWO_OVER_PI)
    r = n.fma(-first, x)
    if not double:
        r = n.fma(-third, n.fma(-second, r))
        z = r * r
        sine = (r * z).fma(z.polynomial(_SIN[False]), r)
        cosine = (z * z).fma(z.polynomial(_COS[False]), 1.0 - z * 0.5)
        return _Reduced(sine, cosine, whole_bits(n))
    high = n.fma(-second, r)
    low = n.fma(-third, n.fma(-second, r - high))
    r = high + low
    return _precisely(r, (high - r) + low, whole_bits(n))


def _precisely(r: Operand, low: Operand, quadrant: Operand) -> _Reduced:
    """`_Reduced` of the rest r + low, to float64's precision."""
    z = r * r
    half = z * 0.5
    top = 1.0 - half
    sine, sine_low = two_sum(r, (r * z).fma(z.polynomial(_SIN[True]), low * top))
    rest = (z * z).fma(z.polynomial(_COS[True]), ((1.0 - top) - half) - r * low)
    cosine, cosine_low = two_sum(top, rest)
    return _Reduced(sine, cosine, quadrant, sine_low, cosine_low)


def _far(a: Operand) -> _Reduced:
    """`_Reduced` of a finite float64 >= _LARGE, to float64's precision."""
    n, r, low = nearest_quadrant(a)
    return _precisely(r, low, n)


def _reduced_single(x: Operand) -> _Reduced:
    """`_Reduced` of a float32 0 <= x < _LARGE_SINGLE."""
    n = nearest(x, _TWO_OVER_PI)
    first, second, third = _PARTS_SINGLE
    r = n.fma(-third, n.fma(-second, n.fma(-first, x)))
    z = r * r
    sine = (r * z).fma(z.polynomial(_SIN_SINGLE), r)
    cosine = (z * z).fma(z.polynomial(_COS_SINGLE), z.fma(-0.5, 1.0))
    return _Reduced(sine, cosine, whole_bits(n))


_Formula = Callable[[_Reduced, Operand], Operand]


def _periodic(name: str, formula: _Formula, single: bool) -> Callable[[Operand], Operand]:
    """A function of float64, and of float32: computed in float32 (single) or in float64."""

    def by_double(x: Operand) -> Operand:
        y = wide(x)
        a = abs(y)
        usual = formula(_reduced(a, x.is_double), y)
        # Infinities and NaN give NaN either way.
        large = (a > _LARGE) & (a < math.inf)

        def far() -> Operand:
            if y.b.calls_library:
                return Operand(y.b, y.b.intrinsic(name, y.value))
            return formula(_far(a), y)

        return rarely(large, usual, far).to(x.dtype)

    def function(x: Operand) -> Operand:
        if x.is_double or not single:
            return by_double(x)
        a = abs(x)
        return rarely(a > _LARGE_SINGLE, formula(_reduced_single(a), x), lambda: by_double(x))

    return function


def _with_sign(y: Operand, sign: Operand) -> Operand:
    """y, negated if the highest bit of the int is set."""
    top = 1 << 8 * y.dtype.itemsize - 1
    return (y.bits() ^ (sign & top)).from_bits()


def _odd(reduced: _Reduced) -> Operand:
    return (reduced.quadrant & 1).differs(0)


def _to_top(reduced: _Reduced, quadrant: Operand) -> Operand:
    """Bit 1 of the quadrant as the highest bit of an int."""
    return quadrant << 8 * reduced.sine.dtype.itemsize - 2


def _sine(reduced: _Reduced, x: Operand) -> Operand:
    y = where(_odd(reduced), reduced.cosine, reduced.sine)
    return _with_sign(y, _to_top(reduced, reduced.quadrant) ^ x.bits())


def _cosine(reduced: _Reduced, x: Operand) -> Operand:
    y = where(_odd(reduced), reduced.sine, reduced.cosine)
    return _with_sign(y, _to_top(reduced, reduced.quadrant + 1))


def _tangent(reduced: _Reduced, x: Operand) -> Operand:
    odd = _odd(reduced)
    above = where(odd, -reduced.cosine, reduced.sine)
    below = where(odd, reduced.sine, reduced.cosine)
    quotient = above / below
    if reduced.sine_low is not None and reduced.cosine_low is not None:
        rest = (-quotient).fma(below, above) + where(odd, -reduced.cosine_low, reduced.sine_low)
        rest = (-quotient).fma(where(odd, reduced.sine_low, reduced.cosine_low), rest)
        quotient = quotient + rest / below
    return _with_sign(quotient, x.bits())


sin = _periodic("sin", _sine, single=True)
cos = _periodic("cos", _cosine, single=True)
tan = _periodic("tan", _tangent, single=False)


def sine_and_cosine(x: Operand) -> tuple[Operand, Operand]:
    """Both of a float64 0 <= x < _LARGE, to float64's precision."""
    reduced = _reduced(x, True)
    return _sine(reduced, x), _cosine(reduced, x)


def asin(x: Operand) -> Operand:
    """Arc sine; NaN beyond -1 and 1."""
    y = wide(x)
    a = abs(y)
    p, large = _asin_parts(a, x.is_double)
    angle = where(large, _HALF[0] - ((p + p) - _HALF[1]), p)
    return angle.copysign(y).to(x.dtype)


def acos(x: Operand) -> Operand:
    """Arc cosine; NaN beyond -1 and 1."""
    y = wide(x)
    a = abs(y)
    p, large = _asin_parts(a, x.is_double)
    negative = y < 0.0
    near = _HALF[0] - (p.copysign(y) - _HALF[1])
    far = where(negative, _PI[0] - ((p + p) - _PI[1]), p + p)
    return where(large, far, near).to(x.dtype)


def _asin_parts(a: Operand, double: bool) -> tuple[Operand, Operand]:
    """(p, large): asin(a) is p, or pi / 2 - 2 p if a is large."""
    large = a > 0.5
    z = where(large, (1.0 - a) * 0.5, a * a)
    s = where(large, z.sqrt(), a)
    rest = s * z * z.polynomial(_ASIN[double])
    if double:  # and the part that the root has lost
        rest = rest + where(large & (s > 0.0), (-s).fma(s, z) * 0.5 / s, 0.0)
    return s + rest, large


def atan(x: Operand) -> Operand:
    """Arc tangent."""
    y = wide(x)
    a = abs(y)
    swap = a > 1.0
    # As `atan2`, with a finite numerator and denominator.
    one = a.constant(1.0)
    finite = a.at_most(1e300)
    angle = _angle(where(swap, one, a), where(swap, finite, one), swap, None, x.is_double)
    return angle.copysign(y).to(x.dtype)


def atan2(y: Operand, x: Operand) -> Operand:
    """The angle of the point (x, y), from -pi to pi."""
    v, u = wide(y), wide(x)
    a, b = abs(v), abs(u)
    infinite = a.equals(math.inf) & b.equals(math.inf)
    a, b = where(infinite, 1.0, a), where(infinite, 1.0, b)
    swap = a > b
    small = Operand(a.b, a.b.minimum(a.value, b.value))
    large = Operand(a.b, a.b.maximum(a.value, b.value))
    if y.is_double:  # the sum must not overflow; the smaller of two numbers far apart counts as 0
        factor = where(large > 1e300, large.constant(2.0**-100), 1.0)
        small, large = small * factor, large * factor
    large = where(large.equals(0.0), 1.0, large)
    negative = u.constant(1.0).copysign(u) < 0.0
    return _angle(small, large, swap, negative, y.is_double).copysign(v).to(y.dtype)


def _angle(
    small: Operand, large: Operand, swap: Operand, negative: Operand | None, double: bool
) -> Operand:
    """atan(small / large), subtracted from pi / 2 if `swap`, then from pi if `negative`."""
    turned = small > large * 0.41421356237309503  # (a - b) / (a + b) is pi / 4 less
    t = where(turned, small - large, small) / where(turned, small + large, large)
    z = t * t
    rest = t * z * z.polynomial(_ATAN[double])
    high = where(turned, t.constant(_QUARTER[0]), 0.0)
    low = where(turned, t.constant(_QUARTER[1]), 0.0)
    first = where(turned, t.constant(_QUARTER[0]), _HALF[0])
    high, low = where(swap, first, high), where(swap, where(turned, low, _HALF[1]), low)
    minus = swap
    if negative is not None:
        # pi less: of pi / 2, that is itself; of pi / 4, three times as much.
        other = where(turned, t.constant(_THREE[0]), where(swap, t.constant(_HALF[0]), _PI[0]))
        other_low = where(turned, t.constant(_THREE[1]), where(swap, t.constant(_HALF[1]), _PI[1]))
        high, low = where(negative, other, high), where(negative, other_low, low)
        minus = swap ^ negative
    t, rest = where(minus, -t, t), where(minus, -rest, rest)
    return high + ((rest + low) + t)
