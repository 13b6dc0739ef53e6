"""Elementwise arithmetic: sums, products, quotients, remainders, powers, roots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import DTypeError, DTypeNotImplemented, ExecutionError
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import (
    ANY_NUMBER,
    FLOATING,
    NUMERIC,
    SIGNED_NUMBER,
    Array,
    Elementwise,
    Grads,
    V,
    is_number,
    tensor_of,
    zeros_like,
)
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand


class Add(Elementwise):
    """y = input + other; or, of bools."""

    facts = OpFacts(smooth=True, rises=True, supports=ANY_NUMBER)

    signature = "input: operand, other: operand"
    torch = TorchCall(
        of_number=tensor_of, operators=("__add__",), reflected=True, inplace=("add_",)
    )
    schedule = OpSchedule(overwrites=True)
    reference = staticmethod(np.add)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g, g


class Sub(Elementwise):
    """y = input - other. Raises DTypeError for bools."""

    facts = OpFacts(smooth=True, supports=SIGNED_NUMBER)

    signature = "input: operand, other: operand"
    torch = TorchCall(
        of_number=tensor_of, operators=("__sub__",), reflected=True, inplace=("sub_",)
    )
    schedule = OpSchedule(overwrites=True)
    reference = staticmethod(np.subtract)

    def dtypes_of(self, *operands: Any) -> Any:
        for operand in operands:
            dtype = getattr(operand, "dtype", None)
            if dtype in (dtypes.bool_, np.bool_) or getattr(operand, "category", 1) == dtypes.BOOL:
                raise DTypeError(
                    f"{self.name}: subtraction, the `-` operator, with a bool tensor is not "
                    "supported; use `^` or logical_xor() for two masks, `~` to invert one"
                )
        return super().dtypes_of(*operands)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g, -g

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: object, other: object) -> object:
        """The node of a number less a tensor."""
        return n.Rsub1(other) if is_number(x) else None


class Mul(Elementwise):
    """y = input * other; and, of bools."""

    facts = OpFacts(smooth=True, supports=ANY_NUMBER, holomorphic=True)

    signature = "input: operand, other: operand"
    torch = TorchCall(
        of_number=tensor_of,
        names=("mul", "multiply"),
        operators=("__mul__",),
        reflected=True,
        inplace=True,
    )
    schedule = OpSchedule(overwrites=True)
    reference = staticmethod(np.multiply)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g * other, g * x


class Div(Elementwise):
    """y = input / other, the true quotient: ints are divided as floats."""

    signature = "input: operand, other: operand"
    torch = TorchCall(
        of_number=tensor_of,
        operators=("__truediv__",),
        reflected=True,
        inplace=("div_",),
    )
    kind = "float"
    facts = OpFacts(supports=ANY_NUMBER, holomorphic=True)
    domain = ((-3.0, 3.0), (0.5, 3.0))
    schedule = OpSchedule(overwrites=True)
    reference = staticmethod(np.true_divide)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g / other, -g * (y / other)  # in PyTorch's order: overflow depends on the order

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: object, other: object) -> object:
        """The nodes of a number over a tensor."""
        return n.Mul(n.Reciprocal(other), None) if is_number(x) else None


class IntegerDivision(Elementwise, abstract=True):
    """Common part of floor_divide, div_trunc, fmod and remainder: ints over 0 are an error."""

    signature = "input: operand, other: operand"
    facts = OpFacts(supports=NUMERIC, fallible=True, only_ints_fail=True)
    domain = ((-9.0, 9.0), (1.0, 4.0))

    def refuse_zero(self, x: Array, other: Array) -> None:
        """Raise ExecutionError if ints are divided by 0 (PyTorch: RuntimeError of this text)."""
        if other.dtype.kind in "iu" and not np.all(other) and np.broadcast(x, other).size:
            raise ExecutionError(self.fault)

    @property
    def fault(self) -> str:
        """The message for ints over 0."""
        return f"{self.name}: ZeroDivisionError: an int divided by 0"

    def divisor(self, b: Builder, other: Value) -> Value:
        """other, required not to be 0 for ints; 1 in place of 0."""
        if b.dtype(other).is_floating_point:
            return other
        valid = b.ne(other, b.constant(0, other))
        b.require(valid, self.fault)
        return b.select(valid, other, b.constant(1, other))


class FloorDivide(IntegerDivision):
    """y = floor(input / other), in Python's sense. Raises ExecutionError for ints over 0."""

    torch = TorchCall(
        of_number=tensor_of,
        names=("floor_divide",),
        operators=("__floordiv__",),
        reflected=True,
        inplace=True,
    )

    def reference(self, x: Array, other: Array) -> Array:
        self.refuse_zero(x, other)
        return np.floor_divide(x, other)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        if not b.dtype(x).is_floating_point:
            other = self.divisor(b, other)
            quotient, rest = b.trunc_divide(x, other), b.fmod(x, other)
            if not b.dtype(x).is_signed:
                return quotient
            one = b.constant(1, x)
            return b.select(_signs_differ(b, rest, other), b.sub(quotient, one), quotient)
        # From the exact remainder: floor(x / other) would be too large by 1 where x / other rounds
        # up to an integer.
        rest = b.fmod(x, other)
        quotient = b.div(b.sub(x, rest), other)
        one, half, zero = (b.constant(c, x) for c in (1.0, 0.5, 0.0))
        quotient = b.select(_signs_differ(b, rest, other), b.sub(quotient, one), quotient)
        whole = b.floor(quotient)
        whole = b.select(b.gt(b.sub(quotient, whole), half), b.add(whole, one), whole)
        whole = b.select(b.eq(quotient, zero), b.copysign(zero, b.div(x, other)), whole)
        return b.select(b.eq(other, zero), b.div(x, other), whole)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return zeros_like(g), zeros_like(g)


