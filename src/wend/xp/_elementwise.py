"""Elementwise functions of the array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wend
from wend._engine.base.dtypes import FLOAT
from wend._engine.base.errors import DTypeError
from wend.xp._operands import Array, converted, together

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def _one(name: str, op: Callable[[Array], Array], doc: str) -> Callable[[Array], Array]:
    def function(x: Array, /) -> Array:
        return op(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _two(name: str, op: Callable[[Array, Array], Array], doc: str) -> Callable[[Any, Any], Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        return op(*together(name, x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _whole(op: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Rounding: integers are round already."""
    return lambda x: op(x) if x.dtype.category >= FLOAT else x.clone()


def _round(x: Array) -> Array:
    if x.dtype.is_complex:
        return wend.complex(wend.round(x.real), wend.round(x.imag))
    return wend.round(x)


def _clip(x: Array, bound: Any, op: Any) -> Array:
    if bound is None:
        return x
    if not isinstance(bound, wend.Tensor):
        bound = wend.tensor(bound)
    return op(x, converted(bound, x.dtype))


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """x, at least min and at most max; each a number, an array that broadcasts, or None."""
    clipped = _clip(_clip(x, min, wend.maximum), max, wend.minimum)
    return clipped.clone() if clipped is x else clipped


def real(x: Array, /) -> Array:
    """The real part of complex numbers. Raises DTypeError for real types."""
    if not x.dtype.is_complex:
        raise DTypeError(f"real: takes complex arrays, not {x.dtype}")
    return wend.real(x)


def imag(x: Array, /) -> Array:
    """The imaginary part of complex numbers. Raises DTypeError for real types."""
    return wend.imag(x)


def conj(x: Array, /) -> Array:
    """The complex conjugate."""
    return wend.conj(x)


# Values at infinities, zeros and NaN that the standard asks for and PyTorch has otherwise.


def _expm1(x: Array) -> Array:
    if not x.dtype.is_complex:
        return wend.expm1(x)
    real, imag = x.real, x.imag
    half = wend.sin(imag / 2)
    height = wend.where(imag == 0, imag, wend.exp(real) * wend.sin(imag))
    length = wend.expm1(real) * wend.cos(imag) - 2 * half * half
    length = wend.where(imag == 0, wend.expm1(real), length)
    turning = wend.isinf(real) & ~wend.isfinite(imag)
    height = wend.where(turning, wend.where(real > 0, float("nan"), 0.0), height)
    length = wend.where(turning, wend.where(real > 0, float("inf"), -1.0), length)
    return wend.complex(length, height)


def _tanh(x: Array) -> Array:
    values = wend.tanh(x)
    if not x.dtype.is_complex:
        return values
    real, imag = x.real, x.imag
    far = wend.isinf(real) & wend.isfinite(imag)
    end = wend.complex(wend.copysign(1.0 + 0 * imag, real), wend.copysign(0 * imag, imag))
    return wend.where(far, end, values)


def _sign(x: Array) -> Array:
    signs = wend.sgn(x)
    return wend.where(wend.isnan(x), x, signs) if x.dtype.category == FLOAT else signs


def _floor_divide(x: Array, y: Array) -> Array:
    quotient = wend.floor_divide(x, y)
    if x.dtype.category != FLOAT:
        return quotient
    exact = (wend.isinf(x) & wend.isfinite(y)) | (wend.isfinite(x) & wend.isinf(y))
    return wend.where(exact, x / y, quotient)


def _remainder(x: Array, y: Array) -> Array:
    values = wend.remainder(x, y)
    if x.dtype.category != FLOAT:
        return values
    return wend.where(values == 0, wend.copysign(values, y), values)


