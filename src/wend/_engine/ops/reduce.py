"""Reductions: folds of a tensor over some of its dims.

The family `Reduction` supplies type and batching rules.  A subclass gives the result type, the
reference, the gradient, and for generated code `identity` (a number, "lowest" or "highest": the
least or greatest value of the type) and `combine(b, a, x)` (a step of the fold).
Extremes and their places are in `extremes.py`, running folds (cumsum and similar) in `scan.py`,
compositions of reductions (mean, var, norm, ...) in `composites/reduce.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from wend._engine.base.dtypes import BOOL, INT, DType, bool_, float64, from_numpy, int64, uint8
from wend._engine.base.errors import ArgumentError, DimError, ShapeError
from wend._engine.base.shapes import normalize_dims
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, Primitive, Sample, ops
from wend._engine.core.symbolic import hints, numel
from wend._engine.core.types import Spec
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.elementwise.family import FLOATING, Elementwise
from wend._engine.ops.numeric import Array, accumulator, array, is_half, require, sum_accurately
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape

REAL = frozenset({"bool", "int", "float"})
ANY_NUMBER: frozenset[str] = frozenset({"bool", "int", "float", "complex"})


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
    """`shape` without the extents at `axes`, or with 1 in place of each."""
    if keepdim:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def restore(g: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    """`g` with dims of size 1 put back where a reduction over `axes` took them out."""
    if not keepdim:
        for axis in sorted(axes):
            g = ops.unsqueeze(g, axis)
    return g


def repeat_back(g: Tensor, axes: tuple[int, ...], keepdim: bool, shape: Shape) -> Tensor:
    """`g` repeated over the dims that a reduction of `shape` over `axes` folded, for all sizes."""
    g = restore(g, axes, keepdim)
    return ops.expand_to(g, shape, axes) if axes else g


class Reduction(Primitive, abstract=True):
    """y = fold of x over the dims `dim` (None: all dims).

    input: (...)   ->   the shape without those dims, or with 1 there if keepdim
    Raises DimError for a dim beyond the rank, ShapeError for a dim given twice.
    """

    signature = "input, dim: dims = None, keepdim: bool = False"
    torch = TorchCall(label="")
    identity: ClassVar[Any] = None
    #: sum(dim=()) reduces everything, any(dim=()) nothing: PyTorch's quirk.
    empty_means_all: ClassVar[bool] = True
    #: Whether an empty dim cannot be reduced because there is no identity.
    needs_elements: ClassVar[bool] = False
    #: The error where everything is reduced and there is nothing.
    nothing: ClassVar[type[Exception]] = ShapeError
    dim: Any
    keepdim: bool
    dtype: DType | None = None

    def axes(self, rank: int) -> tuple[int, ...]:
        """The reduced axes, counted from 0, ascending."""
        dim = self.dim
        if dim is None or (dim == () and self.empty_means_all):
            return tuple(range(rank))
        axes = normalize_dims(dim, rank, self.torch.label or self.name)
        return tuple(sorted(axes)) if rank else ()

    def result_dtype(self, dtype: DType) -> DType:
        """Element type of the result."""
        return dtype

    def by_rows(self, rows: tuple[bool, ...], ranks: tuple[int, ...]) -> bool:
        """Rows are not folded together."""
        return 0 not in self.axes(ranks[0])

    def infer(self, x: Spec) -> Spec:
        label = self.torch.label or self.name
        require(label, self.facts.supports, x.dtype)
        axes = self.axes(x.rank)
        if self.needs_elements:
            all_dims = self.dim is None or self.dim == ()
            require_elements(label, x.shape, axes, all_dims, self.nothing)
        return Spec(reduced_shape(x.shape, axes, self.keepdim), self.result_dtype(x.dtype))

    def onnx_fold(self, g: OnnxBuilder, name: str, x: OnnxValue) -> OnnxValue:
        """x folded by an ONNX node over the op's axes."""
        axes = self.axes(x.rank)
        return g.node(name, x, g.sizes(axes), keepdims=int(self.keepdim)) if axes else x

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        rank = len(x.shape) - 1
        axes = self.axes(rank)
        if not axes:
            return self.over_nothing(x)
        extra = {} if self.dtype is None else {"dtype": self.dtype}
        op = getattr(ops, self.name)
        return op(x, tuple(a + 1 for a in axes), self.keepdim, **extra)

    def over_nothing(self, x: Tensor) -> Tensor:
        """The result where no dims are reduced: each element folded by itself."""
        return ops.cast(x, self.result_dtype(x.dtype))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
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


