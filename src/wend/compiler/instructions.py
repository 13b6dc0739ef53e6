"""The instructions of `emit` rules as LLVM text, for a vector of elements at a time.

`VectorBuilder` is `wend.ops.builder.Builder`: its values are names of LLVM vectors of `lanes`
elements (of scalars, if lanes is 1).  bool is i1 in registers and a byte in memory.  float16 and
bfloat16 are kept in registers as the float32 that equals them: `load` widens them, `convert` to
them rounds.

A rule that can fail (`require`) marks the lanes that failed; `Faults` collects them over all loops
of a kernel, and the kernel leaves them in a word of its argument block: bit i is set if
`faults.messages[i]` is to be raised.  Who calls the kernel clears the word before and reads it
after the kernel.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

from wend.base import dtypes
from wend.base.dtypes import BOOL, FLOAT, INT, DType
from wend.base.errors import CompileError
from wend.compiler import halves, mathlib
from wend.compiler.formulas import Operand
from wend.compiler.llvm import Target
from wend.compiler.text import Module, Text

_HALVES = (dtypes.float16, dtypes.bfloat16)
_BITS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


class Value(NamedTuple):
    """A name (or a constant) in LLVM's text, and the type of its elements."""

    name: str
    dtype: DType

    @property
    def is_constant(self) -> bool:
        """Whether it is a literal, which is no NaN unless it says so."""
        return not self.name.startswith("%")


def register_type(dtype: DType) -> str:
    """LLVM's name of one element in a register. Raises CompileError for complex types."""
    if dtype.category == BOOL:
        return "i1"
    if dtype.category == INT:
        return _BITS[dtype.itemsize]
    if dtype.category == FLOAT:
        return "double" if dtype is dtypes.float64 else "float"
    raise CompileError(f"no instruction takes {dtype}")


def memory_type(dtype: DType) -> str:
    """LLVM's name of one element in memory."""
    if dtype.category == BOOL:
        return "i8"
    return "i16" if dtype in _HALVES else register_type(dtype)


