"""Ops that the engine itself records: identities with a separate gradient identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.core.kinds import Scalar, Size, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, Primitive, Sample, ops
from wend._engine.core.types import Number, Spec
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


class Identity(Primitive):
    """y = x, as a value with a separate gradient identity."""

    name = "identity"
    torch = TorchCall(grad_name="AliasBackward0")
    signature = "input"
    facts = OpFacts(supports=frozenset({"bool", "int", "float", "complex"}))

    def infer(self, x: Spec) -> Spec:
        """The operand's type."""
        return x

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The operand itself."""
        return x

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        """The gradient passes."""
        return (g,)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        """The operand itself."""
        return x

    def batch(self, batched: tuple[bool, ...], size: Size, x: Tensor) -> Any:
        """The same op: its only point is the effect on gradients."""
        return getattr(ops, self.name)(x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        """A matrix and a 0-d tensor."""
        yield Sample(rng.normal(size=(3, 4)))
        yield Sample(rng.normal(size=()))


class StopGradient(Identity):
    """y = x, and no gradient flows back; not a view, unlike `detach`."""

    name = "stop_gradient"
    vjp = NO_GRADIENT


class Variable(StopGradient):
    """y = x, as the value of a leaf that requires grad and whose data is still pending."""

    name = "variable"
    facts = OpFacts(labels_leaf=True)


def assigned(src: NodeOperand) -> Any:
    """The assigned tensor, before copies and conversions to dtype and shape of the target."""
    source, maker = src, src.maker
    if maker is not None and maker[0].name in ("clone", "identity"):
        return maker[1][0]
    for name in ("expand", "reshape", "cast"):
        maker = source.maker
        if maker is not None and maker[0].name == name and (name != "reshape" or source is not src):
            source = maker[1][0]
    return source


class Graft(Primitive):
    """y = data, with the gradient going to `history`: a value overwritten through `detach()`."""

    name = "graft"
    formal_gradient = True
    torch = TorchCall(grad_name="AliasBackward0")
    signature = "data, history"
    facts = OpFacts(supports=frozenset({"bool", "int", "float", "complex"}))

    def infer(self, data: Spec, history: Spec) -> Spec:
        """The type of the data."""
        return data

    def reference(self, data: np.ndarray, history: np.ndarray) -> np.ndarray:
        """The data."""
        return data

    def vjp(self, g: Tensor, y: Tensor, data: Tensor, history: Tensor) -> tuple[Any, ...]:
        """All of the gradient belongs to the history."""
        return (None, g)

    def onnx(self, g: OnnxBuilder, data: OnnxValue, history: OnnxValue) -> OnnxValue:
        """The data."""
        return data

    def batch(self, batched: tuple[bool, ...], size: Size, data: Tensor, history: Tensor) -> Any:
        """Both with the batch axis, added where missing."""
        both = zip((data, history), batched, strict=True)
        lifted = [x if b else ops.expand_to(x, (size, *x.shape), (0,)) for x, b in both]
        return getattr(ops, self.name)(*lifted)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        """Two matrices."""
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(3, 4)))

    @staticmethod
    def grad_nodes(n: NodeBuilder, data: NodeOperand, history: NodeOperand) -> object:
        """The data changed unseen: nothing that PyTorch knows of."""
        return history


class Overwrite(Graft):
    """y = data, in the place of `history`, which nothing of y depends on any more."""

    name = "overwrite"
    formal_gradient = False

    @staticmethod
    def grad_nodes(n: NodeBuilder, data: NodeOperand, history: NodeOperand) -> object:
        """Named by the written value: a number, drawn numbers, or a tensor."""
        maker = data.maker
        if maker is not None and not maker[1]:
            name = maker[0].torch.grad_name
            if maker[0].name == "full":
                name = "FillBackward2" if maker[2][-1] else "ZeroBackward0"
            return n.node(name, history)
        if maker is not None and maker[0].name == "clone":
            number = maker[1][0].maker  # `fill_` has expanded the number
            if number is not None and number[0].name == "expand" and not number[1][0].rank:
                return n.Fill3(history, number[1][0])
        return n.node("CopyBackwards", history, assigned(data))

    def vjp(self, g: Tensor, y: Tensor, data: Tensor, history: Tensor) -> tuple[Any, ...]:
        """Zeros for the history: the history keeps requiring a gradient, as in PyTorch."""
        return (g, ops.full(history.shape, 0.0, dtype=history.dtype))


class FillLike(Primitive):
    """y = value everywhere, with the shape and dtype of x."""

    name = "fill_like"
    signature = "input, value: scalar"
    vjp = NO_GRADIENT
    facts = OpFacts(supports=frozenset({"bool", "int", "float", "complex"}))

    def infer(self, x: Spec, value: Number) -> Spec:
        """The operand's type."""
        return x

    def reference(self, x: np.ndarray, value: Scalar) -> np.ndarray:
        """A new array."""
        return np.full(x.shape, value, dtype=x.dtype)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, value: Scalar) -> OnnxValue:
        """The number, expanded."""
        return g.node("Expand", g.number(value, x.dtype), g.shape_of(x))

    def batch(self, batched: tuple[bool, ...], size: Size, x: Tensor, value: Scalar) -> Tensor:
        """Filled over the batch axis too."""
        return ops.fill_like(x, value)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        """A matrix."""
        yield Sample(rng.normal(size=(3, 4)), 2)
