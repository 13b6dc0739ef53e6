"""float16 and bfloat16 in generated code: 16 bits in memory, the equal float32 in registers.

float16 uses the processor's conversions where there are any.  bfloat16 is rounded by integer
instructions everywhere: x86's own conversion turns subnormal numbers into 0.
"""

from __future__ import annotations

from typing import Final

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.llvm_ir.values import VectorCode

_SIGN: Final = -(1 << 31)


def widen(b: VectorCode, name: str, dtype: DType) -> str:
    """The float32 of 16 bits (an i16)."""
    if dtype is dtypes.float16 and b.converts_halves:
        kind = b.vector("half")
        half = b.text.let(f"bitcast {b.vector('i16')} {name} to {kind}")
        return b.text.let(f"fpext {kind} {half} to {b.vector('float')}")
    wide = Operand(b, b.value(b.text.let(f"zext {b.vector('i16')} {name} to {b.vector('i32')}")))
    if dtype is dtypes.bfloat16:
        return (wide << 16).from_bits().value.name
    # The magnitude with float32's exponent, 112 too small; the largest exponent means infinity.
    magnitude = (wide & 0x7FFF) << 13
    value = (magnitude.from_bits() * 2.0**112).bits()
    value = where(magnitude >= 0x1F << 23, value | 0xFF << 23, value)
    return (value | (wide & 0x8000) << 16).from_bits().value.name


def narrow(b: VectorCode, name: str, dtype: DType) -> str:
    """The 16 bits (an i16) of a float32, rounded to nearest, ties to even."""
    if dtype is dtypes.float16 and b.converts_halves:
        kind = b.vector("half")
        half = b.text.let(f"fptrunc {b.vector('float')} {name} to {kind}")
        return b.text.let(f"bitcast {kind} {half} to {b.vector('i16')}")
    bits = Operand(b, b.value(name, dtypes.float32)).bits()
    half_bits = _to_bfloat16(bits) if dtype is dtypes.bfloat16 else _to_float16(bits)
    return b.text.let(f"trunc {b.vector('i32')} {half_bits.value.name} to {b.vector('i16')}")


def _to_bfloat16(bits: Operand) -> Operand:
    even = bits + 0x7FFF + (bits.logical_shift(16) & 1)
    nan = (bits & ~_SIGN) > 0xFF << 23
    return where(nan, bits | 1 << 22, even).logical_shift(16)


def _to_float16(bits: Operand) -> Operand:
    magnitude, sign = bits & ~_SIGN, (bits & _SIGN).logical_shift(16)
    # Adding a half lets the processor round a subnormal result at the right place.
    small = (magnitude.from_bits() + 0.5).bits() - (126 << 23)
    normal = magnitude - (112 << 23) + 0xFFF + (magnitude >> 13 & 1) >> 13
    infinite = magnitude.constant(0x7C00)
    nan = magnitude >> 13 & 0x3FF | 0x7E00
    large = where(magnitude > 0xFF << 23, nan, infinite)
    finite = where(magnitude < 113 << 23, small, normal)
    return where(magnitude >= 143 << 23, large, finite) | sign


def to_odd(b: VectorCode, name: str) -> str:
    """A float64 as float32, rounded to odd: rounding once more then gives the nearest half."""
    x = Operand(b, b.value(name, dtypes.float64))
    near = x.to(dtypes.float32)
    back = near.to(dtypes.float64)
    bits = near.bits()
    # Down to the float32 below in magnitude, whose last bit then says that something was lost.
    bits = where(abs(back) > abs(x), bits - 1, bits)
    inexact = back.differs(x) & back.equals(back)
    return where(inexact, bits | 1, bits).from_bits().value.name
