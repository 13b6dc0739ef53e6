"""pow and hypot."""

from __future__ import annotations

import math

from wend._engine.base.dtypes import INT
from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.exponential import SHORT2, exp2_of_sum
from wend._engine.compiler.mathlib.logarithm import log2_in_two, natural_of_single
from wend._engine.compiler.mathlib.parts import repeat, two_product, wide


def pow(x: Operand, y: Operand) -> Operand:
    """x ** y; of ints by repeated squaring, which wraps; y < 0: the whole part of 1 / x**-y."""
    if x.dtype.category == INT:
        return _int_power(x, y)
    v, u = wide(x), wide(y)
    a = abs(v)
    # A log of infinities and zeros is put in by hand: the formula is for finite numbers above 0.
    edge = where(a.equals(0.0), a.constant(-math.inf), math.inf)
    edge = where(a.is_nan(), a, edge)
    plain = (a > 0.0) & (a < math.inf)
    inner = where(plain, a, 1.0)
    if x.is_double:
        high, low = log2_in_two(inner)
        high, low = where(plain, high, edge), where(plain, low, 0.0)
        e, e_low = two_product(u, high)
        e_low = u.fma(low, e_low)
        # Where the product is infinite, the lost part is not a number.
        e_low = where(abs(e) < 2000.0, e_low, 0.0)
    else:
        high = where(plain, natural_of_single(inner, _SHORT_LOG) * _LOG2_E, edge)
        e, e_low = u * high, None
    e = e.at_least(-1080.0).at_most(1030.0)
    n = e.round()
    r = e - n
    if e_low is None:
        power = exp2_of_sum(r, n, SHORT2)
    else:
        power = exp2_of_sum(r + e_low, n)
    return _signs(v, u, power).to(x.dtype)


_LOG2_E = 1.4426950408889634
# (log((1 + s) / (1 - s)) - 2 s) / s**3 in s**2: an error of log2 is multiplied by the exponent.
_SHORT_LOG = (
    0.6666666666666735,
    0.39999999999411123,
    0.2857142874325655,
    0.22222198476535607,
    0.18183569713907372,
    0.15313903868413864,
    0.14797501706600352,
)


def _signs(x: Operand, y: Operand, power: Operand) -> Operand:
    """x ** y from |x| ** y: signs of negative x, and the exceptions of C's pow."""
    whole = y.trunc().equals(y)
    half = y * 0.5
    odd = whole & half.trunc().differs(half)
    negative = x.copysign(1.0).equals(x) ^ x.equals(x)
    negative = negative | (x.equals(0.0) & ((x.constant(1.0).copysign(x)) < 0.0))
    power = where(negative & odd, -power, power)
    broken = (x < 0.0) & ~whole & (x > -math.inf)
    power = where(broken, math.nan, power)
    ones = y.equals(0.0) | x.equals(1.0)
    ones = ones | (x.equals(-1.0) & abs(y).equals(math.inf))
    return where(ones, 1.0, power)


def _int_power(x: Operand, y: Operand) -> Operand:
    one, zero = x.constant(1), x.constant(0)
    rest = y
    if x.dtype.is_signed:
        rest = where(y < 0, zero, y)

    def square(state: list[Operand]) -> list[Operand]:
        result, base, left = state
        result = where((left & 1).differs(0), result * base, result)
        return [result, base * base, left.logical_shift(1)]

    result, _, _ = repeat([one, x, rest], lambda state: state[2].differs(0), square)
    if not x.dtype.is_signed:
        return result
    # 1 / x**-y is whole for x of 1 and -1 only.
    units = where(x.equals(1), one, zero)
    units = where(x.equals(-1), where((y & 1).differs(0), x, one), units)
    return where(y < 0, units, result)


def hypot(x: Operand, y: Operand) -> Operand:
    """sqrt(x**2 + y**2), which neither overflows nor underflows on the way."""
    a, b = abs(wide(x)), abs(wide(y))
    if x.is_double:
        large = where(a > b, a, b)
        small = where(a > b, b, a)
        scale = where(large > 2.0**500, large.constant(2.0**-600), 1.0)
        scale = where(large < 2.0**-500, 2.0**600, scale)
        u, v = large * scale, small * scale
        p, lost = two_product(u, u)
        q, more = two_product(v, v)
        total = p + q
        rest = ((p - total) + q) + (lost + more)
        root = total.sqrt()
        # A step of Newton's method, with the digits that total and root have lost.
        error = (-root).fma(root, total) + rest
        step = where(root > 0.0, error / (root + root), 0.0)
        length = (root + where(root < math.inf, step, 0.0)) * (1.0 / scale)
    else:
        length = a.fma(a, b * b).sqrt()
    infinite = a.equals(math.inf) | b.equals(math.inf)
    return where(infinite, math.inf, length).to(x.dtype)
