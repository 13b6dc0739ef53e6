"""Ops that order elements: sort, topk, mode, median, the order of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import DimError, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, Primitive, Sample, ops
from wend._engine.core.symbolic import SymInt, hints, numel
from wend._engine.core.types import Spec
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.numeric import accumulator, require, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.placing import full_beside
from wend._engine.ops.views.family import Shape
from wend._engine.ops.views.slicing import replaced, zeros_of

REAL = frozenset({"bool", "int", "float"})


def sorting_order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Indices that sort along an axis; ties keep their order, NaN is the greatest."""
    x = widen(x)  # NumPy does not know of bfloat16's NaN
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # Sorting the mirror image and mirroring the result keeps ties in order.
    mirrored = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(mirrored, axis))


#: The library of the ops that sort.
SORT = "sorting by NumPy"


class _Selection(Primitive, abstract=True):
    """Elements picked along a dim: (values, indices). The gradient goes to the picked elements."""

    facts = OpFacts(supports=REAL, format_of="copied")
    schedule = OpSchedule(library=SORT)
    result = ("values", "indices")
    dim: int

    def place(self, rank: int) -> int:
        """The dim counted from 0."""
        return normalize_dim(self.dim, rank, self.name)

    def vjp(self, g: Any, y: Any, x: Tensor, *sizes: Any) -> tuple[Any, ...]:
        if not len(x.shape):
            return (g[0],)
        return (ops.scatter_add(zeros_of(x), self.dim, y[1], g[0]),)


def onnx_sorted(
    g: OnnxBuilder, x: OnnxValue, dim: int, k: int | SymInt, largest: bool
) -> tuple[OnnxValue, ...]:
    """The first k elements in order, and their places; ties keep their order in ONNX too."""
    outputs = g.node("TopK", x, g.sizes((k,)), axis=dim, largest=int(largest), sorted=1, outputs=2)
    return tuple(outputs)


class Sort(_Selection):
    """(values, indices): the elements in order along `dim`; values[k] = x[indices[k]].

    Ties keep their order, `stable` or not. NaN counts as the greatest.
    """

    signature = "input, dim: int = -1, descending: bool = False, stable: attr = None"
    descending: bool
    torch = TorchCall(names=("sort",))

    def infer(self, x: Spec) -> tuple[Spec, ...]:
        require(self.name, self.facts.supports, x.dtype)
        self.place(len(x.shape))
        return Spec(x.shape, x.dtype), Spec(x.shape, int64)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        axis = self.place(x.ndim)
        indices = sorting_order(x, axis, self.descending)
        return np.take_along_axis(x, indices, axis), indices

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> Any:
        if not x.shape:
            return x, g.constant(0, int64)
        dim = self.place(x.rank)
        return onnx_sorted(g, x, dim, x.shape[dim], self.descending)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        if len(x.shape) == 1:
            return ops.alias(x), full_beside(x, x.shape, 0, int64)
        return ops.sort(x, self.place(len(x.shape) - 1) + 1, self.descending)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.permuted(np.arange(24.0)).reshape(2, 3, 4)
        yield Sample(x)
        yield Sample(x, 1, True)
        yield Sample(x, 0, stable=True)
        yield Sample(np.array([2, 1, 2, 1, 2]), -1, True)
        yield Sample(np.array([True, False, True]))
        yield Sample(x[:0], 0)
        yield Sample(np.array(1.5), 0)

    @staticmethod
    def grad_nodes(
        n: NodeBuilder, x: NodeOperand, dim: int, descending: bool, stable: object
    ) -> object:
        """Where `stable` is given."""
        return None if stable is None else n.Sort1(x)


