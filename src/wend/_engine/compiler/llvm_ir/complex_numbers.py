"""Complex numbers in generated code: in memory and in registers an integer that holds both parts.

complex64 is an i64, complex128 an i128, the real part in the low half. So loads, stores, choices
and moves are those of integers. Arithmetic takes the parts out, as vectors of floats, and puts them
together again; LLVM removes what two neighbouring ops undo.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.llvm_ir.values import SsaValue, VectorCode

_FLOATS: Final = {dtypes.complex64: "float", dtypes.complex128: "double"}


def parts(b: VectorCode, x: SsaValue) -> tuple[SsaValue, SsaValue]:
    """The real and imaginary parts."""
    element, lanes = _FLOATS[x.dtype], b.lanes
    both = f"<{2 * lanes} x {element}>"
    numbers = b.text.let(f"bitcast {b.type_of(x.dtype)} {x.name} to {both}")
    pair = []
    for first in (0, 1):
        if lanes == 1:
            part = b.text.let(f"extractelement {both} {numbers}, i64 {first}")
        else:
            taken = ", ".join(f"i32 {2 * k + first}" for k in range(lanes))
            order = f"<{lanes} x i32> <{taken}>"
            part = b.text.let(f"shufflevector {both} {numbers}, {both} poison, {order}")
        pair.append(b.value(part, x.dtype.to_real()))
    return pair[0], pair[1]


def joined(b: VectorCode, real: SsaValue, imag: SsaValue) -> SsaValue:
    """The complex numbers of these parts, float32 or float64."""
    dtype = real.dtype.to_complex()
    element, lanes = _FLOATS[dtype], b.lanes
    kind, both = b.type_of(real.dtype), f"<{2 * lanes} x {element}>"
    if lanes == 1:
        half = b.text.let(f"insertelement {both} poison, {element} {real.name}, i64 0")
        numbers = b.text.let(f"insertelement {both} {half}, {element} {imag.name}, i64 1")
    else:
        places = ", ".join(f"i32 {k}, i32 {k + lanes}" for k in range(lanes))
        numbers = b.text.let(
            f"shufflevector {kind} {real.name}, {kind} {imag.name}, <{2 * lanes} x i32> <{places}>"
        )
    return b.value(b.text.let(f"bitcast {both} {numbers} to {b.type_of(dtype)}"), dtype)


# -- arithmetic ----------------------------------------------------------------------------------


def add(b: Any, x: SsaValue, y: SsaValue) -> SsaValue:
    """x + y."""
    (xr, xi), (yr, yi) = parts(b, x), parts(b, y)
    return joined(b, b.add(xr, yr), b.add(xi, yi))


def sub(b: Any, x: SsaValue, y: SsaValue) -> SsaValue:
    """x - y."""
    (xr, xi), (yr, yi) = parts(b, x), parts(b, y)
    return joined(b, b.sub(xr, yr), b.sub(xi, yi))


def mul(b: Any, x: SsaValue, y: SsaValue) -> SsaValue:
    """x * y."""
    (xr, xi), (yr, yi) = parts(b, x), parts(b, y)
    return joined(b, b.sub(b.mul(xr, yr), b.mul(xi, yi)), b.add(b.mul(xr, yi), b.mul(xi, yr)))


def div(b: Any, x: SsaValue, y: SsaValue) -> SsaValue:
    """x / y, scaled by the larger part of y.

    By Smith: Algorithm 116, complex division (1962).
    """
    (xr, xi), (yr, yi) = parts(b, x), parts(b, y)
    size_r, size_i = b.abs(yr), b.abs(yi)
    tall = b.ge(size_r, size_i)
    large, small = b.select(tall, yr, yi), b.select(tall, yi, yr)
    ratio = b.div(small, large)
    scale = b.div(b.constant(1, yr), b.add(large, b.mul(small, ratio)))
    a, c = b.select(tall, xr, b.mul(xr, ratio)), b.select(tall, b.mul(xi, ratio), xi)
    d, e = b.select(tall, xi, b.mul(xi, ratio)), b.select(tall, b.mul(xr, ratio), xr)
    real, imag = b.mul(b.add(a, c), scale), b.mul(b.sub(d, e), scale)
    zero = b.constant(0, yr)
    nothing = b.bitwise_and(b.eq(size_r, zero), b.eq(size_i, zero))
    real = b.select(nothing, b.div(xr, size_r), real)
    return joined(b, real, b.select(nothing, b.div(xi, size_r), imag))


def neg(b: Any, x: SsaValue) -> SsaValue:
    """-x."""
    real, imag = parts(b, x)
    return joined(b, b.neg(real), b.neg(imag))


def size(b: Any, x: SsaValue) -> SsaValue:
    """|x|."""
    return b.hypot(*parts(b, x))  # type: ignore[no-any-return]


def eq(b: Any, x: SsaValue, y: SsaValue) -> SsaValue:
    """x == y."""
    (xr, xi), (yr, yi) = parts(b, x), parts(b, y)
    return b.bitwise_and(b.eq(xr, yr), b.eq(xi, yi))  # type: ignore[no-any-return]


def ne(b: Any, x: SsaValue, y: SsaValue) -> SsaValue:
    """x != y."""
    (xr, xi), (yr, yi) = parts(b, x), parts(b, y)
    return b.bitwise_or(b.ne(xr, yr), b.ne(xi, yi))  # type: ignore[no-any-return]


def convert(b: Any, x: SsaValue, dtype: DType) -> SsaValue:
    """From a complex type, or to a complex type."""
    if not x.dtype.is_complex:
        real = b.convert(x, dtype.to_real())
        return joined(b, real, b.constant(0, real))
    real, imag = parts(b, x)
    if dtype.is_complex:
        to = dtype.to_real()
        return joined(b, b.convert(real, to), b.convert(imag, to))
    if dtype is dtypes.bool_:
        return b.bitwise_or(b.convert(real, dtype), b.convert(imag, dtype))  # type: ignore[no-any-return]
    return b.convert(real, dtype)  # type: ignore[no-any-return]


# -- functions -----------------------------------------------------------------------------------


def exp(b: Any, x: SsaValue) -> SsaValue:
    """e ** x; a real x stays real, however large.

    At the ends as C has it: where the angle is infinite or NaN, the length decides if it is 0, and
    the real part if it is infinite.
    """
    real, imag = parts(b, x)
    zero, most = b.constant(0, imag), b.constant(float("inf"), imag)
    is_angle = b.lt(b.abs(imag), most)
    angle = b.select(is_angle, imag, b.select(b.eq(real, b.neg(most)), zero, imag))
    length = b.exp(real)
    sine = b.select(b.eq(angle, zero), angle, b.mul(length, b.sin(angle)))
    cosine = b.mul(length, b.cos(angle))
    cosine = b.select(is_angle, cosine, b.select(b.eq(real, most), real, cosine))
    return joined(b, cosine, sine)


def log(b: Any, x: SsaValue) -> SsaValue:
    """The principal logarithm."""
    real, imag = parts(b, x)
    return joined(b, b.log(b.hypot(real, imag)), b.atan2(imag, real))


def sin(b: Any, x: SsaValue) -> SsaValue:
    """sin(a + ib) = sin a cosh b + i cos a sinh b."""
    real, imag = parts(b, x)
    return joined(b, b.mul(b.sin(real), b.cosh(imag)), b.mul(b.cos(real), b.sinh(imag)))


def cos(b: Any, x: SsaValue) -> SsaValue:
    """cos(a + ib) = cos a cosh b - i sin a sinh b."""
    real, imag = parts(b, x)
    down = b.neg(b.mul(b.sin(real), b.sinh(imag)))
    return joined(b, b.mul(b.cos(real), b.cosh(imag)), down)


#: The functions of `mathlib` that have a formula for complex numbers; others run in NumPy.
FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "exp": exp,
    "log": log,
    "sin": sin,
    "cos": cos,
}