abs = _one("abs", wend.abs, "The magnitude.")
acos = _one("acos", wend.acos, "The arc cosine, in radians.")
acosh = _one("acosh", wend.acosh, "The inverse hyperbolic cosine.")
add = _two("add", wend.add, "x1 + x2.")
asin = _one("asin", wend.asin, "The arc sine, in radians.")
asinh = _one("asinh", wend.asinh, "The inverse hyperbolic sine.")
atan = _one("atan", wend.atan, "The arc tangent, in radians.")
atan2 = _two("atan2", wend.atan2, "The angle of the point (x2, x1), in radians.")
atanh = _one("atanh", wend.atanh, "The inverse hyperbolic tangent.")
bitwise_and = _two("bitwise_and", wend.bitwise_and, "x1 & x2.")
bitwise_invert = _one("bitwise_invert", wend.bitwise_not, "~x.")
bitwise_left_shift = _two("bitwise_left_shift", wend.bitwise_left_shift, "x1 << x2.")
bitwise_or = _two("bitwise_or", wend.bitwise_or, "x1 | x2.")
bitwise_right_shift = _two("bitwise_right_shift", wend.bitwise_right_shift, "x1 >> x2.")
bitwise_xor = _two("bitwise_xor", wend.bitwise_xor, "x1 ^ x2.")
ceil = _one("ceil", _whole(wend.ceil), "The least integer from x upwards.")
copysign = _two("copysign", wend.copysign, "|x1| with the sign of x2.")
cos = _one("cos", wend.cos, "The cosine, of radians.")
cosh = _one("cosh", wend.cosh, "The hyperbolic cosine.")
divide = _two("divide", wend.div, "x1 / x2.")
equal = _two("equal", wend.eq, "x1 == x2.")
exp = _one("exp", wend.exp, "e ** x.")
expm1 = _one("expm1", _expm1, "e ** x - 1.")
floor = _one("floor", _whole(wend.floor), "The greatest integer from x downwards.")
floor_divide = _two("floor_divide", _floor_divide, "floor(x1 / x2).")
greater = _two("greater", wend.gt, "x1 > x2.")
greater_equal = _two("greater_equal", wend.ge, "x1 >= x2.")
hypot = _two("hypot", wend.hypot, "sqrt(x1^2 + x2^2).")
isfinite = _one("isfinite", wend.isfinite, "Whether x is neither infinite nor NaN.")
isinf = _one("isinf", wend.isinf, "Whether x is infinite.")
isnan = _one("isnan", wend.isnan, "Whether x is NaN.")
less = _two("less", wend.lt, "x1 < x2.")
less_equal = _two("less_equal", wend.le, "x1 <= x2.")
log = _one("log", wend.log, "The natural logarithm.")
log1p = _one("log1p", wend.log1p, "log(1 + x).")
log2 = _one("log2", wend.log2, "The logarithm to base 2.")
log10 = _one("log10", wend.log10, "The logarithm to base 10.")
logaddexp = _two("logaddexp", wend.logaddexp, "log(exp(x1) + exp(x2)).")
logical_and = _two("logical_and", wend.logical_and, "x1 and x2.")
logical_not = _one("logical_not", wend.logical_not, "not x.")
logical_or = _two("logical_or", wend.logical_or, "x1 or x2.")
logical_xor = _two("logical_xor", wend.logical_xor, "Either x1 or x2, not both.")
maximum = _two("maximum", wend.maximum, "The larger of x1 and x2; NaN if either is.")
minimum = _two("minimum", wend.minimum, "The smaller of x1 and x2; NaN if either is.")
multiply = _two("multiply", wend.mul, "x1 * x2.")
negative = _one("negative", wend.neg, "-x.")
nextafter = _two("nextafter", wend.nextafter, "The next number after x1, towards x2.")
not_equal = _two("not_equal", wend.ne, "x1 != x2.")
positive = _one("positive", wend.positive, "+x.")
pow = _two("pow", wend.pow, "x1 ** x2.")
reciprocal = _one("reciprocal", wend.reciprocal, "1 / x.")
remainder = _two("remainder", _remainder, "x1 - floor(x1 / x2) * x2.")
round = _one("round", _whole(_round), "The nearest integer, halves to even.")
sign = _one("sign", _sign, "x / |x|; 0 of 0; NaN of NaN.")
signbit = _one("signbit", wend.signbit, "Whether x has a minus sign.")
sin = _one("sin", wend.sin, "The sine, of radians.")
sinh = _one("sinh", wend.sinh, "The hyperbolic sine.")
sqrt = _one("sqrt", wend.sqrt, "The square root.")
square = _one("square", wend.square, "x * x.")
subtract = _two("subtract", wend.sub, "x1 - x2.")
tan = _one("tan", wend.tan, "The tangent, of radians.")
tanh = _one("tanh", _tanh, "The hyperbolic tangent.")
trunc = _one("trunc", _whole(wend.trunc), "x without the fraction.")
