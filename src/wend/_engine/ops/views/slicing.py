"""Views of a part along a dim (slice, select, narrow), and expand.

The adjoint of a view of a part writes the part into zeros: the scatters of `scatters.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import uint8
from wend._engine.base.errors import ArgumentError, DimError, IndexOutOfRange, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.symbolic import expr_of, hints, numel, sym_max, sym_min
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import repeated
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape, Strides, View


def replaced(shape: Shape, dim: int, extent: Size) -> Shape:
    """shape with the extent of a dim exchanged."""
    return (*shape[:dim], extent, *shape[dim + 1 :])


def zeros_of(x: Tensor) -> Tensor:
    """Zeros of x's shape and dtype. Reads only the type of x."""
    return ops.full(x.shape, 0, dtype=x.dtype)


def real_dim(dim: int, rank: int, op: str) -> int:
    """dim counted from 0, of a tensor that has dims. Raises DimError."""
    if rank == 0:
        raise DimError(f"{op}: cannot be applied to a 0-dim tensor")
    return normalize_dim(dim, rank, op)


def counted_index(op: str, index: Size, n: Size, dim: int) -> Size:
    """An index into an extent n, counted from 0. Raises IndexOutOfRange."""
    if index < 0:
        if index >= -n:
            return index + n
    elif index < n:
        return index
    raise IndexOutOfRange(f"{op}: index {index} is out of bounds for dimension {dim} with size {n}")


# --- slice, narrow, select ------------------------------------------------------


def slice_bounds(
    op: str, n: Size, start: Size | None, end: Size | None, step: Size
) -> tuple[Any, Any, Any]:
    """(first, past the last, number of elements) of start:end:step over an extent n.

    As Python's slices: negative bounds count from the end, bounds beyond the extent are cut off.
    Extents may be symbolic. Raises ArgumentError unless step > 0.
    """
    if not step > 0:
        raise ArgumentError(
            f"{op}: step must be greater than zero, and is {step}; use .flip to reverse"
        )
    if any(getattr(x, "is_extent", False) for x in (n, start, end)):
        return bounds_for_all_sizes(n, start, end, step)
    first = 0 if start is None else _bound(start, n)
    last = n if end is None else _bound(end, n)
    if last < first:
        last = first
    if step == 1:
        return first, last, last - first
    return first, last, (last - first + step - 1) // step


def bounds_for_all_sizes(
    n: Size, start: Size | None, end: Size | None, step: Size
) -> tuple[Any, Any, Any]:
    """The same without a comparison of bounds with the extent, for graphs that hold for all sizes.

    Only the signs of bounds are looked at.
    """
    first = 0 if start is None else _cut(start, n)
    last = n if end is None else _cut(end, n)
    if end is None and start is not None and start < 0:
        count = sym_min(n, -start)
    else:
        count = last if expr_of(first) == 0 else sym_max(last - first, 0)
    last = first + count
    return first, last, count if expr_of(step) == 1 else (count + (step - 1)) // step


def _cut(bound: Size, n: Size) -> Any:
    """A slice's bound, counted from the start and cut to 0..n, as an expression."""
    if bound < 0:
        return sym_max(n + bound, 0)
    return 0 if expr_of(bound) == 0 else sym_min(bound, n)


def _bound(bound: Size, n: Size) -> Any:
    """A slice's bound, counted from the start and cut to 0..n."""
    if bound < 0:
        return sym_max(bound + n, 0)
    return n if bound > n else bound


class Slicing(View, abstract=True):
    """y = x[..., first:last:step, ...] along a dim. A subclass says which."""

    facts = OpFacts(smooth=True)

    dim: int

    def bounds(self, n: Size, *sizes: Any) -> tuple[Any, Any, Any, Any]:
        """(first, last, step, number of elements) over an extent n."""
        raise NotImplementedError

    def infer(self, x: Spec, *sizes: Any) -> Spec:
        dim = real_dim(self.dim, len(x.shape), self.name)
        count = self.bounds(x.shape[dim], *sizes)[3]
        return Spec(replaced(x.shape, dim, count), x.dtype)

    def by_rows(self, rows: tuple[bool, ...], ranks: tuple[int, ...]) -> bool:
        """Rows are not cut."""
        return real_dim(self.dim, ranks[0], self.name) != 0

    def reference(self, x: np.ndarray, *sizes: Any) -> np.ndarray:
        dim = real_dim(self.dim, x.ndim, self.name)
        first, last, step, _ = self.bounds(x.shape[dim], *sizes)
        return x[(slice(None),) * dim + (slice(first, last, step),)]

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, *sizes: Any) -> tuple[Any, ...]:
        return (self.put(zeros_of(x), g, *sizes),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, *sizes: Any) -> OnnxValue:
        dim = real_dim(self.dim, x.rank, self.name)
        first, last, step, _ = self.bounds(x.shape[dim], *sizes)
        return g.slice(x, dim, first, last, step)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, *sizes: Any) -> Tensor:
        dim = real_dim(self.dim, len(x.shape) - 1, self.name) + 1
        first, last, step, _ = self.bounds(x.shape[dim], *sizes)
        return ops.slice(x, dim, first, last, step)

    def put(self, x: Tensor, v: Tensor, *sizes: Any) -> Tensor:
        dim = real_dim(self.dim, len(x.shape), self.name)
        first, last, step, _ = self.bounds(x.shape[dim], *sizes)
        return ops.slice_scatter(x, v, dim, first, last, step)

    def strides(self, shape: Shape, strides: Sequence[int], *sizes: Any) -> Strides:
        dim = real_dim(self.dim, len(shape), self.name)
        first, _, step, _ = self.bounds(shape[dim], *sizes)
        return replaced(tuple(strides), dim, strides[dim] * step), first * strides[dim]