class DivTrunc(IntegerDivision):
    """y = trunc(input / other). Raises ExecutionError for ints over 0."""

    torch = TorchCall(grad_name="DivBackward2")

    def reference(self, x: Array, other: Array) -> Array:
        self.refuse_zero(x, other)
        if x.dtype.kind == "f":
            return np.trunc(x / other)
        quotient = np.floor_divide(x, other)
        inexact = quotient * other != x
        return quotient + (inexact & ((x < 0) != (other < 0))).astype(x.dtype)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        if b.dtype(x).is_floating_point:
            return b.trunc(b.div(x, other))
        return b.trunc_divide(x, self.divisor(b, other))

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return zeros_like(g), zeros_like(g)


class Fmod(IntegerDivision):
    """y = input - trunc(input / other) * other: the remainder with the sign of input.

    Raises ExecutionError for ints over 0.
    """

    signature = "input, other: operand"
    torch = TorchCall(names=("fmod",), inplace=True, grad_name="FmodBackward1")

    def reference(self, x: Array, other: Array) -> Array:
        self.refuse_zero(x, other)
        return np.fmod(x, other)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        return b.fmod(x, self.divisor(b, other))

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g, -g * ops.div_trunc(x, other)

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: NodeOperand, other: object) -> object:
        """By a number."""
        return n.Fmod(x) if is_number(other) else None


class Remainder(IntegerDivision):
    """y = input - floor(input / other) * other: the remainder with the sign of other.

    Raises ExecutionError for ints over 0.
    """

    torch = TorchCall(
        names=("remainder",),
        operators=("__mod__",),
        reflected=True,
        inplace=True,
        grad_name="RemainderBackward1",
    )

    def reference(self, x: Array, other: Array) -> Array:
        self.refuse_zero(x, other)
        # Not np.remainder, whose zeros take the sign of other.
        rest = np.fmod(x, other)
        differ = (rest != 0) & ((rest < 0) != (other < 0))
        return np.where(differ, rest + other, rest)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        other = self.divisor(b, other)
        rest = b.fmod(x, other)
        return b.select(_signs_differ(b, rest, other), b.add(rest, other), rest)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g, -g * ops.floor_divide(x, other)

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: object, other: object) -> object:
        """By a number."""
        return n.Remainder(x) if is_number(other) else None


