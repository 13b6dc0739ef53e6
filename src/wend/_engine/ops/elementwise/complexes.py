"""Elementwise ops between complex numbers and their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import DTypeError
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import ops
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import ANY_NUMBER, FLOATING, Array, Elementwise, Grads, V


class Conj(Elementwise):
    """y = the complex conjugate of input, in memory of its own."""

    name = "conj"
    torch = TorchCall(
        names=("conj_physical",),
        inplace=True,
        grad_name="ConjBackward0",
    )
    facts = OpFacts(supports=ANY_NUMBER)
    schedule = OpSchedule(overwrites=True)
    reference = staticmethod(np.conjugate)

    def emit(self, b: Builder, x: Value) -> Value:
        return b.complex(b.real(x), b.neg(b.imag(x))) if b.dtype(x).is_complex else x

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (ops.conj(g),)


class FromParts(Elementwise, abstract=True):
    """Base: a complex number of two real tensors of equal float type.

    Raises DTypeError for operands of other types, or of two types.
    """

    facts = OpFacts(supports=FLOATING)

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        """The complex type of the operands' precision."""
        targets, out = super().dtypes_of(*operands)
        first, second = (o.dtype for o in operands)
        if first != second:
            raise DTypeError(
                f"{self.name}: Expected object of the same dtype for both operands, but got "
                f"{first} and {second}"
            )
        return targets, dtypes.complex128 if out is dtypes.float64 else dtypes.complex64


class Complex(FromParts):
    """y = real + 1j * imag, of two tensors of equal float type."""

    signature = "real, imag"
    torch = TorchCall(functions=("complex",))

    def reference(self, real: Array, imag: Array) -> Array:
        wide = np.complex128 if real.dtype == np.float64 else np.complex64
        y = np.empty(np.broadcast_shapes(real.shape, imag.shape), wide)
        y.real, y.imag = real, imag
        return y

    def vjp(self, g: V, y: V, real: V, imag: V) -> Grads:
        return ops.real(g), ops.imag(g)


class Polar(FromParts):
    """y = abs * cos(angle) + 1j * abs * sin(angle), angle in radians.

    The gradient by abs is 0 where abs is 0, as PyTorch has it.
    """

    signature = "abs, angle"
    torch = TorchCall(functions=("polar",))

    def reference(self, abs: Array, angle: Array) -> Array:
        return Complex.formula[0](self, abs * np.cos(angle), abs * np.sin(angle))

    def emit(self, b: Builder, abs: Value, angle: Value) -> Value:
        return b.complex(b.mul(abs, b.cos(angle)), b.mul(abs, b.sin(angle)))

    def vjp(self, g: V, y: V, abs: V, angle: V) -> Grads:
        turned = ops.conj(g)
        return ops.real(turned * ops.sgn(y)), ops.real(turned * y * 1j)
