"""Indexing by a vector along a dim: index_select and its adjoints, embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import DTypeError, ElementOutOfRange, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core._types import TensorType
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpBatching, OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints
from wend._engine.core.types import Spec
from wend._engine.ops.indexing.index import LAST_STAYS, check_index_dtype, check_range
from wend._engine.ops.numeric import widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.placing import beside, full_beside
from wend._engine.ops.views.scatters import with_batch
from wend._engine.ops.views.slicing import replaced, zeros_of
from wend._engine.ops.views.strided import arange


class _AlongDim(Primitive, abstract=True):
    """A 1-d (or 0-d) tensor of indices into a dim; no index is negative."""

    facts = OpFacts(supports=ANY_DTYPE, fallible=True)
    dim: int

    def place(self, rank: int) -> int:
        """The indexed dim counted from 0."""
        return normalize_dim(self.dim, rank, self.name)

    def count(self, index: Any) -> int:
        """The number of indices. Raises ShapeError, DTypeError."""
        check_index_dtype(self.name, index.dtype)
        if len(index.shape) > 1:
            raise ElementOutOfRange(
                f"{self.name}: index is supposed to be a vector, and has shape {hints(index.shape)}"
            )
        return index.shape[0] if index.shape else 1

    def check(self, x: TensorType | np.ndarray, index: np.ndarray | None) -> None:
        """Raise IndexOutOfRange if a held index lies beyond the dim."""
        if index is not None:
            dim = self.place(len(x.shape))
            n = x.shape[dim] if len(x.shape) else 1
            check_range(self.name, index, dim, n, error=ElementOutOfRange)

    def key(self, x: np.ndarray, index: np.ndarray) -> tuple[Any, ...]:
        """The NumPy key of the indexed slices; of all of x for a 0-d x."""
        if x.ndim == 0:
            return ()
        return (slice(None),) * self.place(x.ndim) + (index.reshape(-1),)


class IndexSelect(_AlongDim):
    """y[..., k, ...] = input[..., index[k], ...] along dim `dim`.

    index: 1-d or 0-d, int32 or int64, not negative. Raises IndexOutOfRange.
    """

    signature = "input, dim: int, index"
    torch = TorchCall(names=("index_select",))

    def infer(self, x: Spec, index: Spec) -> Spec:
        count = self.count(index)
        dim = self.place(len(x.shape))
        if not x.shape:
            return Spec((), x.dtype)
        return Spec(replaced(x.shape, dim, count), x.dtype)

    def checked(self, x: TensorType, index: np.ndarray | None) -> None:
        self.check(x, index)

    def reference(self, x: np.ndarray, index: np.ndarray) -> np.ndarray:
        self.check(x, index)
        return np.asarray(x[self.key(x, index)])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor) -> tuple[Any, ...]:
        return ops.index_add(zeros_of(x), self.dim, index, g), None

    def onnx(self, g: OnnxBuilder, x: OnnxValue, index: OnnxValue) -> OnnxValue:
        if not x.shape:
            return x
        return g.node("Gather", x, g.reshape(index, (self.count(index),)), axis=self.place(x.rank))

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, index: Tensor) -> Tensor:
        rank = len(x.shape) - batched[0]
        if rank == 0:
            return with_batch(x, batched[0], size)
        dim = self.place(rank)
        if not batched[1]:
            return ops.index_select(x, dim + 1, index)
        if len(index.shape) == 1:
            index = ops.unsqueeze(index, 1)
        if not batched[0]:
            return ops.movedim(ops.index(x, [index], (dim,)), dim, 0)
        rows = ops.unsqueeze(beside(x, arange(size)), 1)
        y = ops.index(x, [rows, index], (0, dim + 1))
        return ops.movedim(y, 1, dim + 1)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3))
        yield Sample(x, 0, np.array([2, 0, 2, 3]))
        yield Sample(x, -1, np.array([1]))
        yield Sample(x, 1, np.array(2))
        yield Sample(x, 0, np.zeros((0,), np.int64))
        yield Sample(rng.normal(size=()), 0, np.array([0]))


class _IntoDim(_AlongDim, abstract=True):
    """input with slices along a dim overwritten by, or added to, those of source."""

    schedule = OpSchedule(donates=True)

    def infer(self, x: Spec, index: Spec, source: Spec) -> Spec:
        count = self.count(index)
        dim = self.place(len(x.shape))
        if source.dtype is not x.dtype:
            raise DTypeError(
                f"{self.name}: self and source expected to have the same dtype, but got "
                f"(self) {x.dtype} and (source) {source.dtype}"
            )
        wanted = replaced(x.shape, dim, count) if x.shape else ()
        extents = source.shape
        if (not extents and len(x.shape) == 1) or (extents and not x.shape):
            extents, wanted = extents or (1,), wanted or (1,)
        if len(extents) != len(wanted) or not all(
            n == m for n, m in zip(extents, wanted, strict=True)
        ):
            raise ShapeError(
                f"{self.name}: source/destination must have same slice shapes: expected source of "
                f"shape {hints(wanted)} for input {hints(x.shape)}, dim {dim} and {count} indices, "
                f"and got {hints(source.shape)}"
            )
        return Spec(x.shape, x.dtype)

    def checked(self, x: TensorType, index: np.ndarray | None, source: object) -> None:
        self.check(x, index)

    def reference(self, x: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
        return self.reference_inplace(np.array(x), index, source)

    def reference_inplace(self, x: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
        """As `reference`, into x itself."""
        raise NotImplementedError

    def again(self, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """The same op on new operands."""
        raise NotImplementedError

    def onnx(self, g: OnnxBuilder, x: OnnxValue, index: OnnxValue, source: OnnxValue) -> OnnxValue:
        whole = x if x.shape else g.reshape(x, (1,))
        dim, count = self.place(whole.rank), self.count(index)
        wanted = replaced(whole.shape, dim, count)
        along = g.reshape(index, tuple(count if d == dim else 1 for d in range(whole.rank)))
        places = g.expand(along, wanted)
        reduction = "add" if self.name == "index_add" else "none"
        y = g.scatter(whole, places, g.reshape(source, wanted), dim, reduction)
        return y if x.shape else g.reshape(y, ())

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, index: Tensor, source: Tensor
    ) -> Tensor:
        x = with_batch(x, batched[0], size)
        source = with_batch(source, batched[2], size)
        if len(x.shape) == 1:
            x, source = ops.unsqueeze(x, 1), ops.reshape_to(source, (size, 1))
            y = self.batch((True, batched[1], True), size, x, index, source)
            return ops.squeeze(y, 1)
        dim = self.place(len(x.shape) - 1) + 1
        if not batched[1]:
            if len(source.shape) < len(x.shape):
                source = ops.unsqueeze(source, 1)
            return self.again(x, dim, index, source)
        index = ops.unsqueeze(index, 1) if len(index.shape) == 1 else index
        rows = ops.unsqueeze(beside(x, arange(size)), 1)
        if len(source.shape) < len(x.shape):
            source = ops.unsqueeze(source, 1)
        values = ops.movedim(source, dim, 1)
        return ops.index_put(x, [rows, index], values, self.name == "index_add", dims=(0, dim))


class IndexAdd(_IntoDim):
    """y = input, with y[..., index[k], ...] += source[..., k, ...] along dim `dim`.

    source: as input, but of len(index) slices. Repeated indices add up. Raises IndexOutOfRange.
    """

    signature = "input, dim: int, index, source"

    def reference_inplace(self, x: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
        self.check(x, index)
        if x.ndim == 0:
            x[...] = x + source.reshape(-1).sum(dtype=x.dtype)
            return x
        add = np.logical_or if x.dtype == bool else np.add
        add.at(x, self.key(x, index), source if source.ndim else source.reshape(1))
        return x

    def again(self, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        return ops.index_add(x, dim, index, source)

    def vjp(
        self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, source: Tensor
    ) -> tuple[Any, ...]:
        g_source = ops.index_select(g, self.dim, index)
        if len(source.shape) != len(g_source.shape):
            g_source = ops.reshape_to(g_source, source.shape)
        return g, None, g_source

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3))
        yield Sample(x, 0, np.array([2, 0, 2]), rng.normal(size=(3, 3)))
        yield Sample(x, -1, np.array([1]), rng.normal(size=(4, 1)))
        yield Sample(x, 0, np.zeros((0,), np.int64), rng.normal(size=(0, 3)))
        yield Sample(rng.normal(size=(3,)), 0, np.array(1), rng.normal(size=()))
        yield Sample(rng.normal(size=()), 0, np.array([0]), rng.normal(size=()))


class IndexCopy(_IntoDim):
    """y = input, with y[..., index[k], ...] = source[..., k, ...] along dim `dim`.

    Among repeated indices the last is taken. Raises IndexOutOfRange.
    """

    signature = "input, dim: int, index, source"
    torch = TorchCall(names=("index_copy",), inplace=True)
    schedule = OpSchedule(unlowered=LAST_STAYS)

    def reference_inplace(self, x: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
        self.check(x, index)
        x[self.key(x, index)] = source if x.ndim else source.reshape(())
        return x

    def again(self, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        return ops.index_copy(x, dim, index, source)

    def vjp(
        self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, source: Tensor
    ) -> tuple[Any, ...]:
        g_source = ops.index_select(g, self.dim, index)
        if len(source.shape) != len(g_source.shape):
            g_source = ops.reshape_to(g_source, source.shape)
        zeros = ops.full(source.shape, 0, dtype=g.dtype)
        return ops.index_copy(g, self.dim, index, zeros), None, g_source

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3))
        yield Sample(x, 0, np.array([2, 0]), rng.normal(size=(2, 3)))
        yield Sample(x, -1, np.array([1]), rng.normal(size=(4, 1)))
        yield Sample(x, 0, np.zeros((0,), np.int64), rng.normal(size=(0, 3)))
        yield Sample(rng.normal(size=(3,)), 0, np.array(1), rng.normal(size=()))


def _check_rows(indices: np.ndarray, rows: int) -> None:
    """Raise ElementOutOfRange, with PyTorch's words, for an index that no row of a table has."""
    try:
        check_range("embedding", indices, 0, rows, error=ElementOutOfRange)
    except ElementOutOfRange as error:
        error.args = (f"{error.args[0]}: index out of range in self",)
        raise