def _signs_differ(b: Builder, rest: Value, other: Value) -> Value:
    """rest is not 0 and differs from other in sign."""
    zero = b.constant(0, rest)
    differ = b.bitwise_xor(b.lt(rest, zero), b.lt(other, zero))
    return b.bitwise_and(b.ne(rest, zero), differ)


class Neg(Elementwise):
    """y = -input. Raises DTypeError for bools."""

    facts = OpFacts(smooth=True, supports=SIGNED_NUMBER)

    torch = TorchCall(
        names=("neg", "negative"),
        operators=("__neg__",),
        inplace=True,
    )
    schedule = OpSchedule(overwrites=True)
    reference = staticmethod(np.negative)

    def check_dtype(self, common: DType) -> None:
        if common is dtypes.bool_:
            raise DTypeError(
                "neg: negation, the `-` operator, on a bool tensor is not supported; "
                "use `~` or logical_not() to invert a mask"
            )
        super().check_dtype(common)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (-g,)


class Abs(Elementwise):
    """y = |input|, a real number; gradient 0 at 0."""

    torch = TorchCall(
        names=("abs", "absolute"),
        operators=("__abs__",),
        inplace=True,
    )
    facts = OpFacts(supports=SIGNED_NUMBER)
    schedule = OpSchedule(overwrites=True)
    reference = staticmethod(np.abs)

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        targets, out = super().dtypes_of(*operands)
        return targets, out.to_real()

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * ops.sgn(x),)


class Sign(Elementwise):
    """y = 1, 0 or -1, as input is positive, zero (or NaN) or negative.

    Raises DTypeError for complex numbers, which `sgn` takes.
    """

    torch = TorchCall(names=("sign",), inplace=True)

    def check_dtype(self, common: DType) -> None:
        if common.is_complex and "complex" not in self.facts.supports:
            raise DTypeNotImplemented(
                "sign: Unlike NumPy, torch.sign is not intended to support complex numbers. "
                "Please use torch.sgn instead."
            )
        super().check_dtype(common)

    def reference(self, x: Array) -> Array:
        if x.dtype.kind == "b":
            return x
        return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)

    def emit(self, b: Builder, x: Value) -> Value:
        if b.dtype(x) is dtypes.bool_:
            return x
        zero, one = b.constant(0, x), b.constant(1, x)
        if not b.dtype(x).is_signed:
            return b.select(b.gt(x, zero), one, zero)
        negative = b.select(b.lt(x, zero), b.constant(-1, x), zero)
        return b.select(b.gt(x, zero), one, negative)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (zeros_like(g),)


class Sgn(Sign):
    """y = input / |input|, and 0 for 0: the sign of real numbers."""

    torch = TorchCall(names=("sgn",))
    facts = OpFacts(supports=ANY_NUMBER)

    def reference(self, x: Array) -> Array:
        if x.dtype.kind != "c":
            return np.sign(x) if x.dtype.kind in "iu" else Sign.formula[0](self, x)
        size = np.abs(x)
        return np.where(size == 0, 0, x / np.where(size == 0, 1, size))

    def emit(self, b: Builder, x: Value) -> Value:
        if not b.dtype(x).is_complex:
            return super().emit(b, x)
        size = b.abs(x)
        nothing = b.eq(size, b.constant(0, size))
        length = b.select(nothing, b.constant(1, size), size)
        real, imag = (b.div(part, length) for part in (b.real(x), b.imag(x)))
        return b.complex(b.select(nothing, size, real), b.select(nothing, size, imag))

    def vjp(self, g: V, y: V, x: V) -> Grads:
        if not x.dtype.is_complex:
            return (zeros_like(g),)
        # Only the part of g across y turns x; the part along y would change |x|.
        across = g - y * ops.real(ops.conj(y) * g)
        size = ops.abs(x)
        return (ops.where(size == 0, 0, across / size),)


