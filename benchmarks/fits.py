"""The coefficients of the generated mathematical functions, and how they were found.

python benchmarks/fits.py              # prints all tables, with the binary logarithm of their error
python benchmarks/fits.py exp sinh

Minimax polynomials by Remez' algorithm in 70 digits (needs mpmath): of all polynomials of a length,
that whose largest weighted error is smallest.  The weight makes it the relative error of the result
that the polynomial goes into.  What is printed is what stands in
`wend._engine.compiler.mathlib`, give or take the last digits, which the search does not settle.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
from mpmath import mpf

mpmath.mp.dps = 70
Function = Callable[[Any], Any]
_TURNS = 12


def remez(f: Function, low: Any, high: Any, count: int, weight: Function) -> tuple[list[Any], Any]:
    """(coefficients, largest error) of the best polynomial of `count` terms on [low, high]."""
    low, high = mpf(low), mpf(high)

    def nodes(n: int, shift: Any) -> list[Any]:
        middle, half = (low + high) / 2, (high - low) / 2
        return [middle - half * mpmath.cos(mpmath.pi * (k + shift) / n) for k in range(n)]

    reach = abs(low) + abs(high)
    grid = [x for x in nodes(max(40 * count, 400), mpf("0.5")) if abs(x) > reach * mpf("1e-12")]
    values, weights = [f(x) for x in grid], [weight(x) for x in grid]
    points = nodes(count + 1, mpf("0.47"))
    best: tuple[list[Any], Any] = ([], mpmath.inf)
    for _ in range(_TURNS):
        coefficients, level = levelled(f, points, count, weight)
        errors = [
            (mpmath.polyval(coefficients[::-1], x) - v) * w
            for x, v, w in zip(grid, values, weights, strict=True)
        ]
        worst = max(map(abs, errors))
        if worst < best[1]:
            best = coefficients, worst
        peaks = alternating(errors)
        if worst < level * mpf("1.0005") or len(peaks) <= count:
            break
        while len(peaks) > count + 1:  # the least of the outermost goes
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        points = [grid[k] for k in peaks]
    return best


def levelled(f: Function, points: list[Any], count: int, weight: Function) -> tuple[list[Any], Any]:
    """The polynomial whose weighted errors at the points are equal but for alternating signs."""
    n = count + 1
    matrix, right = mpmath.matrix(n, n), mpmath.matrix(n, 1)
    for i, x in enumerate(points):
        w = weight(x)
        for j in range(count):
            matrix[i, j] = w * x**j
        matrix[i, count], right[i] = (-1) ** i, w * f(x)
    solved = list(mpmath.lu_solve(matrix, right))
    return solved[:count], abs(solved[count])


def alternating(errors: list[Any]) -> list[int]:
    """Where the error is largest between one change of its sign and the next."""
    peaks, start = [], 0
    for i in range(1, len(errors) + 1):
        if i == len(errors) or (errors[i] > 0) != (errors[start] > 0):
            peaks.append(max(range(start, i), key=lambda k: abs(errors[k])))
            start = i
    return peaks


class Fit(NamedTuple):
    """What is fitted: function, interval, weight, numbers of terms."""

    function: Function
    low: Any
    high: Any
    weight: Function
    counts: tuple[int, ...]


def _in_square(g: Function, first: Any, power: int) -> Function:
    """(g(r) / r - first) / r**power as a function of z = r**2."""

    def function(z: Any) -> Any:
        r = mpmath.sqrt(z)
        return (g(r) / r - first) / z ** (power // 2)

    return function


def _erfc(center: Any) -> Function:
    def function(t: Any) -> Any:
        x = center * (1 + t) / (1 - t)
        return mpmath.exp(x * x) * mpmath.erfc(x) * (1 + 2 * x)

    return function


def _inverse(w: Any) -> Any:
    """erfinv(x) / x of w = -log(1 - x**2)."""
    x = mpmath.sqrt(-mpmath.expm1(-w))
    return mpmath.erfinv(x) / x


def tables() -> dict[str, Fit]:
    """All fits by name."""
    m = mpmath
    half, root = m.log(2) / 2 * mpf("1.0001"), m.sqrt(2) - 1
    low = m.sqrt(mpf("0.5")) - 1
    quarter = (m.pi / 4) ** 2 * mpf("1.002")
    slope = root / (2 + root)
    erf, tanh = (lambda z: m.erf(m.sqrt(z)) / m.sqrt(z)), _in_square(m.tanh, 1, 2)

    def cosine(z: Any) -> Any:
        return (m.cos(m.sqrt(z)) - 1 + z / 2) / z**2

    def tail(center: Any, end: Any, counts: tuple[int, ...]) -> Fit:
        ends = [(mpf(x) - center) / (mpf(x) + center) for x in ("0.46", end)]
        f = _erfc(center)
        return Fit(f, *ends, lambda t: 1 / f(t), counts)

    def log_ratio(z: Any) -> Any:
        s = m.sqrt(z)
        return (2 * m.atanh(s) - 2 * s) / s**3

    def near(u: Any) -> Any:
        return _inverse(u + mpf("2.5"))

    def far(s: Any) -> Any:
        return _inverse((s + 3) ** 2)

    def bessel(order: int, distant: bool) -> Fit:
        """exp(-x) I(x) / x**order of x = 4 (t + 1), or sqrt(x) exp(-x) I(x) of x = 16 / (t + 1)."""

        def f(t: Any) -> Any:
            x = 16 / (t + 1) if distant else 4 * (t + 1)
            factor = m.sqrt(x) if distant else mpf(1) / x**order
            return factor * m.exp(-x) * m.besseli(order, x)

        low = mpf("-0.9999999")  # at the end itself f is a limit
        return Fit(f, low, "1.0001" if distant else 1, lambda t: 1 / f(t), (22 if distant else 28,))

    one, relative = (lambda z: z), slope**2 * mpf("1.001")
    return {
        "exp": Fit(
            lambda r: (m.expm1(r) - r) / r**2, -half, half, lambda r: r * r / m.exp(r), (5, 6, 11)
        ),
        "exp2": Fit(
            lambda r: (mpf(2) ** r - 1) / r, "-.5", ".5", lambda r: r / mpf(2) ** r, (6, 7, 12)
        ),
        "log": Fit(
            lambda f: (m.log1p(f) - f) / f**2, low, root, lambda f: f * f / m.log1p(f), (9,)
        ),
        "log2": Fit(
            lambda f: m.log1p(f) / f / m.log(2), low, root, lambda f: f / m.log1p(f), (10,)
        ),
        "log10": Fit(
            lambda f: m.log1p(f) / f / m.log(10), low, root, lambda f: f / m.log1p(f), (10,)
        ),
        "log of ratio": Fit(log_ratio, 0, relative, one, (5, 7)),
        "log of ratio, rest": Fit(
            lambda z: (log_ratio(z) - mpf(2) / 3) / z, 0, relative, lambda z: z * z, (9,)
        ),
        "sin": Fit(_in_square(m.sin, 1, 2), 0, quarter, one, (3, 4, 6)),
        "cos": Fit(cosine, 0, quarter, lambda z: z * z, (3, 4, 6)),
        "atan": Fit(_in_square(m.atan, 1, 2), 0, m.tan(m.pi / 8) ** 2 * mpf("1.001"), one, (6, 11)),
        "asin": Fit(_in_square(m.asin, 1, 2), 0, "0.2501", one, (7, 13)),
        "sinh": Fit(_in_square(m.sinh, 1, 2), 0, "1.001", one, (7,)),
        "asinh": Fit(_in_square(m.asinh, 1, 2), 0, "0.2501", one, (13,)),
        "tanh": Fit(tanh, 0, mpf("0.55") ** 2 * mpf("1.001"), one, (11,)),
        "erf": Fit(lambda z: erf(z) - 1, 0, "0.7225", lambda z: 1 / erf(z), (6,)),
        "erf of float64": Fit(lambda z: erf(z) - 1, 0, "1.001", lambda z: 1 / erf(z), (14,)),
        "log of erfc": Fit(lambda t: m.log(m.erfc(t)), "0.84", 4, m.erfc, (8,)),
        "log2 of Phi": Fit(
            lambda a: m.log(m.ncdf(-a), 2), 0, "5.5", lambda a: max(m.ncdf(-a), mpf("0.05")), (11,)
        ),
        "erfc": tail(mpf("2.5"), "10.2", (12,)),
        "erfc of float64": tail(mpf("3.75"), "27.5", (23,)),
        "erfinv, near": Fit(near, "-2.5", "2.5", lambda u: 1 / near(u), (14,)),
        "erfinv, far": Fit(far, m.sqrt(5) - 3, "1.25", lambda s: 1 / far(s), (11,)),
        "erfinv, far, of float64": Fit(far, m.sqrt(5) - 3, "3.2", lambda s: 1 / far(s), (14,)),
        **{
            f"i{n}e, {'far' if distant else 'near'}": bessel(n, distant)
            for n in (0, 1)
            for distant in (False, True)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of names; all if none is given")
    wanted = parser.parse_args().names
    for name, fit in tables().items():
        if wanted and not name.startswith(tuple(wanted)):
            continue
        for count in fit.counts:
            found, error = remez(fit.function, fit.low, fit.high, count, fit.weight)
            print(f"{name}, {count} terms, error 2**{float(mpmath.log(error, 2)):.1f}")
            print("   ", ", ".join(repr(float(c)) for c in found))


if __name__ == "__main__":
    main()
