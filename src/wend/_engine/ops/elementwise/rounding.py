"""Elementwise rounding. Ints are whole already and are returned unchanged."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import (
    FLOATING,
    NUMERIC,
    Array,
    Elementwise,
    Grads,
    V,
    zeros_like,
)


class Rounding(Elementwise, abstract=True):
    """y = input rounded to an integer; gradient 0 everywhere."""

    facts = OpFacts(supports=NUMERIC)
    rounding: ClassVar[Any]  # the NumPy function

    def reference(self, x: Array) -> Array:
        return x if x.dtype.kind in "iu" else type(self).rounding(x)

    def emit(self, b: Builder, x: Value) -> Value:
        return getattr(b, self.name)(x) if b.dtype(x).is_floating_point else x

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (zeros_like(g),)


class Floor(Rounding):
    """y = the largest integer that is not above input."""

    torch = TorchCall(names=("floor",), inplace=True)
    rounding = staticmethod(np.floor)


class Ceil(Rounding):
    """y = the smallest integer that is not below input."""

    torch = TorchCall(names=("ceil",), inplace=True)
    rounding = staticmethod(np.ceil)


class Trunc(Rounding):
    """y = input without the fraction."""

    torch = TorchCall(names=("trunc", "fix"), inplace=True)
    rounding = staticmethod(np.trunc)


class Round(Rounding):
    """y = the nearest integer, halves to the even integer."""

    torch = TorchCall(inplace=False)
    rounding = staticmethod(np.rint)


class Frac(Elementwise):
    """y = input - trunc(input)."""

    torch = TorchCall(names=("frac",), inplace=True)
    facts = OpFacts(supports=FLOATING)

    def reference(self, x: Array) -> Array:
        return x - np.trunc(x)

    def emit(self, b: Builder, x: Value) -> Value:
        return b.sub(x, b.trunc(x))

    def vjp(self, g: V, y: V, x: V) -> Grads:
        return (g,)
