"""The adjoints of the views of a part: the input with that part replaced by `src`.

Writes through views are made of these ops; the public functions are composites of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.base.shapes import contiguous_strides
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpFacts, OpSchedule
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints, numel
from wend._engine.core.types import Spec
from wend._engine.ops.basic import assigned
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape
from wend._engine.ops.views.slicing import counted_index, real_dim, replaced, slice_bounds, zeros_of
from wend._engine.ops.views.strided import (
    check_strided,
    diagonal_bounds,
    diagonal_dims,
    onnx_places,
)


def with_batch(x: Tensor, is_batched: bool, size: Size) -> Tensor:
    """x with a batch axis at dim 0, whether x came with the axis or not."""
    return x if is_batched else ops.expand_to(x, (size, *x.shape), (0,))


ASSIGNED = "AssignedBackward0"  # by `x[...] = src`; else a view was changed in place


class PartScatter(Primitive, abstract=True):
    """y = input with a part replaced by src, which has that part's shape.

    A subclass says which part, three times: by shape, by elements in an array, and by the op that
    views the part. src is cast to the input's dtype.
    """

    facts = OpFacts(supports=ANY_DTYPE)
    schedule = OpSchedule(donates=True)

    def part_shape(self, shape: Shape, *sizes: Any) -> Shape:
        """The shape of the part of an input of shape `shape`."""
        raise NotImplementedError

    def part(self, x: np.ndarray, *sizes: Any) -> np.ndarray:
        """The part as a view of x."""
        raise NotImplementedError

    def viewed(self, x: Tensor, *sizes: Any) -> Tensor:
        """The part of a tensor, in ops."""
        raise NotImplementedError

    def again(self, x: Tensor, src: Tensor, *sizes: Any) -> Tensor:
        """The same op on new tensors."""
        raise NotImplementedError

    def infer(self, x: Spec, src: Spec, *sizes: Any) -> Spec:
        wanted = self.part_shape(x.shape, *sizes)
        if len(wanted) != len(src.shape) or not all(
            n == m for n, m in zip(wanted, src.shape, strict=True)
        ):
            raise ShapeError(
                f"{self.name}: expected src to have a size equal to the slice of the input: "
                f"src has shape {hints(src.shape)}, the slice has shape {hints(wanted)}"
            )
        return Spec(x.shape, x.dtype)

    def reference(self, x: np.ndarray, src: np.ndarray, *sizes: Any) -> np.ndarray:
        return self.reference_inplace(np.array(x), src, *sizes)

    def reference_inplace(self, x: np.ndarray, src: np.ndarray, *sizes: Any) -> np.ndarray:
        self.part(x, *sizes)[...] = src
        return x

    def onnx(self, g: OnnxBuilder, x: OnnxValue, src: OnnxValue, *sizes: Any) -> OnnxValue:
        flat = g.reshape(x, (numel(x.shape),))
        values = g.reshape(g.cast(src, x.dtype), (numel(src.shape),))
        places = g.reshape(self.onnx_part(g, x, src, *sizes), (numel(src.shape),))
        return g.reshape(g.scatter(flat, places, values, 0), x.shape)

    def onnx_part(self, g: OnnxBuilder, x: OnnxValue, src: OnnxValue, *sizes: Any) -> OnnxValue:
        """The places in the flat input of the elements of the part, in the part's shape."""
        raise NotImplementedError

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: object, src: NodeOperand, *how: object) -> object:
        """A write to a view: the edges of the op in place but the first, or the assigned tensor."""
        if n.op.torch.grad_name == ASSIGNED or src.maker is None:
            return n.node("CopySlices", x, assigned(src))
        return n.node("CopySlices", x, *src.edges[1:])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, src: Tensor, *sizes: Any) -> tuple[Any, ...]:
        g_src = ops.cast(self.viewed(g, *sizes), src.dtype)
        return self.again(g, zeros_of(src), *sizes), g_src


