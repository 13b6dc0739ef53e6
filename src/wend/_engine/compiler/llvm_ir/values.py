"""Values in LLVM's text: names and constants, and how types are written in registers and memory.

bool is i1 in registers and a byte in memory.  float16 and bfloat16 are kept in registers as the
equal float32. Complex numbers are integers that hold both parts, see `complex_numbers`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

from wend._engine.base import dtypes
from wend._engine.base.dtypes import BOOL, FLOAT, INT, DType
from wend._engine.compiler.llvm_ir.number_bits import packed, rounded
from wend._engine.compiler.llvm_ir.text import Module, Text

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
        return str(packed(value, dtype))
    if dtype.category == BOOL:
        return "true" if value else "false"
    if dtype.category == INT:
        bits = 8 * dtype.itemsize
        whole = int(value) & (1 << bits) - 1
        return str(whole - (whole >> bits - 1 << bits))
    number = float(value)
    if dtype is not dtypes.float64:
        number = rounded(number, dtype)
    return "0x" + struct.pack(">d", number).hex().upper()


class VectorCode(Protocol):
    """The parts of `vector_builder.Instructions` that formulas and conversions use."""

    text: Text
    module: Module
    lanes: int

    @property
    def converts_halves(self) -> bool:
        """Whether the processor converts float16 by itself."""

    @property
    def calls_library(self) -> bool:
        """Whether code may call the C library."""

    def type_of(self, dtype: DType) -> str:
        """LLVM's type of a value of this dtype."""

    def vector(self, element: str) -> str:
        """LLVM's type of a vector of these elements."""

    def value(self, name: str, dtype: DType = dtypes.int32) -> SsaValue:
        """A result of this dtype."""

    def constant(self, value: float, like: SsaValue) -> SsaValue:
        """A number in the dtype of a value."""

    def fma(self, x: SsaValue, y: SsaValue, z: SsaValue) -> SsaValue:
        """x * y + z, rounded once."""

    def convert(self, x: SsaValue, dtype: DType) -> SsaValue:
        """A value in another dtype."""

    def function(self, name: str, *values: SsaValue, order: int = 0) -> SsaValue:
        """A function of mathematics."""

    def select(self, condition: SsaValue, a: SsaValue, b: SsaValue) -> SsaValue:
        """a where the condition holds, else b."""

    def maximum(self, x: SsaValue, y: SsaValue) -> SsaValue:
        """The larger; NaN if either is NaN."""

    def minimum(self, x: SsaValue, y: SsaValue) -> SsaValue:
        """The smaller; NaN if either is NaN."""

    def intrinsic(self, name: str, *values: SsaValue) -> SsaValue:
        """A function that LLVM knows."""

    def scales_by_power(self, dtype: DType) -> bool:
        """Whether the processor multiplies by a power of 2 in an instruction."""

    def scale_by_power(self, x: SsaValue, n: SsaValue) -> SsaValue | None:
        """x * 2**n, or None where the processor has no such instruction."""

    def estimate_reciprocal(self, x: SsaValue) -> SsaValue | None:
        """About 1 / x, or None where the processor has no such instruction."""