class Topk(_Selection):
    """(values, indices): the k greatest (or least) elements along `dim`, in order.

    Raises ShapeError unless 0 <= k <= the extent.
    """

    signature = "input, k: size, dim: int = -1, largest: bool = True, sorted: bool = True"
    largest: bool
    sorted: bool
    facts = OpFacts(supports=frozenset({"int", "float"}))
    torch = TorchCall(names=("topk",))

    def infer(self, x: Spec, k: Size) -> tuple[Spec, ...]:
        require(self.name, self.facts.supports, x.dtype)
        dim = self.place(len(x.shape))
        n = x.shape[dim] if x.shape else 1
        if k < 0 or k > n:
            raise ShapeError(
                f"topk: selected index k out of range: k is {k}, dim {dim} has size {n}"
            )
        shape = replaced(x.shape, dim, k) if x.shape else ()
        return Spec(shape, x.dtype), Spec(shape, int64)

    def reference(self, x: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        axis = self.place(x.ndim)
        indices = sorting_order(x, axis, self.largest)
        indices = indices[(slice(None),) * axis + (slice(k),)]
        return np.take_along_axis(x, indices, axis), indices

    def onnx(self, g: OnnxBuilder, x: OnnxValue, k: Size) -> Any:
        if not x.shape:
            return x, g.constant(0, int64)
        return onnx_sorted(g, x, self.place(x.rank), k, self.largest)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, k: Size) -> Any:
        if len(x.shape) == 1:
            return ops.alias(x), full_beside(x, x.shape, 0, int64)
        dim = self.place(len(x.shape) - 1) + 1
        return ops.topk(x, k, dim, self.largest, self.sorted)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.permuted(np.arange(24.0)).reshape(2, 3, 4)
        yield Sample(x, 2)
        yield Sample(x, 3, 1, False)
        yield Sample(x, 0, 0)
        yield Sample(np.array(1.5), 1)


class Mode(_Selection):
    """(values, indices): the most frequent element along `dim`, and the last place of it.

    Among equally frequent elements the least is taken. Raises DimError for an empty dim.
    """

    signature = "input, dim: int = -1, keepdim: bool = False"
    keepdim: bool
    torch = TorchCall(names=("mode",))

    def infer(self, x: Spec) -> tuple[Spec, ...]:
        require(self.name, self.facts.supports, x.dtype)
        dim = self.place(len(x.shape))
        check_not_empty(self.name, x.shape, dim)
        shape = reduced(x.shape, dim, self.keepdim)
        return Spec(shape, x.dtype), Spec(shape, int64)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        axis = self.place(x.ndim)
        rows = np.moveaxis(x, axis, -1)
        places = [_last_mode(row) for row in rows.reshape(-1, rows.shape[-1])] if x.size else []
        indices = np.array(places, dtype=np.int64).reshape(rows.shape[:-1])
        indices = np.expand_dims(indices, axis)
        values = np.take_along_axis(x, indices, axis)
        return (values, indices) if self.keepdim else (values.squeeze(axis), indices.squeeze(axis))

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], x: Tensor) -> tuple[Any, ...]:
        if not len(x.shape):
            return (g[0],)
        dim = self.place(len(x.shape))
        value, index = g[0], y[1]
        if not self.keepdim:
            value, index = ops.unsqueeze(value, dim), ops.unsqueeze(index, dim)
        return (ops.scatter_add(zeros_of(x), dim, index, value),)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        if len(x.shape) == 1:
            return ops.alias(x), full_beside(x, x.shape, 0, int64)
        return ops.mode(x, self.place(len(x.shape) - 1) + 1, self.keepdim)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.integers(0, 3, size=(3, 7)))
        yield Sample(rng.integers(0, 3, size=(3, 7)).astype(float), 0, True)
        yield Sample(rng.normal(size=(2, 1)), 1)
        yield Sample(rng.normal(size=()))
        yield Sample(rng.normal(size=(0, 2)), 1)


