"""Extremes over dims and their places: amax, amin, argmax, argmin, max and min.

NaN is more extreme than any number.  Among equal elements the first is taken. The gradient of amax
and amin, and of max and min over everything, is shared among equal elements, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from wend._engine.base.dtypes import DType, int64
from wend._engine.base.errors import DimError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, PublicOp, Sample, ops, overload
from wend._engine.core.symbolic import numel
from wend._engine.core.types import Spec
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.selection import Maximum, Minimum
from wend._engine.ops.numeric import Array, is_half, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.placing import full_beside
from wend._engine.ops.reduce import REAL, Reduction, repeat_back, restore


class _Extreme(Reduction, abstract=True):
    """Extreme value over `dim`. Ties share the gradient evenly; NaN wins."""

    facts = OpFacts(supports=REAL)
    needs_elements = True
    onnx_name: ClassVar[str]
    fold: ClassVar[Any]

    def reference(self, x: Array) -> Array:
        y = type(self).fold.reduce(widen(x), axis=self.axes(x.ndim), keepdims=self.keepdim)
        return np.asarray(y).astype(x.dtype, copy=False)

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for an operand of known rank and dtype."""
        (x,) = operands
        if is_half(x.dtype):
            return self.reference
        reduce, axes, keepdim = type(self).fold.reduce, self.axes(x.rank), self.keepdim
        return lambda x: np.asarray(reduce(x, axes, None, None, keepdim))

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        return self.onnx_fold(g, self.onnx_name, x)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        axes = self.axes(len(x.shape))
        g = repeat_back(g, axes, self.keepdim, x.shape)
        hit = self.hits(x, repeat_back(y, axes, self.keepdim, x.shape))
        count = ops.sum(hit, axes, True) if axes else ops.cast(hit, int64)
        count = repeat_back(ops.cast(count, g.dtype), axes, True, x.shape)
        return (ops.div(ops.where(hit, g, 0), count),)

    def hits(self, x: Tensor, y: Tensor) -> Tensor:
        """Which elements share the gradient: none equals NaN, which makes NaN of all gradients."""
        return ops.eq(x, y)


class _Greatest(_Extreme, abstract=True):
    identity = "lowest"
    onnx_name = "ReduceMax"
    fold = np.maximum

    def combine(self, b: Builder, a: Value, x: Value) -> Value:
        return b.maximum(a, x)


class _Least(_Extreme, abstract=True):
    identity = "highest"
    onnx_name = "ReduceMin"
    fold = np.minimum

    def combine(self, b: Builder, a: Value, x: Value) -> Value:
        return b.minimum(a, x)


class Amax(_Greatest):
    """y = max of x over `dim`. Ties share the gradient evenly; NaN wins.

    Raises DimError or ShapeError if a reduced dim is empty.
    """

    torch = TorchCall(names=("amax",))


class Amin(_Least):
    """y = min of x over `dim`. Ties share the gradient evenly; NaN wins.

    Raises DimError or ShapeError if a reduced dim is empty.
    """

    torch = TorchCall(names=("amin",))


class MaxAll(_Greatest):
    """y = the greatest element of x. Ties share the gradient evenly; NaN wins.

    Raises ShapeError if there is none.
    """

    signature = "input"
    torch = TorchCall(label="max", grad_name="MaxBackward1")
    dim = None
    keepdim = False

    def hits(self, x: Tensor, y: Tensor) -> Tensor:
        return _hits_or_nan(x, y)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return _batch_all(ops.amax, x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from _samples_all(rng)


class MinAll(_Least):
    """y = the least element of x. Ties share the gradient evenly; NaN wins.

    Raises ShapeError if there is none.
    """

    signature = "input"
    torch = TorchCall(label="min", grad_name="MinBackward1")
    dim = None
    keepdim = False

    def hits(self, x: Tensor, y: Tensor) -> Tensor:
        return _hits_or_nan(x, y)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return _batch_all(ops.amin, x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from _samples_all(rng)


def _hits_or_nan(x: Tensor, y: Tensor) -> Tensor:
    """The elements equal to the extreme, and all NaN, for the extreme is NaN beside any NaN."""
    hit = ops.eq(x, y)
    return ops.logical_or(hit, ops.isnan(x)) if x.dtype.is_floating_point else hit


def _batch_all(op: PublicOp[Tensor], x: Tensor) -> Tensor:
    rank = len(x.shape)
    return op(x, tuple(range(1, rank))) if rank > 1 else x


def _samples_all(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 3)))
    yield Sample(np.asarray([1.0, 3.0, 3.0]))
    yield Sample(np.asarray(2.0))
    yield Sample(rng.integers(-4, 5, size=(3, 4)))
    yield Sample(np.asarray([True, False]))