class SliceScatter(PartScatter):
    """y = input, with input[..., start:end:step, ...] along dim `dim` replaced by src."""

    signature = "input, src, dim: int = 0, start: size? = None, end: size? = None, step: size = 1"
    dim: int

    def part_shape(self, shape: Shape, start: Size | None, end: Size | None, step: Size) -> Shape:
        dim = real_dim(self.dim, len(shape), self.name)
        return replaced(shape, dim, slice_bounds(self.name, shape[dim], start, end, step)[2])

    def part(self, x: np.ndarray, start: Size | None, end: Size | None, step: Size) -> np.ndarray:
        dim = real_dim(self.dim, x.ndim, self.name)
        return x[(slice(None),) * dim + (slice(start, end, step),)]

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for an operand of known rank."""
        before = (slice(None),) * real_dim(self.dim, operands[0].rank, self.name)

        def run(x: np.ndarray, src: np.ndarray, start: Any, end: Any, step: Any) -> np.ndarray:
            y = np.array(x)
            y[(*before, slice(start, end, step))] = src
            return y

        return run

    def viewed(self, x: Tensor, start: Size | None, end: Size | None, step: Size) -> Tensor:
        return ops.slice(x, self.dim, start, end, step)

    def again(
        self, x: Tensor, src: Tensor, start: Size | None, end: Size | None, step: Size
    ) -> Tensor:
        return ops.slice_scatter(x, src, self.dim, start, end, step)

    def onnx_part(
        self,
        g: OnnxBuilder,
        x: OnnxValue,
        src: OnnxValue,
        start: Size | None,
        end: Size | None,
        step: Size,
    ) -> OnnxValue:
        dim = real_dim(self.dim, x.rank, self.name)
        first = slice_bounds(self.name, x.shape[dim], start, end, step)[0]
        steps = contiguous_strides(x.shape)
        stride = replaced(steps, dim, steps[dim] * step)
        return onnx_places(g, src.shape, stride, first * steps[dim])

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        src: Tensor,
        start: Size | None,
        end: Size | None,
        step: Size,
    ) -> Tensor:
        x, src = with_batch(x, batched[0], size), with_batch(src, batched[1], size)
        dim = real_dim(self.dim, len(x.shape) - 1, self.name) + 1
        return ops.slice_scatter(x, src, dim, start, end, step)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(5, 3))
        yield Sample(x, rng.normal(size=(2, 3)), 0, 1, 3)
        yield Sample(x, rng.normal(size=(5, 2)), -1, 0, None, 2)
        yield Sample(x, rng.normal(size=(2, 3)), 0, -3, -1)
        yield Sample(x, rng.normal(size=(0, 3)), 0, 4, 2)
        yield Sample(x, x + 1)
        yield Sample(rng.normal(size=(0,)), rng.normal(size=(0,)), 0, 0, 9)


class SelectScatter(PartScatter):
    """y = input, with input[..., index, ...] along dim `dim` replaced by src."""

    signature = "input, src, dim: int, index: size"
    dim: int

    def part_shape(self, shape: Shape, index: Size) -> Shape:
        dim = real_dim(self.dim, len(shape), self.name)
        counted_index(self.name, index, shape[dim], dim)
        return (*shape[:dim], *shape[dim + 1 :])

    def part(self, x: np.ndarray, index: int) -> np.ndarray:
        dim = real_dim(self.dim, x.ndim, self.name)
        view: np.ndarray = x[(slice(None),) * dim + (index, ...)]
        return view

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for an operand of known rank."""
        before = (slice(None),) * real_dim(self.dim, operands[0].rank, self.name)

        def run(x: np.ndarray, src: np.ndarray, index: Any) -> np.ndarray:
            y = np.array(x)
            y[(*before, index)] = src
            return y

        return run

    def viewed(self, x: Tensor, index: Size) -> Tensor:
        return ops.select(x, self.dim, index)

    def again(self, x: Tensor, src: Tensor, index: Size) -> Tensor:
        return ops.select_scatter(x, src, self.dim, index)

    def onnx_part(self, g: OnnxBuilder, x: OnnxValue, src: OnnxValue, index: Size) -> OnnxValue:
        dim = real_dim(self.dim, x.rank, self.name)
        steps = contiguous_strides(x.shape)
        offset = counted_index(self.name, index, x.shape[dim], dim) * steps[dim]
        return onnx_places(g, src.shape, (*steps[:dim], *steps[dim + 1 :]), offset)

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, src: Tensor, index: Size
    ) -> Tensor:
        x, src = with_batch(x, batched[0], size), with_batch(src, batched[1], size)
        dim = real_dim(self.dim, len(x.shape) - 1, self.name) + 1
        return ops.select_scatter(x, src, dim, index)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3))
        yield Sample(x, rng.normal(size=(3,)), 0, 2)
        yield Sample(x, rng.normal(size=(4,)), -1, -3)
        yield Sample(rng.normal(size=(2,)), rng.normal(size=()), 0, -1)
        yield Sample(rng.normal(size=(3, 0)), rng.normal(size=(0,)), 0, 1)


