"""The family of elementwise functions without scalar code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule
from wend._engine.core.primitive import Primitive, Sample
from wend._engine.core.types import Spec
from wend._engine.ops.elementwise.family import Elementwise
from wend._engine.ops.numeric import FLOATING, Array


class HostFunction(Elementwise, abstract=True):
    """An elementwise function of floats that NumPy computes: a host step in a plan."""

    kind = "float"
    # no `emit`: loops over elements are not generated
    facts = OpFacts(elementwise=False)
    schedule = OpSchedule(library="special functions of NumPy")
    emit = None  # type: ignore[assignment]
    onnx = None  # type: ignore[assignment]


class NoDerivative(Primitive):
    """y = g, which must be 0 everywhere: the gradient of an operand that has no derivative.

    Raises NotImplementedInWend (when the value is computed) for another g, with the text `fault`.
    """

    signature = "g, *, fault: str"
    facts = OpFacts(supports=FLOATING, fallible=True)
    schedule = OpSchedule(unlowered="the op raises an error unless all elements are 0")
    fault: str

    def infer(self, g: Spec) -> Spec:
        return g

    def reference(self, g: Array) -> Array:
        if np.any(g):
            raise NotImplementedInWend(self.fault)
        return g.copy()

    def batch(self, batched: Sequence[bool], size: Size, g: Tensor) -> Any:
        return type(self).function(g, fault=self.fault)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(np.zeros((2, 3)), fault="f: no derivative")
