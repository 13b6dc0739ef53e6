"""Elementwise operations on the bits of ints, and on bools; common parts of ops on ints."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from wend._engine.base.dtypes import FLOAT, DType
from wend._engine.base.errors import DTypeOfOperator
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import NO_GRADIENT
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import INTEGRAL, Array, Elementwise


class Bitwise(Elementwise, abstract=True):
    """Ops on the bits of bools and ints; no gradient."""

    signature = "input: operand, other: operand"
    facts = OpFacts(supports=INTEGRAL)
    domain: ClassVar[Any] = (-9.0, 9.0)
    vjp = NO_GRADIENT


class BitwiseAnd(Bitwise):
    """y = input & other."""

    torch = TorchCall(
        names=("bitwise_and",),
        operators=("__and__",),
        reflected=True,
        inplace=True,
    )
    reference = staticmethod(np.bitwise_and)


class BitwiseOr(Bitwise):
    """y = input | other."""

    torch = TorchCall(
        names=("bitwise_or",),
        operators=("__or__",),
        reflected=True,
        inplace=True,
    )
    reference = staticmethod(np.bitwise_or)


class BitwiseXor(Bitwise):
    """y = input ^ other."""

    torch = TorchCall(
        names=("bitwise_xor",),
        operators=("__xor__",),
        reflected=True,
        inplace=True,
    )
    reference = staticmethod(np.bitwise_xor)


class BitwiseNot(Bitwise):
    """y = ~input; logical not, of bools."""

    signature = "input"
    torch = TorchCall(
        names=("bitwise_not",),
        operators=("__invert__",),
        inplace=True,
    )
    reference = staticmethod(np.invert)

    def check_dtype(self, common: DType) -> None:
        if common.category >= FLOAT:
            raise DTypeOfOperator(
                f"{self.name}: `~` is for bool and int tensors, and not implemented for {common}"
            )


class Shift(Bitwise, abstract=True):
    """Shifts of ints. A count below 0, or not below the number of bits, shifts all bits out."""

    facts = OpFacts(supports=frozenset({"int"}))
    domain = ((-9.0, 9.0), (0.0, 9.0))


class BitwiseLeftShift(Shift):
    """y = input << other; 0 if other is not in [0, bits)."""

    torch = TorchCall(
        names=("bitwise_left_shift",),
        operators=("__lshift__",),
        reflected=True,
        inplace=True,
    )

    def reference(self, x: Array, other: Array) -> Array:
        valid = (other >= 0) & (other < x.dtype.itemsize * 8)
        return np.where(valid, np.left_shift(x, np.where(valid, other, 0)), 0)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        valid, zero = _in_range(b, x, other), b.constant(0, x)
        return b.select(valid, b.shift_left(x, b.select(valid, other, zero)), zero)


class BitwiseRightShift(Shift):
    """y = input >> other; only the sign is left (0 or -1) if other is not in [0, bits)."""

    torch = TorchCall(
        names=("bitwise_right_shift",),
        operators=("__rshift__",),
        reflected=True,
        inplace=True,
    )

    def reference(self, x: Array, other: Array) -> Array:
        bits = x.dtype.itemsize * 8
        valid = (other >= 0) & (other < bits)
        shifted = np.right_shift(x, np.where(valid, other, bits - 1).astype(x.dtype))
        return shifted if x.dtype.kind == "i" else np.where(valid, shifted, 0)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        valid = _in_range(b, x, other)
        most = b.constant(b.dtype(x).itemsize * 8 - 1, x)
        shifted = b.shift_right(x, b.select(valid, other, most))
        if b.dtype(x).is_signed:
            return shifted
        return b.select(valid, shifted, b.constant(0, x))


class Gcd(Bitwise):
    """y = the greatest common divisor of input and other, at least 0."""

    signature = "input, other"
    facts = OpFacts(supports=frozenset({"int"}))
    torch = TorchCall(names=("gcd",), inplace=True)
    reference = staticmethod(np.gcd)


def _in_range(b: Builder, x: Value, count: Value) -> Value:
    below = b.lt(count, b.constant(b.dtype(x).itemsize * 8, x))
    if not b.dtype(x).is_signed:
        return below
    return b.bitwise_and(b.ge(count, b.constant(0, x)), below)
