"""Looking elements up: searchsorted, nonzero of known count, histc."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.devices import CPU
from wend._engine.base.dtypes import bool_, float64, int32, int64
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    DTypeNotImplemented,
    ExecutionError,
    ShapeError,
    ValueRefused,
)
from wend._engine.core import _hot, _types
from wend._engine.core.kinds import Operand, Scalar, Size, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, Primitive, Sample, ops
from wend._engine.core.symbolic import hints, numel
from wend._engine.core.types import Number, Spec
from wend._engine.ops.elementwise.family import is_number, promoted
from wend._engine.ops.numeric import accumulator, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.placing import beside, full_beside
from wend._engine.ops.views.scatters import with_batch

REAL = frozenset({"bool", "int", "float"})


class Searchsorted(Primitive):
    """y = the place in the sorted rows for each value, so that the rows stay sorted.

    sorted_sequence: (n,), or (*input.shape[:-1], n)     input: values, or a number for (n,)
    right (side="right"): behind equal elements instead of before them
    sorter: the order that sorts the sequence, if not in order
    Raises ShapeError, ArgumentError for contradictory sides.
    """

    signature = (
        "sorted_sequence, input: operand, *, out_int32: bool = False, right: bool = False, "
        "side: attr = None, sorter: tensor? = None"
    )
    out_int32: bool
    right: bool
    side: Any
    torch = TorchCall(functions=("searchsorted",))
    facts = OpFacts(supports=REAL)
    schedule = OpSchedule(library="bisection by NumPy")
    vjp = NO_GRADIENT

    def infer(self, rows: Spec, values: Spec | Number, sorter: Spec | None) -> Spec:
        self.after_equals()
        shape = () if isinstance(values, Number) else values.shape
        if not rows.shape or (len(rows.shape) > 1 and isinstance(values, Number)):
            raise ShapeError(
                "searchsorted: input value can be a number only when the sequence is 1-d, and it "
                f"has shape {hints(rows.shape)}"
            )
        if len(rows.shape) > 1 and not (
            len(shape) == len(rows.shape)
            and all(n == m for n, m in zip(shape[:-1], rows.shape[:-1], strict=True))
        ):
            raise ShapeError(
                "searchsorted: the sequence should be 1-d or have the first dims of the input: "
                f"sequence {hints(rows.shape)}, input {hints(shape)}"
            )
        if sorter is not None:
            self._check_sorter(rows, sorter)
        return Spec(shape, int32 if self.out_int32 else int64)

    @staticmethod
    def _check_sorter(rows: Spec, sorter: Spec) -> None:
        if len(sorter.shape) != len(rows.shape) or not all(
            n == m for n, m in zip(sorter.shape, rows.shape, strict=True)
        ):
            raise ShapeError(
                "searchsorted: sorter must have the shape of the sequence: "
                f"{hints(sorter.shape)} and {hints(rows.shape)}"
            )
        if sorter.dtype is not int64:
            raise DTypeError(f"searchsorted: sorter must be int64, not {sorter.dtype}")

    def after_equals(self) -> bool:
        """Whether a value goes behind equal elements."""
        if self.side not in (None, "left", "right"):
            raise ValueRefused(
                f"searchsorted: side can only be 'left' or 'right' but got {self.side!r}"
            )
        if self.side == "left" and self.right:
            raise ArgumentError(
                "searchsorted: side and right can't be set to opposites, "
                "got side of left while right was True"
            )
        return bool(self.right or self.side == "right")

    def reference(self, rows: np.ndarray, values: Any, sorter: np.ndarray | None) -> np.ndarray:
        side: Any = "right" if self.after_equals() else "left"
        if sorter is not None:
            rows = np.take_along_axis(rows, sorter, -1)
        rows, values = widen(rows), widen(np.asarray(values))
        dtype = np.int32 if self.out_int32 else np.int64
        unordered = rows.dtype.kind not in "biu" and bool(np.isnan(rows).any())
        find = _bisected if unordered else np.searchsorted
        if rows.ndim == 1:
            return np.asarray(find(rows, values, side), dtype=dtype)
        y = np.empty(values.shape, dtype=dtype)
        for place in np.ndindex(values.shape[:-1]):
            y[place] = find(rows[place], values[place], side)
        return y

    def onnx(
        self, g: OnnxBuilder, rows: OnnxValue, values: OnnxValue, sorter: OnnxValue | None
    ) -> OnnxValue:
        if sorter is not None:
            rows = g.shaped(g.node("GatherElements", rows, sorter, axis=-1), rows.shape)
        shape = () if is_number(values) else values.shape
        wide = accumulator(promoted(rows, values))
        if is_number(values):  # which is not rounded before it is compared
            wide = float64 if wide.is_floating_point else int64
        queries = g.number(values, wide) if is_number(values) else g.cast(values, wide)
        queries = g.node("Unsqueeze", queries, g.sizes((len(shape),)))
        rows = g.cast(rows, wide)
        if rows.rank > 1:
            rows = g.node("Unsqueeze", rows, g.sizes((rows.rank - 1,)))
        name = "LessOrEqual" if self.after_equals() else "Less"
        before = g.cast(g.node(name, rows, queries, dtype=bool_), int64)
        total = g.node("ReduceSum", before, g.sizes((-1,)), keepdims=0)
        return g.cast(total, g.out[0].dtype)

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        rows: Tensor,
        values: Tensor,
        sorter: Tensor | None,
    ) -> Tensor:
        if sorter is not None:
            rows = with_batch(rows, batched[0], size)
            sorter = with_batch(sorter, batched[-1], size)
            rows, batched = ops.gather(rows, -1, sorter), (True, *batched[1:])
        if not batched[0] and len(rows.shape) == 1:
            return self.again(rows, values)
        rows = with_batch(rows, batched[0], size)
        if not hasattr(values, "shape"):
            values, is_batched = ops.full((), values), False
        else:
            is_batched = batched[1]
        values = with_batch(values, is_batched, size)
        if len(rows.shape) > 2:
            return self.again(rows, values)
        flat = ops.reshape_to(values, (size, numel(tuple(values.shape)[1:])))
        return ops.reshape_to(self.again(rows, flat), values.shape)

    def again(self, rows: Tensor, values: Any) -> Tensor:
        """The same op on new operands."""
        return ops.searchsorted(
            rows, values, out_int32=self.out_int32, right=self.right, side=self.side
        )

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        row = np.array([-1.0, 0.0, 0.0, 2.0, 3.5])
        yield Sample(row, np.array([[-2.0, 0.0], [2.0, 9.0]]))
        yield Sample(row, np.array([0.0, 2.0]), right=True)
        yield Sample(row, 0.5, side="right")
        yield Sample(np.stack([row, row + 1]), np.array([[0.0], [1.0]]), out_int32=True)
        yield Sample(row[::-1].copy(), np.array([0.0, 3.0]), sorter=np.arange(5)[::-1].copy())
        yield Sample(row[:0], np.array([0.0, 3.0]))


def _bisected(row: np.ndarray, values: np.ndarray, side: str) -> np.ndarray:
    """np.searchsorted in a row with NaN, which no value lies before, as PyTorch bisects the row."""
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, len(row))
    while np.any(low < high):
        middle = (low + high) >> 1
        probes = row[np.minimum(middle, len(row) - 1)]
        before = probes > values if side == "right" else probes >= values
        high = np.where((low < high) & before, middle, high)
        low = np.where((low < high) & ~before, middle + 1, low)
    return low


def mask_now(mask: Any) -> np.ndarray | None:
    """Return the elements of a mask with dims, or None where values cannot be had now.

    Who asks for the number of True elements has to wait anyway. With the mask itself all positions
    are there, and the ops behind begin with tensors that hold data. While a function is traced or
    explored there are no values, and in a fiber lanes wait together.
    """
    trace = _hot.current_trace()
    if type(mask) is not _hot.Tensor or trace.symbolic is not None or trace.fiber is not None:
        return None
    value = _hot.refreshed(mask)
    if not value.type.dims or value.type.device is not CPU:
        return None
    elements: np.ndarray = _hot.ensure(value)
    return elements


def places_now(mask: Any) -> list[Any] | None:
    """Return the positions of the elements that are not zero, a tensor of int64 for each dim.

    Returns None where values cannot be had now.
    """
    elements = mask_now(mask)
    return None if elements is None else [beside(mask, held(c)) for c in elements.nonzero()]


def held(numbers: np.ndarray) -> Any:
    """Return a tensor of int64 that holds these numbers."""
    numbers = np.ascontiguousarray(numbers, np.int64)
    value = _hot.held(_types.intern_type(numbers.shape, int64, CPU), numbers)
    value.inference = _hot.current_trace().mode.inference
    return _hot.wrap(value)


class NonzeroStatic(Primitive):
    """y[k, :] = the position of the k-th element that is not zero, in row-major order.

    size: the number of rows. Surplus positions are cut off, missing rows filled with fill_value.
    """

    signature = "input, *, size: size, fill_value: scalar = -1"
    torch = TorchCall(names=("nonzero_static",))
    facts = OpFacts(supports=ANY_DTYPE)
    schedule = OpSchedule(unlowered="the elements before decide the place of a result")
    vjp = NO_GRADIENT

    def infer(self, x: Spec, size: Size, fill_value: Number) -> Spec:
        if size < 0:
            raise ShapeError(f"nonzero_static: size must be >= 0, and is {size}")
        return Spec((size, len(x.shape)), int64)

    def checked_numbers(self, x: None, size: int, fill_value: Any) -> None:
        if isinstance(fill_value, (float, complex)):
            kind = type(fill_value).__name__
            raise ArgumentTypeError(
                f"nonzero_static: argument 'fill_value' must be int, not {kind}"
            )
        if not -(2**63) <= fill_value < 2**63:
            raise ArgumentError(f"nonzero_static: fill_value {fill_value} is beyond int64")

    def reference(self, x: np.ndarray, size: int, fill_value: Scalar) -> np.ndarray:
        places = np.argwhere(x)[:size]
        y = np.full((size, x.ndim), int(fill_value), dtype=np.int64)
        y[: len(places)] = places
        return y

    def onnx(self, g: OnnxBuilder, x: OnnxValue, size: Size, fill_value: Scalar) -> OnnxValue:
        rank = x.rank
        hit = g.cast(x, bool_)
        places = g.node("NonZero", hit if rank else g.reshape(hit, (1,)), dtype=int64)
        places = g.node("Transpose", places, perm=(1, 0))
        if not rank:
            places = g.slice(places, 1, 0, 0, 1)
        fill = g.expand(g.number(fill_value, int64), (size, rank))
        return g.slice(g.node("Concat", places, fill, axis=0), 0, 0, size, 1)

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, count: Size, fill_value: Scalar
    ) -> Tensor:
        # Row k of an example is where the running count of elements first reaches k + 1.
        shape = tuple(x.shape)[1:]
        if not shape or numel(shape) == 0:
            fill = full_beside(x, (size, count, len(shape)), fill_value, int64)
            return fill
        hit = ops.reshape_to(ops.ne(x, 0), (size, numel(shape)))
        reached = ops.cumsum(ops.cast(hit, int64), 1)
        wanted = ops.arange(1, count + 1, 1, count, dtype=int64)
        wanted = ops.expand(beside(x, wanted), (size, count))
        flat = ops.searchsorted(reached, wanted)
        total: Any = 1
        columns: list[Any] = []
        for n in shape[::-1]:
            columns.insert(0, ops.remainder(ops.floor_divide(flat, total), n))
            total = total * n
        y = ops.stack(columns, 2)
        return ops.where(ops.unsqueeze(ops.lt(flat, total), 2), y, fill_value)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.integers(0, 2, size=(3, 4))
        yield Sample(x, size=5)
        yield Sample(x, size=30, fill_value=-2)
        yield Sample(x > 0, size=0)
        yield Sample(np.array(2.0), size=1)
        yield Sample(np.zeros((0, 3)), size=2)


class Histc(Primitive):
    """y[b] = how many elements fall into the b-th of `bins` equal parts of [min, max].

    With min = max = 0 the range is that of the data. Elements outside and NaN are left out.
    Raises ArgumentError for bins < 1, max < min, or a range that is not finite.
    """

    signature = "input, bins: size = 100, min: scalar = 0, max: scalar = 0"
    torch = TorchCall(names=("histc",))
    facts = OpFacts(supports=frozenset({"float"}), fallible=True)
    schedule = OpSchedule(library="counting by NumPy")
    vjp = NO_GRADIENT

    def infer(self, x: Spec, bins: Size, low: Number, high: Number) -> Spec:
        if bins < 1:
            raise ShapeError(f"histc: bins must be > 0, but got {bins}")
        if not x.dtype.is_floating_point:
            raise DTypeNotImplemented(
                f"histc: not implemented for {x.dtype}; convert with .float()"
            )
        return Spec((bins,), x.dtype)

    def reference(self, x: np.ndarray, bins: int, low: Scalar, high: Scalar) -> np.ndarray:
        flat = widen(x).reshape(-1)
        low, high = float(low), float(high)  # ints may be larger than NumPy's
        if low == high == 0 and flat.size:
            low, high = flat.min(), flat.max()
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ExecutionError(f"histc: range of [{low}, {high}] is not finite")
        if high < low:
            raise ExecutionError(f"histc: max must be larger than min: [{low}, {high}]")
        if low == high:
            low, high = low - 1, high + 1
        inside = flat[(flat >= low) & (flat <= high)]
        place = np.floor((inside - low) * (bins / (high - low))).astype(np.int64)
        return np.bincount(np.minimum(place, bins - 1), minlength=bins).astype(x.dtype)

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        bins: Size,
        low: Operand,
        high: Operand,
    ) -> Tensor:
        flat = ops.reshape_to(x, (size, numel(tuple(x.shape)[1:])))
        low, high = (ops.full((), end, dtype=x.dtype) for end in (low, high))
        if flat.shape[1] == 0:
            return full_beside(x, (size, bins), 0)
        of_data = ops.logical_and(ops.eq(low, 0), ops.eq(high, 0))
        low = ops.where(of_data, ops.amin(flat, 1, True), low)
        high = ops.where(of_data, ops.amax(flat, 1, True), high)
        point = ops.cast(ops.eq(low, high), x.dtype)
        low, high = low - point, high + point
        place = ops.floor((flat - low) * (bins / (high - low)))
        inside = ops.logical_and(ops.ge(flat, low), ops.le(flat, high))
        place = ops.cast(ops.where(inside, ops.minimum(place, bins - 1), 0), int64)
        zeros = full_beside(x, (size, bins), 0)
        return ops.scatter_add(zeros, 1, place, ops.cast(inside, x.dtype))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.integers(0, 5, size=(5, 4)).astype(float), 5)
        yield Sample(rng.integers(-3, 3, size=(20,)) + 0.5, 4, -2, 2)
        yield Sample(np.zeros((3,)), 3)
        yield Sample(np.zeros((0,)), 3)