class Embedding(Primitive):
    """y[..., :] = weight[indices[...], :]: the rows of a table.

    weight: (n, m)   indices: any shape, int32 or int64, not negative   ->   y: (*indices, m)
    padding_idx: a row that gets no gradient, negative for none
    scale_grad_by_freq: divide the gradient of a row by the number of lookups of the row
    Raises IndexOutOfRange, ShapeError unless weight is 2-d.
    """

    signature = (
        "weight, indices, padding_idx: size = -1, scale_grad_by_freq: bool = False, "
        "sparse: bool = False"
    )
    scale_grad_by_freq: bool
    sparse: bool
    torch = TorchCall(functions=("embedding",))
    batching = OpBatching(picks_rows=True, rows_of="indices", row_dims=0)
    facts = OpFacts(fallible=True, smooth=True, supports=ANY_DTYPE)
    schedule = OpSchedule(heavy=True)

    def by_rows(self, rows: tuple[bool, ...], ranks: tuple[int, ...]) -> bool:
        """Each index names a row, unless gradients count how often."""
        return rows == (False, True) and ranks[1] > 0 and not self.scale_grad_by_freq

    def infer(self, weight: Spec, indices: Spec, padding_idx: Size) -> Spec:
        check_index_dtype("embedding", indices.dtype)
        if len(weight.shape) != 2:
            raise ShapeError(
                f"embedding: 'weight' must be 2-D, and has shape {hints(weight.shape)}"
            )
        return Spec((*indices.shape, weight.shape[1]), weight.dtype)

    def checked(
        self, weight: TensorType | np.ndarray, indices: np.ndarray | None, padding_idx: Size
    ) -> None:
        if indices is not None:
            _check_rows(indices, weight.shape[0])

    def reference(self, weight: np.ndarray, indices: np.ndarray, padding_idx: int) -> np.ndarray:
        self.checked(weight, indices, padding_idx)
        return np.asarray(weight[indices])

    def vjp(
        self, g: Tensor, y: Tensor, weight: Tensor, indices: Tensor, padding_idx: Size
    ) -> tuple[Any, ...]:
        rows = weight.shape[0]
        return (
            ops.embedding_adjoint(g, indices, rows, padding_idx, self.scale_grad_by_freq),
            None,
        )

    def onnx(
        self, g: OnnxBuilder, weight: OnnxValue, indices: OnnxValue, padding_idx: Size
    ) -> OnnxValue:
        return g.node("Gather", weight, indices, axis=0)

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        weight: Tensor,
        indices: Tensor,
        padding_idx: Size,
    ) -> Tensor:
        if not batched[0] and not self.scale_grad_by_freq:
            return ops.embedding(weight, indices, padding_idx, False, self.sparse)
        # The batch of tables as a single table: gradients stay those of an embedding.  Rows of
        # their own also keep the members' counts of lookups apart, where gradients ask for these.
        weight = with_batch(weight, batched[0], size)
        rows = weight.shape[1]
        indices = with_batch(indices, batched[1], size)
        first = beside(weight, arange(size)) * rows
        start = ops.reshape_to(first, (size, *(1,) * (len(indices.shape) - 1)))
        flat = ops.reshape_to(weight, (size * rows, weight.shape[2]))
        y = ops.embedding(flat, indices + start, -1, self.scale_grad_by_freq)
        kept = ops.expand_to(
            ops.unsqueeze(ops.ne(indices, padding_idx), -1), y.shape, (len(y.shape) - 1,)
        )
        return ops.where(kept, y, ops.stop_gradient(y))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        weight = rng.normal(size=(5, 3))
        yield Sample(weight, np.array([[0, 4, 1], [1, 1, 3]]))
        yield Sample(weight, np.array([0, 4, 1, 1]), 1)
        yield Sample(weight, np.array([2, 2, 1]), -1, True)
        yield Sample(weight, np.array([2, 2, 0]), 0, True)
        yield Sample(weight, np.array(2))
        yield Sample(weight, np.zeros((0, 2), np.int64))


