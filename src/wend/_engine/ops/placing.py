"""The op that takes a tensor to another device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.devices import CPU, device
from wend._engine.base.dtypes import DType
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpFacts, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


class ToDevice(Primitive):
    """y = x, in new memory on the device `place`; `source` is the device of x."""

    name = "to_device"
    signature = "input, place: attr, source: attr"
    place: device
    source: device
    torch = TorchCall(grad_name="ToCopyBackward0")
    facts = OpFacts(supports=ANY_DTYPE)

    def place_of(self, types: Any) -> device:
        """The device that is asked for."""
        return self.place

    def check_places(self, types: Any) -> None:
        """The operand may lie anywhere."""

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        return np.array(x, order="C")

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        """The gradient goes back to the device that the operand came from."""
        return (ops.to_device(g, self.source, self.place),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        """The operand: a file of ONNX names no devices."""
        return x

    def batch(self, batched: tuple[bool, ...], size: Size, x: Tensor) -> Any:
        return ops.to_device(x, self.place, self.source)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), CPU, CPU)
        yield Sample(rng.normal(size=()), CPU, CPU)


def beside(x: Tensor, other: Tensor) -> Tensor:
    """The second tensor on the device of the first: itself if it lies there."""
    place = x.value.type.device
    source = other.value.type.device
    return other if source is place else ops.to_device(other, place, source)


def full_beside(x: Tensor, shape: Any, value: Any, dtype: DType | None = None) -> Tensor:
    """y[...] = value, of the type of `x` if no other is given, on the same device."""
    return full_at(x.value.type.device, shape, value, dtype or x.dtype)


def full_at(place: device, shape: Any, value: Any, dtype: DType) -> Tensor:
    """y[...] = value, on a device."""
    created = ops.full(shape, value, dtype=dtype)
    source = created.value.type.device
    return created if source is place else ops.to_device(created, place, source)
