"""Views between complex tensors and their parts: real, imag, view_as_real, view_as_complex."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.views.family import SAME_MEMORY, Rescaled, Strides

_PARTS = frozenset({"complex"})


class Part(Rescaled, abstract=True):
    """A part of each element of a complex tensor, as a view of the same memory."""

    facts = OpFacts(supports=_PARTS)
    place: int  #: 0 the real part, 1 the imaginary part

    def infer(self, x: Spec) -> Spec:
        if not x.dtype.is_complex:
            raise DTypeError(f"{self.name}: is only implemented for tensors with complex dtypes")
        return Spec(x.shape, x.dtype.to_real())

    def rescaled(self, dtype: DType, strides: Sequence[int], offset: int) -> Strides:
        return tuple([2 * step for step in strides]), 2 * offset + self.place

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        return getattr(ops, self.name)(x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((), (3,), (2, 0), (2, 3)):
            yield Sample(rng.normal(size=shape) + 1j * rng.normal(size=shape))


class Real(Part):
    """y = the real parts of a complex tensor, a view."""

    place = 0

    def reference(self, x: np.ndarray) -> np.ndarray:
        return x.real

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.cast(g, x.dtype),)

    def put(self, x: Tensor, v: Tensor) -> Tensor:
        return ops.complex(v, ops.imag(x))


class Imag(Part):
    """y = the imaginary parts of a complex tensor, a view."""

    place = 1

    def reference(self, x: np.ndarray) -> np.ndarray:
        return x.imag

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.complex(ops.fill_like(g, 0), g),)

    def put(self, x: Tensor, v: Tensor) -> Tensor:
        return ops.complex(ops.real(x), v)


class ViewAsReal(Rescaled):
    """y[..., 0] = the real, y[..., 1] = the imaginary parts of a complex tensor, a view.

    Raises DTypeError for real tensors.
    """

    facts = OpFacts(supports=_PARTS)
    signature = "input"
    torch = TorchCall(functions=("view_as_real",))
    schedule = SAME_MEMORY

    def infer(self, x: Spec) -> Spec:
        if not x.dtype.is_complex:
            raise DTypeError("view_as_real: is only supported for complex tensors")
        return Spec((*x.shape, 2), x.dtype.to_real())

    def reference(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)  # the real part of a number of NumPy is a copy, and no memory follows it
        real = np.dtype(f"f{x.dtype.itemsize // 2}")
        steps = (*x.strides, real.itemsize)
        return np.lib.stride_tricks.as_strided(x.real, (*x.shape, 2), steps)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.view_as_complex(g),)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return ops.view_as_real(x)

    def put(self, x: Tensor, v: Tensor) -> Tensor:
        return ops.complex(ops.select(v, -1, 0), ops.select(v, -1, 1))

    def rescaled(self, dtype: DType, strides: Sequence[int], offset: int) -> Strides:
        return (*[2 * step for step in strides], 1), 2 * offset

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((), (3,), (2, 0), (2, 3)):
            yield Sample(rng.normal(size=shape) + 1j * rng.normal(size=shape))


class ViewAsComplex(Rescaled):
    """y = x[..., 0] + 1j * x[..., 1], a view; of halves, a copy of type complex64.

    Raises ShapeError unless the last dim has 2 elements.
    """

    facts = OpFacts(supports=frozenset({"float"}))
    schedule = SAME_MEMORY
    signature = "input"

    def infer(self, x: Spec) -> Spec:
        if not len(x.shape):
            raise ShapeError("view_as_complex: Input tensor must have one or more dimensions")
        if x.shape[-1] != 2:
            raise ShapeError(
                f"view_as_complex: Tensor must have a last dimension of size 2, got {x.shape[-1]}"
            )
        return Spec(tuple(x.shape[:-1]), x.dtype.to_complex())

    def reference(self, x: np.ndarray) -> np.ndarray:
        if x.dtype.itemsize == 2:
            x = x.astype(np.float32)
        wide = np.dtype(f"c{2 * x.dtype.itemsize}")
        if any(step % wide.itemsize for step in x.strides[:-1]) or x.strides[-1] != x.itemsize:
            x = np.ascontiguousarray(x)
        whole: np.ndarray = x.view(wide)
        return whole[..., 0]

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.view_as_real(g),)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return ops.view_as_complex(x)

    def put(self, x: Tensor, v: Tensor) -> Tensor:
        return ops.cast(ops.view_as_real(v), x.dtype)

    def rescaled(self, dtype: DType, strides: Sequence[int], offset: int) -> Strides:
        return tuple([step // 2 for step in strides[:-1]]), offset // 2

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2,), (3, 2), (0, 2), (2, 3, 2)):
            yield Sample(rng.normal(size=shape))
