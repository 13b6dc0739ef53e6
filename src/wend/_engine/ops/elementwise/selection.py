"""Elementwise choices: where, maxima and minima, clamp, relu; and the cast between dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import DTypeError, ValueRefused
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import (
    ANY_NUMBER,
    NUMERIC,
    Array,
    Elementwise,
    Formula,
    Grads,
    V,
)
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.numeric import choose


class Where(Elementwise):
    """y = input where condition, else other.

    condition: bool (or uint8) tensor, broadcast with both values. Raises DTypeError otherwise.
    """

    signature = "condition, input: operand, other: operand"
    torch = TorchCall(functions=("where",))
    promotes = (False, True, True)
    facts = OpFacts(supports=ANY_NUMBER, format_of="copied")

    def dtypes_of(self, *operands: Any) -> Any:
        dtype = operands[0].dtype
        if dtype not in (dtypes.bool_, dtypes.uint8, np.bool_, np.uint8):
            raise DTypeError(
                f"where: expected condition to be a boolean tensor, but got one of {dtype}"
            )
        return super().dtypes_of(*operands)

    schedule = OpSchedule(overwrites=True)

    def reference(self, condition: Array, x: Array, other: Array, out: Array = None) -> Array:
        return choose(condition, x, other, out)

    def emit(self, b: Builder, condition: Value, x: Value, other: Value) -> Value:
        return b.select(b.convert(condition, dtypes.bool_), x, other)

    def vjp(self, g: V, y: V, condition: V, x: V, other: V) -> Grads:
        return None, ops.where(condition, g, 0), ops.where(condition, 0, g)

    def draw(self, rng: np.random.Generator, i: int, shape: tuple[int, ...]) -> np.ndarray:
        values = super().draw(rng, i, shape)
        return np.asarray(values > 0) if i == 0 else values

    @staticmethod
    def grad_nodes(n: NodeBuilder, condition: NodeOperand, x: object, other: object) -> object:
        """An edge for numbers too."""
        return n.Where(x, other)


class Extremum(Elementwise, abstract=True):
    """The larger or smaller of two; NaN if either is. A tie shares the gradient."""

    signature = "input, other: operand"
    torch = TorchCall(numbers_inside=True)


class Maximum(Extremum):
    """y = the larger of input and other; NaN if either is."""

    torch = TorchCall(names=("maximum",))
    reference = staticmethod(np.maximum)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        shared = ops.where(x == other, g / 2, g)
        return ops.where(x < other, 0, shared), ops.where(x > other, 0, shared)


class Minimum(Extremum):
    """y = the smaller of input and other; NaN if either is."""

    torch = TorchCall(names=("minimum",))
    reference = staticmethod(np.minimum)

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        shared = ops.where(x == other, g / 2, g)
        return ops.where(x > other, 0, shared), ops.where(x < other, 0, shared)


class Fmax(Extremum):
    """y = the larger of input and other; a NaN gives the number beside it. A tie goes to input."""

    signature = "input, other"
    torch = TorchCall(names=("fmax",))

    def reference(self, x: Array, other: Array) -> Array:
        return np.where((other > x) | (x != x), other, x)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        return b.fmax(other, x)  # the second of equal operands

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        takes = ops.logical_or(x >= other, ops.isnan(other))
        return ops.where(takes, g, 0), ops.where(takes, 0, g)


class Fmin(Extremum):
    """y = the smaller of input and other; a NaN gives the number beside it. A tie goes to input."""

    signature = "input, other"
    torch = TorchCall(names=("fmin",))

    def reference(self, x: Array, other: Array) -> Array:
        return np.where((other < x) | (x != x), other, x)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        return b.fmin(other, x)  # the second of equal operands

    def vjp(self, g: V, y: V, x: V, other: V) -> Grads:
        takes = ops.logical_or(x <= other, ops.isnan(other))
        return ops.where(takes, g, 0), ops.where(takes, 0, g)


class Clamping(Elementwise, abstract=True):
    """y = min(max(input, min), max); either bound may be None.

    Where min > max, y = max. The gradient passes where min <= input <= max, ends included.
    Raises ArgumentError if both are None.
    """

    def infer(self, *operands: Any) -> Spec:
        if operands[1] is None and operands[2] is None:
            raise ValueRefused("clamp: at least one of 'min' or 'max' must not be None")
        return super().infer(*operands)

    def reference(self, x: Array, low: Array, high: Array) -> Array:
        # Among equal operands, such as 0 and -0, the second is taken: the input.
        x = x if low is None else np.maximum(low, x)
        return x if high is None else np.minimum(high, x)

    def emit(self, b: Builder, x: Value, low: Value, high: Value) -> Value:
        x = x if low is None else b.maximum(low, x)
        return x if high is None else b.minimum(high, x)


class Clamp(Clamping):
    """y = min(max(input, min), max) for numbers; either bound may be None.

    Where min > max, y = max. The gradient passes where min <= input <= max, ends included.
    Raises ArgumentError if both are None.
    """

    signature = "input, min: scalar? = None, max: scalar? = None"
    torch = TorchCall(grad_name="ClampBackward1")

    def vjp(self, g: V, y: V, x: V, low: V, high: V) -> Grads:
        return (ops.where(_inside(x, low, high), g, 0),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            x = self.draw(rng, 0, shape)
            yield Sample(x, -1.0, 1)
            yield Sample(x, min=0.5)
            yield Sample(x, max=1)
        yield Sample(self.draw(rng, 0, (5,)), 2.0, -2.0)


class ClampTensor(Clamping):
    """y = min(max(input, min), max) for tensors; either bound may be None.

    As `clamp`; a bound gets the gradient where y is that bound.
    """

    signature = "input, min: tensor? = None, max: tensor? = None"
    torch = TorchCall(grad_name="ClampBackward0")

    def vjp(self, g: V, y: V, x: V, low: V, high: V) -> Grads:
        by_low = by_high = None
        if low is not None:
            by_low = ops.where(x < low, g, 0)
            if high is not None:
                by_low = ops.where(low < high, by_low, 0)
        if high is not None:
            above = x > high
            if low is not None:
                above = ops.logical_or(above, high < low)
            by_high = ops.where(above, g, 0)
        return ops.where(_inside(x, low, high), g, 0), by_low, by_high

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for a, b, c in (((3, 4), (4,), (3, 1)), ((2, 3), (), (2, 3)), ((), (), ())):
            x = self.draw(rng, 0, a)
            low, high = rng.uniform(-2, -0.5, size=b), rng.uniform(0.5, 2, size=c)
            yield Sample(x, low, high)
            yield Sample(x, min=low)
            yield Sample(x, max=high)
        yield Sample(self.draw(rng, 0, (4,)), np.full(4, 1.0), np.full(4, -1.0))
        ties = np.array([[0.0, 0, 1], [1, 0, 1], [2, 2, 2], [3, 1, 0], [1, 2, 1], [0, 0, 0]])
        yield Sample(*(np.ascontiguousarray(row) for row in ties.T))

    @staticmethod
    def grad_nodes(
        n: NodeBuilder, x: NodeOperand, low: NodeOperand | None, high: NodeOperand | None
    ) -> object:
        """An edge for each missing bound."""
        return n.Clamp(x, low, high)


def _inside(x: V, low: V, high: V) -> V:
    if low is None:
        return x <= high
    return x >= low if high is None else ops.logical_and(x >= low, x <= high)


class Relu(Elementwise):
    """y = max(input, 0); gradient 0 at 0."""

    facts = OpFacts(smooth=True, rises=True, supports=NUMERIC)

    onnx_name = "Relu"
    torch = TorchCall(names=("relu",), inplace=True)

    def reference(self, x: Array) -> Array:
        return np.maximum(x.dtype.type(0), x)  # the second of equal operands: -0 of -0

    def emit(self, b: Builder, x: Value) -> Value:
        return b.maximum(b.constant(0, x), x)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (ops.where(y <= 0, 0, g),)


class Cast(Elementwise):
    """y = input converted to dtype: floats are truncated to ints, and not 0 is True."""

    signature = "input, dtype: dtype"
    dtype: DType
    facts = OpFacts(supports=ANY_NUMBER)
    widens = False  # a single conversion, a single rounding
    torch = TorchCall(grad_name="ToCopyBackward0")

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        return (None,), self.dtype

    def reference(self, x: Array) -> Array:
        # Through int64, as compilers do: a float beyond the range of a small int wraps.
        if x.dtype.kind == "c" and not self.dtype.is_complex and self.dtype is not dtypes.bool_:
            x = x.real
        if x.dtype.kind not in "biuc" and self.dtype.category == dtypes.INT:
            whole = x.astype(np.int64)
            if self.dtype is dtypes.uint64:
                return np.where(x >= 2.0**63, x.astype(np.uint64), whole.astype(np.uint64))
            x = whole
        return x.astype(self.dtype.numpy)

    def runner(self, operands: list[Any]) -> Callable[..., Any]:
        """`reference` for an operand of a known dtype: most casts are a single conversion."""
        (x,) = operands
        source, target = x.dtype.category, self.dtype.category
        if source == dtypes.COMPLEX and target != dtypes.COMPLEX:
            return super().runner(operands)
        if source == dtypes.FLOAT and target == dtypes.INT and self.dtype is not dtypes.int64:
            return super().runner(operands)
        return Formula(methodcaller("astype", self.dtype.numpy), (), self.dtype.numpy)

    def emit(self, b: Builder, x: Value) -> Value:
        return b.convert(x, self.dtype)

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g,)  # the walker casts a gradient to the dtype of the operand

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for dtype in dtypes.ALL[: dtypes.float64.id + 1]:
            yield Sample(self.draw(rng, 0, (2, 3)), dtype)
        yield Sample(self.draw(rng, 0, ()), dtypes.float32)
