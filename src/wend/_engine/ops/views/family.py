"""Views that keep every element in the same dims: alias, detach and the permutations.

The family derives all rules of a permutation from a function, `order`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import methodcaller
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, int8, int64
from wend._engine.base.errors import ShapeError
from wend._engine.base.shapes import normalize_dim, normalize_dims
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, Primitive, Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue

Shape = tuple[Any, ...]  # extents: ints or SymInts
Strides = tuple[tuple[int, ...], int]  # strides and offset from the base's first element


class View(Primitive, abstract=True):
    """Base of the ops whose result shares the elements of the first operand."""

    facts = OpFacts(view=True, supports=ANY_DTYPE)


class Alias(View):
    """y = x: another handle of the same elements (the result of `x[...]`)."""

    signature = "input"
    torch = TorchCall(grad_name="AliasBackward0")

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        return x

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g,)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        return x

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return ops.alias(x)

    def put(self, x: Tensor, v: Tensor) -> Tensor:
        return v

    def strides(self, shape: Shape, strides: Sequence[int]) -> Strides:
        return tuple(strides), 0

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((), (3,), (2, 0), (2, 3)):
            yield Sample(rng.normal(size=shape))


class Detach(Alias):
    """y = x, as a separate variable: no gradient passes."""

    torch = TorchCall(names=("detach",))
    vjp = NO_GRADIENT

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return ops.detach(x)


#: Views as another type: the memory is there, and the NumPy rule takes no time.
SAME_MEMORY = OpSchedule(unlowered="the result is the operand's memory, read as another type")


class Rescaled(Primitive, abstract=True):
    """Base of the views whose elements are of another type than the operand's."""

    facts = OpFacts(view=True, supports=ANY_DTYPE)

    def strides(self, shape: Shape, strides: Sequence[int]) -> Strides | None:
        """Follow from the operand's dtype too: see `rescaled`."""
        return None

    def rescaled(self, dtype: DType, strides: Sequence[int], offset: int) -> Strides:
        """Strides and offset of the result, in its elements, for an operand of `dtype`."""
        raise NotImplementedError


