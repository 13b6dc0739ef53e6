"""How far the generated mathematical functions are from the exact values, in ulp.

python benchmarks/ulp.py                      # every float32: half a minute a function
python benchmarks/ulp.py --every 1009 exp     # every 1009th, judged by NumPy
python benchmarks/ulp.py --double             # float64: a sample of a million each

An ulp is the distance of neighbouring floats at the exact value; 0.5 is the best there can be.
All float32 are judged by the float64 functions of the same library, in one loop of generated code;
a part of them (--every) by NumPy's and SciPy's float64.  float64 is judged by NumPy's long double
and, where NumPy has no function, by mpmath if it is installed (in a smaller sample).  Functions of
two operands are sampled: pow 10**8 times.  Of periodic functions only the float32 below 2**17 are
looked at: far beyond, the C library computes them.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from bench import publish
from loops import LANES, judge, loop

from wend._engine.base import dtypes

Array = Any
CHUNK = 1 << 16
COLUMNS = ["function", "dtype", "values", "worst", "at", "wrong zeros", "seconds"]
UNARY = """exp exp2 expm1 sigmoid log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh
asinh acosh atanh erf erfc erfinv""".split()
PERIODIC = "sin cos tan".split()
BINARY = "pow atan2 hypot".split()
_NUMPY = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "atan2": "arctan2", "pow": "power",
}  # fmt: skip


def reference(name: str) -> Callable[..., Array] | None:
    """The function of NumPy or, in float64 only, of SciPy; None if neither has it."""
    if name == "sigmoid":
        return lambda x: 1 / (1 + np.exp(-x))
    return getattr(np, _NUMPY.get(name, name), None)


def reference_of_singles(name: str) -> Callable[..., Array]:
    """A function of float64, near enough to judge float32."""
    found = reference(name)
    if found is None:
        from scipy import special

        found = getattr(special, name)
    assert found is not None
    return found


def errors(got: Array, want: Array, digits: int, least: float) -> Array:
    """Distances in ulp of a type with `digits` after the point, least number `least`."""
    scale = np.frexp(want)[1] - (digits + 1)
    ulp = np.maximum(np.ldexp(want.dtype.type(1), scale), want.dtype.type(least))
    found = np.abs(got.astype(want.dtype) - want) / ulp
    rounded = want.astype(got.dtype)
    same = (got == rounded) & ~np.isfinite(rounded) | np.isnan(got) & np.isnan(want)
    found[same] = 0
    found[np.isnan(found)] = np.inf
    return found


def worst_of_singles(got: Array, want: Array) -> tuple[float, int]:
    """(largest error, where) of float32 results; the quick way unless something is odd."""
    # An ulp is the power of 2 below the exact value, less 23 digits.
    power = (want.view(np.int64) & (0x7FF << 52)).view(np.float64)
    ulp = np.maximum(power * 2.0**-23, 2.0**-149)
    found = np.abs(got - want) / ulp
    at = int(found.argmax())
    if not found[at] < 1e3:  # NaN, infinities
        found = errors(got, want, 23, 2.0**-149)
        at = int(found.argmax())
    return float(found[at]), at


def every_single(step: int) -> Iterator[Array]:
    """All float32, or every step-th one, in chunks."""
    for start in range(0, 1 << 32, CHUNK * step):
        end = min(start + CHUNK * step, 1 << 32)
        bits = np.arange(start, end, step, dtype=np.uint64).astype(np.uint32)
        yield np.resize(bits, CHUNK).view(np.float32)


def pairs(count: int) -> Iterator[tuple[Array, Array]]:
    """float32 operands of functions of two: of many magnitudes, and of few."""
    rng = np.random.default_rng(0)
    for turn in range(count // CHUNK):
        if turn % 2:
            words = rng.integers(0, 1 << 32, (2, CHUNK), dtype=np.uint32)
            words[0] &= 0x7FFFFFFF  # most powers of negative numbers are NaN
            x, y = words.view(np.float32)
        else:
            x = np.exp(rng.uniform(-20, 20, CHUNK)).astype(np.float32)
            y = rng.uniform(-10, 10, CHUNK).astype(np.float32)
        yield x, y


def doubles(name: str, count: int) -> Iterator[Array]:
    """float64 operands where the function is neither constant nor NaN."""
    rng = np.random.default_rng(0)
    low, high = _RANGE.get(name, (-50.0, 50.0))
    for turn in range(max(count // CHUNK, 1)):
        if turn % 2 and low < 0 < high:
            yield np.exp(rng.uniform(-700, np.log(high), CHUNK)) * rng.choice((-1, 1), CHUNK)
        else:
            yield rng.uniform(low, high, CHUNK)


_RANGE = {
    "exp": (-745.0, 709.0), "exp2": (-1074.0, 1023.0), "expm1": (-40.0, 709.0),
    "sigmoid": (-709.0, 40.0), "log": (0.0, 10.0), "log2": (0.0, 10.0), "log10": (0.0, 10.0),
    "log1p": (-1.0, 10.0), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "atanh": (-1.0, 1.0),
    "acosh": (1.0, 50.0), "sinh": (-710.0, 710.0), "cosh": (-710.0, 710.0), "tanh": (-20.0, 20.0),
    "sin": (-1e5, 1e5), "cos": (-1e5, 1e5), "tan": (-1e5, 1e5), "erf": (-6.0, 6.0),
    "erfc": (-6.0, 27.0), "erfinv": (-1.0, 1.0),
}  # fmt: skip


def by_mpmath(name: str) -> Callable[[Array], Array] | None:
    """The function in long double by mpmath, slowly; None if it is not installed."""
    if importlib.util.find_spec("mpmath") is None:
        return None
    import mpmath

    mpmath.mp.dps = 40
    function = getattr(mpmath, name)

    def exact(x: float) -> Any:
        y = function(mpmath.mpf(x))
        head = float(y)
        return np.longdouble(head) + np.longdouble(float(y - mpmath.mpf(head)))

    return lambda x: np.array([exact(float(v)) for v in x], np.longdouble)


class Worst:
    """The largest error so far, where it was, and zeros of the wrong sign."""

    def __init__(self) -> None:
        self.error, self.at, self.count = 0.0, "", 0
        self.zeros: int | None = 0

    def add(self, error: float, at: str, got: Array, want: Array) -> None:
        self.count += len(got)
        zero = got == 0
        if zero.any():
            self.zeros = (self.zeros or 0) + int(
                (np.signbit(got[zero]) != np.signbit(want[zero])).sum()
            )
        if error > self.error:
            self.error, self.at = error, at


def run(function: Any, inputs: tuple[Array, ...]) -> Array:
    """The generated function's results."""
    inputs = tuple(map(np.ascontiguousarray, inputs))
    result = np.empty_like(inputs[0])
    function(*(x.ctypes.data for x in inputs), result.ctypes.data, result.size)
    return result