def vector_type(element: str, lanes: int) -> str:
    """`lanes` of an LLVM type: itself, or a vector of it."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def literal(value: float, dtype: DType) -> str:
    """A number as LLVM writes it, rounded or wrapped to the dtype."""
    if dtype.category == BOOL:
        return "true" if value else "false"
    if dtype.category == INT:
        bits = 8 * dtype.itemsize
        whole = int(value) & (1 << bits) - 1
        return str(whole - (whole >> bits - 1 << bits))
    number = float(value)
    if dtype is not dtypes.float64:
        number = halves.rounded(number, dtype)
    return "0x" + struct.pack(">d", number).hex().upper()


class Faults:
    """Which requirements of a kernel failed, in registers while its loops run.

    `entry` are lines for the kernel's first block, `leave` goes before it returns.
    """

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._slots: dict[tuple[str, int], str] = {}

    def slot(self, message: str, lanes: int) -> str:
        """Where the lanes that failed are kept."""
        if message not in self.messages:
            if len(self.messages) == 64:
                raise CompileError("a kernel can fail in 64 ways at most")
            self.messages.append(message)
        return self._slots.setdefault((message, lanes), f"%fault{len(self._slots)}")

    def entry(self) -> str:
        """Lines that make the slots, complete once all loops are written."""
        lines = []
        for (_, lanes), name in self._slots.items():
            kind = vector_type("i1", lanes)
            zero = "false" if lanes == 1 else "zeroinitializer"
            lines += [f"  {name} = alloca {kind}", f"  store {kind} {zero}, ptr {name}"]
        return "\n".join(lines)

    def leave(self, text: Text, word: str) -> None:
        """Add the failures to the 64-bit word at the pointer `word`; threads may share it."""
        total = ""
        for (message, lanes), name in self._slots.items():
            failed = text.let(f"load {vector_type('i1', lanes)}, ptr {name}")
            if lanes > 1:
                kind = f"<{lanes} x i1>"
                failed = text.let(f"call i1 @llvm.vector.reduce.or.v{lanes}i1({kind} {failed})")
            bit = text.let(f"zext i1 {failed} to i64")
            bit = text.let(f"shl i64 {bit}, {self.messages.index(message)}")
            total = text.let(f"or i64 {total}, {bit}") if total else bit
        if total:
            text.let(f"atomicrmw or ptr {word}, i64 {total} monotonic")


class VectorBuilder:
    """See `wend.ops.builder.Builder`.

    text: where the instructions go       module: where the functions that they call go
    lanes: elements of a vector           faults: what `require` notes, None if nothing can fail
    mask: which lanes count (name of an i1 vector), None for all
    """

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

    # -- types --------------------------------------------------------------------------------

    def type_of(self, dtype: DType) -> str:
        """LLVM's type of a value of this dtype."""
        return vector_type(register_type(dtype), self.lanes)

    def _suffix(self, dtype: DType) -> str:
        name = {"float": "f32", "double": "f64"}.get(register_type(dtype), register_type(dtype))
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def dtype(self, x: Value) -> DType:
        return x.dtype

    def constant(self, value: float, like: Value) -> Value:
        return self.number(value, like.dtype)

    def number(self, value: float, dtype: DType) -> Value:
        """A constant of this dtype in every lane."""
        return Value(self._all(literal(value, dtype), register_type(dtype)), dtype)

    def _all(self, text: str, element: str) -> str:
        return text if self.lanes == 1 else f"splat ({element} {text})"

    def spread(self, name: str, dtype: DType) -> Value:
        """A scalar, as in a register (see `register_type`), in every lane."""
        if self.lanes == 1:
            return Value(name, dtype)
        kind, element = self.type_of(dtype), register_type(dtype)
        first = self.text.let(f"insertelement {kind} poison, {element} {name}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self._let(f"shufflevector {kind} {first}, {kind} poison, {zeros}", dtype)

    def vector(self, element: str) -> str:
        """LLVM's type of `lanes` of an element."""
        return vector_type(element, self.lanes)

    def value(self, name: str, dtype: DType = dtypes.int32) -> Value:
        """A value for what an instruction of one's own made."""
        return Value(name, dtype)

    # -- memory -------------------------------------------------------------------------------

    def load(self, pointer: str, dtype: DType) -> Value:
        """Neighbouring elements from memory; lanes outside the mask are 0."""
        element = memory_type(dtype)
        kind = vector_type(element, self.lanes)
        if self.mask is None or self.lanes == 1:
            read = self.text.let(f"load {kind}, ptr {pointer}, align {dtype.itemsize}")
        else:
            read = self.text.let(
                f"call {kind} @llvm.masked.load.{self._memory_suffix(element)}.p0(ptr {pointer}, "
                f"i32 {dtype.itemsize}, {self._mask()}, {kind} zeroinitializer)"
            )
        return self.from_memory(read, dtype)

    def gather(self, pointers: str, dtype: DType) -> Value:
        """Elements from the vector of pointers (from the pointer, of one lane)."""
        if self.lanes == 1:
            return self.load(pointers, dtype)
        element = memory_type(dtype)
        kind = vector_type(element, self.lanes)
        mask = self._mask() if self.mask else f"<{self.lanes} x i1> splat (i1 true)"
        read = self.text.let(
            f"call {kind} @llvm.masked.gather.{self._memory_suffix(element)}.v{self.lanes}p0("
            f"<{self.lanes} x ptr> {pointers}, i32 {dtype.itemsize}, {mask}, "
            f"{kind} zeroinitializer)"
        )
        return self.from_memory(read, dtype)

    def store(self, value: Value, pointer: str) -> None:
        """Neighbouring elements to memory; lanes outside the mask are left alone."""
        size = value.dtype.itemsize
        element = memory_type(value.dtype)
        kind = vector_type(element, self.lanes)
        written = self.to_memory(value)
        if self.mask is None or self.lanes == 1:
            self.text.line(f"store {kind} {written}, ptr {pointer}, align {size}")
        else:
            self.text.line(
                f"call void @llvm.masked.store.{self._memory_suffix(element)}.p0({kind} {written}, "
                f"ptr {pointer}, i32 {size}, {self._mask()})"
            )

    def from_memory(self, name: str, dtype: DType) -> Value:
        """An element, or a vector of them, as it was read (see `memory_type`)."""
        if dtype.category == BOOL:
            byte = vector_type("i8", self.lanes)
            return self._let(f"icmp ne {byte} {name}, {self._zero()}", dtype)
        if dtype in _HALVES:
            return Value(halves.widen(self, name, dtype), dtype)
        return Value(name, dtype)

    def to_memory(self, value: Value) -> str:
        """What to write for this value (see `memory_type`)."""
        if value.dtype.category == BOOL:
            kind, byte = self.type_of(value.dtype), vector_type("i8", self.lanes)
            return self.text.let(f"zext {kind} {value.name} to {byte}")
        if value.dtype in _HALVES:
            return halves.narrow(self, value.name, value.dtype)
        return value.name

    def _memory_suffix(self, element: str) -> str:
        return f"v{self.lanes}" + {"float": "f32", "double": "f64"}.get(element, element)

    def _mask(self) -> str:
        return f"<{self.lanes} x i1> {self.mask}"

    def _zero(self) -> str:
        return "0" if self.lanes == 1 else "zeroinitializer"

    # -- conversions --------------------------------------------------------------------------

    def convert(self, x: Value, dtype: DType) -> Value:
        source = x.dtype
        if source is dtype:
            return x
        if dtype.category == BOOL:
            return self.ne(x, self.constant(0, x))
        if dtype.category == INT:
            return self._to_int(x, dtype)
        if source.category == FLOAT:
            return self._float_to_float(x, dtype)
        wide = dtype if dtype is dtypes.float64 else dtypes.float32
        made = self._cast("sitofp" if self._signed(source) else "uitofp", x, wide)
        return self._rounded(made, dtype)

    def _to_int(self, x: Value, dtype: DType) -> Value:
        if x.dtype.category == FLOAT:
            # Beyond int64 it is what the processor makes of it; without `freeze`, anything.
            wide = self._cast("fptosi", x, dtypes.int64)
            x = self._let(f"freeze {self.type_of(dtypes.int64)} {wide.name}", dtypes.int64)
        if dtype.itemsize < x.dtype.itemsize:
            return self._cast("trunc", x, dtype)
        if x.dtype.category == INT and dtype.itemsize == x.dtype.itemsize:
            return Value(x.name, dtype)
        return self._cast("sext" if self._signed(x.dtype) else "zext", x, dtype)

    def _float_to_float(self, x: Value, dtype: DType) -> Value:
        if dtype is dtypes.float64:
            return self._cast("fpext", x, dtype)
        if x.dtype is not dtypes.float64:
            return self._rounded(x, dtype)
        if dtype is dtypes.float16:
            return self._rounded(Value(halves.to_odd(self, x.name), dtypes.float32), dtype)
        return self._rounded(self._cast("fptrunc", x, dtypes.float32), dtype)

    def _rounded(self, x: Value, dtype: DType) -> Value:
        """A float32 (or half) rounded to a half type; others as they are."""
        if dtype not in _HALVES or x.dtype is dtype:
            return Value(x.name, dtype)
        return Value(halves.widen(self, halves.narrow(self, x.name, dtype), dtype), dtype)

    def _cast(self, instruction: str, x: Value, dtype: DType) -> Value:
        kinds = f"{self.type_of(x.dtype)} {x.name} to {self.type_of(dtype)}"
        return self._let(f"{instruction} {kinds}", dtype)

    def _signed(self, dtype: DType) -> bool:
        return dtype.is_signed and dtype.category != BOOL

    # -- choices and failures -----------------------------------------------------------------

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        if condition.dtype.category != BOOL:
            raise TypeError(f"select: the condition is of {condition.dtype}")
        kind = self._same("select", a, b)
        chosen = f"{self.type_of(condition.dtype)} {condition.name}"
        return self._let(f"select {chosen}, {kind} {a.name}, {kind} {b.name}", a.dtype)

    def require(self, condition: Value, message: str) -> None:
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

    # -- arithmetic ---------------------------------------------------------------------------

    def add(self, x: Value, y: Value) -> Value:
        return self._binary("add", x, y, "or", "add", "fadd")

    def sub(self, x: Value, y: Value) -> Value:
        return self._binary("sub", x, y, None, "sub", "fsub")

    def mul(self, x: Value, y: Value) -> Value:
        return self._binary("mul", x, y, "and", "mul", "fmul")

    def div(self, x: Value, y: Value) -> Value:
        return self._binary("div", x, y, None, None, "fdiv")

    def fmod(self, x: Value, y: Value) -> Value:
        if x.dtype.category == INT:
            return self.sub(x, self.mul(self.function("trunc_divide", x, y), y))
        return self.function("fmod", x, y)

    def neg(self, x: Value) -> Value:
        if x.dtype.category == INT:
            return self.sub(self.constant(0, x), x)
        self._of("neg", x, FLOAT)
        return self._let(f"fneg {self.type_of(x.dtype)} {x.name}", x.dtype)

    def abs(self, x: Value) -> Value:
        if x.dtype.category == INT:
            if not x.dtype.is_signed:
                return x
            kind = self.type_of(x.dtype)
            call = f"call {kind} @llvm.abs.{self._suffix(x.dtype)}({kind} {x.name}, i1 false)"
            return self._let(call, x.dtype)
        return self.intrinsic("fabs", x)

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("sqrt", x)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z, rounded once (of float32 without such an instruction: nearly always)."""
        if self.target.fused or x.dtype is dtypes.float64:
            return self.intrinsic("fma", x, y, z)
        wide = (self._cast("fpext", v, dtypes.float64) for v in (x, y, z))
        a, b, c = wide
        return self._cast("fptrunc", self.add(self.mul(a, b), c), x.dtype)

    def copysign(self, x: Value, y: Value) -> Value:
        return self.intrinsic("copysign", x, y)

    def floor(self, x: Value) -> Value:
        return self.intrinsic("floor", x)

    def ceil(self, x: Value) -> Value:
        return self.intrinsic("ceil", x)

    def trunc(self, x: Value) -> Value:
        return self.intrinsic("trunc", x)

    def round(self, x: Value) -> Value:
        return self.intrinsic("roundeven", x)

    # -- what only some processors have ---------------------------------------------------------

    def scale_by_power(self, x: Value, n: Value) -> Value | None:
        """x * 2 ** n of whole n, rounded once, if there is an instruction for it."""
        return self._by_registers("mask.scalef", x, n)

    def estimate_reciprocal(self, x: Value) -> Value | None:
        """1 / x to 14 binary digits, if there is an instruction for it."""
        return None if x.dtype is dtypes.float64 else self._by_registers("rcp14", x)

    def _by_registers(self, name: str, *values: Value) -> Value | None:
        """An instruction of AVX-512 on whole vector registers."""
        dtype = values[0].dtype
        size = self.lanes * dtype.itemsize
        if self.lanes == 1 or size % 16 or size & (size - 1) or not self.target.has("avx512vl"):
            return None
        return Value(self._in_halves(name, [v.name for v in values], dtype, self.lanes), dtype)

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

    def maximum(self, x: Value, y: Value) -> Value:
        return self._extreme(x, y, "ogt", "max", propagate=True)

    def minimum(self, x: Value, y: Value) -> Value:
        return self._extreme(x, y, "olt", "min", propagate=True)

    def fmax(self, x: Value, y: Value) -> Value:
        return self._extreme(x, y, "ogt", "max", propagate=False)

    def fmin(self, x: Value, y: Value) -> Value:
        return self._extreme(x, y, "olt", "min", propagate=False)

    def _extreme(self, x: Value, y: Value, order: str, name: str, propagate: bool) -> Value:
        kind = self._same(name, x, y)
        if x.dtype.category == BOOL:
            return self.add(x, y) if name == "max" else self.mul(x, y)
        if x.dtype.category == INT:
            return self.intrinsic(f"{'s' if x.dtype.is_signed else 'u'}{name}", x, y)
        if y.is_constant:
            x, y = y, x
        # One machine instruction, which gives y if either is NaN.
        better = self._compare(order, x, y)
        best = self.select(better, x, y)
        if x.is_constant and propagate:
            return best
        odd = x if propagate else y
        broken = self._let(f"fcmp uno {kind} {odd.name}, {odd.name}", dtypes.bool_)
        return self.select(broken, x, best)

    def eq(self, x: Value, y: Value) -> Value:
        return self._order("eq", "oeq", x, y)

    def ne(self, x: Value, y: Value) -> Value:
        return self._order("ne", "une", x, y)

    def lt(self, x: Value, y: Value) -> Value:
        return self._order("lt", "olt", x, y)

    def le(self, x: Value, y: Value) -> Value:
        return self._order("le", "ole", x, y)

    def gt(self, x: Value, y: Value) -> Value:
        return self._order("gt", "ogt", x, y)

    def ge(self, x: Value, y: Value) -> Value:
        return self._order("ge", "oge", x, y)

    def _order(self, name: str, order: str, x: Value, y: Value) -> Value:
        if x.dtype.category == FLOAT:
            return self._compare(order, x, y)
        kind = self._same(name, x, y)
        if name not in ("eq", "ne"):
            name = ("s" if self._signed(x.dtype) else "u") + name
        return self._let(f"icmp {name} {kind} {x.name}, {y.name}", dtypes.bool_)

    def _compare(self, order: str, x: Value, y: Value) -> Value:
        kind = self._same(order, x, y)
        return self._let(f"fcmp {order} {kind} {x.name}, {y.name}", dtypes.bool_)

    def signbit(self, x: Value) -> Value:
        self._of("signbit", x, FLOAT)
        bits = self.bits(x)
        return self.lt(bits, self.constant(0, bits))

    # -- bits ---------------------------------------------------------------------------------

    def bitwise_and(self, x: Value, y: Value) -> Value:
        return self._binary("bitwise_and", x, y, "and", "and", None)

    def bitwise_or(self, x: Value, y: Value) -> Value:
        return self._binary("bitwise_or", x, y, "or", "or", None)

    def bitwise_xor(self, x: Value, y: Value) -> Value:
        return self._binary("bitwise_xor", x, y, "xor", "xor", None)

    def bitwise_not(self, x: Value) -> Value:
        ones = Value(
            self._all("true" if x.dtype.category == BOOL else "-1", register_type(x.dtype)), x.dtype
        )
        return self.bitwise_xor(x, ones)

    def shift_left(self, x: Value, y: Value) -> Value:
        return self._binary("shift_left", x, y, None, "shl", None)

    def shift_right(self, x: Value, y: Value) -> Value:
        name = "ashr" if x.dtype.is_signed else "lshr"
        return self._binary("shift_right", x, y, None, name, None)

    def bits(self, x: Value) -> Value:
        """The bits of a float as an int of its size in a register."""
        return self._cast("bitcast", x, dtypes.int64 if x.dtype is dtypes.float64 else dtypes.int32)

    def from_bits(self, x: Value) -> Value:
        """The float32 or float64 of these bits."""
        return self._cast(
            "bitcast", x, dtypes.float64 if x.dtype is dtypes.int64 else dtypes.float32
        )

    # -- functions of the library (the others of `mathlib.FUNCTIONS` are added below) -----------

    def polygamma(self, n: int, x: Value) -> Value:
        return self.function("polygamma", x, order=n)

    # -- how instructions are written ---------------------------------------------------------

    def _let(self, instruction: str, dtype: DType) -> Value:
        return Value(self.text.let(instruction), dtype)

    def _same(self, name: str, x: Value, y: Value) -> str:
        if x.dtype is not y.dtype:
            raise TypeError(f"{name}: operands of two types, {x.dtype} and {y.dtype}")
        return self.type_of(x.dtype)

    def _of(self, name: str, x: Value, category: int) -> None:
        if x.dtype.category != category:
            raise TypeError(f"{name}: the instruction does not take {x.dtype}")

    def _binary(
        self, name: str, x: Value, y: Value, of_bool: Any, of_int: Any, of_float: Any
    ) -> Value:
        kind = self._same(name, x, y)
        instruction = (of_bool, of_int, of_float)[x.dtype.category]
        if instruction is None:
            raise TypeError(f"{name}: the instruction does not take {x.dtype}")
        return self._let(f"{instruction} {kind} {x.name}, {y.name}", x.dtype)

    def intrinsic(self, name: str, *values: Value) -> Value:
        """A call of an LLVM intrinsic whose operands and result are of one type."""
        kind = self.type_of(values[0].dtype)
        arguments = ", ".join(f"{kind} {v.name}" for v in values)
        suffix = self._suffix(values[0].dtype)
        return self._let(f"call {kind} @llvm.{name}.{suffix}({arguments})", values[0].dtype)

    def function(self, name: str, *values: Value, order: int = 0) -> Value:
        """A call of a function of `mathlib`, which joins the module."""
        dtype = values[0].dtype
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
    """A function of the library and what it calls, itself last: (name, text) each."""
    formula, count = mathlib.FUNCTIONS[name]
    module, text = Module(), Text()
    b = VectorBuilder(text, module, lanes, target)
    inputs = [Operand(b, Value(f"%x{i}", dtype)) for i in range(count)]
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
