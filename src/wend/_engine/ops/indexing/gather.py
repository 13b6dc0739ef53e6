"""Elementwise indexing along a dim: gather and the scatters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wend._engine.base.dtypes import int32, int64
from wend._engine.base.errors import DTypeError, ElementOutOfRange, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core._types import TensorType
from wend._engine.core.kinds import Scalar, Size, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints, numel
from wend._engine.core.types import Number, Spec
from wend._engine.ops.indexing.index import LAST_STAYS, check_index_dtype, check_range
from wend._engine.ops.numeric import wrapped
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape
from wend._engine.ops.views.scatters import with_batch
from wend._engine.ops.views.slicing import zeros_of


class _Elementwise1d(Primitive, abstract=True):
    """An index tensor of the input's rank, each element of which indexes dim `dim`."""

    facts = OpFacts(supports=ANY_DTYPE, fallible=True)
    dim: int

    def place(self, rank: int) -> int:
        """The indexed dim counted from 0."""
        return normalize_dim(self.dim, rank, self.name)

    def check_shapes(self, shape: Shape, index: Spec, src: Shape | None = None) -> None:
        """Raise ShapeError unless the index fits the input, and src the index; an empty index does.

        index: no larger than the input but in dim `dim`, no larger than src anywhere
        """
        if index.dtype not in (int32, int64) and numel(index.shape) != 0:
            check_index_dtype(self.name, index.dtype)
        dim = self.place(len(shape))
        ranks = {max(len(s), 1) for s in (shape, index.shape, src or index.shape)}
        wide = [
            d
            for d, (n, m) in enumerate(zip(shape, index.shape, strict=False))
            if d != dim and m > n
        ]
        # Equality is asked first: the gradient rule of src depends on this.
        narrow = [
            d
            for d, (n, m) in enumerate(zip(src or (), index.shape, strict=False))
            if n != m and m > n
        ]
        if (len(ranks) > 1 or wide or narrow) and numel(index.shape) != 0:
            sizes = f"index {hints(index.shape)}, input {hints(shape)}"
            sizes += "" if src is None else f", src {hints(src)}"
            fault = (
                "the number of dimensions must be the same"
                if len(ranks) > 1
                else "the index is larger than "
                + (f"the input in dim {wide[0]}" if wide else f"src in dim {narrow[0]}")
            )
            raise ShapeError(
                f"{self.name}: size does not match: {sizes}: {fault}"
                + (f" (only dim {dim} may be)" if wide else "")
            )

    def check(self, x: Spec | TensorType | np.ndarray, index: np.ndarray | None) -> None:
        """Raise ElementOutOfRange if a held index lies beyond the dim."""
        if index is not None:
            dim = self.place(len(x.shape))
            n = x.shape[dim] if len(x.shape) else 1
            check_range(self.name, index, dim, n, error=ElementOutOfRange)

    def key(self, x: np.ndarray, index: np.ndarray) -> tuple[Any, ...]:
        """The NumPy key of the elements that index names."""
        if index.ndim == 0:
            return (index.reshape(1),)
        last = index.ndim - 1
        key = [
            _known_places(n, last - d) if n <= FEW else _places(n, last - d)
            for d, n in enumerate(index.shape)
        ]
        key[self.place(index.ndim)] = index
        return tuple(key)

    def onnx_whole(self, g: OnnxBuilder, x: Any) -> OnnxValue:
        """A 0-d tensor as a vector of an element; others unchanged."""
        return x if x.shape else g.reshape(x, (1,))


def _places(n: int, behind: int) -> np.ndarray:
    """0 to n - 1 along a dim that has so many dims behind it."""
    return np.arange(n).reshape(n, *(1,) * behind)


FEW = 256  # places along a dim that are kept for the next key
_known_places = lru_cache(64)(_places)


def _columns(x: Tensor, rank: int) -> Tensor:
    """A batched 0-d operand as a batch of vectors of an element."""
    return ops.unsqueeze(x, 1) if len(x.shape) <= rank else x


