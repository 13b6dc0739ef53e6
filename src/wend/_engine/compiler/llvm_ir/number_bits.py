"""Numbers as bits of a dtype, for constants in generated code."""

from __future__ import annotations

import math
import struct

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType


def rounded(number: float, dtype: DType) -> float:
    """A number as the nearest float32, float16 or bfloat16."""
    if math.isnan(number) or math.isinf(number):
        return number
    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        # A number beyond the range of the type is infinity, as IEEE 754 rounds it.
        return math.copysign(math.inf, number)
    if dtype is dtypes.float16:
        try:
            half: float = struct.unpack("<e", struct.pack("<e", number))[0]
        except OverflowError:
            # A number beyond the range of the type is infinity, as IEEE 754 rounds it.
            return math.copysign(math.inf, number)
        return half
    if dtype is dtypes.bfloat16 and not math.isinf(single):
        bits = struct.unpack("<I", struct.pack("<f", single))[0]
        bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
        single = struct.unpack("<f", struct.pack("<I", bits))[0]
    return single


def packed(value: complex, dtype: DType) -> int:
    """The bits of a complex number, as a signed integer."""
    parts = [value.real, value.imag]
    if dtype is dtypes.complex64:
        parts = [rounded(x, dtypes.float32) for x in parts]
    form = "<ff" if dtype is dtypes.complex64 else "<dd"
    return int.from_bytes(struct.pack(form, *parts), "little", signed=True)