def require_elements(
    label: str,
    shape: Shape,
    axes: tuple[int, ...],
    all_dims: bool,
    nothing: type[Exception] = ShapeError,
) -> None:
    """Raise if a reduced extent is 0: the op has no value for an empty fold.

    nothing: the class of the error where all dims are reduced
    """
    for axis in axes:
        if shape[axis] == 0:
            if all_dims:
                raise nothing(
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

    dtype: x is cast to dtype before the sum; bool and ints are summed in int64 otherwise.
    """

    signature = "input, dim: dims = None, keepdim: bool = False, *, dtype: dtype = None"
    facts = OpFacts(supports=ANY_NUMBER)
    torch = TorchCall(names=("sum",), grad_name_along="SumBackward1")
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

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for an operand of known rank and dtype."""
        (x,) = operands
        axes, out = self.axes(x.rank), self.result_dtype(x.dtype)
        if not axes or is_half(out) or out is bool_ or out.category < x.dtype.category:
            return self.reference
        dtype = out.numpy
        if not self.keepdim:
            return lambda x: sum_accurately(x, axes, dtype)
        return lambda x: sum_accurately(x, axes, dtype).reshape(
            [1 if i in axes else n for i, n in enumerate(x.shape)]
        )

    def combine(self, b: Builder, a: Value, x: Value) -> Value:
        return b.add(a, x)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        out = self.result_dtype(x.dtype)
        wide = int64 if out is bool_ else accumulator(out)
        return g.cast(self.onnx_fold(g, "ReduceSum", g.cast(g.cast(x, out), wide)), out)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        g = repeat_back(g, self.axes(len(x.shape)), self.keepdim, x.shape)
        return (ops.cast(g, x.dtype),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(rng.normal(size=(2, 3)), 1, dtype=float64)
        yield Sample(rng.integers(0, 5, size=(2, 3)), dtype=float64)


class Prod(Reduction):
    """y = product of x over `dim`; types as for sum."""

    signature = "input, dim: dims = None, keepdim: bool = False, *, dtype: dtype = None"
    facts = OpFacts(supports=ANY_NUMBER)
    torch = TorchCall(names=("prod",), grad_name_along="ProdBackward1")
    identity = 1

    def result_dtype(self, dtype: DType) -> DType:
        return summed_dtype(dtype, self.dtype)

    def reference(self, x: Array) -> Array:
        out = self.result_dtype(from_numpy(x.dtype))
        fold: Any = np.logical_and if out is bool_ else np.multiply
        x = x if out.category >= from_numpy(x.dtype).category else x.astype(out.numpy)
        wide = accumulator(out).numpy
        return array(fold.reduce(x, axis=self.axes(x.ndim), dtype=wide, keepdims=self.keepdim), out)

    def combine(self, b: Builder, a: Value, x: Value) -> Value:
        return b.mul(a, x)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        out = self.result_dtype(x.dtype)
        wide = int64 if out is bool_ else accumulator(out)
        return g.cast(self.onnx_fold(g, "ReduceProd", g.cast(g.cast(x, out), wide)), out)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        # Dividing y by x fails where x is 0. The product without x is that of the elements before
        # and behind, for all values of these, at every order of derivative.
        rank = len(x.shape)
        axes = self.axes(rank)
        g = repeat_back(g, axes, self.keepdim, x.shape)
        if not axes:
            return (ops.cast(g, x.dtype),)
        front = tuple(i for i in range(rank) if i not in axes)
        order = front + axes
        moved = ops.permute(ops.cast(x, y.dtype), order)
        shape = moved.shape
        count = numel(shape[len(front) :])
        flat = ops.reshape_to(moved, (*shape[: len(front)], count))
        others = ops.mul(_before(flat), ops.flip(_before(ops.flip(flat, (-1,))), (-1,)))
        back = tuple(order.index(i) for i in range(rank))
        others = ops.permute(ops.reshape_to(others, shape), back)
        return (ops.cast(ops.mul(g, conj(others)), x.dtype),)


def _before(x: Tensor) -> Tensor:
    """Product along the last dim of all elements before each: 1, x0, x0*x1, ..."""
    n = x.shape[-1]
    ones = ops.full((*x.shape[:-1], 1), 1, dtype=x.dtype)
    return ops.slice(ops.cat([ones, ops.cumprod(x, -1)], -1), len(x.shape) - 1, 0, n, 1)


def conj(x: Tensor) -> Tensor:
    """The complex conjugate; a real tensor gives itself."""
    return ops.conj(x) if x.dtype.is_complex else x


class _Logical(Reduction, abstract=True):
    """Fold of `x != 0` by and / or; the result is bool, for uint8 input uint8."""

    facts = OpFacts(supports=ANY_NUMBER)
    vjp = NO_GRADIENT
    empty_means_all = False
    fold: ClassVar[Any]

    def result_dtype(self, dtype: DType) -> DType:
        return uint8 if dtype is uint8 else bool_

    def reference(self, x: Array) -> Array:
        truth = x if x.dtype == np.bool_ else x != 0
        y = type(self).fold.reduce(truth, axis=self.axes(x.ndim), keepdims=self.keepdim)
        return array(y, self.result_dtype(from_numpy(x.dtype)))

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        truth = g.cast(x, bool_)
        if self.identity:
            truth = g.shaped(g.node("Not", truth), x.shape)
        answer = g.cast(self.onnx_fold(g, "ReduceSum", g.cast(truth, int64)), bool_)
        return g.cast(
            g.node("Not", answer) if self.identity else answer, self.result_dtype(x.dtype)
        )

    def over_nothing(self, x: Tensor) -> Tensor:
        truth = x if x.dtype.category == BOOL else ops.ne(x, 0)
        return ops.cast(truth, self.result_dtype(x.dtype))


class Any_(_Logical):
    """y = whether any element of x over `dim` is not 0."""

    name = "any"
    torch = TorchCall(names=("any",))
    identity = False
    fold = np.logical_or

    def combine(self, b: Builder, a: Value, x: Value) -> Value:
        return b.bitwise_or(a, x)


class All(_Logical):
    """y = whether all elements of x over `dim` are not 0."""

    torch = TorchCall(names=("all",))
    identity = True
    fold = np.logical_and

    def combine(self, b: Builder, a: Value, x: Value) -> Value:
        return b.bitwise_and(a, x)


class XorSum(Reduction):
    """y = the exclusive or, bit by bit, of the ints over `dim`; the fold of `hash_tensor`."""

    facts = OpFacts(supports=frozenset({"int"}))
    vjp = NO_GRADIENT
    torch = TorchCall(label="hash_tensor")
    needs_elements = True
    nothing = ArgumentError
    identity = 0

    def reference(self, x: Array) -> Array:
        fold: Any = np.bitwise_xor  # its declared types take no variable for keepdims
        return np.asarray(fold.reduce(x, axis=self.axes(x.ndim), keepdims=self.keepdim))

    def combine(self, b: Builder, a: Value, x: Value) -> Value:
        return b.bitwise_xor(a, x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.integers(-(2**40), 2**40, size=(2, 3, 4))
        yield Sample(x)
        yield Sample(x, 1)
        yield Sample(x, (0, -1), True)
        yield Sample(x[:0], 2)
        yield Sample(rng.integers(-4, 5, size=(3, 70)), 1)


class SquaredDeviation(Elementwise):
    """y = (input - center) ** 2, center the mean of the elements that the squares are summed over.

    An op of its own for the gradient: none goes to center, whose parts add up to 0. With infinite
    elements these parts would add up to NaN.
    """

    signature = "input, center"
    facts = OpFacts(supports=FLOATING)
    formal_gradient = True

    def reference(self, x: Array, center: Array) -> Array:
        return np.square(x - center)

    def emit(self, b: Builder, x: Value, center: Value) -> Value:
        deviation = b.sub(x, center)
        return b.mul(deviation, deviation)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, center: Tensor) -> tuple[Any, ...]:
        return g * ((x - center) * 2), None