class Slice(Slicing):
    """y = x[..., start:end:step, ...] along dim `dim`, with Python's meaning of the bounds.

    start, end: None, or ints; negative ints count from the end     step: > 0
    Raises ArgumentError unless step > 0, DimError for a 0-d tensor.
    """

    signature = "input, dim: int = 0, start: size? = None, end: size? = None, step: size = 1"
    is_slice = True  # explored graphs count the elements without comparisons

    def bounds(
        self, n: Size, start: Size | None, end: Size | None, step: Size
    ) -> tuple[Any, Any, Any, Any]:
        first, last, count = slice_bounds("slice", n, start, end, step)
        return first, last, step, count

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for an operand of known rank and a step that `infer` has checked."""
        before = (slice(None),) * real_dim(self.dim, operands[0].rank, "slice")
        return lambda x, start, end, step: x[(*before, slice(start, end, step))]

    def onnx(
        self, g: OnnxBuilder, x: OnnxValue, start: Size | None, end: Size | None, step: Size
    ) -> OnnxValue:
        return g.slice(x, real_dim(self.dim, x.rank, self.name), start, end, step)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(5, 3)), 0, 1, 4)
        yield Sample(rng.normal(size=(5, 3)), -1, 0, 3, 2)
        yield Sample(rng.normal(size=(5, 3)), 0, -4, -1, 2)
        yield Sample(rng.normal(size=(5, 3)), 0, 3, 100, 1)
        yield Sample(rng.normal(size=(5, 3)), 0, 4, 2, 1)
        yield Sample(rng.normal(size=(5, 3)), 1, None, -1)
        yield Sample(rng.normal(size=(5, 3)), 0, -100, None, 3)
        yield Sample(rng.normal(size=(0, 3)), 0, 0, 1)
        yield Sample(rng.normal(size=(1,)))


class Narrow(Slicing):
    """y = x[..., start:start+length, ...] along dim `dim`; a negative start counts from the end.

    Raises IndexOutOfRange for a start beyond the extent n, ShapeError for length < 0 or
    start + length > n.
    """

    signature = "input, dim: int, start: size, length: size"
    torch = TorchCall(names=("narrow",), grad_name="SliceBackward0")

    def infer(self, x: Spec, *sizes: Any) -> Spec:
        if not x.shape:
            raise ShapeError("narrow: cannot be applied to a 0-dim tensor")
        return super().infer(x, *sizes)

    def bounds(self, n: Any, start: Any, length: Any) -> tuple[Any, Any, Any, Any]:
        if length < 0:
            raise ShapeError(f"narrow: length must be non-negative, and is {length}")
        if start < -n or start > n:
            raise IndexOutOfRange(
                f"narrow: start out of range (expected to be in range of [-{n}, {n}], "
                f"but got {start})"
            )
        first = start + n if start < 0 else start
        if first + length > n:
            raise ShapeError(
                f"narrow: start ({first}) + length ({length}) exceeds dimension size ({n}) "
                f"of dim {self.dim}"
            )
        return first, first + length, 1, length

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(5, 3)), 0, 1, 3)
        yield Sample(rng.normal(size=(5, 3)), -1, -2, 2)
        yield Sample(rng.normal(size=(5, 3)), 0, 5, 0)
        yield Sample(rng.normal(size=(0,)), 0, 0, 0)


class Select(View):
    """y = x[..., index, ...] along dim `dim`, which goes; a negative index counts from the end.

    Raises IndexOutOfRange, DimError for a 0-d tensor.
    """

    facts = OpFacts(smooth=True)

    signature = "input, dim: int, index: size"
    dim: int
    torch = TorchCall(names=("select",))

    def infer(self, x: Spec, index: Size) -> Spec:
        dim = real_dim(self.dim, len(x.shape), "select")
        counted_index("select", index, x.shape[dim], dim)
        return Spec((*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype)

    def reference(self, x: np.ndarray, index: int) -> np.ndarray:
        dim = real_dim(self.dim, x.ndim, "select")
        view: np.ndarray = x[(slice(None),) * dim + (index, ...)]
        return view

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for an operand of known rank."""
        before = (slice(None),) * real_dim(self.dim, operands[0].rank, "select")
        if not before:
            return lambda x, index: x[index, ...]
        return lambda x, index: x[(*before, index, ...)]

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Size) -> tuple[Any, ...]:
        return (ops.select_scatter(zeros_of(x), g, self.dim, index),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, index: Size) -> OnnxValue:
        return g.node("Gather", x, g.size(index), axis=real_dim(self.dim, x.rank, "select"))

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, index: Size) -> Tensor:
        return ops.select(x, real_dim(self.dim, len(x.shape) - 1, "select") + 1, index)

    def put(self, x: Tensor, v: Tensor, index: Size) -> Tensor:
        return ops.select_scatter(x, v, self.dim, index)

    def by_rows(self, rows: tuple[bool, ...], ranks: tuple[int, ...]) -> bool:
        """Rows are not chosen from."""
        return real_dim(self.dim, ranks[0], "select") != 0

    def strides(self, shape: Shape, strides: Sequence[int], index: Size) -> Strides:
        dim = real_dim(self.dim, len(shape), "select")
        offset = counted_index("select", index, shape[dim], dim) * strides[dim]
        return (*strides[:dim], *strides[dim + 1 :]), offset

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 3)), 0, 2)
        yield Sample(rng.normal(size=(4, 3)), -1, -1)
        yield Sample(rng.normal(size=(4, 0)), 0, 0)
        yield Sample(rng.normal(size=(1,)), 0, 0)
        yield Sample(rng.normal(size=(2, 3, 4)), 1, -3)


