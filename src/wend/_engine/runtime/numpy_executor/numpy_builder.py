"""The instructions of `emit` rules, carried out on NumPy arrays one by one.

No code is generated here.  The tests run every rule through this builder and compare with the op's
`reference`.  The code generator's builder follows the same protocol and passes the same tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ExecutionError
from wend._engine.ops.functions import bessel, errorfunction, gamma

Array = Any


class NumpyBuilder:
    """See `wend._engine.ops.builder.Builder`.  Values are ndarrays; constants are 0-d."""

    # -- types and constants ------------------------------------------------------------------

    def dtype(self, x: Array) -> DType:
        return dtypes.from_numpy(x.dtype)

    def constant(self, value: float, like: Array) -> Array:
        return np.asarray(value).astype(like.dtype)

    def convert(self, x: Array, dtype: DType) -> Array:
        if dtype is dtypes.bool_:
            return x != 0
        if dtype.category == dtypes.INT and x.dtype.kind not in "biu":
            return x.astype(np.int64).astype(dtype.numpy)
        return x.astype(dtype.numpy)

    def select(self, condition: Array, a: Array, b: Array) -> Array:
        self._check(condition.dtype == np.bool_, "select", condition)
        self._same("select", a, b)
        return np.where(condition, a, b)

    def complex(self, real: Array, imag: Array) -> Array:
        self._same("complex", real, imag)
        array = np.empty(np.broadcast(real, imag).shape, np.result_type(real, np.complex64))
        array.real, array.imag = real, imag
        return array

    def real(self, x: Array) -> Array:
        self._check(x.dtype.kind == "c", "real", x)
        return x.real

    def imag(self, x: Array) -> Array:
        self._check(x.dtype.kind == "c", "imag", x)
        return x.imag

    def require(self, condition: Array, message: str) -> None:
        if not np.all(condition):
            raise ExecutionError(message)

    # -- arithmetic ---------------------------------------------------------------------------

    def div(self, x: Array, y: Array) -> Array:
        self._same("div", x, y)
        self._check(x.dtype.kind not in "biu", "div", x)
        return x / y

    def trunc_divide(self, x: Array, y: Array) -> Array:
        self._same("trunc_divide", x, y)
        self._check(x.dtype.kind in "iu", "trunc_divide", x)
        self._no_zero("trunc_divide", y)
        # C's division, from Python's: exact, through magnitudes.
        quotient = np.abs(x).astype(np.uint64) // np.abs(y).astype(np.uint64)
        signed = quotient.astype(x.dtype)
        return np.where((x < 0) != (y < 0), -signed, signed) if x.dtype.kind == "i" else signed

    def fmod(self, x: Array, y: Array) -> Array:
        self._same("fmod", x, y)
        if x.dtype.kind in "iu":
            self._no_zero("fmod", y)
        return np.fmod(x, y)

    def pow(self, x: Array, y: Array) -> Array:
        self._same("pow", x, y)
        if x.dtype.kind not in "iu":
            return np.power(x, y)
        result = np.ones(np.broadcast(x, y).shape, x.dtype)
        base, rest = np.broadcast_to(x, result.shape).copy(), np.broadcast_to(y, result.shape)
        negative = rest < 0
        reciprocal = np.where(base == 1, 1, np.where(base.astype(np.float64) == -1, base, 0))
        even = np.where(rest & 1, reciprocal, reciprocal * reciprocal).astype(x.dtype)
        rest = np.where(negative, 0, rest)
        while rest.any():  # by repeated squaring, which wraps as the hardware does
            result = np.where(rest & 1, result * base, result)
            base, rest = base * base, rest >> 1
        return np.where(negative, even, result)

    def sigmoid(self, x: Array) -> Array:
        return (1 / (1 + np.exp(-x))).astype(x.dtype)

    def i0e(self, x: Array) -> Array:
        return bessel.i0e(x)

    def i1e(self, x: Array) -> Array:
        return bessel.i1e(x)

    def lgamma(self, x: Array) -> Array:
        return gamma.lgamma(x)

    def digamma(self, x: Array) -> Array:
        return gamma.digamma(x)

    def polygamma(self, n: int, x: Array) -> Array:
        return gamma.polygamma(n, x)

    def erf(self, x: Array) -> Array:
        return errorfunction.erf(x)

    def erfc(self, x: Array) -> Array:
        return errorfunction.erfc(x)

    def erfinv(self, x: Array) -> Array:
        return errorfunction.erfinv(x)

    def normal_gate(self, x: Array) -> Array:
        return x * self._share(x)

    def normal_slope(self, x: Array) -> Array:
        return self._share(x) + x * (np.exp(-0.5 * (x * x)) * math.sqrt(0.5 / math.pi))

    def _share(self, x: Array) -> Array:
        """The normal distribution's cumulative function."""
        return 0.5 * (1 + self.erf(x * math.sqrt(0.5)))

    def shift_left(self, x: Array, y: Array) -> Array:
        self._count("shift_left", x, y)
        return np.left_shift(x, y)

    def shift_right(self, x: Array, y: Array) -> Array:
        self._count("shift_right", x, y)
        return np.right_shift(x, y)

    # -- checks: a rule that breaks the protocol fails here, not in generated code --------------

    def _check(self, holds: object, name: str, x: Array) -> None:
        if not holds:
            raise TypeError(f"{name}: the instruction does not take {x.dtype}")

    def _same(self, name: str, x: Array, y: Array) -> None:
        if x.dtype != y.dtype:
            raise TypeError(f"{name}: operands of two types, {x.dtype} and {y.dtype}")

    def _count(self, name: str, x: Array, y: Array) -> None:
        self._same(name, x, y)
        if not np.all((y >= 0) & (y < x.dtype.itemsize * 8)):
            raise ValueError(f"{name}: a count is out of range; machines differ in what they do")

    def _no_zero(self, name: str, y: Array) -> None:
        if not np.all(y):
            raise ValueError(f"{name}: an int divided by 0; some machines trap")


