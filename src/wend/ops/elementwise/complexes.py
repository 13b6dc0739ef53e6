"""Elementwise ops between complex numbers and their parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend.base import dtypes
from wend.base.dtypes import DType
from wend.base.errors import DTypeError
from wend.core.primitive import Sample, ops
from wend.ops.builder import Builder, Value
from wend.ops.elementwise.family import ANY_NUMBER, FLOATING, Array, Elementwise, Grads, V


class Conj(Elementwise):
    """y = the complex conjugate of input, in memory of its own."""

    name = "conj"
    functions = methods = ("conj_physical",)
    inplace = True
    supports = ANY_NUMBER
    grad_name = "ConjBackward0"
    overwrites = True
    reference = staticmethod(np.conjugate)

    def emit(self, b: Builder, x: Value) -> Value:
        return x  # of real numbers: others have no machine code

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (ops.conj(g),)


class Complex(Elementwise):
    """y = real + 1j * imag, of two tensors of equal float type.

    Raises DTypeError for operands of other types, or of two types.
    """

    signature = "real, imag"
    functions = ("complex",)
    supports = FLOATING

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        """The complex type of the operands' precision."""
        targets, out = super().dtypes_of(*operands)
        kinds = [o.dtype for o in operands]
        if kinds[0] != kinds[1]:
            raise DTypeError(
                "complex: Expected object of the same dtype for both parts, "
                f"but got {kinds[0]} and {kinds[1]}"
            )
        return targets, dtypes.complex128 if out is dtypes.float64 else dtypes.complex64

    def reference(self, real: Array, imag: Array) -> Array:
        wide = np.complex128 if real.dtype == np.float64 else np.complex64
        y = np.empty(np.broadcast_shapes(real.shape, imag.shape), wide)
        y.real, y.imag = real, imag
        return y

    def vjp(self, g: V, y: V, real: V, imag: V) -> Grads:
        return ops.real(g), ops.imag(g)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            if all(isinstance(a, np.ndarray) for a in sample.args):
                yield sample


__all__ = ["Complex", "Conj"]