class Pow(Elementwise):
    """y = input ** exponent.

    Ints to negative tensor exponents give 0, 1 or -1; to a negative number ints raise
    ExecutionError.
    """

    signature = "input: operand, exponent: operand"
    torch = TorchCall(operators=("__pow__",), reflected=True, inplace=("pow_",))
    facts = OpFacts(supports=SIGNED_NUMBER, holomorphic=True, fallible=True, only_ints_fail=True)
    domain = ((0.2, 3.0), (-2.0, 3.0))

    def reference(self, x: Array, exponent: Array) -> Array:
        if x.dtype.kind not in "fc":
            return self._int_power(x, exponent)
        if 1 not in self._tensors:  # a number: as in `pow_special`
            if exponent == 2.0:
                return x * x
            if exponent == 0.5:
                return np.sqrt(x)
            if exponent == -0.5:
                return 1 / np.sqrt(x)
        return np.power(x, exponent)

    fault: ClassVar[str] = "pow: Integers to negative integer powers are not allowed."

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        """A number keeps its sign, which unsigned types have not."""
        (base, exponent), out = super().dtypes_of(*operands)
        if out.category == dtypes.INT and not out.is_signed and 1 not in self._tensors:
            exponent = dtypes.int64
        return (base, exponent), out

    def _int_power(self, x: Array, exponent: Array) -> Array:
        negative = exponent < 0
        if 1 not in self._tensors and negative:
            raise ExecutionError(self.fault)
        power = np.power(x, np.where(negative, 0, exponent).astype(x.dtype))
        odd = np.where(exponent & 1, -1, 1) if x.dtype.kind == "i" else 1
        unit = np.where(x == 1, 1, np.where(x == -1, odd, 0) if x.dtype.kind == "i" else 0)
        return np.where(negative, unit, power)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        for exponent in (2.0, 0.5, -0.5, 3):
            yield Sample(self.draw(rng, 0, (2, 3)), exponent)

    def emit(self, b: Builder, x: Value, exponent: Value) -> Value:
        if b.dtype(x).category == dtypes.INT and 1 not in self._tensors:  # a number, not a tensor
            b.require(b.ge(exponent, b.constant(0, exponent)), self.fault)
            exponent = b.convert(exponent, b.dtype(x))
        power = b.pow(x, exponent)
        if b.dtype(x).category != dtypes.FLOAT or 1 in self._tensors:
            return power
        # A number of 0.5 means the root, which differs from the power at -0.0 and -inf.
        root = b.sqrt(x)
        half, one = b.constant(0.5, exponent), b.constant(1, x)
        power = b.select(b.eq(exponent, b.neg(half)), b.div(one, root), power)
        return b.select(b.eq(exponent, half), root, power)

    def vjp(self, g: V, y: V, x: V, exponent: V) -> Grads:
        return self._by_base(g, x, exponent), self._by_exponent(g, y, x, exponent)

    @staticmethod
    def _by_base(g: V, x: V, exponent: V) -> V:
        if is_number(x):
            return None
        flat = ops.eq(_tensor(exponent, g), 0)
        if is_number(exponent):  # no second derivative either
            x = ops.where(flat, 1, x)
        slope = g * (exponent * x ** (exponent - 1))
        # 0 * inf where 0 ** 0: the power is constant there.
        return ops.where(flat, 0, slope)

    @staticmethod
    def _by_exponent(g: V, y: V, x: V, exponent: V) -> V:
        if is_number(exponent):
            return None
        base = _tensor(x, g)
        if g.dtype.is_complex and not base.dtype.is_complex:
            base = ops.cast(base, g.dtype)
        height = ops.real(exponent) if exponent.dtype.is_complex else exponent
        flat = ops.logical_and(ops.eq(base, 0), ops.ge(height, 0))
        return g * ops.where(flat, 0, y * ops.log(base))

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: object, exponent: object) -> object:
        """By which of the two is a number."""
        if is_number(exponent):
            return n.Pow(x)
        return n.Pow2(exponent) if is_number(x) else n.Pow1(x, exponent)


