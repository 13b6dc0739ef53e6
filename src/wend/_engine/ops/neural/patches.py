"""Sliding windows over the trailing dims: `patches`, and its adjoint `unpatches`.

Pooling, unfold and fold are made of these ops.  Kernel, stride and dilation are run-time sizes:
pooling over the whole input (kernel = the input's extent) must not be a new structure per extent.
Padding is done before, by `pad`: windows always lie within the input.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.op_facts import OpFacts
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints, numel
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import Array, accumulator, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape


def window_count(n: Size, kernel: Size, stride: Size, dilation: Size) -> Size:
    """How many windows of `kernel` elements, `dilation` apart, fit into n elements."""
    return (n - dilation * (kernel - 1) - 1) // stride + 1


def window_view(x: Array, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Array:
    """x of (..., *S) as a view of (..., *K, *O): element k of window o, per trailing dim."""
    nd = len(kernel)
    front = x.ndim - nd
    counts = [
        window_count(n, k, s, d)
        for n, k, s, d in zip(x.shape[front:], kernel, stride, dilation, strict=True)
    ]
    steps = x.strides[front:]
    within = [step * d for step, d in zip(steps, dilation, strict=True)]
    between = [step * s for step, s in zip(steps, stride, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:front], *kernel, *counts),
        (*x.strides[:front], *within, *between),
        writeable=False,
    )


def taps(kernel: Sizes) -> Iterator[tuple[int, ...]]:
    """Every position within a window."""
    return itertools.product(*(range(k) for k in kernel))


def tap_slices(
    tap: Sequence[int], counts: Sizes, stride: Sizes, dilation: Sizes
) -> tuple[slice, ...]:
    """Where element `tap` of every window lies, per trailing dim."""
    return tuple(
        slice(t * d, t * d + s * (n - 1) + 1 if n else t * d, s)
        for t, n, s, d in zip(tap, counts, stride, dilation, strict=True)
    )


def check_windows(
    op: str, extents: Sequence[Any], kernel: Sizes, stride: Sizes, dilation: Sizes, shape: Shape
) -> tuple[Any, ...]:
    """How many windows there are, per dim.

    extents: of the padded input     shape: the input's, for messages
    Raises ShapeError for kernel, stride or dilation below 1, or if no window fits.
    """
    counts = []
    for n, k, s, d in zip(extents, kernel, stride, dilation, strict=True):
        for name, value in (("kernel size", k), ("stride", s), ("dilation", d)):
            if value <= 0:
                raise ShapeError(f"{op}: {name} must be greater than zero, but got {value}")
        if n < d * (k - 1) + 1:
            raise ShapeError(
                f"{op}: calculated padded input size per channel: ({_by(extents)}), kernel size: "
                f"({_by(kernel)}), dilation: ({_by(dilation)}), for input of shape {hints(shape)}: "
                "the kernel can't be greater than the actual input"
            )
        counts.append(window_count(n, k, s, d))
    return tuple(counts)


def _by(extents: Sequence[Any]) -> str:
    return " x ".join(str(n) for n in hints(extents))


class Patches(Primitive):
    """y[..., k, o] = x[..., o * stride + k * dilation], per trailing dim.

    input: (..., *S), as many trailing dims as kernel has entries   ->   (..., *K, *O)
    Raises ShapeError if the input is smaller than a window or sizes are below 1.
    """

    signature = "input, kernel: sizes, stride: sizes, dilation: sizes"
    facts = OpFacts(supports=frozenset({"bool", "int", "float", "complex"}))

    def infer(self, x: Spec, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Spec:
        front = x.rank - len(kernel)
        counts = check_windows("patches", x.shape[front:], kernel, stride, dilation, x.shape)
        return Spec((*x.shape[:front], *kernel, *counts), x.dtype)

    def reference(self, x: Array, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Array:
        return window_view(x, kernel, stride, dilation)

    def strides(
        self, shape: Shape, strides: Sequence[int], kernel: Sizes, stride: Sizes, dilation: Sizes
    ) -> tuple[tuple[Any, ...], Any]:
        """Strides and offset of the result as part of the input."""
        front = len(shape) - len(kernel)
        steps = strides[front:]
        within = tuple(step * d for step, d in zip(steps, dilation, strict=True))
        between = tuple(step * s for step, s in zip(steps, stride, strict=True))
        return (*strides[:front], *within, *between), 0

    def vjp(
        self, g: Tensor, y: Tensor, x: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes
    ) -> tuple[Any, ...]:
        size = x.shape[len(x.shape) - len(kernel) :]
        return (ops.unpatches(g, size, stride, dilation),)

    def onnx(
        self, g: OnnxBuilder, x: OnnxValue, kernel: Sizes, stride: Sizes, dilation: Sizes
    ) -> OnnxValue:
        nd = len(kernel)
        front = x.rank - nd
        for i in range(nd):  # each dim becomes two: the element of a window, and the window
            count = g.out[0].shape[front + nd + i]
            taps = g.node("Mul", g.arange(kernel[i]), g.size(dilation[i]))
            taps = g.reshape(g.shaped(taps, (kernel[i],)), (kernel[i], 1))
            starts = g.node("Mul", g.arange(count), g.size(stride[i]))
            x = g.node("Gather", x, g.node("Add", taps, starts), axis=front + 2 * i)
        order = (*range(front), *range(front, front + 2 * nd, 2))
        return g.transpose(x, (*order, *range(front + 1, front + 2 * nd, 2)))

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        kernel: Sizes,
        stride: Sizes,
        dilation: Sizes,
    ) -> Tensor:
        return ops.patches(x, kernel, stride, dilation)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 7)), (3,), (2,), (1,))
        yield Sample(rng.normal(size=(7,)), (3,), (1,), (2,))
        yield Sample(rng.normal(size=(2, 5, 6)), (2, 3), (1, 2), (2, 1))
        yield Sample(rng.normal(size=(0, 4, 4)), (2, 2), (1, 1), (1, 1))
        yield Sample(rng.normal(size=(2, 4)), (4,), (3,), (1,))


class Unpatches(Primitive):
    """y[..., i] = sum of x[..., k, o] over all k, o with o * stride + k * dilation = i.

    input: (..., *K, *O)   size: S   ->   (..., *S)
    Raises ShapeError unless O is how many windows of K fit into S.
    """

    signature = "input, size: sizes, stride: sizes, dilation: sizes"
    facts = OpFacts(supports=frozenset({"int", "float", "complex"}))

    def infer(self, x: Spec, size: Sizes, stride: Sizes, dilation: Sizes) -> Spec:
        nd = len(size)
        kernel, counts = x.shape[x.rank - 2 * nd : x.rank - nd], x.shape[x.rank - nd :]
        fits = check_windows("unpatches", size, kernel, stride, dilation, x.shape)
        for n, m in zip(counts, fits, strict=True):
            if n != m:
                raise ShapeError(
                    f"unpatches: {hints(counts)} windows of {hints(kernel)} were given, but "
                    f"{hints(fits)} fit into {hints(size)}"
                )
        return Spec((*x.shape[: x.rank - 2 * nd], *size), x.dtype)

    def reference(self, x: Array, size: Sizes, stride: Sizes, dilation: Sizes) -> Array:
        nd = len(size)
        front = x.ndim - 2 * nd
        wide = widen(x)
        y = np.zeros((*x.shape[:front], *size), wide.dtype)
        for tap in taps(x.shape[front : front + nd]):
            place: Any = (..., *tap_slices(tap, x.shape[front + nd :], stride, dilation))
            y[place] += wide[(slice(None),) * front + tap]
        return y.astype(x.dtype, copy=False)

    def vjp(
        self, g: Tensor, y: Tensor, x: Tensor, size: Sizes, stride: Sizes, dilation: Sizes
    ) -> tuple[Any, ...]:
        nd = len(size)
        kernel = x.shape[len(x.shape) - 2 * nd : len(x.shape) - nd]
        return (ops.patches(g, kernel, stride, dilation),)

    def onnx(
        self, g: OnnxBuilder, x: OnnxValue, size: Sizes, stride: Sizes, dilation: Sizes
    ) -> OnnxValue:
        # A transposed convolution puts the columns of a window back in place: a filter per element.
        nd = len(size)
        front = x.rank - 2 * nd
        windows = [
            [g.fixed(n) for n in ns] for ns in (x.shape[front : front + nd], stride, dilation)
        ]
        kernel, strides, dilations = ([n for n in ns if n is not None] for ns in windows)
        if min(len(kernel), len(strides), len(dilations)) < nd:
            raise g.unsupported("the windows depend on sizes at run time")
        counts, taps = x.shape[front + nd :], math.prod(kernel)
        wide = accumulator(x.dtype)
        rows = g.reshape(g.cast(x, wide), (numel(x.shape[:front]), taps, *counts))
        weight = g.constant(np.eye(taps).reshape(taps, 1, *kernel), wide)
        y = g.node("ConvTranspose", rows, weight, strides=strides, dilations=dilations)
        reach = [
            (n - 1) * s + d * (k - 1) + 1
            for n, s, d, k in zip(counts, strides, dilations, kernel, strict=True)
        ]
        rest = [n - r for n, r in zip(size, reach, strict=True)]
        zeros = (0,) * (2 + nd)
        y = g.node("Pad", y, g.sizes((*zeros, 0, 0, *rest)))
        return g.cast(g.reshape(y, g.out[0].shape), x.dtype)

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        extents: Sizes,
        stride: Sizes,
        dilation: Sizes,
    ) -> Tensor:
        return ops.unpatches(x, extents, stride, dilation)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 3)), (7,), (2,), (1,))
        yield Sample(rng.normal(size=(3, 3)), (8,), (2,), (1,))
        yield Sample(rng.normal(size=(2, 2, 3, 3, 2)), (5, 6), (1, 2), (2, 1))
        yield Sample(rng.normal(size=(0, 2, 2, 3, 3)), (4, 4), (1, 1), (1, 1))