class _Arg(Reduction, abstract=True):
    """Index of the first extreme element along `dim` (of the flat tensor for None)."""

    signature = "input, dim: dim = None, keepdim: bool = False"
    facts = OpFacts(supports=frozenset({"int", "float"}))
    vjp = NO_GRADIENT
    needs_elements = True
    nothing = DimError
    onnx_name: ClassVar[str]
    find: ClassVar[Any]

    def axes(self, rank: int) -> tuple[int, ...]:
        if self.dim is None:
            return tuple(range(rank))
        axis = normalize_dim(self.dim, rank, self.torch.label or self.name)
        return (axis,) if rank else ()

    def result_dtype(self, dtype: DType) -> DType:
        return int64

    def reference(self, x: Array) -> Array:
        axis = None if self.dim is None or not x.ndim else self.axes(x.ndim)[0]
        if x.ndim == 0:
            return np.zeros((), np.int64)
        y = type(self).find(widen(x), axis=axis, keepdims=self.keepdim)
        return np.asarray(y, dtype=np.int64)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        if not x.shape:
            return g.constant(0, int64)
        if self.dim is not None:
            return self.onnx_places(g, x, self.keepdim)
        flat = g.reshape(x, (numel(x.shape),))
        index = g.node(self.onnx_name, flat, dtype=int64, axis=0, keepdims=0)
        return g.reshape(index, g.out[0].shape)

    def onnx_places(self, g: OnnxBuilder, x: OnnxValue, keepdim: bool) -> OnnxValue:
        """The first places of the extremes along `dim`."""
        (axis,) = self.axes(x.rank)
        return g.node(self.onnx_name, x, dtype=int64, axis=axis, keepdims=int(keepdim))

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        op = getattr(ops, self.name)
        rank = len(x.shape) - 1
        if rank == 0:
            return full_beside(x, x.shape, 0, int64)
        if self.dim is not None:
            return op(x, self.axes(rank)[0] + 1, self.keepdim)
        y = op(ops.reshape(x, (size, numel(x.shape[1:]))), 1)
        return ops.reshape(y, (size, *(1,) * rank)) if self.keepdim else y

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(2, 3, 4))
        yield Sample(x)
        yield Sample(x, 1)
        yield Sample(x, -1, True)
        yield Sample(x, keepdim=True)
        yield Sample(np.asarray(1.5))
        yield Sample(np.asarray(1.5), 0)
        yield Sample(x[:0], 1)
        yield Sample(np.asarray([2, 5, 5, 1]), 0)


class Argmax(_Arg):
    """y = index of the first greatest element along `dim`, of the flat tensor for None.

    Raises DimError if there is no element to choose from, DTypeError for bool.
    """

    torch = TorchCall(names=("argmax",))
    onnx_name = "ArgMax"
    find = np.argmax


class Argmin(_Arg):
    """y = index of the first least element along `dim`, of the flat tensor for None.

    Raises DimError if there is no element to choose from, DTypeError for bool.
    """

    torch = TorchCall(names=("argmin",))
    onnx_name = "ArgMin"
    find = np.argmin


