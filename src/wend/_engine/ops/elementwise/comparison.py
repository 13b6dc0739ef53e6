"""Elementwise comparisons, logic and tests: results are bool, without a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.core._hot import Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, ops
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import ANY_NUMBER, REAL, Array, Elementwise


class Comparison(Elementwise, abstract=True):
    """Compares in the promoted dtype; everything but `ne` is False where an operand is NaN.

    Numbers and 0-d tensors are rounded to this dtype, half types too: tensor(0.1) == 0.1 in each.
    """

    signature = "input, other: operand"
    kind = "bool"
    widens = False
    torch = TorchCall(inplace=True)
    vjp = NO_GRADIENT


class Eq(Comparison):
    """y = input == other."""

    facts = OpFacts(supports=ANY_NUMBER)
    torch = TorchCall(names=("eq",), operators=("__eq__",))
    reference = staticmethod(np.equal)


class Ne(Comparison):
    """y = input != other."""

    facts = OpFacts(supports=ANY_NUMBER)
    torch = TorchCall(names=("ne", "not_equal"), operators=("__ne__",))
    reference = staticmethod(np.not_equal)


def _of_complex(compare: Any, unlike: bool) -> Any:
    """How a tensor of real numbers compares with a complex number; see OpFunction.general."""

    def general(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        number = kwargs.get("other", args[-1] if args else None)
        if type(number) is not complex or not isinstance(args[0], Tensor):
            return NotImplemented
        if args[0].dtype.is_complex:
            return NotImplemented
        mask = compare(args[0], number.real)
        return mask if number.imag == 0 else ops.fill_like(mask, unlike)

    return general


Eq.function.general = _of_complex(Eq.function, False)
Ne.function.general = _of_complex(Ne.function, True)


class Lt(Comparison):
    """y = input < other."""

    torch = TorchCall(names=("lt", "less"), operators=("__lt__",))
    reference = staticmethod(np.less)


class Le(Comparison):
    """y = input <= other."""

    torch = TorchCall(names=("le", "less_equal"), operators=("__le__",))
    reference = staticmethod(np.less_equal)


class Gt(Comparison):
    """y = input > other."""

    torch = TorchCall(names=("gt", "greater"), operators=("__gt__",))
    reference = staticmethod(np.greater)


class Ge(Comparison):
    """y = input >= other."""

    torch = TorchCall(names=("ge", "greater_equal"), operators=("__ge__",))
    reference = staticmethod(np.greater_equal)


class LogicalAnd(Comparison):
    """y = input != 0 and other != 0."""

    signature = "input, other"
    facts = OpFacts(supports=ANY_NUMBER)
    torch = TorchCall(names=("logical_and",))
    reference = staticmethod(np.logical_and)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        return b.bitwise_and(_truth(b, x), _truth(b, other))


class LogicalOr(Comparison):
    """y = input != 0 or other != 0."""

    signature = "input, other"
    facts = OpFacts(supports=ANY_NUMBER)
    torch = TorchCall(names=("logical_or",))
    reference = staticmethod(np.logical_or)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        return b.bitwise_or(_truth(b, x), _truth(b, other))


class LogicalXor(Comparison):
    """y = either input or other, and not both, is not 0."""

    signature = "input, other"
    facts = OpFacts(supports=ANY_NUMBER)
    torch = TorchCall(names=("logical_xor",))
    reference = staticmethod(np.logical_xor)

    def emit(self, b: Builder, x: Value, other: Value) -> Value:
        return b.bitwise_xor(_truth(b, x), _truth(b, other))


def _truth(b: Builder, x: Value) -> Value:
    return b.convert(x, dtypes.bool_)


class Predicate(Elementwise, abstract=True):
    """A test of each element; of a complex number, of its parts."""

    kind = "bool"
    facts = OpFacts(supports=ANY_NUMBER)
    vjp = NO_GRADIENT


class LogicalNot(Predicate):
    """y = input == 0."""

    torch = TorchCall(names=("logical_not",), inplace=True)
    reference = staticmethod(np.logical_not)

    def emit(self, b: Builder, x: Value) -> Value:
        return b.bitwise_not(_truth(b, x))


class Isnan(Predicate):
    """y = input is not a number."""

    onnx_name = "IsNaN"
    torch = TorchCall(names=("isnan",))

    def reference(self, x: Array) -> Array:
        return x != x

    def emit(self, b: Builder, x: Value) -> Value:
        return b.ne(x, x)


class Isinf(Predicate):
    """y = input is infinite."""

    onnx_name = "IsInf"
    torch = TorchCall(names=("isinf",))

    def reference(self, x: Array) -> Array:
        return np.isinf(x) if x.dtype.kind in "fc" else np.zeros(x.shape, np.bool_)

    def emit(self, b: Builder, x: Value) -> Value:
        if b.dtype(x).is_complex:
            return b.bitwise_or(self.emit(b, b.real(x)), self.emit(b, b.imag(x)))
        if not b.dtype(x).is_floating_point:
            return b.ne(x, x)
        return b.eq(b.abs(x), b.constant(float("inf"), x))


class Isfinite(Predicate):
    """y = input is neither infinite nor NaN."""

    torch = TorchCall(names=("isfinite",))

    def reference(self, x: Array) -> Array:
        return np.isfinite(x) if x.dtype.kind in "fc" else np.ones(x.shape, np.bool_)

    def emit(self, b: Builder, x: Value) -> Value:
        if b.dtype(x).is_complex:
            return b.bitwise_and(self.emit(b, b.real(x)), self.emit(b, b.imag(x)))
        if not b.dtype(x).is_floating_point:
            return b.eq(x, x)
        return b.lt(b.abs(x), b.constant(float("inf"), x))


class Signbit(Predicate):
    """y = input has a minus sign: -0.0 too, unlike input < 0."""

    torch = TorchCall(names=("signbit",))
    facts = OpFacts(supports=REAL)

    def reference(self, x: Array) -> Array:
        return np.signbit(x) if x.dtype.kind == "f" else x < 0

    def emit(self, b: Builder, x: Value) -> Value:
        dtype = b.dtype(x)
        if dtype.is_floating_point:
            return b.signbit(x)
        return b.lt(x, b.constant(0, x)) if dtype.is_signed else b.ne(x, x)