class Gather(_Elementwise1d):
    """y[i, j, k] = input[index[i, j, k], j, k] for dim 0, and alike for every dim.

    index: int32 or int64, of the input's rank, no larger than input but in dim `dim`; y has the
    shape of index. Raises ElementOutOfRange, ShapeError.
    """

    signature = "input, dim: int, index, *, sparse_grad: bool = False"
    torch = TorchCall(names=("gather",))

    def infer(self, x: Spec, index: Spec) -> Spec:
        self.check_shapes(x.shape, index)
        return Spec(index.shape, x.dtype)

    def checked(self, x: TensorType, index: np.ndarray | None) -> None:
        self.check(x, index)

    def reference(self, x: np.ndarray, index: np.ndarray) -> np.ndarray:
        self.check(x, index)
        if index.size == 0:
            return np.empty(index.shape, dtype=x.dtype)
        whole = x.reshape(1) if x.ndim == 0 else x
        return np.asarray(whole[self.key(whole, index)]).reshape(index.shape)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor) -> tuple[Any, ...]:
        return ops.scatter_add(zeros_of(x), self.dim, index, g), None

    def onnx(self, g: OnnxBuilder, x: OnnxValue, index: OnnxValue) -> OnnxValue:
        whole, places = self.onnx_whole(g, x), self.onnx_whole(g, index)
        y = g.node("GatherElements", whole, places, axis=self.place(whole.rank))
        return y if index.shape else g.reshape(y, ())

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, index: Tensor) -> Tensor:
        x, index = with_batch(x, batched[0], size), with_batch(index, batched[1], size)
        dim = self.place(len(x.shape) - 1) + 1
        y = ops.gather(_columns(x, 1), dim, _columns(index, 1))
        return ops.reshape_to(y, index.shape)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3))
        yield Sample(x, 0, rng.integers(0, 4, size=(2, 3)))
        yield Sample(x, -1, rng.integers(0, 3, size=(3, 5)))
        yield Sample(x, 1, np.zeros((4, 0), np.int64))
        yield Sample(rng.normal(size=(3,)), 0, np.array(2))
        yield Sample(rng.normal(size=()), 0, np.array([0, 0]))
        yield Sample(rng.normal(size=()), 0, np.array(0))


class IntoElements(_Elementwise1d, abstract=True):
    """input, with the elements that index names combined with those of src."""

    schedule = OpSchedule(donates=True)

    def infer(self, x: Spec, index: Spec, src: Spec) -> Spec:
        self.check_shapes(x.shape, index, src.shape)
        if src.dtype is not x.dtype:
            raise DTypeError(
                f"{self.name}: expected self.dtype to be equal to src.dtype, "
                f"but got {x.dtype} and {src.dtype}"
            )
        return Spec(x.shape, x.dtype)

    def checked(self, x: TensorType, index: np.ndarray | None, src: object) -> None:
        self.check(x, index)

    def reference(self, x: np.ndarray, index: np.ndarray, src: np.ndarray) -> np.ndarray:
        return self.reference_inplace(np.array(x), index, src)

    def used(self, index: np.ndarray, src: np.ndarray) -> np.ndarray:
        """The elements of src that the index meets."""
        if src.ndim != index.ndim:
            return src.reshape(index.shape)
        return src[tuple(slice(n) for n in index.shape)]

    def reference_inplace(self, x: np.ndarray, index: np.ndarray, src: np.ndarray) -> np.ndarray:
        self.check(x, index)
        if index.size:
            whole = x.reshape(1) if x.ndim == 0 else x
            src = self.used(index, src)
            self.write(whole, self.key(whole, index), src.reshape(index.shape or (1,)))
        return x

    def write(self, x: np.ndarray, key: tuple[Any, ...], src: np.ndarray) -> None:
        """Combine src into x[key]."""
        raise NotImplementedError

    def again(self, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """The same op on new operands."""
        raise NotImplementedError

    onnx_reduction = "none"

    def onnx(self, g: OnnxBuilder, x: OnnxValue, index: OnnxValue, src: OnnxValue) -> OnnxValue:
        whole, places, values = (self.onnx_whole(g, t) for t in (x, index, src))
        values = g.corner(values, places.shape)
        dim = self.place(whole.rank)
        y = g.scatter(whole, places, values, dim, self.onnx_reduction)
        return y if x.shape else g.reshape(y, ())

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, index: Tensor, src: Tensor
    ) -> Tensor:
        x, index, src = (
            with_batch(t, b, size) for t, b in zip((x, index, src), batched, strict=True)
        )
        dim = self.place(len(x.shape) - 1) + 1
        y = self.again(_columns(x, 1), dim, _columns(index, 1), _columns(src, 1))
        return ops.reshape_to(y, x.shape)


def unfitted(g: Tensor, index: Tensor, src: Tensor) -> Tensor:
    """Gradients of the elements of src that the index meets, in the shape of src: 0 elsewhere."""
    if len(src.shape) != len(index.shape):
        return ops.reshape_to(g, src.shape)
    if all(n == m for n, m in zip(src.shape, index.shape, strict=True)):
        return g
    pads: list[Any] = []
    for n, m in zip(tuple(src.shape)[::-1], tuple(index.shape)[::-1], strict=True):
        pads += [0, n - m]
    return ops.pad(g, tuple(pads), 0)