class Reinterpret(Rescaled):
    """y = the bits of x as elements of `dtype`; the last dim grows or shrinks accordingly.

    Raises ShapeError if the last dim does not hold a whole number of elements.
    """

    signature = "input, dtype: dtype"
    schedule = SAME_MEMORY
    dtype: DType

    def infer(self, x: Spec) -> Spec:
        itemsize, wanted = x.dtype.itemsize, self.dtype.itemsize
        if itemsize == wanted:
            return Spec(x.shape, self.dtype)
        what = f"to view {x.dtype} as {self.dtype} (different element sizes)"
        if not len(x.shape):
            raise ShapeError(f"view: self.dim() cannot be 0 {what}")
        *rest, n = x.shape
        if itemsize > wanted:
            return Spec((*rest, n * (itemsize // wanted)), self.dtype)
        count = wanted // itemsize
        if n % count != 0:
            raise ShapeError(
                f"view: self.size(-1) must be divisible by {count} {what}, but got {n}"
            )
        return Spec((*rest, n // count), self.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        if x.itemsize != self.dtype.itemsize and x.strides[-1] != x.itemsize:
            x = np.ascontiguousarray(x)
        return x.view(self.dtype.numpy)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (None,)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return ops.reinterpret(x, self.dtype)

    def put(self, x: Tensor, v: Tensor) -> Tensor:
        return ops.reinterpret(v, x.dtype)

    def rescaled(self, dtype: DType, strides: Sequence[int], offset: int) -> Strides:
        itemsize, wanted = dtype.itemsize, self.dtype.itemsize
        if itemsize == wanted:
            return tuple(strides), offset
        rest = tuple([step * itemsize // wanted for step in strides[:-1]])
        return (*rest, 1), offset * itemsize // wanted

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (1,), (2, 0)):
            yield Sample(rng.normal(size=shape), int8)
        for wide in ((2, 8), (0, 8), (3, 2, 16)):
            yield Sample(rng.normal(size=wide), int64)


# --- permutations ---------------------------------------------------------------


class Permutation(View, abstract=True):
    """y[i] = x[...]: dim k of y is dim order[k] of x. A subclass says the order."""

    def order(self, rank: int) -> tuple[int, ...]:
        """For each dim of the result, the same dim of the operand."""
        raise NotImplementedError

    def infer(self, x: Spec) -> Spec:
        return Spec(tuple(x.shape[d] for d in self.order(len(x.shape))), x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        return x.transpose(self.order(x.ndim))

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for an operand of known rank."""
        (x,) = operands
        return methodcaller("transpose", self.order(x.rank))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.permute(g, inverse_order(self.order(len(x.shape)))),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        return g.transpose(x, self.order(x.rank))

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        order = self.order(len(x.shape) - 1)
        return ops.permute(x, (0, *(d + 1 for d in order)))

    def put(self, x: Tensor, v: Tensor) -> Tensor:
        return ops.permute(v, inverse_order(self.order(len(x.shape))))

    def strides(self, shape: Shape, strides: Sequence[int]) -> Strides:
        return tuple(strides[d] for d in self.order(len(shape))), 0


def inverse_order(order: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `order`."""
    inverse = [0] * len(order)
    for k, d in enumerate(order):
        inverse[d] = k
    return tuple(inverse)


class Permute(Permutation):
    """y = x with dims in the order `dims`: dim k of y is dim dims[k] of x.

    Raises ShapeError if dims does not name every dim once, DimError beyond the rank.
    """

    signature = "input, dims: ints"
    dims: tuple[int, ...]
    torch = TorchCall(names=("permute",))

    def order(self, rank: int) -> tuple[int, ...]:
        if len(self.dims) != rank:
            raise ShapeError(
                f"permute: dims {self.dims} orders {len(self.dims)} dims, and the input has {rank}"
            )
        return normalize_dims(self.dims, rank, "permute")

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), (2, 0, 1))
        yield Sample(rng.normal(size=(2, 1, 3)), (-1, 0, -2))
        yield Sample(rng.normal(size=(2, 0)), (1, 0))
        yield Sample(rng.normal(size=()), ())


class Transpose(Permutation):
    """y = x with dims dim0 and dim1 swapped."""

    signature = "input, dim0: int, dim1: int"
    dim0: int
    dim1: int
    torch = TorchCall(names=("transpose", "swapdims"), inplace=True)

    def order(self, rank: int) -> tuple[int, ...]:
        return swapped(rank, self.dim0, self.dim1, "transpose")

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), 0, 1)
        yield Sample(rng.normal(size=(2, 3, 4)), -1, 0)
        yield Sample(rng.normal(size=(2, 0, 4)), 1, 1)
        yield Sample(rng.normal(size=()), 0, -1)


class Swapaxes(Permutation):
    """y = x with dims axis0 and axis1 swapped (NumPy's name of `transpose`)."""

    signature = "input, axis0: int, axis1: int"
    axis0: int
    axis1: int
    torch = TorchCall(
        functions=("swapaxes",), grad_name="TransposeBackward0", methods=("swapaxes",), inplace=True
    )

    def order(self, rank: int) -> tuple[int, ...]:
        return swapped(rank, self.axis0, self.axis1, "swapaxes")

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), 0, -1)
        yield Sample(rng.normal(size=()), 0, 0)


def swapped(rank: int, dim0: int, dim1: int, op: str) -> tuple[int, ...]:
    """The order of `rank` dims with two dims swapped; of no dims for a 0-d tensor."""
    a, b = normalize_dim(dim0, rank, op), normalize_dim(dim1, rank, op)
    order = list(range(rank))
    if rank:
        order[a], order[b] = b, a
    return tuple(order)


class T(Permutation):
    """y = x.T of a tensor of at most 2 dims. Raises ShapeError beyond."""

    name = "t"
    signature = "input"
    torch = TorchCall(names=("t",), inplace=True, grad_name="TBackward0")

    def order(self, rank: int) -> tuple[int, ...]:
        if rank > 2:
            raise ShapeError(
                f"t: expects a tensor with <= 2 dimensions, and the input has {rank}; "
                "use .mT to swap the last two dims or .permute"
            )
        return tuple(range(rank - 1, -1, -1))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((), (3,), (2, 3), (0, 3), (1, 2)):
            yield Sample(rng.normal(size=shape))


class ReverseDims(Permutation):
    """y = x with dims in reverse order (`x.T`)."""

    signature = "input"
    torch = TorchCall(grad_name="PermuteBackward0")

    def order(self, rank: int) -> tuple[int, ...]:
        return tuple(range(rank - 1, -1, -1))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((), (3,), (2, 3), (2, 0, 3)):
            yield Sample(rng.normal(size=shape))


class MatrixTranspose(Permutation):
    """y = x with the last two dims swapped (`x.mT`). Raises ShapeError below 2 dims."""

    signature = "input"
    torch = TorchCall(grad_name="TransposeBackward0")

    def order(self, rank: int) -> tuple[int, ...]:
        if rank < 2:
            raise ShapeError(
                "mT: only supported on matrices or batches of matrices, "
                f"and the input has {rank} dim{'s' * (rank != 1)}"
            )
        return (*range(rank - 2), rank - 1, rank - 2)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (4, 2, 3), (0, 1, 3)):
            yield Sample(rng.normal(size=shape))


class Movedim(Permutation):
    """y = x with dims `source` moved to positions `destination`; all else keeps the order.

    Raises ShapeError if the two differ in length or name a dim twice.
    """

    signature = "input, source: dims, destination: dims"
    source: tuple[int, ...] | None
    destination: tuple[int, ...] | None
    torch = TorchCall(
        names=("movedim", "moveaxis"),
        grad_name="PermuteBackward0",
    )

    def order(self, rank: int) -> tuple[int, ...]:
        source = normalize_dims(self.source, rank, "movedim: source")
        target = normalize_dims(self.destination, rank, "movedim: destination")
        if len(source) != len(target):
            raise ShapeError(
                f"movedim: source {self.source} and destination {self.destination} "
                "differ in their number of dims"
            )
        if rank == 0:
            return ()
        order = [-1] * rank
        for s, d in zip(source, target, strict=True):
            order[d] = s
        rest = iter([d for d in range(rank) if d not in source])
        return tuple(next(rest) if d < 0 else d for d in order)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), 0, 2)
        yield Sample(rng.normal(size=(2, 3, 4)), (0, -1), (1, 0))
        yield Sample(rng.normal(size=(2, 0)), -1, 0)
        yield Sample(rng.normal(size=()), 0, 0)