# --- expand ---------------------------------------------------------------------


class Expand(View):
    """y = x repeated, without a copy, along dims of extent 1 and along new leading dims.

    size: the shape of y; -1 keeps an extent. Raises ShapeError where x's extent is neither the
    asked extent nor 1.
    """

    signature = "input, size: sizes"
    torch = TorchCall(functions=("broadcast_to",), methods=("expand", "broadcast_to"))

    def infer(self, x: Spec, size: Sizes) -> Spec:
        return Spec(self.target(x.shape, tuple(size)), x.dtype)

    def target(self, shape: Shape, size: Shape) -> Shape:
        """The extents of the result. Raises ShapeError."""
        lead = len(size) - len(shape)
        if lead < 0:
            raise ShapeError(
                f"expand: the number of sizes provided ({len(size)}) must be greater or equal to "
                f"the number of dimensions in the tensor ({len(shape)}): "
                f"shape {hints(shape)}, size {hints(size)}"
            )
        for i in range(lead):
            if size[i] < 0:
                raise ShapeError(
                    f"expand: the expanded size of the tensor ({size[i]}) isn't allowed in "
                    f"a leading, non-existing dimension {i}: size {hints(size)}"
                )
        kept = (self._extent(shape, size, i, lead) for i in range(len(shape)))
        return (*size[:lead], *kept)

    @staticmethod
    def _extent(shape: Shape, size: Shape, i: int, lead: int) -> Any:
        have, want = shape[i], size[lead + i]
        if have == want:
            return have
        if want == -1:
            return have
        if have == 1 and want >= 0:
            return want
        raise ShapeError(
            f"expand: the expanded size of the tensor ({want}) must match the existing size "
            f"({have}) at non-singleton dimension {lead + i}: target sizes {hints(size)}, "
            f"tensor sizes {hints(shape)}"
        )

    def reference(self, x: np.ndarray, size: Sizes) -> np.ndarray:
        return np.broadcast_to(x, self.target(x.shape, tuple(size)))

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for sizes that `infer` has checked."""
        target = self.target
        return lambda x, size: repeated(x, target(x.shape, size) if -1 in size else size)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, size: Sizes) -> tuple[Any, ...]:
        return (sum_to_shape(g, x.shape),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, size: Sizes) -> OnnxValue:
        # By the sizes as given: an extent of x that equals its size may be 1 at another time.
        lead = len(size) - x.rank
        return g.expand(x, [x.shape[i - lead] if n == -1 else n for i, n in enumerate(size)])

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, sizes: Sizes) -> Tensor:
        target = self.target(tuple(x.shape)[1:], tuple(sizes))
        return _expanded_batch(x, target, broadcast_axes(tuple(x.shape)[1:], target))

    def put(self, x: Tensor, v: Tensor, size: Sizes) -> Tensor:
        count = numel(v.shape)
        if count == 0:
            return ops.clone(x)
        if count == numel(x.shape):  # each element is there once
            return ops.reshape(v, x.shape)
        # Among places that show the same element, changed places give its value now.
        axes = broadcast_axes(tuple(x.shape), tuple(v.shape))
        changed = has_changed(ops.expand_to(x, tuple(v.shape), axes), v)
        kept = tuple(d for d in range(len(v.shape)) if d not in axes)
        order, shape = (*axes, *kept), tuple(v.shape[d] for d in kept)
        v, changed = (ops.reshape(ops.permute(t, order), (-1, *shape)) for t in (v, changed))
        first = ops.argmax(ops.cast(changed, uint8), 0, True)
        return ops.reshape(ops.gather(v, 0, first), tuple(x.shape))

    def strides(self, shape: Shape, strides: Sequence[int], size: Sizes) -> Strides:
        return expanded_strides(shape, strides, self.target(tuple(shape), tuple(size))), 0

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 1)), (3, 4))
        yield Sample(rng.normal(size=(3, 1)), (2, -1, 4))
        yield Sample(rng.normal(size=(1,)), (0,))
        yield Sample(rng.normal(size=()), (2, 2))
        yield Sample(rng.normal(size=()), ())
        yield Sample(rng.normal(size=(2, 3)), (2, 3))
        yield Sample(rng.normal(size=(1, 1)), (1, 5, 1))


def has_changed(old: Tensor, new: Tensor) -> Tensor:
    """Where elements differ; NaN is the same as NaN."""
    return ops.logical_and(ops.ne(old, new), ops.logical_or(ops.eq(old, old), ops.eq(new, new)))


def expanded_strides(shape: Shape, strides: Sequence[int], target: Shape) -> tuple[int, ...]:
    """Strides of a tensor expanded to `target`: 0 where elements are repeated."""
    lead = len(target) - len(shape)
    result = [0 if n != m else s for n, m, s in zip(shape, target[lead:], strides, strict=True)]
    for i in range(lead - 1, -1, -1):
        # Only an extent of 1 keeps a stride that means something.
        behind = target[i + 1] * result[0] if result else 0
        result.insert(0, behind if target[i] == 1 else 0)
    return tuple(result)


def broadcast_axes(shape: Shape, target: Shape) -> tuple[int, ...]:
    """The dims of `target` along which a tensor of shape `shape` is repeated to fill `target`."""
    lead = len(target) - len(shape)
    return (*range(lead), *(lead + i for i, n in enumerate(shape) if n != target[lead + i]))


def sum_to_shape(g: Tensor, shape: Shape) -> Tensor:
    """g, of a shape that `shape` broadcasts to, with the broadcast dims summed out."""
    axes = broadcast_axes(tuple(shape), tuple(g.shape))
    return ops.sum_to(g, shape, axes) if axes else g


class ExpandTo(View):
    """y = x repeated along the dims `axes` of y: the adjoint of sum_to.

    size: the shape of y. axes: counted from 0; new leading dims are among them, and x has an extent
    of 1 in all further axes. For rules: nothing is asked of the extents.
    """

    signature = "input, size: sizes, axes: ints"
    axes: tuple[int, ...]
    torch = TorchCall(grad_name="ExpandBackward0")

    def infer(self, x: Spec, size: Sizes) -> Spec:
        return Spec(tuple(size), x.dtype)

    def reference(self, x: np.ndarray, size: Sizes) -> np.ndarray:
        return np.broadcast_to(x, tuple(size))

    def runner(self, operands: list[Any]) -> Any:
        """`reference`, with the strides worked out here."""
        return repeated

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, size: Sizes) -> tuple[Any, ...]:
        return (ops.sum_to(g, x.shape, self.axes),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, size: Sizes) -> OnnxValue:
        return g.expand(x, g.out[0].shape)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, sizes: Sizes) -> Tensor:
        return _expanded_batch(x, tuple(sizes), self.axes)

    def put(self, x: Tensor, v: Tensor, size: Sizes) -> Tensor:
        return Expand.of(("T", ("S", len(size)))).put(x, v, size)

    def strides(self, shape: Shape, strides: Sequence[int], size: Sizes) -> Strides:
        return expanded_strides(shape, strides, tuple(size)), 0

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 1)), (3, 4), (1,))
        yield Sample(rng.normal(size=(3, 1)), (2, 3, 1), (0,))
        yield Sample(rng.normal(size=()), (2, 0), (0, 1))
        yield Sample(rng.normal(size=(2, 3)), (2, 3), ())


def _expanded_batch(x: Tensor, target: Shape, axes: tuple[int, ...]) -> Tensor:
    """A batch of tensors, each repeated along `axes` of `target`."""
    rows = tuple(x.shape)
    lead = len(target) - (len(rows) - 1)
    if lead:
        x = ops.reshape_to(x, (rows[0], *(1,) * lead, *rows[1:]))
    return ops.expand_to(x, (rows[0], *target), tuple(a + 1 for a in axes))