#: Elements from which on rows are added up in turns, as `_in_turns` does.
MANY = 1 << 22
#: The places of a row from which on they are added up at once.
_FREQUENT = 32
#: The elements of a row below which columns are added up.
_SHORT = 8


def _in_turns(y: np.ndarray, indices: np.ndarray, rows: np.ndarray, padding_idx: int) -> None:
    """y[indices[i]] += rows[i], each sum in the order of i, without a step per place.

    First all first places of rows of y are added, then all second places, and so on. A row with
    many places is a sum of its own. Where rows are short, columns are added up.
    """
    places = np.flatnonzero(indices != padding_idx)
    flat = indices.reshape(-1)[places]
    if y.shape[1] < _SHORT:
        for column in range(y.shape[1]):
            total = y[:, column].copy()
            np.add.at(total, flat, rows[places, column])
            y[:, column] = total
        return
    order = np.argsort(flat, kind="stable")
    places, flat = places[order], flat[order]
    starts = np.flatnonzero(np.diff(flat, prepend=-1))
    counts = np.diff(starts, append=flat.size)
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        if count > _FREQUENT:
            # Along the first axis NumPy adds row by row.
            y[flat[start]] += np.add.reduce(rows[places[start : start + count]], 0)
    rare = counts <= _FREQUENT
    starts, counts = starts[rare], counts[rare]
    for turn in range(counts.max(initial=0)):
        now = starts[counts > turn] + turn
        y[flat[now]] += rows[places[now]]


