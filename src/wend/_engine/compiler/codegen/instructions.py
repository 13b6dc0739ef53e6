"""The instructions of `emit` rules as LLVM text, for a vector of elements at a time.

`VectorBuilder` implements `wend._engine.ops.builder.Builder`. Its values are names of LLVM vectors
of `lanes` elements (names of scalars, if lanes is 1).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import BOOL, FLOAT, INT, DType
from wend._engine.base.errors import CompileError
from wend._engine.compiler import mathlib
from wend._engine.compiler.llvm_ir import complex_numbers, half_floats
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.masks import store_lanes
from wend._engine.compiler.llvm_ir.operand import Operand
from wend._engine.compiler.llvm_ir.text import Module, Text
from wend._engine.compiler.llvm_ir.values import (
    HALVES,
    SsaValue,
    alignment,
    memory_type,
    vector_type,
)
from wend._engine.compiler.llvm_ir.vector_builder import Instructions


class VectorBuilder(Instructions):
    """See `wend._engine.ops.builder.Builder`. The constructor is that of `Instructions`."""

    # -- memory -------------------------------------------------------------------------------

    def load(self, pointer: str, dtype: DType) -> SsaValue:
        """Load neighbouring elements; lanes outside the mask are 0."""
        element = memory_type(dtype)
        kind = vector_type(element, self.lanes)
        if self.mask is None or self.lanes == 1:
            where = f"{self.target.pointer} {pointer}"
            read = self.text.let(f"load {kind}, {where}, align {alignment(dtype)}")
        else:
            read = self.text.let(
                f"call {kind} @llvm.masked.load.{self._memory_suffix(element)}.p0(ptr {pointer}, "
                f"i32 {alignment(dtype)}, {self._mask()}, {kind} zeroinitializer)"
            )
        return self.from_memory(read, dtype)

    def gather(self, pointers: str, dtype: DType) -> SsaValue:
        """Load elements from a vector of pointers (from a single pointer, if lanes is 1)."""
        if self.lanes == 1:
            return self.load(pointers, dtype)
        element = memory_type(dtype)
        kind = vector_type(element, self.lanes)
        mask = self._mask() if self.mask else f"<{self.lanes} x i1> splat (i1 true)"
        read = self.text.let(
            f"call {kind} @llvm.masked.gather.{self._memory_suffix(element)}.v{self.lanes}p0("
            f"<{self.lanes} x ptr> {pointers}, i32 {alignment(dtype)}, {mask}, "
            f"{kind} zeroinitializer)"
        )
        return self.from_memory(read, dtype)

    def store(self, value: SsaValue, pointer: str) -> None:
        """Store neighbouring elements; memory of lanes outside the mask stays as it is."""
        size = alignment(value.dtype)
        element = memory_type(value.dtype)
        kind = vector_type(element, self.lanes)
        written = self.to_memory(value)
        if self.mask is None or self.lanes == 1:
            where = f"{self.target.pointer} {pointer}"
            self.text.line(f"store {kind} {written}, {where}, align {size}")
        else:
            place = pointer, size
            cheap = self.target.masks
            store_lanes(self.text, element, self.lanes, written, place, self.mask, cheap)

    def scatter(self, value: SsaValue, pointers: str) -> None:
        """Store elements to a vector of pointers; memory outside the mask stays as it is."""
        element = memory_type(value.dtype)
        kind = vector_type(element, self.lanes)
        mask = self._mask() if self.mask else f"<{self.lanes} x i1> splat (i1 true)"
        self.text.line(
            f"call void @llvm.masked.scatter.{self._memory_suffix(element)}.v{self.lanes}p0("
            f"{kind} {self.to_memory(value)}, <{self.lanes} x ptr> {pointers}, "
            f"i32 {alignment(value.dtype)}, {mask})"
        )

    def from_memory(self, name: str, dtype: DType) -> SsaValue:
        """Convert an element or a vector from its type in memory (see `memory_type`)."""
        if dtype.category == BOOL:
            byte = vector_type("i8", self.lanes)
            return self._let(f"icmp ne {byte} {name}, {self._zero()}", dtype)
        if dtype in HALVES:
            return SsaValue(half_floats.widen(self, name, dtype), dtype)
        return SsaValue(name, dtype)

    def to_memory(self, value: SsaValue) -> str:
        """Convert a value to its type in memory (see `memory_type`)."""
        if value.dtype.category == BOOL:
            kind, byte = self.type_of(value.dtype), vector_type("i8", self.lanes)
            return self.text.let(f"zext {kind} {value.name} to {byte}")
        if value.dtype in HALVES:
            return half_floats.narrow(self, value.name, value.dtype)
        return value.name

    def _memory_suffix(self, element: str) -> str:
        return f"v{self.lanes}" + {"float": "f32", "double": "f64"}.get(element, element)

    def _mask(self) -> str:
        return f"<{self.lanes} x i1> {self.mask}"

    def _zero(self) -> str:
        return "0" if self.lanes == 1 else "zeroinitializer"

    # -- conversions --------------------------------------------------------------------------

    def convert(self, x: SsaValue, dtype: DType) -> SsaValue:
        source = x.dtype
        if source is dtype:
            return x
        if source.is_complex or dtype.is_complex:
            return complex_numbers.convert(self, x, dtype)
        if dtype.category == BOOL:
            order = "fcmp une" if source.category == FLOAT else "icmp ne"
            zero = self.constant(0, x).name
            return self._let(f"{order} {self.type_of(source)} {x.name}, {zero}", dtype)
        if dtype.category == INT:
            return self._to_int(x, dtype)
        if source.category == FLOAT:
            return self._float_to_float(x, dtype)
        wide = dtype if dtype is dtypes.float64 else dtypes.float32
        unrounded = self._cast("sitofp" if self._signed(source) else "uitofp", x, wide)
        return self._rounded(unrounded, dtype)

    def _to_int(self, x: SsaValue, dtype: DType) -> SsaValue:
        if x.dtype.category == FLOAT:
            # Beyond int64 the result is the processor's; without `freeze` it could be anything.
            # The last byte of a float32 beyond int32 is 0, and so it is of x86's answer there. Only
            # AVX-512 has an instruction for int64.
            short = dtype.itemsize == 1 and x.dtype is dtypes.float32 and not self.target.is_arm
            middle = dtypes.int32 if short and not self.target.is_wasm else dtypes.int64
            wide = self._cast("fptosi", x, middle)
            integer = self._let(f"freeze {self.type_of(middle)} {wide.name}", middle)
            if dtype is dtypes.uint64:
                high = self._let(
                    f"freeze {self.type_of(dtype)} {self._cast('fptoui', x, dtype).name}",
                    dtypes.int64,
                )
                integer = self.select(self.ge(x, self.constant(2.0**63, x)), high, integer)
            x = integer
        if dtype.itemsize < x.dtype.itemsize:
            return self._cast("trunc", x, dtype)
        if x.dtype.category == INT and dtype.itemsize == x.dtype.itemsize:
            return SsaValue(x.name, dtype)
        return self._cast("sext" if self._signed(x.dtype) else "zext", x, dtype)

    def _float_to_float(self, x: SsaValue, dtype: DType) -> SsaValue:
        if dtype is dtypes.float64:
            return self._cast("fpext", x, dtype)
        if x.dtype is not dtypes.float64:
            return self._rounded(x, dtype)
        if dtype is dtypes.float16:
            return self._rounded(SsaValue(half_floats.to_odd(self, x.name), dtypes.float32), dtype)
        return self._rounded(self._cast("fptrunc", x, dtypes.float32), dtype)

    def _rounded(self, x: SsaValue, dtype: DType) -> SsaValue:
        """Round a float32 (or half) value to a half type; other values stay as they are."""
        if dtype not in HALVES or x.dtype is dtype:
            return SsaValue(x.name, dtype)
        return SsaValue(
            half_floats.widen(self, half_floats.narrow(self, x.name, dtype), dtype), dtype
        )

    # -- failures --------------------------------------------------------------------------------

    def require(self, condition: SsaValue, message: str) -> None:
        if self.faults is None:
            raise CompileError(f"nowhere to note a failure: {message}")
        kind = self.type_of(condition.dtype)
        failed = self.bitwise_not(condition)
        if self.mask is not None:
            failed = self._let(f"and {kind} {failed.name}, {self.mask}", failed.dtype)
        slot = self.faults.slot(message, self.lanes)
        before = self.text.let(f"load {kind}, ptr {slot}")
        after = self.text.let(f"or {kind} {before}, {failed.name}")
        self.text.line(f"store {kind} {after}, ptr {slot}")

    # -- functions of the library (the rest of `mathlib.FUNCTIONS` is added below) -----------

    def polygamma(self, n: int, x: SsaValue) -> SsaValue:
        return self.function("polygamma", x, order=n)

    def fmod(self, x: SsaValue, y: SsaValue) -> SsaValue:
        if x.dtype.category == INT:
            return self.sub(x, self.mul(self.function("trunc_divide", x, y), y))
        return self.function("fmod", x, y)

    def function(self, name: str, *values: SsaValue, order: int = 0) -> SsaValue:
        """Write a call of a function of `mathlib`, and add that function to the module.

        Raises TypeError for a dtype that the function does not take.
        """
        dtype = values[0].dtype
        if dtype.is_complex and name in complex_numbers.FUNCTIONS:
            return complex_numbers.FUNCTIONS[name](self, *values)  # type: ignore[no-any-return]
        if dtype.category not in mathlib.TAKES.get(name, (FLOAT,)):
            raise TypeError(f"{name}: the instruction does not take {dtype}")
        for other in values[1:]:
            self._same(name, values[0], other)
        parts = _library(name, dtype, self.lanes, self.target, order)
        self.module.include(parts)
        kind = self.type_of(dtype)
        arguments = ", ".join(f"{kind} {v.name}" for v in values)
        return self._let(f"call {kind} @{parts[-1][0]}({arguments})", dtype)


@cache
def _library(
    name: str, dtype: DType, lanes: int, target: Target, order: int
) -> tuple[tuple[str, str], ...]:
    """The (name, text) pairs of a function of `mathlib` and all functions it calls, itself last."""
    formula, count = mathlib.FUNCTIONS[name]
    module, text = Module(), Text()
    b = VectorBuilder(text, module, lanes, target)
    inputs = [Operand(b, SsaValue(f"%x{i}", dtype)) for i in range(count)]
    result = formula(*inputs, order) if name == "polygamma" else formula(*inputs)
    kind = b.type_of(dtype)
    full = f"wend.{name}{order or ''}.{dtype.abbr}x{lanes}"
    parameters = ", ".join(f"{kind} {x.value.name}" for x in inputs)
    definition = (
        f"define private {kind} @{full}({parameters}) alwaysinline nounwind {{\n"
        f"{text.render()}\n  ret {kind} {result.value.name}\n}}"
    )
    return (*module.parts(), (full, definition))


def _instruction(name: str, count: int) -> Any:
    if count == 1:
        return lambda b, x: b.function(name, x)
    return lambda b, x, y: b.function(name, x, y)


for _name, (_, _count) in mathlib.FUNCTIONS.items():
    if _name != "polygamma" and _name not in vars(VectorBuilder):
        setattr(VectorBuilder, _name, _instruction(_name, _count))
