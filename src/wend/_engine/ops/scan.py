"""Running folds along a dim: cumsum, cumprod, cummax, cummin, logcumsumexp, linear_scan.

Every scan runs over the dim `dim` and keeps the shape; a 0-d tensor is its own scan.  The gradients
of products and of log-sum-exps are linear recurrences, and `linear_scan` is closed under
differentiation: so zeros and overflows are right at every order of derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from wend._engine.base.dtypes import DType, bool_, finfo, float32, float64, from_numpy, iinfo, int64
from wend._engine.base.errors import DTypeNotImplemented, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints
from wend._engine.core.types import Spec
from wend._engine.ops.elementwise.transcendental import Logaddexp
from wend._engine.ops.numeric import Array, accumulator, array, require, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.placing import full_beside
from wend._engine.ops.reduce import ANY_NUMBER, REAL, conj, summed_dtype
from wend._engine.ops.views.family import Shape


class Scan(Primitive, abstract=True):
    """Base: type and batching rules of an op that folds along `dim` and keeps the shape.

    Raises DimError for a dim beyond the rank.
    """

    signature = "input, dim: dim"
    dim: Any
    dtype: DType | None = None

    def axis(self, rank: int) -> int:
        """The scanned axis, counted from 0."""
        return normalize_dim(self.dim, rank, self.name)

    def result_dtype(self, dtype: DType) -> DType:
        """Element type of the result."""
        return dtype

    def infer(self, x: Spec) -> Spec:
        require(self.name, self.facts.supports, x.dtype)
        self.axis(x.rank)
        return Spec(x.shape, self.result_dtype(x.dtype))

    def onnx_scan(
        self, g: OnnxBuilder, x: OnnxValue, start: float, step: Callable[..., Any]
    ) -> OnnxValue:
        """The running fold of x along `dim` by step(b, fold so far, x), b a builder of formulas."""
        axis = self.axis(x.rank)
        row = g.node("Expand", g.constant(start, x.dtype), g.sizes(without(x.shape, axis)))
        return g.scan(lambda inner, y, v: step(inner.elements, y, v), row, [x], axis)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        rank = len(x.shape) - 1
        if rank == 0:
            return self.of_points(x)
        extra = {} if self.dtype is None else {"dtype": self.dtype}
        return getattr(ops, self.name)(x, self.axis(rank) + 1, **extra)

    def of_points(self, x: Tensor) -> Tensor:
        """The scans of 0-d tensors: each element by itself."""
        return ops.cast(x, self.result_dtype(x.dtype))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(2, 3, 4))
        yield Sample(x, 1)
        yield Sample(x, -1)
        yield Sample(x[:, :1], 1)
        yield Sample(x[:, :0], 1)
        yield Sample(x[:, :, :0], 0)
        yield Sample(np.asarray(1.5), 0)
        yield Sample(rng.integers(-4, 5, size=(6,)), 0)


def without(shape: Shape, axis: int) -> tuple[Any, ...]:
    """A shape without the extent of a dim."""
    return (*shape[:axis], *shape[axis + 1 :])


def running(dtype: DType) -> DType:
    """The type of a running sum or product: in float32, each step would add to the error."""
    return float64 if dtype is float32 else accumulator(dtype)


class _Cumulative(Scan, abstract=True):
    signature = "input, dim: dim, *, dtype: dtype = None"
    facts = OpFacts(supports=ANY_NUMBER)
    torch = TorchCall(inplace=True)
    accumulate: ClassVar[Any]

    def result_dtype(self, dtype: DType) -> DType:
        if self.dtype is bool_:
            raise DTypeNotImplemented(f"{self.name}: not implemented for {bool_}")
        return summed_dtype(dtype, self.dtype)

    def reference(self, x: Array) -> Array:
        out = self.result_dtype(from_numpy(x.dtype))
        x = array(x, out)
        if x.ndim == 0:
            return x
        wide = np.dtype(np.int64) if out.category == 0 else running(out).numpy
        return array(type(self).accumulate(x, axis=self.axis(x.ndim), dtype=wide), out)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        out = self.result_dtype(x.dtype)
        wide = accumulator(out)
        x = g.cast(g.cast(x, out), wide)
        return g.cast(self.onnx_fold(g, x), out) if x.shape else g.cast(x, out)

    def onnx_fold(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        """The running fold of x, which has dims."""
        raise NotImplementedError

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(rng.normal(size=(2, 3)), 1, dtype=float64)


class Cumsum(_Cumulative):
    """y[i] = x[0] + ... + x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""

    torch = TorchCall(names=("cumsum",))
    accumulate = np.add.accumulate

    def onnx_fold(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        return g.node("CumSum", x, g.constant(self.axis(x.rank), int64))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        if len(x.shape) > 0:
            dims = (self.axis(len(x.shape)),)
            g = ops.flip(ops.cumsum(ops.flip(g, dims), dims[0]), dims)
        return (ops.cast(g, x.dtype),)


class Cumprod(_Cumulative):
    """y[i] = x[0] * ... * x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""

    torch = TorchCall(names=("cumprod",))
    accumulate = np.multiply.accumulate

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        if len(x.shape) == 0:
            return (ops.cast(g, x.dtype),)
        # dL/dx[k] = y[k-1] * s[k] with s[k] = g[k] + x[k+1] * s[k+1].
        axis = self.axis(len(x.shape))
        wide = conj(ops.cast(x, y.dtype))
        s = scan_back(wide, g, axis)
        return (ops.cast(ops.mul(shift_in(conj(y), axis, 1), s), x.dtype),)

    def onnx_fold(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        return self.onnx_scan(g, x, 1, lambda b, y, v: b.mul(y, v))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(np.asarray([1.5, 0.0, -2.0, 0.0, 3.0]), 0)


def shift_in(x: Tensor, axis: int, first: float) -> Tensor:
    """x moved up by a place along `axis`: `first`, x[0], ..., x[n-2]."""
    n = x.shape[axis]
    row = tuple(1 if i == axis else extent for i, extent in enumerate(x.shape))
    front = ops.full(row, first, dtype=x.dtype)
    return ops.slice(ops.cat([front, x], axis), axis, 0, n, 1)


def scan_back(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """s with s[i] = b[i] + a[i+1] * s[i+1] along `axis`."""
    a, b = ops.flip(a, (axis,)), ops.flip(b, (axis,))
    return ops.flip(ops.linear_scan(shift_in(a, axis, 0), b, axis), (axis,))


class LinearScan(Primitive):
    """y[i] = a[i] * y[i-1] + b[i] along `dim`, with y[-1] = 0.

    a, b: tensors of equal shape and type. Raises ShapeError if they differ.
    """

    signature = "a, b, dim: dim"
    facts = OpFacts(supports=frozenset({"int", "float", "complex"}))
    dim: Any

    def infer(self, a: Spec, b: Spec) -> Spec:
        require(self.name, self.facts.supports, a.dtype, b.dtype)
        normalize_dim(self.dim, a.rank, self.name)
        if a.rank != b.rank or any(m != n for m, n in zip(a.shape, b.shape, strict=True)):
            raise ShapeError(
                f"linear_scan: a and b must have one shape, not {hints(a.shape)} "
                f"and {hints(b.shape)}"
            )
        return Spec(a.shape, a.dtype)

    def reference(self, a: Array, b: Array) -> Array:
        if a.ndim == 0:
            return b
        axis = normalize_dim(self.dim, a.ndim, self.name)
        factors = np.moveaxis(widen(a), axis, 0)
        terms = np.moveaxis(widen(b), axis, 0)
        y = terms.copy()
        for i in range(1, len(y)):
            y[i] += factors[i] * y[i - 1]
        return np.moveaxis(y, 0, axis).astype(a.dtype, copy=False)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        if len(a.shape) == 0:
            return ops.mul(g, 0), g
        axis = normalize_dim(self.dim, len(a.shape), self.name)
        s = scan_back(conj(a), g, axis)
        return ops.mul(s, shift_in(conj(y), axis, 0)), s

    def onnx(self, g: OnnxBuilder, a: OnnxValue, b: OnnxValue) -> OnnxValue:
        if not a.shape:
            return b
        axis, wide = normalize_dim(self.dim, a.rank, self.name), accumulator(a.dtype)
        a, b = g.cast(a, wide), g.cast(b, wide)
        start = g.node("Expand", g.constant(0, wide), g.sizes(without(b.shape, axis)))

        def step(inner: Any, y: Any, factor: Any, term: Any) -> Any:
            return inner.elements.add(inner.elements.mul(factor, y), term)

        return g.cast(g.scan(step, start, [a, b], axis), g.out[0].dtype)

    def batch(self, batched: Sequence[bool], size: Size, a: Tensor, b: Tensor) -> Any:
        if not batched[0]:
            a = ops.expand(ops.unsqueeze(a, 0), (size, *a.shape))
        if not batched[1]:
            b = ops.expand(ops.unsqueeze(b, 0), (size, *b.shape))
        rank = len(a.shape) - 1
        if rank == 0:
            return b
        return ops.linear_scan(a, b, normalize_dim(self.dim, rank, self.name) + 1)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dim in (((5,), 0), ((2, 4, 3), 1), ((2, 1), -1), ((3, 0), 1), ((), 0)):
            yield Sample(rng.normal(size=shape), rng.normal(size=shape), dim)


class _RunningExtreme(Scan, abstract=True):
    """(values, indices): the extreme so far and the last index of that value."""

    facts = OpFacts(supports=REAL)
    result = ("values", "indices")
    accumulate: ClassVar[Any]
    onnx_name: ClassVar[str]

    def infer(self, x: Spec) -> Any:
        return super().infer(x), Spec(x.shape, int64)

    def reference(self, x: Array) -> Any:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        axis = self.axis(x.ndim)
        wide = widen(x)
        values = type(self).accumulate(wide, axis=axis)
        count = x.shape[axis]
        along = np.arange(count).reshape([count if i == axis else 1 for i in range(x.ndim)])
        met = (wide == values) | (wide != wide)
        indices = np.maximum.accumulate(np.where(met, along, 0), axis=axis)
        return values.astype(x.dtype, copy=False), indices.astype(np.int64, copy=False)

    def onnx(self, g: OnnxBuilder, x: Any) -> Any:
        if not x.shape:
            return x, g.constant(0, int64)
        b, axis = g.elements, self.axis(x.rank)
        wide = g.cast(x, accumulator(x.dtype))
        end: Any = finfo(wide.dtype) if wide.dtype.is_floating_point else None
        ends = (-np.inf, np.inf) if end else (False, True) if wide.dtype is bool_ else None
        low, high = ends or (iinfo(wide.dtype).min, iinfo(wide.dtype).max)
        name = self.onnx_name
        start = low if name == "maximum" else high
        values = self.onnx_scan(g, wide, start, lambda b, y, v: getattr(b, name)(y, v))
        met = b.bitwise_or(b.eq(wide, values), b.ne(wide, wide))
        along = g.node("Range", g.size(0), g.size(x.shape[axis]), g.size(1))
        along = g.reshape(along, tuple(n if i == axis else 1 for i, n in enumerate(x.shape)))
        places = g.node("Expand", along, g.sizes(x.shape))
        places = b.select(met, places, g.node("Expand", g.size(0), g.sizes(x.shape)))
        places.shape = x.shape
        last = self.onnx_scan(g, places, 0, lambda b, y, v: b.maximum(y, v))
        return g.cast(values, x.dtype), last

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Any:
        if len(x.shape) == 1:
            return x, full_beside(x, x.shape, 0, int64)
        values, indices = getattr(ops, self.name)(x, self.axis(len(x.shape) - 1) + 1)
        return values, indices

    def vjp(self, g: Any, y: Any, x: Tensor) -> tuple[Any, ...]:
        if len(x.shape) == 0:
            return (g[0],)
        zeros = ops.full(x.shape, 0, dtype=g[0].dtype)
        return (ops.scatter_add(zeros, self.axis(len(x.shape)), y[1], g[0]),)


class Cummax(_RunningExtreme):
    """(values, indices): greatest element so far along `dim`, and the last place of that value."""

    torch = TorchCall(names=("cummax",))
    accumulate = np.maximum.accumulate
    onnx_name = "maximum"


class Cummin(_RunningExtreme):
    """(values, indices): least element so far along `dim`, and the last place of that value."""

    torch = TorchCall(names=("cummin",))
    accumulate = np.minimum.accumulate
    onnx_name = "minimum"


class Logcumsumexp(Scan):
    """y[i] = log(exp(x[0]) + ... + exp(x[i])) along `dim`, without overflow."""

    facts = OpFacts(supports=frozenset({"float", "complex"}))
    torch = TorchCall(names=("logcumsumexp",))

    def reference(self, x: Array) -> Array:
        if x.ndim == 0:
            return x
        axis = self.axis(x.ndim)
        if x.dtype.kind != "c":
            y = np.logaddexp.accumulate(widen(x), axis=axis)
            return y.astype(x.dtype, copy=False)
        steps = np.moveaxis(x, axis, 0)
        y = steps.copy()
        for i in range(1, len(y)):
            y[i] = _logaddexp_complex(y[i - 1], steps[i])
        return np.moveaxis(y, 0, axis)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        if len(x.shape) == 0:
            return (g,)
        # With s[i] = g[i] + exp(y[i] - y[i+1]) * s[i+1], dL/dx[i] = s[i] * exp(x[i] - y[i]):
        # all exponents are <= 0.
        axis = self.axis(len(x.shape))
        # The first ratio is never used; -inf makes the ratio 0, with derivatives of 0 too.
        first = 0.0 if y.dtype.is_complex else float("-inf")
        ratio = conj(_exp_of_difference(shift_in(y, axis, first), y))
        if not y.dtype.is_complex:  # behind an infinite element nothing is passed on
            ratio = ops.where(ops.eq(y, float("inf")), 0, ratio)
        s = scan_back(ratio, g, axis)
        return (ops.mul(s, conj(_exp_of_difference(x, y))),)

    def onnx(self, g: OnnxBuilder, x: Any) -> Any:
        if not x.shape:
            return x
        wide = g.cast(x, accumulator(x.dtype))
        add = Logaddexp.of(("T", "T")).emit
        return g.cast(self.onnx_scan(g, wide, -np.inf, add), x.dtype)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from list(super().samples(rng))[:-1]
        yield Sample(np.asarray([100.0, -100.0, 300.0, 1.0]), 0)


def _exp_of_difference(a: Tensor, b: Tensor) -> Tensor:
    """exp(a - b), and 0 where b = -inf (then a is too)."""
    if b.dtype.is_complex:
        return ops.exp(ops.sub(a, b))
    nothing = ops.eq(b, float("-inf"))
    return ops.where(nothing, 0, ops.exp(ops.sub(a, ops.where(nothing, 0, b))))


def _logaddexp_complex(a: Array, b: Array) -> Array:
    """log(exp(a) + exp(b)), led by the operand with the greater real part."""
    first = a.real >= b.real
    high: Array = np.where(first, a, b)
    low: Array = np.where(first, b, a)
    return np.where(
        np.isinf(high.real) & (high.real < 0), high, high + np.log1p(np.exp(low - high))
    )
