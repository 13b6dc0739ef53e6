"""Views that walk the memory in further ways: diagonal, unfold, as_strided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.op_facts import TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.symbolic import hints, numel, sym_max, sym_min
from wend._engine.core.types import Spec
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.placing import beside
from wend._engine.ops.views.family import Shape, Strides, View
from wend._engine.ops.views.slicing import has_changed, replaced, zeros_of


class Diagonal(View):
    """y[..., k] = x[..., k - min(offset, 0), ..., k + max(offset, 0), ...] over dims dim1, dim2.

    The diagonal becomes the last dim. Raises ShapeError if dim1 is dim2.
    """

    signature = "input, offset: size = 0, dim1: int = 0, dim2: int = 1"
    dim1: int
    dim2: int
    torch = TorchCall(names=("diagonal",))

    def infer(self, x: Spec, offset: Size) -> Spec:
        dim1, dim2 = self.dims(len(x.shape))
        _, _, count = diagonal_bounds(x.shape[dim1], x.shape[dim2], offset)
        rest = tuple(n for d, n in enumerate(x.shape) if d not in (dim1, dim2))
        return Spec((*rest, count), x.dtype)

    def dims(self, rank: int) -> tuple[int, int]:
        """dim1 and dim2 counted from 0."""
        return diagonal_dims("diagonal", self.dim1, self.dim2, rank)

    def reference(self, x: np.ndarray, offset: int) -> np.ndarray:
        return np.diagonal(x, offset, *self.dims(x.ndim))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, offset: Size) -> tuple[Any, ...]:
        return (self.put(zeros_of(x), g, offset),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, offset: Size) -> OnnxValue:
        dim1, dim2 = self.dims(x.rank)
        rest = tuple(d for d in range(x.rank) if d not in (dim1, dim2))
        rows, columns = x.shape[dim1], x.shape[dim2]
        row, column, count = diagonal_bounds(rows, columns, offset)
        moved = g.transpose(x, (*rest, dim1, dim2))
        flat = g.reshape(moved, (*(x.shape[d] for d in rest), rows * columns))
        start = row * columns + column
        return g.slice(flat, len(rest), start, start + count * (columns + 1), columns + 1)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, offset: Size) -> Tensor:
        dim1, dim2 = self.dims(len(x.shape) - 1)
        return ops.diagonal(x, offset, dim1 + 1, dim2 + 1)

    def put(self, x: Tensor, v: Tensor, offset: Size) -> Tensor:
        return ops.diagonal_scatter(x, v, offset, self.dim1, self.dim2)

    def strides(self, shape: Shape, strides: Sequence[int], offset: Size) -> Strides:
        dim1, dim2 = self.dims(len(shape))
        row, column, count = diagonal_bounds(shape[dim1], shape[dim2], offset)
        rest = tuple(s for d, s in enumerate(strides) if d not in (dim1, dim2))
        # PyTorch leaves the offset alone where the diagonal has no elements; nothing is asked here.
        start = (row * strides[dim1] + column * strides[dim2]) * sym_min(count, 1)
        return (*rest, strides[dim1] + strides[dim2]), start

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 3)))
        yield Sample(rng.normal(size=(3, 4)), 1)
        yield Sample(rng.normal(size=(3, 4)), -1, 1, 0)
        yield Sample(rng.normal(size=(2, 3, 4)), -1, -1, 0)
        yield Sample(rng.normal(size=(3, 4)), 9)
        yield Sample(rng.normal(size=(0, 4)))
        yield Sample(rng.normal(size=(1, 1)))


def diagonal_dims(op: str, dim1: int, dim2: int, rank: int) -> tuple[int, int]:
    """dim1 and dim2 counted from 0. Raises DimError, ShapeError for equal dims."""
    a, b = normalize_dim(dim1, rank, op), normalize_dim(dim2, rank, op)
    if a == b:
        raise ShapeError(f"{op}: diagonal dimensions cannot be identical: {dim1}, {dim2}")
    return a, b


def diagonal_bounds(rows: Size, columns: Size, offset: Size) -> tuple[Any, Any, Any]:
    """(first row, first column, number of elements) of a diagonal. Extents may be symbolic."""
    if offset >= 0:
        return 0, offset, sym_max(sym_min(rows, columns - offset), 0)
    return -offset, 0, sym_max(sym_min(rows + offset, columns), 0)


class Unfold(View):
    """y[..., w, ..., k] = x[..., w * step + k, ...]: the windows of `size` elements along a dim.

    Dim `dimension` then counts the windows, and a new last dim runs within a window.
    Raises ShapeError for step < 1, size < 0 or size beyond the extent.
    """

    signature = "input, dimension: int, size: size, step: size"
    dimension: int
    torch = TorchCall(methods=("unfold",))

    def infer(self, x: Spec, size: Size, step: Size) -> Spec:
        shape = tuple(x.shape) or (1,)
        dim = normalize_dim(self.dimension, len(shape), "unfold")
        windows = self.windows(shape[dim], size, step)
        if not x.shape:
            return Spec((size,), x.dtype)
        return Spec((*replaced(shape, dim, windows), size), x.dtype)

    def windows(self, n: Size, size: Size, step: Size) -> Any:
        """The number of windows over an extent n. Raises ShapeError."""
        if size < 0:
            raise ShapeError(f"unfold: size is {size} but must be >= 0")
        if step <= 0:
            raise ShapeError(f"unfold: step is {step} but must be > 0")
        if size > n:
            raise ShapeError(
                f"unfold: maximum size for tensor at dimension {self.dimension} is {n} "
                f"but size is {size}"
            )
        return (n - size) // step + 1

    def reference(self, x: np.ndarray, size: int, step: int) -> np.ndarray:
        if x.ndim == 0:
            return x.reshape(1)[:size]
        dim = normalize_dim(self.dimension, x.ndim, "unfold")
        count = self.windows(x.shape[dim], size, step)
        index = np.arange(count)[:, None] * step + np.arange(size)
        return np.moveaxis(x.take(index, axis=dim), dim + 1, -1)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, size: Size, step: Size) -> tuple[Any, ...]:
        if not len(x.shape):
            return (ops.reshape_to(ops.sum_to(g, (1,), (0,)), ()),)
        dim, index, flat = self.flattened(x, g, size, step)
        return (ops.index_add(zeros_of(x), dim, index, flat),)

    def flattened(self, x: Tensor, v: Tensor, size: Size, step: Size) -> tuple[int, Any, Any]:
        """(dim, the place in x of each element of the windows, v with the windows in that dim)."""
        dim = normalize_dim(self.dimension, len(x.shape), "unfold")
        count = self.windows(x.shape[dim], size, step)
        starts = ops.expand_to(ops.unsqueeze(arange(count), 1) * step, (count, size), (1,))
        places = ops.expand_to(arange(size), (count, size), (0,))
        index = beside(x, ops.reshape_to(starts + places, (count * size,)))
        return dim, index, ops.flatten(ops.movedim(v, -1, dim + 1), dim, dim + 1)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, size: Size, step: Size) -> OnnxValue:
        if not x.shape:
            return g.slice(g.reshape(x, (1,)), 0, 0, size, 1)
        dim = normalize_dim(self.dimension, x.rank, "unfold")
        count = g.out[0].shape[dim]
        starts = g.reshape(g.node("Mul", g.arange(count), g.size(step)), (count, 1))
        y = g.node("Gather", x, g.node("Add", starts, g.arange(size)), axis=dim)
        order = (*(d for d in range(x.rank + 1) if d != dim + 1), dim + 1)
        return g.transpose(y, order)

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, width: Size, step: Size
    ) -> Tensor:
        rank = len(x.shape) - 1
        if rank == 0:
            return ops.slice(ops.unsqueeze(x, 1), 1, 0, width)
        return ops.unfold(x, normalize_dim(self.dimension, rank, "unfold") + 1, width, step)

    def put(self, x: Tensor, v: Tensor, size: Size, step: Size) -> Tensor:
        if not len(x.shape):
            return v if size == 0 else ops.reshape_to(v, ())
        dim, index, flat = self.flattened(x, v, size, step)
        if step < size:
            return put_changed(x, dim, index, flat)
        return ops.index_copy(x, dim, index, flat)

    def strides(self, shape: Shape, strides: Sequence[int], size: Size, step: Size) -> Strides:
        if not shape:
            return (1,), 0
        dim = normalize_dim(self.dimension, len(shape), "unfold")
        return (*replaced(tuple(strides), dim, strides[dim] * step), strides[dim]), 0

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(7,)), 0, 3, 2)
        yield Sample(rng.normal(size=(7, 2)), 0, 3, 1)
        yield Sample(rng.normal(size=(2, 6)), -1, 2, 3)
        yield Sample(rng.normal(size=(2, 3, 4)), 1, 3, 5)
        yield Sample(rng.normal(size=(2, 3)), 1, 0, 2)
        yield Sample(rng.normal(size=()), 0, 1, 1)


def put_changed(x: Tensor, dim: int, index: Tensor, v: Tensor) -> Tensor:
    """x, with the elements `index` along a dim replaced by elements of v that differ.

    Among places that show the same element, a changed place gives the element's value now.
    """
    n = x.shape[dim]
    ones = [1] * len(v.shape)
    ones[dim] = v.shape[dim]
    places = ops.expand(ops.reshape(index, tuple(ones)), tuple(v.shape))
    places = ops.where(has_changed(ops.index_select(x, dim, index), v), places, n)
    spare = ops.narrow(x, dim, 0, 1)  # where the unchanged elements go
    return ops.narrow(ops.scatter(ops.cat([x, spare], dim), dim, places, v), dim, 0, n)


def arange(count: Size) -> Tensor:
    """0, 1, ... count - 1 as int64; count may be symbolic."""
    return ops.arange(0, count, 1, count, dtype=int64)


class AsStrided(View):
    """y[i, j, ...] = memory[storage_offset + i * stride[0] + j * stride[1] + ...].

    memory is x, row-major and dense, seen as one dim: the public `as_strided` passes the base
    of a view. Raises ShapeError if an element lies outside of the memory.
    """

    signature = "input, size: sizes, stride: sizes, storage_offset: size? = None"

    def infer(self, x: Spec, size: Sizes, stride: Sizes, offset: Size | None) -> Spec:
        check_strided("as_strided", x.shape, size, stride, 0 if offset is None else offset)
        return Spec(tuple(size), x.dtype)

    def reference(
        self, x: np.ndarray, size: Sizes, stride: Sizes, offset: Size | None
    ) -> np.ndarray:
        flat = np.ascontiguousarray(x).reshape(-1)
        return np.asarray(flat[strided_places(size, stride, offset or 0)])

    def vjp(
        self, g: Tensor, y: Tensor, x: Tensor, size: Sizes, stride: Sizes, offset: Size | None
    ) -> tuple[Any, ...]:
        flat = ops.full((numel(x.shape),), 0, dtype=g.dtype)
        index = strided_index(size, stride, 0 if offset is None else offset)
        flat = ops.index_add(flat, 0, ops.ravel(index), ops.ravel(g))
        return (ops.reshape_to(flat, x.shape),)

    def onnx(
        self, g: OnnxBuilder, x: OnnxValue, size: Sizes, stride: Sizes, offset: Size | None
    ) -> OnnxValue:
        flat = g.reshape(x, (numel(x.shape),))
        return g.node("Gather", flat, onnx_places(g, size, stride, offset or 0), axis=0)

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        extents: Sizes,
        stride: Sizes,
        offset: Size | None,
    ) -> Tensor:
        rows = tuple(x.shape)
        step = numel(rows[1:])
        return ops.as_strided(x, (rows[0], *extents), (step, *stride), offset)

    def put(self, x: Tensor, v: Tensor, size: Sizes, stride: Sizes, offset: Size | None) -> Tensor:
        if numel(v.shape) == 0 or not self.repeats(size, stride):
            return ops.strided_scatter(x, v, size, stride, offset)
        index = beside(x, ops.ravel(strided_index(size, stride, 0 if offset is None else offset)))
        flat = put_changed(ops.reshape(x, (-1,)), 0, index, ops.reshape(v, (-1,)))
        return ops.reshape(flat, tuple(x.shape))

    @staticmethod
    def repeats(size: Sizes, stride: Sizes) -> bool:
        """Whether elements may be the same in memory."""
        last: Any = 0
        for step, extent in sorted(zip(stride, size, strict=True)):
            if extent > 1:
                if step <= last:
                    return True
                last = last + (extent - 1) * step
        return False

    def strides(
        self, shape: Shape, strides: Sequence[int], size: Sizes, stride: Sizes, offset: Size | None
    ) -> Strides:
        return tuple(stride), 0 if offset is None else offset

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), (2, 2), (1, 2))
        yield Sample(rng.normal(size=(3, 4)), (2, 3), (4, 0), 1)
        yield Sample(rng.normal(size=(12,)), (3, 3), (1, 1), 2)
        yield Sample(rng.normal(size=(2,)), (0, 3), (1, 1), 9)
        yield Sample(rng.normal(size=(2,)), (), (), 1)


def check_strided(op: str, shape: Shape, size: Sizes, stride: Sizes, offset: Size) -> None:
    """Raise ShapeError unless every element of a strided view lies within the memory."""
    if len(size) != len(stride):
        raise ShapeError(
            f"{op}: mismatch in length of strides and shape: {hints(stride)} and {hints(size)}"
        )
    if offset < 0:
        raise ShapeError(f"{op}: invalid storage offset {offset}")
    last, empty = offset, False
    for n, s in zip(size, stride, strict=True):
        if n < 0 or s < 0:
            raise ShapeError(
                f"{op}: negative sizes and strides are not supported: "
                f"size {hints(size)}, stride {hints(stride)}"
            )
        empty = empty or bool(n == 0)
        last = last + (n - 1) * s
    if not empty and not last < numel(shape):
        raise ShapeError(
            f"{op}: size {hints(size)} with stride {hints(stride)} from offset {offset} reaches "
            f"element {last}, out of bounds for storage of {numel(shape)} elements"
        )


def strided_places(size: Sizes, stride: Sizes, offset: int) -> np.ndarray:
    """The places in memory of the elements of a strided view, as an array of the view's shape."""
    places = np.full(tuple(size), offset, dtype=np.int64)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * s).reshape((n,) + (1,) * (len(size) - d - 1))
    return places


def onnx_places(g: OnnxBuilder, size: Sizes, stride: Sizes, offset: Size) -> OnnxValue:
    """`strided_places`, as ONNX nodes."""
    places = g.size(offset)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        along = g.node("Mul", g.arange(n), g.size(s))
        along = g.reshape(g.shaped(along, (n,)), (n, *(1,) * (len(size) - d - 1)))
        places = g.node("Add", places, along)
    return g.shaped(places, tuple(size))


def strided_index(size: Sizes, stride: Sizes, offset: Size) -> Tensor:
    """`strided_places`, written in ops: extents may be symbolic."""
    index = ops.full(tuple(size), offset, dtype=int64)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        along = ops.reshape_to(arange(n) * s, (n, *(1,) * (len(size) - d - 1)))
        others = tuple(i for i in range(len(size)) if i != d)
        index = index + ops.expand_to(along, tuple(size), others)
    return index