def scatter_samples(rng: np.random.Generator, *, repeats: bool) -> Iterator[tuple[Any, ...]]:
    """(input, dim, index, src) of scatters; repeats: also with an index named more than once."""
    x = rng.normal(size=(4, 3))
    once = np.stack([rng.permutation(4)[:2] for _ in range(3)], axis=1)
    yield x, 0, once, rng.normal(size=(2, 3))
    yield x, -1, np.array([[2, 0], [1, 2], [0, 1]]), rng.normal(size=(3, 3))
    yield x, 0, np.array([[3, 0, 2]]), rng.normal(size=(1, 3))
    yield x, 0, np.zeros((0, 3), np.int64), rng.normal(size=(2, 3))
    yield rng.normal(size=(3,)), 0, np.array(1), rng.normal(size=())
    yield rng.normal(size=()), 0, np.array(0), rng.normal(size=())
    if repeats:
        yield x, 0, np.array([[1, 1, 0], [1, 2, 0], [1, 1, 3]]), rng.normal(size=(3, 3))


class ScatterSrc(IntoElements):
    """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim.

    index: int32 or int64, no larger than src anywhere, nor than the input but in dim `dim`.
    Among repeated indices the last is taken. Raises ElementOutOfRange, ShapeError, DTypeError.
    """

    name = "scatter"
    signature = "input, dim: int, index, src"
    schedule = OpSchedule(unlowered=LAST_STAYS)

    def write(self, x: np.ndarray, key: tuple[Any, ...], src: np.ndarray) -> None:
        x[key] = src

    def again(self, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        return ops.scatter(x, dim, index, src)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor) -> tuple[Any, ...]:
        return (
            ops.scatter(g, self.dim, index, 0),
            None,
            unfitted(ops.gather(g, self.dim, index), index, src),
        )

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for args in scatter_samples(rng, repeats=False):
            yield Sample(*args)


class ScatterValue(_Elementwise1d):
    """y = input, with y[index[i, j], j] = value for dim 0, and alike for every dim."""

    signature = "input, dim: int, index, value: scalar"
    torch = TorchCall(grad_name="ScatterBackward1")
    schedule = OpSchedule(donates=True, unlowered=LAST_STAYS)

    def infer(self, x: Spec, index: Spec, value: Number) -> Spec:
        self.check_shapes(x.shape, index)
        return Spec(x.shape, x.dtype)

    def checked(self, x: TensorType, index: np.ndarray | None, value: Scalar) -> None:
        self.check(x, index)

    def reference(self, x: np.ndarray, index: np.ndarray, value: Scalar) -> np.ndarray:
        return self.reference_inplace(np.array(x), index, value)

    def reference_inplace(self, x: np.ndarray, index: np.ndarray, value: Any) -> np.ndarray:
        self.check(x, index)
        if index.size:
            whole = x.reshape(1) if x.ndim == 0 else x
            whole[self.key(whole, index)] = wrapped(value, x.dtype)
        return x

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, value: Scalar) -> tuple[Any, ...]:
        return ops.scatter(g, self.dim, index, 0), None

    def onnx(self, g: OnnxBuilder, x: OnnxValue, index: OnnxValue, value: Scalar) -> OnnxValue:
        whole, places = self.onnx_whole(g, x), self.onnx_whole(g, index)
        values = g.expand(g.number(value, x.dtype), places.shape)
        y = g.scatter(whole, places, values, self.place(whole.rank))
        return y if x.shape else g.reshape(y, ())

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, index: Tensor, value: Scalar
    ) -> Tensor:
        x, index = with_batch(x, batched[0], size), with_batch(index, batched[1], size)
        dim = self.place(len(x.shape) - 1) + 1
        y = ops.scatter(_columns(x, 1), dim, _columns(index, 1), value)
        return ops.reshape_to(y, x.shape)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for x, dim, index, _ in scatter_samples(rng, repeats=True):
            yield Sample(x, dim, index, 2)
        yield Sample(rng.normal(size=(2, 3)), 1, np.array([[0, 2], [1, 1]]), 1.5)


class ScatterAdd(IntoElements):
    """y = input, with y[index[i, j], j] += src[i, j] for dim 0, and alike for every dim.

    Repeated indices add up. Raises ElementOutOfRange, ShapeError, DTypeError.
    """

    signature = "input, dim: int, index, src"
    torch = TorchCall(names=("scatter_add",), inplace=True)
    onnx_reduction = "add"

    def write(self, x: np.ndarray, key: tuple[Any, ...], src: np.ndarray) -> None:
        add = np.logical_or if x.dtype == bool else np.add
        add.at(x, key, src)

    def again(self, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        return ops.scatter_add(x, dim, index, src)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor) -> tuple[Any, ...]:
        return g, None, unfitted(ops.gather(g, self.dim, index), index, src)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for args in scatter_samples(rng, repeats=True):
            yield Sample(*args)
