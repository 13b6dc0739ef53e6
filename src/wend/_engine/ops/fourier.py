"""Discrete Fourier transforms: complex to complex, real to half a spectrum, and back.

A transform is linear, and its gradient is a transform again. Sizes are those of the operands, which
are cut or padded before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.base.shapes import normalize_dims
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import FLOATING, INEXACT, Array, require, widen
from wend._engine.ops.views.family import Shape
from wend._engine.ops.views.strided import arange

#: By the factor of the result ('none', 'ortho': n ** -0.5, 'full': 1 / n), NumPy's `norm` of a
#: transform forward.
_FORWARD = {"none": "backward", "ortho": "ortho", "full": "forward"}
_INVERSE = {"none": "forward", "ortho": "ortho", "full": "backward"}


class Transform(Primitive, abstract=True):
    """Base: a transform over some dims, for each place in the rest.

    scale: the factor of the result, 'none', 'ortho' (n ** -0.5) or 'full' (1 / n), where n counts
    the elements that a transform mixes.
    """

    signature = "input, dims: ints, scale: str = 'none'"
    facts = OpFacts(smooth=True)
    schedule = OpSchedule(library="pocketfft of NumPy")
    dims: tuple[int, ...]
    scale: str

    def axes(self, rank: int) -> tuple[int, ...]:
        """The transformed axes, counted from 0, in the order given."""
        return normalize_dims(self.dims, rank, self.name)

    def with_last(self, shape: Shape, extent: Size) -> tuple[Any, ...]:
        """A shape with another extent in the last of the transformed dims."""
        axis = self.axes(len(shape))[-1]
        return (*shape[:axis], extent, *shape[axis + 1 :])

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, *last: Any) -> Any:
        axes = tuple([d + 1 for d in self.axes(len(x.shape) - 1)])
        return getattr(ops, self.name)(x, *last, **{**self.attrs, "dims": axes})


def _in_turn(x: Array, steps: list[tuple[Callable[..., Array], int, int]], scale: str) -> Array:
    """The transforms (function, elements, axis), one after another, in the precision of x."""
    # For the factor 1 alone, NumPy takes twice the precision, and eight times as long.
    divided = scale == "none" and x.real.dtype == np.float32
    for transform, n, axis in steps:
        norms = _FORWARD if transform in (np.fft.fft, np.fft.rfft) else _INVERSE
        x = transform(x, n, axis, norms["full" if divided else scale])
    if divided:
        x *= np.float32(math.prod([n for _, n, _ in steps]))
    return x


class FftC2c(Transform):
    """y[k] = sum over j of x[j] * exp(-2 pi i j k / n), or with `inverse` of exp(+2 pi i j k / n).

    input: complex, or real numbers, halves widened   ->   complex, of the same shape
    """

    signature = "input, dims: ints, inverse: bool = False, scale: str = 'none'"
    facts = OpFacts(supports=INEXACT)
    torch = TorchCall(grad_name="FftC2CBackward0")
    inverse: bool

    def infer(self, x: Spec) -> Spec:
        require(self.name, self.facts.supports, x.dtype)
        self.axes(x.rank)
        return Spec(x.shape, x.dtype.to_complex())

    def reference(self, x: Array) -> Array:
        x = widen(x)
        axes = self.axes(x.ndim)
        if not (x.size and axes):
            return x.astype(np.result_type(x.dtype, np.complex64))
        one = np.fft.ifft if self.inverse else np.fft.fft
        return _in_turn(x, [(one, x.shape[axis], axis) for axis in axes], self.scale)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.fft_c2c(g, self.dims, not self.inverse, self.scale),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(2, 3, 4))
        yield Sample(x, (-1,))
        yield Sample(x, (0, 2), True, "ortho")
        yield Sample(x[:, :1], (1,), False, "full")
        yield Sample(x[:0], (1,), True, "full")
        yield Sample(np.asarray(1.5), ())
        yield Sample(x + 1j * rng.normal(size=x.shape), (2, 1), True, "full")
        yield Sample(x[0] + 1j * rng.normal(size=(3, 4)), (0,))


class FftR2c(Transform):
    """The first n // 2 + 1 entries, in the last of the dims, of the transform of real numbers.

    The rest are conjugates of these. Halves are widened.
    """

    facts = OpFacts(supports=FLOATING)
    torch = TorchCall(grad_name="FftR2CBackward0")

    def infer(self, x: Spec) -> Spec:
        require(self.name, self.facts.supports, x.dtype)
        half = x.shape[self.axes(x.rank)[-1]] // 2 + 1
        return Spec(self.with_last(x.shape, half), x.dtype.to_complex())

    def reference(self, x: Array) -> Array:
        x = widen(x)
        axes = self.axes(x.ndim)
        if not x.size:
            shape = self.with_last(x.shape, x.shape[axes[-1]] // 2 + 1)
            return np.zeros(shape, np.result_type(x.dtype, np.complex64))
        *others, last = axes
        steps = [(np.fft.fft, x.shape[axis], axis) for axis in others]
        return _in_turn(x, [(np.fft.rfft, x.shape[last], last), *steps], self.scale)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        axis = self.axes(len(x.shape))[-1]
        # The way back counts each entry between the ends twice, the conjugate included.
        weight = (_ends(g, axis, x.shape[axis]) + 1) * 0.5
        return (ops.fft_c2r(g * weight, self.dims, x.shape[axis], self.scale),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(2, 3, 4))
        yield Sample(x, (-1,))
        yield Sample(x, (0, 1), "ortho")
        yield Sample(x[:, :1], (1,), "full")
        yield Sample(x[:0], (1,), "full")


class FftC2r(Transform):
    """The real numbers of `last` elements in the last dim of which the operand is half a spectrum.

    y[j] = sum over k of z[k] * exp(+2 pi i j k / n), z the operand and the conjugates left out
    input: (..., last // 2 + 1, ...), complex. The imaginary parts of the ends do not count.
    Raises ShapeError for another extent.
    """

    signature = "input, dims: ints, last: size, scale: str = 'none'"
    facts = OpFacts(supports=frozenset({"complex"}))
    torch = TorchCall(grad_name="FftC2RBackward0")

    def infer(self, x: Spec, last: Size) -> Spec:
        if not x.dtype.is_complex:
            raise DTypeError(f"{self.name}: takes half a spectrum, complex numbers; got {x.dtype}")
        axis = self.axes(x.rank)[-1]
        if last // 2 + 1 != x.shape[axis]:
            raise ShapeError(
                f"{self.name}: the spectrum of {last} elements has {last // 2 + 1} entries, dim "
                f"{axis} has {x.shape[axis]}"
            )
        return Spec(self.with_last(x.shape, last), x.dtype.to_real())

    def reference(self, x: Array, last: int) -> Array:
        axes = self.axes(x.ndim)
        if not (x.size and last):
            return np.zeros(self.with_last(x.shape, last), x.real.dtype)
        steps = [(np.fft.ifft, x.shape[axis], axis) for axis in axes[:-1]]
        return _in_turn(x, [*steps, (np.fft.irfft, last, axes[-1])], self.scale)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, last: Size) -> tuple[Any, ...]:
        grad = ops.fft_r2c(g, self.dims, self.scale)
        return (grad * (2 - _ends(grad, self.axes(len(x.shape))[-1], last)),)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, last: Size) -> Tensor:
        axes = tuple([d + 1 for d in self.axes(len(x.shape) - 1)])
        return ops.fft_c2r(x, axes, last, self.scale)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        z = rng.normal(size=(2, 3, 4)) + 1j * rng.normal(size=(2, 3, 4))
        yield Sample(z, (-1,), 6)
        yield Sample(z, (2, 1), 5, "ortho")
        yield Sample(z[:, :1], (1,), 1, "full")
        yield Sample(z[:0], (0, 2), 7, "full")


def _ends(like: Tensor, axis: int, n: Any) -> Tensor:
    """1.0 for the entries of half a spectrum whose conjugates are themselves, else 0.0."""
    shape = like.shape
    places = arange(shape[axis])
    ends = ops.logical_or(ops.eq(places, 0), ops.eq(places * 2, n))
    weight = ops.cast(ends, like.dtype.to_real())
    for _ in range(len(shape) - 1 - axis):
        weight = ops.unsqueeze(weight, -1)
    return ops.expand_to(weight, shape, tuple([d for d in range(len(shape)) if d != axis]))
