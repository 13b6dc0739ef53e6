"""Numbers as a significand and a power of two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import int32
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import FLOATING, Array, require, widen


class Frexp(Primitive):
    """(mantissa, exponent): input = mantissa * 2^exponent, |mantissa| in [1/2, 1) unless 0."""

    torch = TorchCall(names=("frexp",))
    signature = "input"
    facts = OpFacts(supports=FLOATING)
    schedule = OpSchedule(unlowered="elementwise loops make one result, and this op makes two")
    result = ("mantissa", "exponent")

    def infer(self, x: Spec) -> tuple[Spec, ...]:
        require(self.name, self.facts.supports, x.dtype)
        return Spec(x.shape, x.dtype), Spec(x.shape, int32)

    def reference(self, x: Array) -> tuple[np.ndarray, ...]:
        mantissa, exponent = np.frexp(widen(x))
        exponent = np.where(np.isfinite(mantissa), exponent, 0).astype(np.int32)
        return np.asarray(mantissa).astype(x.dtype, copy=False), exponent

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], x: Tensor) -> tuple[Any, ...]:
        return (g[0] / ops.exp2(ops.cast(y[1], x.dtype)),)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        return ops.frexp(x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.uniform(1.1, 1.9, size=(2, 3)))
        yield Sample(rng.uniform(-30.0, -17.0, size=(3,)))
        yield Sample(np.asarray(0.3))
        yield Sample(np.zeros((0, 2)))
