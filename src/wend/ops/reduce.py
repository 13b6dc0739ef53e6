"""Reductions: folds of a tensor over some of its dims.

The family `Reduction` supplies type and batching rules.  A subclass gives the result type, the
reference, the gradient, and for generated code `identity` (a number, "lowest" or "highest": the
least or greatest value of the type) and `combine(b, a, x)` (one step of the fold).
Running folds (cumsum and its like) are in `scan.py`, what is composed of reductions (mean, var,
norm, ...) in `composites/reduce.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from wend.base.dtypes import BOOL, INT, DType, bool_, float64, from_numpy, int64, uint8
from wend.base.errors import DimError, ShapeError
from wend.base.shapes import normalize_dim, normalize_dims
from wend.core.primitive import NO_GRADIENT, Primitive, Sample, Spec, ops, overload
from wend.core.symbolic import hints, numel
from wend.ops.numeric import Array, accumulator, array, require, sum_accurately, widen
from wend.ops.selection import Maximum, Minimum

REAL = frozenset({"bool", "int", "float"})
ANY_NUMBER = frozenset({"bool", "int", "float", "complex"})


def reduced_shape(shape: Any, axes: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
    """`shape` without the extents at `axes`, or with 1 in their place."""
    if keepdim:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def restore(g: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """`g` with dims of size 1 put back where a reduction over `axes` took them out."""
    if not keepdim:
        for axis in sorted(axes):
            g = ops.unsqueeze(g, axis)
    return g


class Reduction(Primitive, abstract=True):
    """y = fold of x over the dims `dim` (all of them for None).

    input: (...)   ->   the shape without those dims, or with 1 there if keepdim
    Raises DimError for a dim beyond the rank, ShapeError for a dim given twice.
    """

    signature = "input, dim: dims = None, keepdim: bool = False"
    label: ClassVar[str] = ""
    identity: ClassVar[Any] = None
    #: sum(dim=()) reduces everything, any(dim=()) nothing: PyTorch's quirk.
    empty_means_all: ClassVar[bool] = True
    #: Whether an empty dim cannot be reduced because there is no identity.
    needs_elements: ClassVar[bool] = False
    dim: Any
    keepdim: bool
    dtype: DType | None = None

    def axes(self, rank: int) -> tuple[int, ...]:
        """The reduced axes, counted from 0, ascending."""
        dim = self.dim
        if dim is None or (dim == () and self.empty_means_all):
            return tuple(range(rank))
        axes = normalize_dims(dim, rank, self.label or self.name)
        return tuple(sorted(axes)) if rank else ()

    def result_dtype(self, dtype: DType) -> DType:
        """Element type of the result."""
        return dtype

    def infer(self, x: Spec) -> Any:
        label = self.label or self.name
        require(label, self.supports, x.dtype)
        axes = self.axes(x.rank)
        if self.needs_elements:
            require_elements(label, x.shape, axes, self.dim is None or self.dim == ())
        return Spec(reduced_shape(x.shape, axes, self.keepdim), self.result_dtype(x.dtype))

    def batch(self, batched: Any, size: Any, x: Any) -> Any:
        rank = len(x.shape) - 1
        axes = self.axes(rank)
        if not axes:
            return self.over_nothing(x)
        extra = {} if self.dtype is None else {"dtype": self.dtype}
        op = getattr(ops, self.name)
        return op(x, tuple(a + 1 for a in axes), self.keepdim, **extra)

    def over_nothing(self, x: Any) -> Any:
        """What the op gives where it reduces no dims: each element folded by itself."""
        return ops.cast(x, self.result_dtype(x.dtype))

    def samples(self, rng: Any) -> Iterator[Sample]:
        x = rng.normal(size=(2, 3, 4))
        yield Sample(x)
        yield Sample(x, 1)
        yield Sample(x, (0, -1), True)
        yield Sample(x[:, :1], 1, keepdim=True)
        yield Sample(np.asarray(1.5))
        yield Sample(np.asarray(-2.5), -1, True)
        if not self.needs_elements:
            yield Sample(x[:, :0], 1)
            yield Sample(x[:0])
        yield Sample(x[:0], 2)
        yield Sample(rng.integers(-4, 5, size=(3, 4)), 0)
        yield Sample(rng.integers(0, 2, size=(3, 4)).astype(bool), (0, 1))


def require_elements(label: str, shape: Any, axes: tuple[int, ...], all_dims: bool) -> None:
    """Raise if one of the reduced extents is 0: the op has no value for an empty fold."""
    for axis in axes:
        if shape[axis] == 0:
            if all_dims:
                raise ShapeError(
                    f"{label}: Expected reduction dim to be specified for input.numel() == 0: "
                    "the input is empty. Specify the reduction dim with the 'dim' argument."
                )
            raise DimError(
                f"{label}: Expected reduction dim {axis} to have non-zero size, "
                f"but the input has shape {hints(shape)}"
            )


def summed_dtype(dtype: DType, wanted: DType | None) -> DType:
    """Type of a sum or product: as wanted, else int64 for bool and ints."""
    if wanted is not None:
        return wanted
    return int64 if dtype.category <= INT else dtype


class Sum(Reduction):
    """y = sum of x over `dim`.

    dtype: x is cast to it before it is summed; bool and ints are summed in int64 otherwise.
    """

    signature = "input, dim: dims = None, keepdim: bool = False, *, dtype: dtype = None"
    supports = ANY_NUMBER
    functions = ("sum",)
    methods = ("sum",)
    identity = 0

    def result_dtype(self, dtype: DType) -> DType:
        return summed_dtype(dtype, self.dtype)

    def reference(self, x: Array) -> Array:
        out = self.result_dtype(from_numpy(x.dtype))
        wide = accumulator(out).numpy
        # Only after a cast is 0.4 + 0.4 summed as ints 0.
        x = x if out.category >= from_numpy(x.dtype).category else x.astype(out.numpy)
        y = sum_accurately(x, self.axes(x.ndim), np.dtype(np.int64) if out is bool_ else wide)
        return array(y.reshape(reduced_shape(x.shape, self.axes(x.ndim), self.keepdim)), out)

    def combine(self, b: Any, a: Any, x: Any) -> Any:
        return b.add(a, x)

    def vjp(self, g: Any, y: Any, x: Any) -> Any:
        g = restore(g, self.axes(len(x.shape)), self.keepdim)
        return (ops.cast(ops.expand(g, x.shape), x.dtype),)

    def samples(self, rng: Any) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(rng.normal(size=(2, 3)), 1, dtype=float64)
        yield Sample(rng.integers(0, 5, size=(2, 3)), dtype=float64)


class Prod(Reduction):
    """y = product of x over `dim`; types as for sum."""

    signature = "input, dim: dims = None, keepdim: bool = False, *, dtype: dtype = None"
    supports = ANY_NUMBER
    functions = ("prod",)
    methods = ("prod",)
    identity = 1

    def result_dtype(self, dtype: DType) -> DType:
        return summed_dtype(dtype, self.dtype)

    def reference(self, x: Array) -> Array:
        out = self.result_dtype(from_numpy(x.dtype))
        if out is bool_:
            return np.logical_and.reduce(x, axis=self.axes(x.ndim), keepdims=self.keepdim)
        x = x if out.category >= from_numpy(x.dtype).category else x.astype(out.numpy)
        y = np.multiply.reduce(
            x, axis=self.axes(x.ndim), dtype=accumulator(out).numpy, keepdims=self.keepdim
        )
        return array(y, out)

    def combine(self, b: Any, a: Any, x: Any) -> Any:
        return b.mul(a, x)

    def vjp(self, g: Any, y: Any, x: Any) -> Any:
        # Dividing y by x fails where x is 0. The product of the others is that of those before
        # and of those behind, whatever is among them, at every order of derivative.
        rank = len(x.shape)
        axes = self.axes(rank)
        g = ops.expand(restore(g, axes, self.keepdim), x.shape)
        if not axes:
            return (ops.cast(g, x.dtype),)
        front = tuple(i for i in range(rank) if i not in axes)
        order = front + axes
        moved = ops.permute(ops.cast(x, y.dtype), order)
        shape = moved.shape
        count = numel(shape[len(front) :])
        flat = ops.reshape(moved, (*shape[: len(front)], count))
        others = ops.mul(_before(flat), ops.flip(_before(ops.flip(flat, (-1,))), (-1,)))
        back = tuple(order.index(i) for i in range(rank))
        others = ops.permute(ops.reshape(others, shape), back)
        return (ops.cast(ops.mul(g, conj(others)), x.dtype),)


def _before(x: Any) -> Any:
    """Product along the last dim of all elements before each: 1, x0, x0*x1, ..."""
    n = x.shape[-1]
    ones = ops.full((*x.shape[:-1], 1), 1, dtype=x.dtype)
    return ops.slice(ops.cat([ones, ops.cumprod(x, -1)], -1), len(x.shape) - 1, 0, n, 1)


def conj(x: Any) -> Any:
    """The complex conjugate; a real tensor is its own."""
    return ops.conj(x) if x.dtype.is_complex else x


class _Extreme(Reduction, abstract=True):
    """Extreme value over `dim`. Ties share the gradient evenly; NaN wins."""

    supports = REAL
    needs_elements = True
    fold: ClassVar[Any]

    def reference(self, x: Array) -> Array:
        y = type(self).fold.reduce(widen(x), axis=self.axes(x.ndim), keepdims=self.keepdim)
        return np.asarray(y).astype(x.dtype, copy=False)

    def vjp(self, g: Any, y: Any, x: Any) -> Any:
        axes = self.axes(len(x.shape))
        g, y = restore(g, axes, self.keepdim), restore(y, axes, self.keepdim)
        hit = ops.eq(x, y)
        if x.dtype.is_floating_point:
            hit = ops.logical_or(hit, ops.isnan(x))
        count = ops.sum(hit, axes, True) if axes else ops.cast(hit, int64)
        return (ops.where(hit, ops.div(g, ops.cast(count, g.dtype)), 0),)


class _Greatest(_Extreme, abstract=True):
    identity = "lowest"
    fold = np.maximum

    def combine(self, b: Any, a: Any, x: Any) -> Any:
        return b.maximum(a, x)


class _Least(_Extreme, abstract=True):
    identity = "highest"
    fold = np.minimum

    def combine(self, b: Any, a: Any, x: Any) -> Any:
        return b.minimum(a, x)


class Amax(_Greatest):
    """y = max of x over `dim`. Ties share the gradient evenly; NaN wins.

    Raises DimError or ShapeError if a reduced dim is empty.
    """

    functions = ("amax",)
    methods = ("amax",)


class Amin(_Least):
    """y = min of x over `dim`. Ties share the gradient evenly; NaN wins.

    Raises DimError or ShapeError if a reduced dim is empty.
    """

    functions = ("amin",)
    methods = ("amin",)


class MaxAll(_Greatest):
    """y = the greatest element of x. Ties share the gradient evenly; NaN wins.

    Raises ShapeError if there is none.
    """

    signature = "input"
    label = "max"
    grad_name = "MaxBackward1"
    dim = None
    keepdim = False

    def batch(self, batched: Any, size: Any, x: Any) -> Any:
        return _batch_all(ops.amax, x)

    def samples(self, rng: Any) -> Iterator[Sample]:
        yield from _samples_all(rng)


class MinAll(_Least):
    """y = the least element of x. Ties share the gradient evenly; NaN wins.

    Raises ShapeError if there is none.
    """

    signature = "input"
    label = "min"
    grad_name = "MinBackward1"
    dim = None
    keepdim = False

    def batch(self, batched: Any, size: Any, x: Any) -> Any:
        return _batch_all(ops.amin, x)

    def samples(self, rng: Any) -> Iterator[Sample]:
        yield from _samples_all(rng)


def _batch_all(op: Any, x: Any) -> Any:
    rank = len(x.shape)
    return op(x, tuple(range(1, rank))) if rank > 1 else x


def _samples_all(rng: Any) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 3)))
    yield Sample(np.asarray([1.0, 3.0, 3.0]))
    yield Sample(np.asarray(2.0))
    yield Sample(rng.integers(-4, 5, size=(3, 4)))
    yield Sample(np.asarray([True, False]))


class _Arg(Reduction, abstract=True):
    """Index of the first extreme element along `dim` (of the flat tensor for None)."""

    signature = "input, dim: dim = None, keepdim: bool = False"
    supports = frozenset({"int", "float"})
    vjp = NO_GRADIENT
    differentiable = False
    needs_elements = True
    find: ClassVar[Any]

    def axes(self, rank: int) -> tuple[int, ...]:
        if self.dim is None:
            return tuple(range(rank))
        axis = normalize_dim(self.dim, rank, self.label or self.name)
        return (axis,) if rank else ()

    def result_dtype(self, dtype: DType) -> DType:
        return int64

    def reference(self, x: Array) -> Array:
        axis = None if self.dim is None or not x.ndim else self.axes(x.ndim)[0]
        if x.ndim == 0:
            return np.zeros((), np.int64)
        y = type(self).find(widen(x), axis=axis, keepdims=self.keepdim)
        return np.asarray(y, dtype=np.int64)

    def batch(self, batched: Any, size: Any, x: Any) -> Any:
        op = getattr(ops, self.name)
        rank = len(x.shape) - 1
        if rank == 0:
            return ops.full(x.shape, 0, dtype=int64)
        if self.dim is not None:
            return op(x, self.axes(rank)[0] + 1, self.keepdim)
        y = op(ops.reshape(x, (size, numel(x.shape[1:]))), 1)
        return ops.reshape(y, (size, *(1,) * rank)) if self.keepdim else y

    def samples(self, rng: Any) -> Iterator[Sample]:
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

    functions = ("argmax",)
    methods = ("argmax",)
    find = np.argmax


class Argmin(_Arg):
    """y = index of the first least element along `dim`, of the flat tensor for None.

    Raises DimError if there is no element to choose from, DTypeError for bool.
    """

    functions = ("argmin",)
    methods = ("argmin",)
    find = np.argmin


class _ExtremeDim(_Arg, abstract=True):
    """Extreme value along one dim, and its first index; the gradient goes to that element."""

    signature = "input, dim: dim, keepdim: bool = False"
    supports = REAL
    differentiable = True
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

    def batch(self, batched: Any, size: Any, x: Any) -> Any:
        rank = len(x.shape) - 1
        if rank == 0:
            return x, ops.full(x.shape, 0, dtype=int64)
        values, indices = getattr(ops, self.name)(x, self.axes(rank)[0] + 1, self.keepdim)
        return values, indices

    def vjp(self, g: Any, y: Any, x: Any) -> Any:
        rank = len(x.shape)
        if rank == 0:
            return (g[0],)
        axis = self.axes(rank)[0]
        indices = restore(y[1], (axis,), self.keepdim)
        return (put_along(restore(g[0], (axis,), self.keepdim), indices, x, axis),)

    def samples(self, rng: Any) -> Iterator[Sample]:
        x = rng.normal(size=(2, 3, 4))
        yield Sample(x, 1)
        yield Sample(x, -1, True)
        yield Sample(np.asarray(1.5), 0)
        yield Sample(x[:0], 1)
        yield Sample(np.asarray([2, 5, 5, 1]), 0)
        yield Sample(np.asarray([[True, False], [False, False]]), 1)


def put_along(g: Any, indices: Any, x: Any, axis: int) -> Any:
    """Zeros in the shape of x, with g at `indices` (both of extent 1) along `axis`."""
    rank = len(x.shape)
    n = x.shape[axis]
    along = ops.arange(0, n, 1, n, dtype=int64)
    along = ops.reshape(along, tuple(n if i == axis else 1 for i in range(rank)))
    return ops.where(ops.eq(along, indices), g, 0)


class MaxDim(_ExtremeDim):
    """(values, indices): the greatest element along `dim` and its first index.

    Raises DimError if that dim is empty.
    """

    label = "max"
    grad_name = "MaxBackward0"
    find = np.argmax


class MinDim(_ExtremeDim):
    """(values, indices): the least element along `dim` and its first index.

    Raises DimError if that dim is empty.
    """

    label = "min"
    grad_name = "MinBackward0"
    find = np.argmin


class _Logical(Reduction, abstract=True):
    """Fold of `x != 0` by and / or; the result is bool, for uint8 input uint8."""

    supports = ANY_NUMBER
    vjp = NO_GRADIENT
    differentiable = False
    empty_means_all = False
    fold: ClassVar[Any]

    def result_dtype(self, dtype: DType) -> DType:
        return uint8 if dtype is uint8 else bool_

    def reference(self, x: Array) -> Array:
        truth = x if x.dtype == np.bool_ else x != 0
        y = type(self).fold.reduce(truth, axis=self.axes(x.ndim), keepdims=self.keepdim)
        return array(y, self.result_dtype(from_numpy(x.dtype)))

    def over_nothing(self, x: Any) -> Any:
        truth = x if x.dtype.category == BOOL else ops.ne(x, 0)
        return ops.cast(truth, self.result_dtype(x.dtype))


class Any_(_Logical):
    """y = whether any element of x over `dim` is not 0."""

    name = "any"
    functions = ("any",)
    methods = ("any",)
    identity = False
    fold = np.logical_or

    def combine(self, b: Any, a: Any, x: Any) -> Any:
        return b.logical_or(a, x)


class All(_Logical):
    """y = whether all elements of x over `dim` are not 0."""

    functions = ("all",)
    methods = ("all",)
    identity = True
    fold = np.logical_and

    def combine(self, b: Any, a: Any, x: Any) -> Any:
        return b.logical_and(a, x)


overload(
    "max",
    MaxAll,
    MaxDim,
    Maximum,
    functions=("max",),
    methods=("max",),
    doc="max(input): the greatest element; max(input, dim): (values, indices) along dim; "
    "max(input, other): the greater of each pair.",
)
overload(
    "min",
    MinAll,
    MinDim,
    Minimum,
    functions=("min",),
    methods=("min",),
    doc="min(input): the least element; min(input, dim): (values, indices) along dim; "
    "min(input, other): the lesser of each pair.",
)