def _tensor(operand: V, like: V) -> V:
    """A number as a 0-d tensor, for comparisons; tensors unchanged."""
    return ops.full((), operand, dtype=like.dtype) if is_number(operand) else operand


class Square(Elementwise):
    """y = input ** 2; an int64 of bools."""

    torch = TorchCall(names=("square",), inplace=True, grad_name="PowBackward0")
    facts = OpFacts(supports=ANY_NUMBER, holomorphic=True)
    reference = staticmethod(np.square)

    def promote(self, common: DType) -> DType:
        return dtypes.int64 if common is dtypes.bool_ else common

    def emit(self, b: Builder, x: Value) -> Value:
        return b.mul(x, x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g * (x * 2),)


class Reciprocal(Elementwise):
    """y = 1 / input."""

    onnx_name = "Reciprocal"
    torch = TorchCall(names=("reciprocal",), inplace=True)
    kind = "float"
    facts = OpFacts(supports=ANY_NUMBER, holomorphic=True)
    domain = (0.3, 3.0)

    def reference(self, x: Array) -> Array:
        return 1 / x

    def emit(self, b: Builder, x: Value) -> Value:
        return b.div(b.constant(1, x), x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (-g * (y * y),)


class Sqrt(Elementwise):
    """y = the square root of input; NaN below 0; gradient inf at 0."""

    torch = TorchCall(names=("sqrt",), inplace=True)
    kind = "float"
    facts = OpFacts(supports=ANY_NUMBER, holomorphic=True)
    domain = (0.1, 4.0)
    schedule = OpSchedule(overwrites=True)
    reference = staticmethod(np.sqrt)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g / (2 * y),)


class Rsqrt(Elementwise):
    """y = 1 / sqrt(input)."""

    torch = TorchCall(names=("rsqrt",), inplace=True)
    kind = "float"
    facts = OpFacts(supports=ANY_NUMBER, holomorphic=True)
    domain = (0.1, 4.0)

    def reference(self, x: Array) -> Array:
        return 1 / np.sqrt(x)

    def emit(self, b: Builder, x: Value) -> Value:
        return b.div(b.constant(1, x), b.sqrt(x))

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (-0.5 * g * (y * y * y),)


class Hypot(Elementwise):
    """y = sqrt(input^2 + other^2), without overflow in between."""

    signature = "input, other"
    torch = TorchCall(names=("hypot",), inplace=True)
    facts = OpFacts(supports=FLOATING)
    reference = staticmethod(np.hypot)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g * (x / y), g * (other / y)


class Copysign(Elementwise):
    """y = |input| with the sign of other; gradient 0 where input is 0, NaN where infinite."""

    signature = "input, other: operand"
    torch = TorchCall(names=("copysign",), inplace=True)
    kind = "float"
    reference = staticmethod(np.copysign)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return g * ops.where(x == 0, 0, y / x), zeros_like(g)

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: NodeOperand, other: object) -> object:
        """The node for a number."""
        return n.Copysign1(x) if is_number(other) else None


class Nextafter(Elementwise):
    """y = the next number that the dtype has after input, towards other."""

    signature = "input, other"
    torch = TorchCall(names=("nextafter",), inplace=True)
    facts = OpFacts(supports=FLOATING)
    widens = False  # the neighbours of a bfloat16 are not those of the float32
    reference = staticmethod(np.nextafter)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        return ops.where(x == other, 0, g), zeros_like(g)