def _unary(function: Callable[..., Any], kinds: str) -> Callable[..., Any]:
    def instruction(self: NumpyBuilder, x: Array) -> Array:
        self._check(x.dtype.kind in kinds, function.__name__, x)
        return function(x)

    return instruction


def _binary(function: Callable[..., Any], kinds: str) -> Callable[..., Any]:
    def instruction(self: NumpyBuilder, x: Array, y: Array) -> Array:
        self._same(function.__name__, x, y)
        self._check(x.dtype.kind in kinds, function.__name__, x)
        return function(x, y)

    return instruction


# ml_dtypes' bfloat16 is of kind V; only nextafter and casts see it.
_FLOAT, _NUMBER, _ANY, _BITS = "fV", "iufV", "biufV", "biu"
# fmt: off
_UNARY: dict[str, dict[str, Any]] = {
    _NUMBER: {"neg": np.negative, "abs": np.abs},
    _BITS: {"bitwise_not": np.invert},
    _FLOAT: {
        "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
        "signbit": np.signbit, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
        "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos,
        "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
        "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
        "atanh": np.arctanh,
    },
}
_BINARY: dict[str, dict[str, Any]] = {
    _NUMBER: {"sub": np.subtract},
    _ANY: {
        "add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
        "fmax": np.fmax, "fmin": np.fmin, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
        "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    },
    "iu": {"gcd": np.gcd},
    _BITS: {
        "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    },
    _FLOAT: {
        "hypot": np.hypot, "copysign": np.copysign, "nextafter": np.nextafter, "atan2": np.arctan2,
    },
}
# fmt: on


def _install(make: Callable[[Any, str], Any], table: dict[str, dict[str, Any]]) -> None:
    for kinds, rows in table.items():
        for name, function in rows.items():
            setattr(NumpyBuilder, name, make(function, kinds))


_install(_unary, _UNARY)
_install(_binary, _BINARY)
