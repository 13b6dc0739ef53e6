"""Where a user-defined function (`autograd.Function`) stands in a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Primitive, Sample
from wend._engine.core.types import Spec


class UserFunction(Primitive):
    """results = forward(*inputs), where forward has been run already and gave `results`.

    Gradients of the results do not flow through this op: when a backward pass comes here, the
    user's `backward` gets them and gives the gradients of the inputs.
    """

    signature = "inputs: tensors, results: tensors"
    result = list
    torch = TorchCall(grad_name="BackwardCFunction")
    facts = OpFacts(calls_user=True, supports=frozenset({"bool", "int", "float", "complex"}))
    formal_gradient = True

    def infer(self, inputs: list[Spec], results: list[Spec]) -> tuple[Spec, ...]:
        """The types of the results."""
        return tuple(results)

    def reference(self, inputs: list[Any], results: list[Any]) -> tuple[Any, ...]:
        """The results themselves."""
        return tuple(results)

    def vjp(
        self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], inputs: list[Any], results: list[Any]
    ) -> tuple[Any, ...]:
        """Gradients of the op alone: the results pass; see the class."""
        return ([None] * len(inputs), list(g))

    def batch(
        self, batched: Sequence[bool], size: Size, inputs: list[Any], results: list[Any]
    ) -> tuple[Tensor, ...]:
        """The batch axis of each result, added where missing."""
        flags = batched[1] if isinstance(batched[1], (list, tuple)) else batched[len(inputs) :]
        return tuple(
            x if flag else x.unsqueeze(0).expand((size, *x.shape))
            for x, flag in zip(results, flags, strict=True)
        )

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        """A single result, and two."""
        yield Sample([rng.normal(size=(3,))], [rng.normal(size=(3, 4))])
        yield Sample(
            [rng.normal(size=(2,)), rng.normal(size=())],
            [rng.normal(size=()), rng.normal(size=(0, 2))],
        )
