"""The functions that processors have no instruction for, as formulas over `Operand`s.

Each works on any number of lanes, in float32 and float64 (halves never come here).  Results lie
within 2 ulp of the exact value (`normal_gate` and `normal_slope` within 5e-7 of float32).  Results
for NaN, infinities, zeros and subnormal numbers are those of IEEE 754 and C; no lane traps.
float32 functions that are seldom the bottleneck are computed in float64 by shorter polynomials.
Coefficients are minimax fits, found by `benchmarks/fits.py`.

A function that some op's `emit` calls becomes an LLVM function of its own, inlined everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wend._engine.base.dtypes import FLOAT, INT
from wend._engine.compiler.mathlib import (
    bessel,
    errorfunction,
    exact,
    exponential,
    gamma,
    hyperbolic,
    logarithm,
    power,
    trigonometric,
)

#: name -> (formula, number of operands). The names are instructions of `Builder`.
FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], int]]] = {
    "exp": (exponential.exp, 1),
    "exp_of_negative": (exponential.exp_of_negative, 1),
    "exp2": (exponential.exp2, 1),
    "expm1": (exponential.expm1, 1),
    "sigmoid": (exponential.sigmoid, 1),
    "log": (logarithm.log, 1),
    "log1p": (logarithm.log1p, 1),
    "log2": (logarithm.log2, 1),
    "log10": (logarithm.log10, 1),
    "sin": (trigonometric.sin, 1),
    "cos": (trigonometric.cos, 1),
    "tan": (trigonometric.tan, 1),
    "asin": (trigonometric.asin, 1),
    "acos": (trigonometric.acos, 1),
    "atan": (trigonometric.atan, 1),
    "atan2": (trigonometric.atan2, 2),
    "sinh": (hyperbolic.sinh, 1),
    "cosh": (hyperbolic.cosh, 1),
    "tanh": (hyperbolic.tanh, 1),
    "asinh": (hyperbolic.asinh, 1),
    "acosh": (hyperbolic.acosh, 1),
    "atanh": (hyperbolic.atanh, 1),
    "erf": (errorfunction.erf, 1),
    "erfc": (errorfunction.erfc, 1),
    "erfinv": (errorfunction.erfinv, 1),
    "normal_gate": (errorfunction.normal_gate, 1),
    "normal_slope": (errorfunction.normal_slope, 1),
    "i0e": (bessel.i0e, 1),
    "i1e": (bessel.i1e, 1),
    "lgamma": (gamma.lgamma, 1),
    "digamma": (gamma.digamma, 1),
    "polygamma": (gamma.polygamma, 1),
    "pow": (power.pow, 2),
    "hypot": (power.hypot, 2),
    "fmod": (exact.fmod, 2),
    "nextafter": (exact.nextafter, 2),
    "trunc_divide": (exact.trunc_divide, 2),
    "gcd": (exact.gcd, 2),
}
#: Categories of operands, where these are not floats.
TAKES: Final = {"pow": (INT, FLOAT), "trunc_divide": (INT,), "gcd": (INT,)}
