"""Indexing by tensors: index and its adjoint index_put."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, bool_, int8, int16, int32, int64
from wend._engine.base.errors import ArgumentTypeError, DTypeError, IndexOutOfRange, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core._types import TensorType
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import broadcast_shapes, hints
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import accumulator
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.placing import beside
from wend._engine.ops.views.family import Shape, inverse_order
from wend._engine.ops.views.scatters import with_batch
from wend._engine.ops.views.slicing import sum_to_shape, zeros_of
from wend._engine.ops.views.strided import arange

#: Why no kernel writes elements by an index: loops may be cut into parts, which run in any order.
LAST_STAYS = "of two writes to an element the last one stays, and loops have no such order"


def check_range(
    op: str,
    index: np.ndarray,
    dim: int,
    n: int,
    *,
    negative: bool = False,
    error: type[IndexOutOfRange] = IndexOutOfRange,
) -> None:
    """Raise `error` for the first element of `index` beyond an extent n of dim `dim`.

    negative: whether indices may count from the end.
    """
    low = -n if negative else 0
    if index.size == 0:
        return
    if not negative and index.dtype == np.int64:  # unsigned, negative numbers are large
        if np.maximum.reduce(index.view(np.uint64), None) < n:
            return
    elif index.min() >= low and index.max() < n:
        return
    where = np.argwhere((index < low) | (index >= n))[0]
    value = index[tuple(where)]
    place = f" (at position {tuple(map(int, where))} of the index)" if index.ndim else ""
    fault = error(f"{op}: index {value} is out of bounds for dimension {dim} with size {n}{place}")
    fault.index = int(value)
    raise fault


def check_index_dtype(op: str, dtype: DType, allowed: tuple[DType, ...] = (int32, int64)) -> None:
    """Raise DTypeError unless the dtype can index."""
    if dtype not in allowed:
        raise DTypeError(
            f"{op}: expected {' or '.join(d.name for d in allowed)} for index, but got {dtype}"
        )


def adjacent(dims: tuple[int, ...]) -> bool:
    """Whether indexed dims are adjacent: the index dims of the result then keep their place."""
    return all(b == a + 1 for a, b in itertools.pairwise(dims))


_INDEX_DTYPES = (int64, int32, int16, int8)


class _ByTensors(Primitive, abstract=True):
    """Common part of index and index_put: tensors that index `dims`, broadcast together."""

    facts = OpFacts(supports=ANY_DTYPE, fallible=True)
    dims: tuple[int, ...]

    def place(self, rank: int) -> tuple[int, ...]:
        """The indexed dims counted from 0."""
        return tuple(normalize_dim(d, rank, self.name) for d in self.dims)

    def region_shape(self, shape: Shape, indices: list[Spec]) -> Shape:
        """The shape of input[..., indices, ...]. Raises ShapeError, DTypeError."""
        if len(indices) != len(self.dims) or len(self.dims) > len(shape):
            raise ArgumentTypeError(
                f"{self.name}: {len(indices)} index tensors for dims {self.dims} "
                f"of an input of {len(shape)} dims"
            )
        for index in indices:
            check_index_dtype(self.name, index.dtype, _INDEX_DTYPES)
        try:
            along = broadcast_shapes(self.name, *(index.shape for index in indices))
        except ShapeError:
            shapes = ", ".join(str(hints(index.shape)) for index in indices)
            raise IndexShapeError(
                f"{self.name}: shape mismatch: indexing tensors could not be broadcast together "
                f"with shapes {shapes}"
            ) from None
        dims = self.place(len(shape))
        kept = [n for d, n in enumerate(shape) if d not in dims]
        at = dims[0] if adjacent(dims) else 0
        return (*kept[:at], *along, *kept[at:])

    def check(self, x: TensorType | np.ndarray, indices: list[Any]) -> None:
        """Raise IndexOutOfRange if a held index lies beyond the indexed dim."""
        for dim, index in zip(self.place(len(x.shape)), indices, strict=True):
            if index is not None:
                check_range(self.name, index, dim, x.shape[dim], negative=True)

    def key(self, rank: int, indices: list[np.ndarray]) -> tuple[Any, ...]:
        """The NumPy key of the region."""
        key: list[Any] = [slice(None)] * rank
        for dim, index in zip(self.place(rank), indices, strict=True):
            key[dim] = index
        return tuple(key)

    def batched_indices(
        self, flags: Sequence[bool], size: Size, indices: list[Any], rank: int
    ) -> tuple[list[Any], tuple[int, ...]]:
        """(indices, dims) of a batched input of `rank` dims, the batch axis indexed as well."""
        deepest = max(len(i.shape) - b for i, b in zip(indices, flags, strict=True))
        rows = beside(indices[0], arange(size))
        rows = ops.reshape_to(rows, (size, *(1,) * deepest))
        lifted = [_aligned(i, deepest) if b else i for i, b in zip(indices, flags, strict=True)]
        return [rows, *lifted], (0, *(d + 1 for d in self.place(rank - 1)))

    def onnx_layout(
        self, g: OnnxBuilder, x: OnnxValue, indices: list[Any]
    ) -> tuple[Any, Any, tuple[int, ...]]:
        """(x with the indexed dims in front, the places in these, order of the region's dims).

        The order is that which puts the region's dims of the index in front.
        """
        dims, rank = self.place(x.rank), x.rank
        rest = tuple(d for d in range(rank) if d not in dims)
        along = broadcast_shapes(self.name, *(index.shape for index in indices))
        columns = [
            g.reshape(g.expand(g.cast(index, int64), along), (*along, 1)) for index in indices
        ]
        places = g.node("Concat", *columns, axis=len(along)) if len(columns) > 1 else columns[0]
        at = dims[0] if adjacent(dims) else 0
        depth = len(along)
        order = (*range(at, at + depth), *range(at), *range(at + depth, depth + len(rest)))
        return g.transpose(x, (*dims, *rest)), places, order

    def batched_order(self, rank: int, depth: int) -> tuple[int, ...]:
        """The dims of a batched region, by place in a region whose index dims lead.

        rank: of the input without the batch axis     depth: number of dims of the index
        """
        dims = self.place(rank)
        at = dims[0] if adjacent(dims) else 0
        rest = rank - len(dims)
        front = range(1 + depth, 1 + depth + at)
        return (0, *front, *range(1, 1 + depth), *range(1 + depth + at, 1 + depth + rest))


class IndexShapeError(ShapeError, IndexError):
    """Index tensors that do not broadcast together: an IndexError in PyTorch."""


def _aligned(index: Tensor, depth: int) -> Tensor:
    """A batched index with dims of extent 1 put in behind the batch axis, up to `depth`."""
    shape = tuple(index.shape)
    return ops.reshape_to(index, (shape[0], *(1,) * (depth + 1 - len(shape)), *shape[1:]))


class Index(_ByTensors):
    """y = input[..., indices, ...]: tensor k of `indices` indexes dim dims[k].

    The index tensors broadcast together. Where `dims` are adjacent, the dims of the index take
    their place, else the dims of the index come first. Negative indices count from the end.
    Raises IndexOutOfRange, IndexShapeError.
    """

    signature = "input, indices: tensors, dims: ints"
    torch = TorchCall(grad_name="IndexBackward0")
    facts = OpFacts(format_of="indexed")

    def infer(self, x: Spec, indices: list[Spec]) -> Spec:
        return Spec(self.region_shape(x.shape, indices), x.dtype)

    def checked(self, x: TensorType, indices: list[Any]) -> None:
        self.check(x, indices)

    def reference(self, x: np.ndarray, indices: list[np.ndarray]) -> np.ndarray:
        self.check(x, indices)
        return np.asarray(x[self.key(x.ndim, indices)])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, indices: list[Any]) -> tuple[Any, ...]:
        zeros = zeros_of(x)
        return (
            ops.index_put(zeros, indices, g, accumulate=True, dims=self.dims),
            [None] * len(indices),
        )

    def onnx(self, g: OnnxBuilder, x: OnnxValue, indices: list[Any]) -> OnnxValue:
        dims = self.place(x.rank)
        if len(dims) == 1:
            return g.node("Gather", x, g.cast(indices[0], int64), axis=dims[0])
        moved, places, order = self.onnx_layout(g, x, indices)
        y = g.node("GatherND", moved, places)
        return g.transpose(y, inverse_order(order))

    def batch(self, batched: Sequence[Any], size: Size, x: Tensor, indices: list[Any]) -> Tensor:
        flags = batched[1]
        if not any(flags):
            dims = tuple(d + 1 for d in self.place(len(x.shape) - 1))
            y = ops.index(x, indices, dims)
            depth = max(len(i.shape) for i in indices)
            return y if adjacent(dims) else ops.movedim(y, depth, 0)
        if not batched[0]:
            depth = max(len(i.shape) - b for i, b in zip(indices, flags, strict=True))
            lifted = [_aligned(i, depth) if b else i for i, b in zip(indices, flags, strict=True)]
            dims = self.place(len(x.shape))
            return ops.movedim(ops.index(x, lifted, dims), dims[0] if adjacent(dims) else 0, 0)
        rank = len(x.shape)
        lifted, dims = self.batched_indices(flags, size, indices, rank)
        y = ops.index(x, lifted, dims)
        depth = len(lifted[0].shape) - 1
        return ops.permute(y, self.batched_order(rank - 1, depth))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3, 5))
        i, j = rng.integers(0, 3, size=(2, 4)), rng.integers(-3, 3, size=(4,))
        yield Sample(x, (i,), (0,))
        yield Sample(x, (j,), (1,))
        yield Sample(x, (i, j), (0, 1))
        yield Sample(x, (i, j), (1, 2))
        yield Sample(x, (i, j), (0, 2))
        yield Sample(x, (np.array(1),), (-1,))
        yield Sample(x, (np.zeros((0,), np.int64),), (1,))
        yield Sample(x, (np.array([0, 0, 1]), np.array(2), np.array([[1], [1]])), (0, 1, 2))
        yield Sample(rng.normal(size=(0, 3)), (np.zeros((2, 0), np.int64),), (0,))


class IndexPut(_ByTensors):
    """y = input, with input[..., indices, ...] = values, or += with `accumulate`.

    values broadcasts to the shape of the indexed region. An element that is indexed more than once
    gets the last of its values, or with `accumulate` their sum.
    Raises IndexOutOfRange, IndexShapeError, ShapeError, DTypeError.
    """

    signature = "input, indices: tensors, values, accumulate: bool = False, *, dims: ints = (0,)"
    accumulate: bool
    schedule = OpSchedule(donates=True)

    def infer(self, x: Spec, indices: list[Spec], values: Spec) -> Spec:
        if values.dtype is not x.dtype:
            raise DTypeError(
                "index_put: requires the source and destination dtypes match, got "
                f"{x.dtype} for the destination and {values.dtype} for the source"
            )
        region = self.region_shape(x.shape, indices)
        fits = len(values.shape) <= len(region) and all(
            m == n or m == 1 for m, n in zip(values.shape[::-1], region[::-1], strict=False)
        )
        if not fits:
            raise ShapeError(
                f"index_put: shape mismatch: value tensor of shape {hints(values.shape)} cannot be "
                f"broadcast to indexing result of shape {hints(region)}"
            )
        return Spec(x.shape, x.dtype)

    def checked(self, x: TensorType, indices: list[Any], values: np.ndarray | None) -> None:
        self.check(x, indices)

    def reference(self, x: np.ndarray, indices: list[Any], values: np.ndarray) -> np.ndarray:
        return self.reference_inplace(np.array(x), indices, values)

    def reference_inplace(
        self, x: np.ndarray, indices: list[Any], values: np.ndarray
    ) -> np.ndarray:
        self.check(x, indices)
        key = self.key(x.ndim, indices)
        if not self.accumulate:
            x[key] = values
        elif x.dtype == bool:
            np.logical_or.at(x, key, values)
        else:
            np.add.at(x, key, values)
        return x

    def vjp(
        self, g: Tensor, y: Tensor, x: Tensor, indices: list[Any], values: Tensor
    ) -> tuple[Any, ...]:
        g_values = sum_to_shape(ops.index(g, indices, self.dims), values.shape)
        if not self.accumulate:
            zero = ops.full((), 0, dtype=g.dtype)
            g = ops.index_put(g, indices, zero, dims=self.dims)
        return g, [None] * len(indices), g_values

    def onnx(
        self, g: OnnxBuilder, x: OnnxValue, indices: list[Any], values: OnnxValue
    ) -> OnnxValue:
        moved, places, order = self.onnx_layout(g, x, indices)
        region = self.region_shape(x.shape, indices)
        source = g.transpose(g.expand(values, region), order)
        wide = int64 if x.dtype is bool_ else accumulator(x.dtype)
        if not self.accumulate:
            wide = x.dtype
        reduction = "add" if self.accumulate else "none"
        y = g.node(
            "ScatterND", g.cast(moved, wide), places, g.cast(source, wide), reduction=reduction
        )
        dims = self.place(x.rank)
        rest = tuple(d for d in range(x.rank) if d not in dims)
        return g.transpose(g.cast(y, x.dtype), inverse_order((*dims, *rest)))

    def batch(
        self, batched: Sequence[Any], size: Size, x: Tensor, indices: list[Any], values: Tensor
    ) -> Tensor:
        x = with_batch(x, batched[0], size)
        rank = len(x.shape)
        lifted, dims = self.batched_indices(batched[1], size, indices, rank)
        depth = len(lifted[0].shape) - 1
        order = self.batched_order(rank - 1, depth)
        shape = tuple(values.shape)[1:] if batched[2] else tuple(values.shape)
        lead = size if batched[2] else 1
        values = ops.reshape_to(values, (lead, *(1,) * (len(order) - 1 - len(shape)), *shape))
        back = [0] * len(order)
        for k, d in enumerate(order):
            back[d] = k
        values = ops.permute(values, tuple(back))
        return ops.index_put(x, lifted, values, self.accumulate, dims=dims)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3, 5))
        i, j = np.array([[0, 2], [3, 1]]), np.array([-1, 0])
        yield Sample(x, (i,), rng.normal(size=(2, 2, 3, 5)))
        yield Sample(x, (i, j), rng.normal(size=(2, 2, 5)), dims=(0, 1))
        yield Sample(x, (j,), rng.normal(size=()), dims=(1,))
        yield Sample(x, (i, j), rng.normal(size=(2, 1, 3)), dims=(0, 2))
        yield Sample(x, (i * 0, j * 0), rng.normal(size=(2, 1)), True, dims=(1, 2))
        yield Sample(x, (np.zeros((0,), np.int64),), rng.normal(size=(0, 3, 5)), True)
        yield Sample(x, (np.array(1),), rng.normal(size=(3, 1)), True)
