"""Functions whose results are exact: remainders, neighbours, division of ints."""

from __future__ import annotations

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.llvm_ir import half_floats
from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.parts import rarely, repeat


def fmod(x: Operand, y: Operand) -> Operand:
    """x - trunc(x / y) * y, exactly; with the sign of x."""
    q = (x / y).trunc()
    r = (-q).fma(y, x)
    # The quotient may have been rounded up to a whole number.
    over = (r * x.constant(1.0).copysign(x)) < 0.0
    r = where(over, r + y.copysign(x), r)
    r = where(abs(x) < abs(y), x, r).copysign(x)
    few = abs(q) < 2.0**22  # then the remainder is a float, as given by the fma

    def by_library() -> Operand:
        kind = x.b.type_of(x.dtype)
        name = x.b.text.let(f"frem {kind} {x.value.name}, {y.value.name}")
        return x.made(name, x.dtype)

    return rarely(~few, r, by_library)


def nextafter(x: Operand, y: Operand) -> Operand:
    """The float next to x in the direction of y."""
    if x.dtype in (dtypes.float16, dtypes.bfloat16):
        b = x.b
        bits = x.made(half_floats.narrow(b, x.value.name, x.dtype), dtypes.int16)
        moved = _neighbour(x, y, bits)
        near = x.made(half_floats.widen(b, moved.value.name, x.dtype), x.dtype)
    else:
        near = _neighbour(x, y, x.bits()).from_bits()
    near = where(x.equals(y), y, near)
    return where(x.is_nan() | y.is_nan(), x + y, near)


def _neighbour(x: Operand, y: Operand, bits: Operand) -> Operand:
    """The bits beside those of x: larger in magnitude if y lies farther from 0."""
    away = ~((x < y) ^ (x > 0.0))
    step = where(away, bits + 1, bits - 1)
    least = where(y > 0.0, bits.constant(1), bits.constant(1 | 1 << 8 * x.dtype.itemsize - 1))
    return where(x.equals(0.0), least, step)


def trunc_divide(x: Operand, y: Operand) -> Operand:
    """x / y of ints towards zero, y != 0; the smallest int over -1 is itself."""
    dtype = x.dtype
    if dtype is dtypes.uint64:
        kind = x.b.type_of(dtype)
        return x.made(x.b.text.let(f"udiv {kind} {x.value.name}, {y.value.name}"), dtype)
    if not dtype.is_signed:
        return _by_floats(x, y, dtypes.float32 if dtype.itemsize < 4 else dtypes.float64)
    overflow = y.equals(-1)
    divisor = where(overflow, 1, y)
    if dtype is dtypes.int64:
        kind = x.b.type_of(dtype)
        name = x.b.text.let(f"sdiv {kind} {x.value.name}, {divisor.value.name}")
        quotient = x.made(name, dtype)
    else:
        single = dtype.itemsize < 4
        quotient = _by_floats(x, divisor, dtypes.float32 if single else dtypes.float64)
    return where(overflow, -x, quotient)


def gcd(x: Operand, y: Operand) -> Operand:
    """Greatest common divisor of ints, by Euclid's algorithm."""

    def step(state: list[Operand]) -> list[Operand]:
        a, b = state
        done = b.equals(0)
        divisor = where(done, 1, b)
        return [where(done, a, b), where(done, b, a - trunc_divide(a, divisor) * divisor)]

    return abs(repeat([x, y], lambda state: state[1].differs(0), step)[0])


def _by_floats(x: Operand, y: Operand, real: DType) -> Operand:
    """The quotient of ints that the float type holds, never rounded to the next int."""
    kind, out = x.b.type_of(real), x.b.type_of(dtypes.int32)
    quotient = x.to(real) / y.to(real)
    # Only unused lanes are divided by 0.
    name = x.b.text.let(f"fptosi {kind} {quotient.value.name} to {out}")
    whole = x.made(x.b.text.let(f"freeze {out} {name}"), dtypes.int32)
    return whole.to(x.dtype)
