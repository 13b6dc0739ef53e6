"""Values in LLVM's text: names and constants, and how types are written in registers and memory.

bool is i1 in registers and a byte in memory.  float16 and bfloat16 are kept in registers as the
equal float32. Complex numbers are integers that hold both parts, see `complex_numbers`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from wend._engine.base import dtypes
from wend._engine.base.dtypes import BOOL, FLOAT, INT, DType
from wend._engine.compiler.llvm_ir import complex_numbers, half_floats

HALVES = (dtypes.float16, dtypes.bfloat16)
_BITS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


class SsaValue(NamedTuple):
    """A name (or a constant) in LLVM's text, and the type of the elements."""

    name: str
    dtype: DType

    @property
    def is_constant(self) -> bool:
        """Whether the value is a literal, which is no NaN unless written as NaN."""
        return not self.name.startswith("%")


def register_type(dtype: DType) -> str:
    """LLVM's name of an element in a register."""
    if dtype.category == BOOL:
        return "i1"
    if dtype.category == INT:
        return _BITS[dtype.itemsize]
    if dtype.category == FLOAT:
        return "double" if dtype is dtypes.float64 else "float"
    return "i64" if dtype is dtypes.complex64 else "i128"


def memory_type(dtype: DType) -> str:
    """LLVM's name of an element in memory."""
    if dtype.category == BOOL:
        return "i8"
    return "i16" if dtype in HALVES else register_type(dtype)


def vector_type(element: str, lanes: int) -> str:
    """`lanes` of an LLVM type: the type itself, or a vector."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def alignment(dtype: DType) -> int:
    """The multiple of bytes at which elements lie in memory: complex ones as their parts do."""
    return dtype.to_real().itemsize


def literal(value: float, dtype: DType) -> str:
    """A number in LLVM's notation, rounded or wrapped to the dtype."""
    if dtype.is_complex:
        return str(complex_numbers.packed(value, dtype))
    if dtype.category == BOOL:
        return "true" if value else "false"
    if dtype.category == INT:
        bits = 8 * dtype.itemsize
        whole = int(value) & (1 << bits) - 1
        return str(whole - (whole >> bits - 1 << bits))
    number = float(value)
    if dtype is not dtypes.float64:
        number = half_floats.rounded(number, dtype)
    return "0x" + struct.pack(">d", number).hex().upper()
