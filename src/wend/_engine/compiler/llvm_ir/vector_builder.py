"""A line of LLVM's text for each instruction that processors have, on vectors of elements."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import BOOL, FLOAT, INT, DType
from wend._engine.compiler.llvm_ir import complex_numbers
from wend._engine.compiler.llvm_ir.error_flags import Faults
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.text import Module, Text
from wend._engine.compiler.llvm_ir.values import SsaValue, literal, register_type, vector_type


def first_lanes(text: Text, left: str, lanes: int) -> str:
    """The mask of a vector's first lanes. left: how many elements are left, an i64 of 1 or more"""
    few = text.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 {lanes})")
    kind = f"<{lanes} x i32>"
    short = text.let(f"trunc i64 {few} to i32")
    first = text.let(f"insertelement {kind} poison, i32 {short}, i64 0")
    every = text.let(f"shufflevector {kind} {first}, {kind} poison, {kind} zeroinitializer")
    steps = ", ".join(f"i32 {k}" for k in range(lanes))
    return text.let(f"icmp slt {kind} <{steps}>, {every}")


@cache
def type_of(dtype: DType, lanes: int) -> str:
    """LLVM's type of so many elements of a dtype."""
    return vector_type(register_type(dtype), lanes)


class Instructions:
    """Types, constants, arithmetic, order and bits of a builder.

    text: where the instructions go
    module: where the called functions go
    lanes: elements of a vector
    faults: the failures that `require` notes, None if nothing can fail
    mask: which lanes count (name of an i1 vector), None for all
    """

    if TYPE_CHECKING:  # those of `codegen.instructions.VectorBuilder`, which formulas use

        def convert(self, x: SsaValue, dtype: DType) -> SsaValue: ...

        def function(self, name: str, *values: SsaValue, order: int = 0) -> SsaValue: ...

    def __init__(
        self,
        text: Text,
        module: Module,
        lanes: int,
        target: Target,
        faults: Faults | None = None,
        mask: str | None = None,
    ) -> None:
        self.text = text
        self.module = module
        self.lanes = lanes
        self.target = target
        self.faults = faults
        self.mask = mask

    @property
    def converts_halves(self) -> bool:
        """Whether the processor converts float16 by itself."""
        return self.target.converts_halves

    @property
    def calls_library(self) -> bool:
        """Whether code may call the C library."""
        return not self.target.is_device

    # -- types --------------------------------------------------------------------------------

    def type_of(self, dtype: DType) -> str:
        """LLVM's type of a value of this dtype."""
        return type_of(dtype, self.lanes)

    def _suffix(self, dtype: DType) -> str:
        name = {"float": "f32", "double": "f64"}.get(register_type(dtype), register_type(dtype))
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def dtype(self, x: SsaValue) -> DType:
        return x.dtype

    def constant(self, value: float, like: SsaValue) -> SsaValue:
        return self.number(value, like.dtype)

    def number(self, value: float, dtype: DType) -> SsaValue:
        """A constant of this dtype in every lane."""
        return SsaValue(self._all(literal(value, dtype), register_type(dtype)), dtype)

    def _all(self, text: str, element: str) -> str:
        return text if self.lanes == 1 else f"splat ({element} {text})"

    def spread(self, name: str, dtype: DType) -> SsaValue:
        """A scalar, as in a register (see `register_type`), in every lane."""
        if self.lanes == 1:
            return SsaValue(name, dtype)
        kind, element = self.type_of(dtype), register_type(dtype)
        first = self.text.let(f"insertelement {kind} poison, {element} {name}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self._let(f"shufflevector {kind} {first}, {kind} poison, {zeros}", dtype)

    def vector(self, element: str) -> str:
        """LLVM's type of `lanes` of an element."""
        return vector_type(element, self.lanes)

    def value(self, name: str, dtype: DType = dtypes.int32) -> SsaValue:
        """Return a value for the result of a hand-written instruction."""
        return SsaValue(name, dtype)

    # -- complex numbers ----------------------------------------------------------------------

    def complex(self, real: SsaValue, imag: SsaValue) -> SsaValue:
        return complex_numbers.joined(self, real, imag)

    def real(self, x: SsaValue) -> SsaValue:
        return complex_numbers.parts(self, x)[0]

    def imag(self, x: SsaValue) -> SsaValue:
        return complex_numbers.parts(self, x)[1]

    # -- arithmetic ---------------------------------------------------------------------------

    def add(self, x: SsaValue, y: SsaValue) -> SsaValue:
        if x.dtype.is_complex:
            return complex_numbers.add(self, x, y)
        return self._binary("add", x, y, "or", "add", "fadd")

    def sub(self, x: SsaValue, y: SsaValue) -> SsaValue:
        if x.dtype.is_complex:
            return complex_numbers.sub(self, x, y)
        return self._binary("sub", x, y, None, "sub", "fsub")

    def mul(self, x: SsaValue, y: SsaValue) -> SsaValue:
        if x.dtype.is_complex:
            return complex_numbers.mul(self, x, y)
        return self._binary("mul", x, y, "and", "mul", "fmul")

    def div(self, x: SsaValue, y: SsaValue) -> SsaValue:
        if x.dtype.is_complex:
            return complex_numbers.div(self, x, y)
        return self._binary("div", x, y, None, None, "fdiv")

    def neg(self, x: SsaValue) -> SsaValue:
        if x.dtype.is_complex:
            return complex_numbers.neg(self, x)
        if x.dtype.category == INT:
            return self.sub(self.constant(0, x), x)
        self._of("neg", x, FLOAT)
        return self._let(f"fneg {self.type_of(x.dtype)} {x.name}", x.dtype)

    def abs(self, x: SsaValue) -> SsaValue:
        if x.dtype.is_complex:
            return complex_numbers.size(self, x)
        if x.dtype.category == INT:
            if not x.dtype.is_signed:
                return x
            kind = self.type_of(x.dtype)
            call = f"call {kind} @llvm.abs.{self._suffix(x.dtype)}({kind} {x.name}, i1 false)"
            return self._let(call, x.dtype)
        return self.intrinsic("fabs", x)

    def sqrt(self, x: SsaValue) -> SsaValue:
        return self.intrinsic("sqrt", x)

    def fma(self, x: SsaValue, y: SsaValue, z: SsaValue) -> SsaValue:
        """x * y + z, rounded once (of float32 without such an instruction: nearly always)."""
        if self.target.fused or x.dtype is dtypes.float64:
            return self.intrinsic("fma", x, y, z)
        wide = (self._cast("fpext", v, dtypes.float64) for v in (x, y, z))
        a, b, c = wide
        return self._cast("fptrunc", self.add(self.mul(a, b), c), x.dtype)

    def copysign(self, x: SsaValue, y: SsaValue) -> SsaValue:
        number = self.intrinsic("copysign", x, y)
        if x.dtype is not dtypes.float64:
            return number
        # If the result is rounded to half in the end, LLVM 22 would rather round both operands to
        # half, which takes a function of a library that is not there.
        return self.intrinsic("arithmetic.fence", number)

    def floor(self, x: SsaValue) -> SsaValue:
        return self.intrinsic("floor", x)

    def ceil(self, x: SsaValue) -> SsaValue:
        return self.intrinsic("ceil", x)

    def trunc(self, x: SsaValue) -> SsaValue:
        return self.intrinsic("trunc", x)

    def round(self, x: SsaValue) -> SsaValue:
        return self.intrinsic("roundeven", x)

    # -- instructions of some processors only ---------------------------------------------------

    def scales_by_power(self, dtype: DType) -> bool:
        """Whether there is an instruction for x * 2 ** n: those of AVX-512 take whole registers."""
        size = self.lanes * dtype.itemsize
        whole = self.lanes > 1 and not size % 16 and not size & (size - 1)
        return whole and self.target.has("avx512vl")

    def scale_by_power(self, x: SsaValue, n: SsaValue) -> SsaValue | None:
        """x * 2 ** n of whole n, rounded once; None without an instruction for this."""
        return self._by_registers("mask.scalef", x, n)

    def estimate_reciprocal(self, x: SsaValue) -> SsaValue | None:
        """1 / x to 14 binary digits; None without an instruction for this."""
        return None if x.dtype is dtypes.float64 else self._by_registers("rcp14", x)

    def _by_registers(self, name: str, *values: SsaValue) -> SsaValue | None:
        dtype = values[0].dtype
        if not self.scales_by_power(dtype):
            return None
        return SsaValue(self._in_halves(name, [v.name for v in values], dtype, self.lanes), dtype)

    def _in_halves(self, name: str, values: list[str], dtype: DType, lanes: int) -> str:
        kind, size = vector_type(register_type(dtype), lanes), lanes * dtype.itemsize
        if size <= 64:
            suffix = f"{'pd' if dtype is dtypes.float64 else 'ps'}.{8 * size}"
            operands = ", ".join(f"{kind} {v}" for v in (*values, values[0]))
            # All lanes; of full registers, scalef also wants to know how to round.
            mask = f"i{max(lanes, 8)} -1"
            mask += ", i32 4" if size == 64 and name == "mask.scalef" else ""
            return self.text.let(
                f"call {kind} @llvm.x86.avx512.{name}.{suffix}({operands}, {mask})"
            )
        half = lanes // 2
        parts = []
        for start in (0, half):
            indices = ", ".join(f"i32 {i}" for i in range(start, start + half))
            taken = f"<{half} x i32> <{indices}>"
            cut = [
                self.text.let(f"shufflevector {kind} {v}, {kind} poison, {taken}") for v in values
            ]
            parts.append(self._in_halves(name, cut, dtype, half))
        small = vector_type(register_type(dtype), half)
        order = f"<{lanes} x i32> <{', '.join(f'i32 {i}' for i in range(lanes))}>"
        return self.text.let(f"shufflevector {small} {parts[0]}, {small} {parts[1]}, {order}")

    # -- order --------------------------------------------------------------------------------

    def maximum(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._extreme(x, y, "ogt", "max", propagate=True)

    def minimum(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._extreme(x, y, "olt", "min", propagate=True)

    def fmax(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._extreme(x, y, "ogt", "max", propagate=False)

    def fmin(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._extreme(x, y, "olt", "min", propagate=False)

    def _extreme(
        self, x: SsaValue, y: SsaValue, order: str, name: str, propagate: bool
    ) -> SsaValue:
        kind = self._same(name, x, y)
        if x.dtype.category == BOOL:
            return self.add(x, y) if name == "max" else self.mul(x, y)
        if x.dtype.category == INT:
            return self.intrinsic(f"{'s' if x.dtype.is_signed else 'u'}{name}", x, y)
        if y.is_constant:
            x, y = y, x
        # A single machine instruction, which gives y if either is NaN.
        better = self._compare(order, x, y)
        best = self.select(better, x, y)
        if x.is_constant and propagate:
            return best
        odd = x if propagate else y
        broken = self._let(f"fcmp uno {kind} {odd.name}, {odd.name}", dtypes.bool_)
        return self.select(broken, x, best)

    def eq(self, x: SsaValue, y: SsaValue) -> SsaValue:
        if x.dtype.is_complex:
            return complex_numbers.eq(self, x, y)
        return self._order("eq", "oeq", x, y)

    def ne(self, x: SsaValue, y: SsaValue) -> SsaValue:
        if x.dtype.is_complex:
            return complex_numbers.ne(self, x, y)
        return self._order("ne", "une", x, y)

    def lt(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._order("lt", "olt", x, y)

    def le(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._order("le", "ole", x, y)

    def gt(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._order("gt", "ogt", x, y)

    def ge(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._order("ge", "oge", x, y)

    def _order(self, name: str, order: str, x: SsaValue, y: SsaValue) -> SsaValue:
        if x.dtype.category == FLOAT:
            return self._compare(order, x, y)
        kind = self._same(name, x, y)
        if name not in ("eq", "ne"):
            name = ("s" if self._signed(x.dtype) else "u") + name
            if kind == "i1" and self.target.is_device:  # SPIR-V has no order of conditions
                a, b = (self.text.let(f"zext i1 {v.name} to i8") for v in (x, y))
                return self._let(f"icmp {name} i8 {a}, {b}", dtypes.bool_)
        return self._let(f"icmp {name} {kind} {x.name}, {y.name}", dtypes.bool_)

    def _compare(self, order: str, x: SsaValue, y: SsaValue) -> SsaValue:
        kind = self._same(order, x, y)
        return self._let(f"fcmp {order} {kind} {x.name}, {y.name}", dtypes.bool_)

    def select(self, condition: SsaValue, a: SsaValue, b: SsaValue) -> SsaValue:
        if condition.dtype.category != BOOL:
            raise TypeError(f"select: the condition is of {condition.dtype}")
        kind = self._same("select", a, b)
        chosen = f"{self.type_of(condition.dtype)} {condition.name}"
        return self._let(f"select {chosen}, {kind} {a.name}, {kind} {b.name}", a.dtype)

    def signbit(self, x: SsaValue) -> SsaValue:
        self._of("signbit", x, FLOAT)
        bits = self.bits(x)
        return self.lt(bits, self.constant(0, bits))

    # -- bits ---------------------------------------------------------------------------------

    def bitwise_and(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._binary("bitwise_and", x, y, "and", "and", None)

    def bitwise_or(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._binary("bitwise_or", x, y, "or", "or", None)

    def bitwise_xor(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._binary("bitwise_xor", x, y, "xor", "xor", None)

    def bitwise_not(self, x: SsaValue) -> SsaValue:
        ones = SsaValue(
            self._all("true" if x.dtype.category == BOOL else "-1", register_type(x.dtype)), x.dtype
        )
        return self.bitwise_xor(x, ones)

    def shift_left(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._binary("shift_left", x, y, None, "shl", None)

    def shift_right(self, x: SsaValue, y: SsaValue) -> SsaValue:
        name = "ashr" if x.dtype.is_signed else "lshr"
        return self._binary("shift_right", x, y, None, name, None)

    def bits(self, x: SsaValue) -> SsaValue:
        """The bits of a float as an int of the same size in a register."""
        return self._cast("bitcast", x, dtypes.int64 if x.dtype is dtypes.float64 else dtypes.int32)

    def from_bits(self, x: SsaValue) -> SsaValue:
        """The float32 or float64 of these bits."""
        return self._cast(
            "bitcast", x, dtypes.float64 if x.dtype is dtypes.int64 else dtypes.float32
        )

    # -- how instructions are written -----------------------------------------------------------

    def _let(self, instruction: str, dtype: DType) -> SsaValue:
        return SsaValue(self.text.let(instruction), dtype)

    def _same(self, name: str, x: SsaValue, y: SsaValue) -> str:
        if x.dtype.is_complex and name != "select":
            raise TypeError(f"{name}: the instruction does not take {x.dtype}")
        if x.dtype is not y.dtype:
            raise TypeError(f"{name}: operands of two types, {x.dtype} and {y.dtype}")
        return self.type_of(x.dtype)

    def _of(self, name: str, x: SsaValue, category: int) -> None:
        if x.dtype.category != category:
            raise TypeError(f"{name}: the instruction does not take {x.dtype}")

    def _cast(self, instruction: str, x: SsaValue, dtype: DType) -> SsaValue:
        kinds = f"{self.type_of(x.dtype)} {x.name} to {self.type_of(dtype)}"
        return self._let(f"{instruction} {kinds}", dtype)

    def _signed(self, dtype: DType) -> bool:
        return dtype.is_signed and dtype.category != BOOL

    def _binary(
        self, name: str, x: SsaValue, y: SsaValue, of_bool: Any, of_int: Any, of_float: Any
    ) -> SsaValue:
        kind = self._same(name, x, y)
        instruction = (of_bool, of_int, of_float)[x.dtype.category]
        if instruction is None:
            raise TypeError(f"{name}: the instruction does not take {x.dtype}")
        return self._let(f"{instruction} {kind} {x.name}, {y.name}", x.dtype)

    def intrinsic(self, name: str, *values: SsaValue) -> SsaValue:
        """A call of an LLVM intrinsic whose operands and result have the same type."""
        if values[0].dtype.is_complex:
            raise TypeError(f"{name}: the instruction does not take {values[0].dtype}")
        kind = self.type_of(values[0].dtype)
        arguments = ", ".join(f"{kind} {v.name}" for v in values)
        suffix = self._suffix(values[0].dtype)
        return self._let(f"call {kind} @llvm.{name}.{suffix}({arguments})", values[0].dtype)
