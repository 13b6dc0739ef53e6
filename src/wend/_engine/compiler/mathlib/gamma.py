"""The logarithm of the gamma function, and its derivatives."""

from __future__ import annotations

import math
from typing import Final

from wend._engine.base import dtypes
from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.parts import repeat, wide
from wend._engine.compiler.mathlib.trigonometric import sin, tan
from wend._engine.ops.functions.tables import BERNOULLI

#: From here on the asymptotic series are exact enough.
_FAR: Final = 10.0


def lgamma(x: Operand) -> Operand:
    """log |gamma(x)|."""
    y = wide(x)
    logarithm = _by_library(y) if x.b.calls_library else _lgamma(y)
    # As in SciPy and PyTorch, but not in C.
    return where(y.equals(-math.inf), y, logarithm).to(x.dtype)


def _by_library(y: Operand) -> Operand:
    """log |gamma(y)| of a float64, lane by lane by the C library."""
    b = y.b
    b.module.need("declare lgamma", lambda _: "declare double @lgamma(double)")
    kind = b.type_of(dtypes.float64)
    total = "poison"
    for lane in range(b.lanes):
        one = y.value.name
        if b.lanes > 1:
            one = b.text.let(f"extractelement {kind} {one}, i64 {lane}")
        one = b.text.let(f"call double @lgamma(double {one})")
        if b.lanes > 1:
            one = b.text.let(f"insertelement {kind} {total}, double {one}, i64 {lane}")
        total = one
    return y.made(total, y.dtype)


def _lgamma(y: Operand) -> Operand:
    """log |gamma(y)| of a float64; near 1, 2 and zeros below 0 to an absolute error of 1e-14."""
    below = y < 0.5
    above = _lgamma_above(where(below, 1.0 - y, y))
    # gamma(x) gamma(1 - x) = pi / sin(pi x), whose period is 2.
    sine = abs(sin((y - y.round()) * math.pi))
    return where(below, (math.pi / sine).call("log") - above, above)


def _lgamma_above(x: Operand) -> Operand:
    """log gamma(x) of x >= 1/2, by Stirling's series."""

    def step(state: list[Operand]) -> list[Operand]:
        z, product = state
        near = z < _FAR
        return [where(near, z + 1.0, z), where(near, product * z, product)]

    z, product = repeat([x, x.constant(1.0)], lambda state: state[0] < _FAR, step)
    inverse = 1.0 / z
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    series = inverse * (inverse * inverse).polynomial(terms)
    log = z.call("log")
    rest = series + 0.5 * math.log(2 * math.pi) - product.call("log")
    return where(z.equals(math.inf), z, (log - 1.0) * z - log * 0.5 + rest)


def digamma(x: Operand) -> Operand:
    """Derivative of lgamma; at 0 infinite, of the sign opposite to that of 0."""
    y = wide(x)
    below = y < 0.5
    psi = _digamma_above(where(below, 1.0 - y, y))
    # psi(x) = psi(1 - x) - pi / tan(pi x), whose period is 1.
    fraction = y - y.round()
    psi = where(below, psi - math.pi / tan(fraction * math.pi), psi)
    pole = y.equals(y.trunc()) & (y < 0.0)
    psi = where(pole | y.equals(-math.inf), math.nan, psi)
    psi = where(y.equals(0.0), y.constant(-math.inf).copysign(-y), psi)
    return psi.to(x.dtype)


def _digamma_above(x: Operand) -> Operand:
    """psi(x) of x >= 1/2."""

    def step(state: list[Operand]) -> list[Operand]:
        z, total = state
        near = z < _FAR
        return [where(near, z + 1.0, z), where(near, total - 1.0 / z, total)]

    z, total = repeat([x, x.constant(0.0)], lambda state: state[0] < _FAR, step)
    inverse = 1.0 / (z * z)
    terms = [-b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
    series = inverse * inverse.polynomial(terms)
    log = z.call("log")
    return total + (log + (series - 0.5 / z))


def polygamma(x: Operand, n: int) -> Operand:
    """n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    y = wide(x)
    s = n + 1
    below = y < 0.0
    # zeta(s, x) is a sum over all x + k, k >= 0. For x < 0: over all whole k, a function of the
    # fraction u of x alone, less that over k < 0.
    u = y - y.floor()
    sign = (-1.0) ** s
    total = _zeta(s, where(below, u, y))
    both = total + sign * (_zeta(s, 1.0 - u) - _zeta(s, where(below, 1.0 - y, 1.0)))
    zeta = where(below, both, total)
    pole = y.equals(y.trunc()) & (y <= 0.0)
    zeta = where(pole, math.inf, zeta)
    return (zeta * (math.factorial(n) * (-1.0) ** s)).to(x.dtype)


def _zeta(s: int, q: Operand) -> Operand:
    """sum over k >= 0 of (q + k) ** -s, q >= 0, by Euler's and Maclaurin's formula."""
    total = q.constant(0.0)
    for k in range(int(_FAR)):
        total = total + _inverse_power(q + float(k), s)
    z = q + _FAR
    total = total + _inverse_power(z, s - 1) * (1.0 / (s - 1)) + _inverse_power(z, s) * 0.5
    factor, inverse = float(s), _inverse_power(z, s + 1)
    for k, b in enumerate(BERNOULLI, 1):
        total = total + inverse * (b * factor / math.factorial(2 * k))
        factor *= (s + 2 * k - 1) * (s + 2 * k)
        inverse = inverse / (z * z)
    return total


def _inverse_power(x: Operand, s: int) -> Operand:
    """x ** -s by repeated multiplication."""
    product, base, rest = None, x, s
    while rest:
        if rest & 1:
            product = base if product is None else product * base
        base, rest = base * base, rest >> 1
    assert product is not None
    return 1.0 / product