class EmbeddingAdjoint(Primitive):
    """y[r, :] = the sum of g[..., :] over the places where indices is r: the adjoint of embedding.

    g: (*indices, m)   ->   y: (num_weights, m). Places of padding_idx are left out; with
    scale_grad_by_freq row r is divided by its number of places.
    """

    signature = (
        "grad, indices, num_weights: size, padding_idx: size = -1, scale_grad_by_freq: bool = False"
    )
    facts = OpFacts(supports=frozenset({"float"}), fallible=True)
    scale_grad_by_freq: bool

    def adds_rows(self) -> bool:
        """Not where rows are divided by the number of lookups: then runs do not add up."""
        return not self.scale_grad_by_freq

    def infer(self, g: Spec, indices: Spec, num_weights: Size, padding_idx: Size) -> Spec:
        # Kernels go along both with the same loop.
        if tuple(g.shape[:-1]) != tuple(indices.shape):
            raise ShapeError(
                f"embedding: a gradient of shape {tuple(g.shape)} for indices of shape "
                f"{tuple(indices.shape)}"
            )
        return Spec((num_weights, g.shape[-1]), g.dtype)

    def checked(
        self, g: object, indices: np.ndarray | None, num_weights: Size, padding_idx: Size
    ) -> None:
        if indices is not None:
            _check_rows(indices, num_weights)

    def reference(
        self, g: np.ndarray, indices: np.ndarray, num_weights: int, padding_idx: int
    ) -> np.ndarray:
        self.checked(g, indices, num_weights, padding_idx)
        kept = (indices != padding_idx).reshape(-1)
        flat = indices.reshape(-1)[kept]
        y = np.zeros((num_weights, g.shape[-1]), dtype=widen(g).dtype)
        np.add.at(y, flat, widen(g.reshape(indices.size, g.shape[-1])[kept]))
        if self.scale_grad_by_freq:
            counts = np.bincount(flat, minlength=num_weights)
            y /= np.maximum(counts, 1)[:, None].astype(y.dtype)
        return y.astype(g.dtype)

    def runner(self, operands: Any) -> Any:
        """The rule; for many elements, the same sums in turns."""
        return self.reference if self.scale_grad_by_freq else self._added

    def _added(
        self, g: np.ndarray, indices: np.ndarray, num_weights: int, padding_idx: int
    ) -> np.ndarray:
        if g.size < MANY or g.dtype.kind != "f" or g.dtype.itemsize < 4:
            return self.reference(g, indices, num_weights, padding_idx)
        self.checked(g, indices, num_weights, padding_idx)
        y = np.zeros((num_weights, g.shape[-1]), g.dtype)
        _in_turns(y, indices, g.reshape(indices.size, g.shape[-1]), padding_idx)
        return y

    def vjp(
        self, g: Tensor, y: Tensor, x: Tensor, indices: Tensor, num_weights: Size, padding_idx: Size
    ) -> tuple[Any, ...]:
        if self.scale_grad_by_freq:
            ones = ops.full(indices.shape, 1, dtype=g.dtype)
            zeros = ops.full((num_weights,), 0, dtype=g.dtype)
            counts = ops.index_put(zeros, [indices], ones, True)
            g = g / ops.expand_to(ops.unsqueeze(ops.maximum(counts, 1), 1), g.shape, (1,))
        picked = ops.embedding(g, indices)
        kept = ops.unsqueeze(ops.ne(indices, padding_idx), -1)
        kept = ops.expand_to(kept, picked.shape, (len(picked.shape) - 1,))
        return ops.where(kept, picked, 0), None

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        g: Tensor,
        indices: Tensor,
        num_weights: Size,
        padding_idx: Size,
    ) -> Tensor:
        g, indices = with_batch(g, batched[0], size), with_batch(indices, batched[1], size)
        kept = ops.ne(indices, padding_idx)
        g = ops.where(ops.unsqueeze(kept, -1), g, 0)
        rows = ops.reshape_to(beside(g, arange(size)), (size, *(1,) * (len(indices.shape) - 1)))
        zeros = full_beside(g, (size, num_weights, g.shape[-1]), 0)
        y = ops.index_put(zeros, [rows, indices], g, True, dims=(0, 1))
        if self.scale_grad_by_freq:
            counts = full_beside(g, (size, num_weights), 0)
            counts = ops.index_put(
                counts, [rows, indices], ops.cast(kept, g.dtype), True, dims=(0, 1)
            )
            y = y / ops.unsqueeze(ops.maximum(counts, 1), -1)
        return y

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), np.array([[0, 4, 1], [1, 1, 3]]), 5)
        yield Sample(rng.normal(size=(4, 2)), np.array([0, 1, 1, 2]), 6, 1)
        yield Sample(rng.normal(size=(4, 2)), np.array([0, 1, 1, 2]), 3, 0, True)
        yield Sample(rng.normal(size=(2,)), np.array(1), 3)
        yield Sample(rng.normal(size=(0, 2)), np.zeros((0,), np.int64), 3)
        yield Sample(rng.normal(size=(2, 0)), np.array([1, 0]), 3)