def _last_mode(row: np.ndarray) -> int:
    """The last place of the most frequent element of a row."""
    row = widen(row)
    order = np.argsort(row, kind="stable")
    ordered = row[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    lengths = np.diff(ends, prepend=-1)
    return int(order[ends[np.argmax(lengths)]])


class MedianAll(Primitive):
    """y = the median of all elements, the lower in the middle; NaN beside any NaN.

    Elements equal to the median share the gradient. An empty input gives NaN.
    """

    signature = "input"
    torch = TorchCall(grad_name="MedianBackward0")
    facts = OpFacts(supports=frozenset({"int", "float"}))
    schedule = OpSchedule(library=SORT)
    skip_nan = False

    def infer(self, x: Spec) -> Spec:
        require("median", self.facts.supports, x.dtype)
        return Spec((), x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        flat = np.sort(widen(x), axis=None).astype(x.dtype, copy=False)
        missing = int(np.isnan(flat).sum()) if x.dtype.kind not in "iu" else 0
        if x.size == 0:
            empty = np.nan if x.dtype.kind not in "iu" else np.iinfo(x.dtype).min
            return np.asarray(empty, dtype=x.dtype)
        if missing and (not self.skip_nan or missing == x.size):
            return np.asarray(np.nan, dtype=x.dtype)
        return np.asarray(flat[(x.size - missing - 1) // 2])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        both_nan = ops.logical_and(ops.isnan(x), ops.isnan(y))
        hit = ops.cast(ops.logical_or(ops.eq(x, y), both_nan), g.dtype)
        return (hit * (g / ops.sum(hit)),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> Any:
        b, count = g.elements, numel(x.shape)
        flat = g.cast(g.reshape(x, (count,)), accumulator(x.dtype))
        if not x.dtype.is_floating_point:
            ordered, _ = onnx_sorted(g, flat, 0, count, False)
            return g.node("Gather", ordered, g.size((count - 1) // 2), axis=0)
        missing = b.ne(flat, flat)
        lost = g.node("ReduceSum", g.cast(missing, int64), keepdims=0)
        none = b.constant(math.nan, flat)
        filled = b.select(missing, b.constant(math.inf, flat), flat)
        ordered, _ = onnx_sorted(g, filled, 0, count, False)
        last = g.node("Sub", g.node("Sub", g.size(count), lost), g.size(1))
        at = g.node("Div", b.maximum(last, g.size(0)), g.size(2))
        middle = g.node("Gather", ordered, at, axis=0)
        bad = b.eq(lost, g.size(count)) if self.skip_nan else b.ne(lost, g.size(0))
        return g.cast(b.select(bad, none, middle), x.dtype)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        flat = ops.reshape_to(x, (size, numel(tuple(x.shape)[1:])))
        name = "nanmedian_dim" if self.skip_nan else "median_dim"
        y = getattr(ops, name)(flat, 1)[0]
        if not x.dtype.is_floating_point:
            return y
        # Along a dim the gradient goes to one element; here equal elements share the gradient.
        whole = ops.expand_to(ops.unsqueeze(y, 1), flat.shape, (1,))
        both_nan = ops.logical_and(ops.isnan(flat), ops.isnan(whole))
        hit = ops.logical_or(ops.eq(flat, whole), both_nan)
        total = ops.sum(ops.where(hit, flat, 0), 1)
        return ops.graft(y, total / ops.cast(ops.sum(hit, 1), y.dtype))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)))
        yield Sample(rng.normal(size=(7,)))
        yield Sample(np.array([1.0, 2.0, 2.0, 5.0]))
        yield Sample(rng.normal(size=()))
        yield Sample(rng.integers(0, 9, size=(3, 3)))


class NanmedianAll(MedianAll):
    """y = the median of all elements that are not NaN, the lower of the two in the middle."""

    torch = TorchCall(grad_name="NanmedianBackward0")
    skip_nan = True


def check_not_empty(op: str, shape: Shape, dim: int) -> None:
    """Raise DimError if the dim that is to be reduced has no elements."""
    if shape and shape[dim] == 0:
        raise DimError(
            f"{op}: expected reduction dim {dim} to have non-zero size, in shape {hints(shape)}"
        )


def reduced(shape: Shape, dim: int, keepdim: bool) -> Shape:
    """shape without a dim, or with an extent of 1 in place of that dim."""
    if not shape:
        return ()
    return (*shape[:dim], *((1,) if keepdim else ()), *shape[dim + 1 :])


class LexsortRows(Primitive):
    """y = the order that sorts the rows of each matrix, first column first; ties keep theirs.

    x: (..., n, m)   ->   y: (..., n) of int64. Raises ShapeError below 2 dims.
    """

    signature = "input"
    facts = OpFacts(supports=REAL)
    schedule = OpSchedule(library=SORT)
    vjp = NO_GRADIENT

    def infer(self, x: Spec) -> Spec:
        if len(x.shape) < 2:
            raise ShapeError(f"lexsort_rows: takes matrices, and got shape {hints(x.shape)}")
        require(self.name, self.facts.supports, x.dtype)
        return Spec(x.shape[:-1], int64)

    def reference(self, x: np.ndarray) -> np.ndarray:
        y = np.empty(x.shape[:-1], dtype=np.int64)
        for place in np.ndindex(x.shape[:-2]):
            rows = widen(x[place])
            y[place] = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
        return y

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return ops.lexsort_rows(x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.integers(0, 2, size=(7, 3)))
        yield Sample(rng.normal(size=(4, 1)))
        yield Sample(rng.normal(size=(0, 2)))