class DiagonalScatter(PartScatter):
    """y = input, with the diagonal over dims dim1 and dim2 replaced by src."""

    signature = "input, src, offset: size = 0, dim1: int = 0, dim2: int = 1"
    dim1: int
    dim2: int

    def part_shape(self, shape: Shape, offset: Size) -> Shape:
        dim1, dim2 = diagonal_dims(self.name, self.dim1, self.dim2, len(shape))
        count = diagonal_bounds(shape[dim1], shape[dim2], offset)[2]
        return (*(n for d, n in enumerate(shape) if d not in (dim1, dim2)), count)

    def part(self, x: np.ndarray, offset: int) -> np.ndarray:
        dim1, dim2 = diagonal_dims(self.name, self.dim1, self.dim2, x.ndim)
        row, column, count = diagonal_bounds(x.shape[dim1], x.shape[dim2], offset)
        moved = np.moveaxis(x, (dim1, dim2), (-2, -1))[..., row:, column:]
        strides = (*moved.strides[:-2], moved.strides[-2] + moved.strides[-1])
        return np.lib.stride_tricks.as_strided(moved, (*moved.shape[:-2], count), strides)

    def viewed(self, x: Tensor, offset: Size | None) -> Tensor:
        return ops.diagonal(x, offset, self.dim1, self.dim2)

    def again(self, x: Tensor, src: Tensor, offset: Size) -> Tensor:
        return ops.diagonal_scatter(x, src, offset, self.dim1, self.dim2)

    def onnx_part(self, g: OnnxBuilder, x: OnnxValue, src: OnnxValue, offset: Size) -> OnnxValue:
        dim1, dim2 = diagonal_dims(self.name, self.dim1, self.dim2, x.rank)
        row, column, _ = diagonal_bounds(x.shape[dim1], x.shape[dim2], offset)
        steps = contiguous_strides(x.shape)
        rest = tuple(s for d, s in enumerate(steps) if d not in (dim1, dim2))
        start = row * steps[dim1] + column * steps[dim2]
        return onnx_places(g, src.shape, (*rest, steps[dim1] + steps[dim2]), start)

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, src: Tensor, offset: Size
    ) -> Tensor:
        x, src = with_batch(x, batched[0], size), with_batch(src, batched[1], size)
        dim1, dim2 = diagonal_dims(self.name, self.dim1, self.dim2, len(x.shape) - 1)
        return ops.diagonal_scatter(x, src, offset, dim1 + 1, dim2 + 1)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 3)), rng.normal(size=(3,)))
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(3,)), 1)
        yield Sample(rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 2)), -1, -1, 0)
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(0,)), 7)


class StridedScatter(PartScatter):
    """y = input, with the elements that as_strided would view replaced by src.

    Where the strided view meets an element more than once, the last write stays.
    """

    signature = "input, src, size: sizes, stride: sizes, storage_offset: size? = None"
    schedule = OpSchedule(
        unlowered="the part is found by strides, which loops over the operand do not follow"
    )

    def part_shape(self, shape: Shape, size: Sizes, stride: Sizes, offset: Size | None) -> Shape:
        check_strided(self.name, shape, size, stride, 0 if offset is None else offset)
        return tuple(size)

    def part(self, x: np.ndarray, size: Sizes, stride: Sizes, offset: Size | None) -> np.ndarray:
        flat = x.reshape(-1)[offset or 0 :]
        steps = tuple(s * x.itemsize for s in stride)
        return np.lib.stride_tricks.as_strided(flat, tuple(size), steps)

    def reference(self, x: np.ndarray, src: np.ndarray, *sizes: Any) -> np.ndarray:
        return self.reference_inplace(np.array(x, order="C"), src, *sizes)

    def reference_inplace(self, x: np.ndarray, src: np.ndarray, *sizes: Any) -> np.ndarray:
        if not x.flags.c_contiguous:
            return self.reference(x, src, *sizes)
        self.part(x, *sizes)[...] = src
        return x

    def viewed(self, x: Tensor, size: Sizes, stride: Sizes, offset: Size | None) -> Tensor:
        return ops.as_strided(x, size, stride, offset)

    def again(
        self, x: Tensor, src: Tensor, size: Sizes, stride: Sizes, offset: Size | None
    ) -> Tensor:
        return ops.strided_scatter(x, src, size, stride, offset)

    def onnx_part(
        self, g: OnnxBuilder, x: OnnxValue, src: OnnxValue, size: Any, stride: Any, offset: Any
    ) -> OnnxValue:
        return onnx_places(g, size, stride, offset or 0)

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        src: Tensor,
        extents: Sizes,
        stride: Sizes,
        offset: Size | None,
    ) -> Tensor:
        x, src = with_batch(x, batched[0], size), with_batch(src, batched[1], size)
        step: Any = 1
        for n in tuple(x.shape)[1:]:
            step = step * n
        return ops.strided_scatter(x, src, (size, *extents), (step, *stride), offset)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(2, 2)), (2, 2), (1, 2))
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(2, 3)), (2, 3), (4, 1), 1)
        yield Sample(rng.normal(size=(3,)), rng.normal(size=()), (), (), 2)
        yield Sample(rng.normal(size=(3,)), rng.normal(size=(0,)), (0,), (1,), 9)
