"""Elements of quantised tensors: whole numbers for floats, and the range of 8 bits for floats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.core.op_facts import OpFacts
from wend._engine.core.primitive import NO_GRADIENT, Sample, ops
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import FLOATING, Array, Elementwise

#: PyTorch's scales are no less, and 0.1 where all is 0.
LEAST_SCALE = float(np.float32(6.1e-5))
SCALE_OF_NOTHING = 0.1


class RoundToBytes(Elementwise):
    """y = round(input * inverse) + zero, between low and high, as int8 or uint8.

    input: float32   inverse: 1 / scale   zero: the zero point, a whole number
    Halves are rounded to even numbers; NaN gives low.
    """

    signature = "input, inverse: operand, zero: operand, low: int, high: int, dtype: dtype"
    facts = OpFacts(supports=FLOATING)
    vjp = NO_GRADIENT
    low: int
    high: int
    dtype: DType

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        return (dtypes.float32,) * 3, self.dtype

    def reference(self, x: Array, inverse: Array, zero: Array) -> Array:
        with np.errstate(all="ignore"):
            y = np.rint(x * inverse) + zero
        low, high = np.float32(self.low), np.float32(self.high)
        y = np.where(y > low, y, low)
        return np.where(y < high, y, high).astype(np.int32)

    def emit(self, b: Builder, x: Value, inverse: Value, zero: Value) -> Value:
        return b.convert(rounded(b, x, inverse, zero, self.low, self.high), self.dtype)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 4), (), (0, 2), (2, 1, 3)):
            x = np.asarray(rng.normal(size=shape) * 300)
            yield Sample(x, 1.5, 3, 0, 255, dtypes.uint8)
            yield Sample(x, np.asarray(0.5), np.asarray(-4.0), -128, 127, dtypes.int8)
        yield Sample(rng.normal(size=(2, 3)), rng.normal(size=(3,)), 0.0, -128, 127, dtypes.int8)


def rounded(b: Builder, x: Value, inverse: Value, zero: Value, low: int, high: int) -> Value:
    """The formula of `RoundToBytes` through a builder, in float32."""
    y = b.add(b.round(b.mul(x, inverse)), zero)
    least, most = b.constant(low, y), b.constant(high, y)
    y = b.select(b.gt(y, least), y, least)
    return b.select(b.lt(y, most), y, most)


class _OfRange(Elementwise, abstract=True):
    """Base: a number for the least and greatest float of a tensor, and the greatest byte."""

    signature = "least, greatest, top: int"
    facts = OpFacts(supports=FLOATING)
    vjp = NO_GRADIENT
    top: int
    gives: DType

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        return (dtypes.float64,) * 2, self.gives

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            low = np.asarray(rng.normal(size=shape))
            yield Sample(low, low + 1, 127)
        edges = np.array([0.0, -1e-6, 0.0, -3.0, -1e-7, 2.0])
        yield Sample(edges, np.array([0.0, 0.0, 1e-5, 0.0, 1e-6, 5.0]), 255)


class ByteScale(_OfRange):
    """The scale by which bytes up to `top` represent floats from least to greatest, and 0."""

    gives = dtypes.float32

    def reference(self, least: Array, greatest: Array) -> Array:
        return scale_and_zero(least, greatest, self.top)[0]

    def emit(self, b: Builder, least: Value, greatest: Value) -> Value:
        return b.convert(scale_and_point(b, least, greatest, self.top)[0], self.gives)


class BytePoint(_OfRange):
    """The byte that represents 0: the zero point for `ByteScale`."""

    gives = dtypes.int32

    def reference(self, least: Array, greatest: Array) -> Array:
        return scale_and_zero(least, greatest, self.top)[1]

    def emit(self, b: Builder, least: Value, greatest: Value) -> Value:
        return b.convert(scale_and_point(b, least, greatest, self.top)[1], self.gives)


def scale_and_zero(least: Array, greatest: Array, top: int) -> tuple[Array, Array]:
    """The scale and zero point in float64, of float64."""
    with np.errstate(all="ignore"):
        low, high = np.where(least < 0, least, 0.0), np.where(greatest > 0, greatest, 0.0)
        scale = (high - low) / top
        single = scale.astype(np.float32)
        scale = np.where((single == 0) | np.isinf(1 / single), SCALE_OF_NOTHING, scale)
        few = scale < LEAST_SCALE
        grown = np.where(high == 0, -LEAST_SCALE * top, low * (LEAST_SCALE / scale))
        low = np.where(few & (low != 0), grown, low)
        scale = np.where(few, LEAST_SCALE, scale)
        zero = np.rint(-low / scale)
        zero = np.where(zero > 0, zero, 0.0)
        return scale, np.where(zero < top, zero, float(top))


def scale_and_point(b: Builder, least: Value, greatest: Value, top: int) -> tuple[Value, Value]:
    """The same through a builder."""
    none = b.constant(0.0, least)
    low = b.select(b.lt(least, none), least, none)
    high = b.select(b.gt(greatest, none), greatest, none)
    tops, threshold = b.constant(float(top), low), b.constant(LEAST_SCALE, low)
    scale = b.div(b.sub(high, low), tops)
    single = b.convert(scale, dtypes.float32)
    over = b.div(b.constant(1.0, single), single)
    lost = b.eq(b.abs(over), b.constant(float("inf"), over))  # 1 / 0 is infinite too
    scale = b.select(lost, b.constant(SCALE_OF_NOTHING, scale), scale)
    few = b.lt(scale, threshold)
    grown = b.mul(low, b.div(threshold, scale))
    grown = b.select(b.eq(high, none), b.constant(-LEAST_SCALE * top, low), grown)
    low = b.select(b.bitwise_and(few, b.ne(low, none)), grown, low)
    scale = b.select(few, threshold, scale)
    zero = b.round(b.neg(b.div(low, scale)))
    zero = b.select(b.gt(zero, none), zero, none)
    return scale, b.select(b.lt(zero, tops), zero, tops)


class FakeQuantize(Elementwise):
    """y = (clamp(round(input / scale) + zero, low, high) - zero) * scale, in float32.

    The gradient passes where the rounded number is in the range (Bengio et al., 2013).
    """

    signature = "input, scale: operand, zero: operand, low: int, high: int"
    facts = OpFacts(supports=FLOATING)
    domain = ((-3.0, 3.0), (0.1, 1.0), (-2.0, 2.0))
    low: int
    high: int

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        return (dtypes.float32,) * 3, dtypes.float32

    def reference(self, x: Array, scale: Array, zero: Array) -> Array:
        with np.errstate(all="ignore"):
            y = np.rint(x * (np.float32(1) / scale)) + zero
            low, high = np.float32(self.low), np.float32(self.high)
            y = np.where(y > low, y, low)
            return (np.where(y < high, y, high) - zero) * scale

    def emit(self, b: Builder, x: Value, scale: Value, zero: Value) -> Value:
        inverse = b.div(b.constant(1.0, scale), scale)
        y = rounded(b, x, inverse, zero, self.low, self.high)
        return b.mul(b.sub(y, zero), scale)

    def vjp(self, g: Any, y: Any, x: Any, scale: Any, zero: Any) -> tuple[Any, ...]:
        q = ops.round(x * (1 / scale)) + zero
        inside = ops.mul(ops.ge(q, self.low), ops.le(q, self.high))
        return ops.where(inside, g, 0), None, None

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 4), (), (0, 2), (2, 1, 3)):
            x = np.asarray(rng.normal(size=shape) * 10)
            yield Sample(x, 0.25, 3, 0, 100)
        yield Sample(rng.normal(size=(2, 3)), np.array([0.1, 0.2, 0.3]), np.zeros(3), -8, 7)