class _ExtremeDim(_Arg, abstract=True):
    """Extreme value along a dim, and its first index; the gradient goes to that element."""

    signature = "input, dim: dim, keepdim: bool = False"
    facts = OpFacts(supports=REAL)
    result = ("values", "indices")

    def infer(self, x: Spec) -> Any:
        indices = super().infer(x)
        return Spec(indices.shape, x.dtype), indices

    def reference(self, x: Array) -> Any:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        axis = self.axes(x.ndim)[0]
        indices = np.asarray(type(self).find(widen(x), axis=axis, keepdims=True), dtype=np.int64)
        values = np.take_along_axis(x, indices, axis)
        if self.keepdim:
            return values, indices
        return values.squeeze(axis), indices.squeeze(axis)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> Any:
        if not x.shape:
            return x, g.constant(0, int64)
        (axis,) = self.axes(x.rank)
        indices = self.onnx_places(g, x, True)
        values = g.node("GatherElements", x, indices, axis=axis)
        if self.keepdim:
            return values, indices
        return tuple(g.node("Squeeze", y, g.sizes((axis,))) for y in (values, indices))

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> tuple[Tensor, Tensor]:
        rank = len(x.shape) - 1
        if rank == 0:
            return x, full_beside(x, x.shape, 0, int64)
        values, indices = getattr(ops, self.name)(x, self.axes(rank)[0] + 1, self.keepdim)
        return values, indices

    def vjp(self, g: Any, y: Any, x: Tensor) -> tuple[Any, ...]:
        rank = len(x.shape)
        if rank == 0:
            return (g[0],)
        axis = self.axes(rank)[0]
        indices = restore(y[1], (axis,), self.keepdim)
        return (put_along(restore(g[0], (axis,), self.keepdim), indices, x, axis),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(2, 3, 4))
        yield Sample(x, 1)
        yield Sample(x, -1, True)
        yield Sample(np.asarray(1.5), 0)
        yield Sample(x[:0], 1)
        yield Sample(np.asarray([2, 5, 5, 1]), 0)
        yield Sample(np.asarray([[True, False], [False, False]]), 1)


def put_along(g: Tensor, indices: Tensor, x: Tensor, axis: int) -> Tensor:
    """Zeros in the shape of x, with g at `indices` (both of extent 1) along `axis`."""
    rank = len(x.shape)
    n = x.shape[axis]
    along = ops.arange(0, n, 1, n, dtype=int64)
    along = ops.reshape_to(along, tuple(n if i == axis else 1 for i in range(rank)))
    along = ops.expand_to(along, x.shape, tuple(i for i in range(rank) if i != axis))
    g, indices = (ops.expand_to(t, x.shape, (axis,)) for t in (g, indices))
    return ops.where(ops.eq(along, indices), g, 0)


class MaxDim(_ExtremeDim):
    """(values, indices): the greatest element along `dim` and the first index of that element.

    Raises DimError if that dim is empty.
    """

    torch = TorchCall(label="max", grad_name="MaxBackward0")
    onnx_name = "ArgMax"
    find = np.argmax


class MinDim(_ExtremeDim):
    """(values, indices): the least element along `dim` and the first index of that element.

    Raises DimError if that dim is empty.
    """

    torch = TorchCall(label="min", grad_name="MinBackward0")
    onnx_name = "ArgMin"
    find = np.argmin


overload(
    "max",
    MaxAll,
    Maximum,  # before the dim: a 0-d tensor of ints is the other operand
    MaxDim,
    functions=("max",),
    methods=("max",),
    doc="max(input): the greatest element; max(input, dim): (values, indices) along dim; "
    "max(input, other): the greater of each pair.",
)
overload(
    "min",
    MinAll,
    Minimum,  # before the dim: a 0-d tensor of ints is the other operand
    MinDim,
    functions=("min",),
    methods=("min",),
    doc="min(input): the least element; min(input, dim): (values, indices) along dim; "
    "min(input, other): the lesser of each pair.",
)