def measure_single(name: str, step: int, samples: int) -> Worst:
    worst, function = Worst(), loop(name, dtypes.float32)
    exact = reference_of_singles(name)
    inputs: Iterator[tuple[Array, ...]]
    inputs = pairs(samples) if name in BINARY else ((x,) for x in every_single(step))
    for row in inputs:
        got = run(function, row)
        want = exact(*(x.astype(np.float64) for x in row))
        error, at = worst_of_singles(got, want)
        worst.add(error, ", ".join(repr(float(x[at])) for x in row), got, want)
    return worst


def measure_every_single(name: str) -> Worst:
    worst, function = Worst(), judge(name)
    error, where = np.zeros(LANES), np.zeros(LANES, np.uint32)
    step = 1 << 27
    parts = 9 if name in PERIODIC else 16  # of 16 equal parts, the first 9 end at 2**17
    starts = [sign | i * step for sign in (0, 1 << 31) for i in range(parts)]
    for start in starts:
        function(error.ctypes.data, where.ctypes.data, start, step)
        at = int(error.argmax())
        worst.count += step
        if error[at] > worst.error:
            worst.error, worst.at = float(error[at]), repr(float(where.view(np.float32)[at]))
    worst.zeros = None  # nobody looked
    return worst


def measure_double(name: str, samples: int) -> Worst | None:
    exact = reference(name)
    if exact is None:
        exact, samples = by_mpmath(name), min(samples, CHUNK)
    if exact is None:
        return None
    worst, function = Worst(), loop(name, dtypes.float64)
    for x in doubles(name, samples):
        got, want = run(function, (x,)), exact(x.astype(np.longdouble))
        found = errors(got, want, 52, 2.0**-1074)
        at = int(found.argmax())
        worst.add(float(found[at]), repr(float(x[at])), got, want)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="functions; all if none is named")
    parser.add_argument("--every", type=int, default=1, help="of float32, only every N-th")
    parser.add_argument("--samples", type=int, default=None, help="of pairs, or of float64")
    parser.add_argument("--double", action="store_true", help="float64 instead of float32")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    np.seterr(all="ignore")
    for name in options.names or (UNARY if options.double else UNARY + BINARY):
        start = time.perf_counter()
        if options.double:
            worst = measure_double(name, options.samples or 10**6)
        elif options.every == 1 and name in UNARY:
            worst = measure_every_single(name)
        else:
            worst = measure_single(name, options.every, options.samples or 10**8)
        if worst is None:
            continue
        dtype = "float64" if options.double else "float32"
        seconds = f"{time.perf_counter() - start:.0f}"
        found = (name, dtype, worst.count, round(worst.error, 3), worst.at, worst.zeros, seconds)
        rows.append(dict(zip(COLUMNS, found, strict=True)))
        print(*found, file=sys.stderr, flush=True)
    publish("ulp_double" if options.double else "ulp", rows, COLUMNS)


if __name__ == "__main__":
    main()
