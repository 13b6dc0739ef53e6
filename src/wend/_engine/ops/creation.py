"""Ops that make values out of nothing but sizes and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.errors import DTypeError, DTypeNotImplemented, ShapeError, ValueRefused
from wend._engine.core.kinds import Scalar, Size, Sizes, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpFacts
from wend._engine.core.primitive import NO_GRADIENT, Primitive, Sample
from wend._engine.core.symbolic import SymInt, hints
from wend._engine.core.types import Number, Spec
from wend._engine.ops.numeric import wrapped
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


class Full(Primitive):
    """y[...] = fill_value, in the shape `size`.

    dtype: by default that of the number (a float is of the default type).
    Raises ShapeError for a negative extent, DTypeError for a complex number in a real dtype.
    """

    signature = "size: sizes, fill_value: scalar, *, dtype: dtype = None"
    dtype: Any
    facts = OpFacts(supports=ANY_DTYPE)
    vjp = NO_GRADIENT

    def infer(self, size: Sizes, fill_value: Number) -> Spec:
        for d, n in enumerate(size):
            if n < 0:
                raise ShapeError(
                    f"full: trying to create a tensor with negative dimension {n} "
                    f"(dim {d} of {hints(size)})"
                )
        dtype = self.dtype or dtypes.dtype_of_scalar_category(fill_value.category)
        if fill_value.category == dtypes.COMPLEX and dtype.category != dtypes.COMPLEX:
            raise DTypeError(f"full: a complex fill value cannot be converted to {dtype}")
        return Spec(tuple(size), dtype)

    def reference(self, size: Sizes, fill_value: Scalar) -> np.ndarray:
        dtype = self.dtype or dtypes.of_python(type(fill_value))
        value = wrapped(fill_value, dtype.numpy)
        if not any(value.tobytes()):  # the system clears memory only at its first use
            return np.zeros(tuple(size), dtype.numpy)
        return np.full(tuple(size), value)

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for a known dtype; zeros in a step."""
        if self.dtype is None:
            return self.reference
        dtype = self.dtype.numpy

        def run(size: Sizes, fill_value: Scalar) -> np.ndarray:
            if fill_value == 0 and (type(fill_value) is int or str(fill_value) == "0.0"):
                return np.zeros(size, dtype)
            return self.reference(size, fill_value)

        return run

    def onnx(self, g: OnnxBuilder, size: Sizes, fill_value: Scalar) -> OnnxValue:
        return g.node("Expand", g.number(fill_value, g.out[0].dtype), g.sizes(size))

    def batch(self, batched: Sequence[bool], size: Size, *params: Any) -> Tensor:
        raise AssertionError("full has no operands: it never meets a batch")

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((2, 3), 1.5)
        yield Sample((), True)
        yield Sample((0, 2), 3)
        yield Sample((4,), 2, dtype=dtypes.float64)
        yield Sample((4,), -1, dtype=dtypes.int8)


class Arange(Primitive):
    """y[i] = start + i * step, for i < count. `end` is the caller's: `arange_count` read it.

    dtype: by default int64 if start and step are ints, else the default float type.
    """

    signature = "start: scalar, end: scalar, step: scalar, count: size, *, dtype: dtype = None"
    dtype: Any
    facts = OpFacts(supports=frozenset({"int", "float"}))
    vjp = NO_GRADIENT

    def infer(self, start: Number, end: Number, step: Number, count: Size) -> Spec:
        category = max(start.category, end.category, step.category, dtypes.INT)
        dtype = self.dtype or dtypes.dtype_of_scalar_category(category)
        if dtype.category not in (dtypes.INT, dtypes.FLOAT):
            raise DTypeNotImplemented(f"arange: not implemented for {dtype}")
        return Spec((count,), dtype)

    def reference(self, start: Scalar, end: Scalar, step: Scalar, count: int) -> np.ndarray:
        category = type(start + end + step)
        dtype = self.dtype or dtypes.of_python(int if category is bool else category)
        wide: Any = np.float64 if dtype.is_floating_point else np.int64
        places = np.arange(count, dtype=wide)
        return np.asarray(wide(start) + places * wide(step)).astype(dtype.numpy)

    def onnx(
        self, g: OnnxBuilder, start: Scalar, end: Scalar, step: Scalar, count: Size
    ) -> OnnxValue:
        out = g.out[0].dtype
        wide = dtypes.float64 if out.is_floating_point else dtypes.int64
        places = g.node("Range", g.size(0), g.size(count), g.size(1))
        if (start, step) == (0, 1):
            return g.cast(places, out)
        steps = g.node("Mul", g.cast(places, wide), g.number(step, wide))
        return g.cast(g.node("Add", g.number(start, wide), steps), out)

    def batch(self, batched: Sequence[bool], size: Size, *params: Any) -> Tensor:
        raise AssertionError("arange has no operands: it never meets a batch")

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(0, 5, 1, 5)
        yield Sample(3, -4, -2, 4)
        yield Sample(0.5, 2.0, 0.25, 6)
        yield Sample(0, 0, 1, 0)
        yield Sample(1, 4, 1, 3, dtype=dtypes.float64)


def arange_count(start: Any, end: Any, step: Any) -> int:
    """How many elements `arange(start, end, step)` has: ceil((end - start) / step).

    Raises ArgumentError for a step of 0, bounds that the step leads away from, or no finite number.
    """
    if step == 0:
        raise ValueRefused("arange: step must be nonzero")
    if not all(isinstance(n, SymInt) or math.isfinite(n) for n in (start, end, step)):
        raise ValueRefused(f"arange: unsupported range: {start} -> {end} by {step}")
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise ValueRefused(
            "arange: upper bound and lower bound inconsistent with step sign: "
            f"{start} -> {end} by {step}"
        )
    if all(isinstance(n, (int, SymInt)) for n in (start, end, step)):
        count: int = -((start - end) // step)
    else:
        count = math.ceil((end - start) / step)
    return count
