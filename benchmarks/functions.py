"""Nanoseconds an element that generated mathematical functions take, beside PyTorch's.

python benchmarks/functions.py
python benchmarks/functions.py exp tanh --double

One thread, data in the first-level cache, all in one process, taking turns: a short and a long
call of each side, whose difference is free of what a call costs.  The best of many: other programs
only ever slow one down.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench import ONE_THREAD, publish
from loops import loop

from wend._engine.base import dtypes

NAMES = """exp exp2 expm1 sigmoid log log1p log2 log10 tanh sin cos tan erf erfc asin acos atan sinh
cosh asinh acosh atanh erfinv lgamma digamma""".split()
COLUMNS = ["function", "dtype", "wend ns", "torch ns", "torch / wend", "low", "high"]
Call = Callable[[int], Any]


def best_of(call: Call, n: int, turns: int = 60) -> float:
    """The shortest of many calls, in nanoseconds."""
    found = float("inf")
    for _ in range(turns):
        start = time.perf_counter_ns()
        call(n)
        call(n)
        found = min(found, (time.perf_counter_ns() - start) / 2)
    return found


def per_element(call: Call, short: int, long: int) -> float:
    return (best_of(call, long) - best_of(call, short)) / (long - short)


def sides(name: str, double: bool, long: int) -> tuple[Call, Call]:
    """Wend's and PyTorch's function of the first n of `long` numbers."""
    import torch

    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 0.9, long) + (1.0 if name == "acosh" else 0.0)
    x = x.astype(np.float64 if double else np.float32)
    y = np.empty_like(x)
    kernel = loop(name, dtypes.float64 if double else dtypes.float32)
    given, made = x.ctypes.data, y.ctypes.data
    tensor = torch.from_numpy(x.copy())
    out = torch.empty_like(tensor)
    function = getattr(torch, name)

    def generated(n: int, keep: Any = (x, y)) -> None:
        kernel(given, made, n)

    return generated, lambda n: function(tensor[:n], out=out[:n])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="functions; all if none is named")
    parser.add_argument("--double", action="store_true", help="float64 instead of float32")
    parser.add_argument("--passes", type=int, default=7)
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    import torch

    torch.set_num_threads(1)
    short, long = (512, 2560) if options.double else (1024, 5120)
    rows: list[dict[str, Any]] = []
    for name in options.names or NAMES:
        wend, other = sides(name, options.double, long)
        times = [
            (per_element(wend, short, long), per_element(other, short, long))
            for _ in range(options.passes)
        ]
        ratios = sorted(b / a for a, b in times)
        found = (min(a for a, _ in times), min(b for _, b in times))
        rows.append(
            {
                "function": name,
                "dtype": "float64" if options.double else "float32",
                "wend ns": round(found[0], 3),
                "torch ns": round(found[1], 3),
                "torch / wend": round(ratios[len(ratios) // 2], 2),
                "low": round(ratios[0], 2),
                "high": round(ratios[-1], 2),
            }
        )
    publish("functions_double" if options.double else "functions", rows, COLUMNS)


if __name__ == "__main__":
    main()
