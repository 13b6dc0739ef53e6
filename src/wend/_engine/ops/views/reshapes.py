"""Reshapes: views of the same elements, in row-major order, in another shape.

The family derives all rules of a reshape from a function, `target`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import methodcaller
from typing import Any

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.base.shapes import (
    contiguous_strides,
    is_contiguous,
    normalize_dim,
    normalize_dims,
)
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.symbolic import SymInt, hints, numel
from wend._engine.core.types import Spec
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape, Strides, View


class Reshaping(View, abstract=True):
    """y = the elements of x, in row-major order, in another shape. A subclass says which."""

    facts = OpFacts(smooth=True, checks_strides=True)

    def target(self, shape: Shape, *sizes: Any) -> Shape:
        """The shape of the result, for an operand of shape `shape`."""
        raise NotImplementedError

    def infer(self, x: Spec, *sizes: Any) -> Spec:
        return Spec(tuple(self.target(x.shape, *sizes)), x.dtype)

    def reference(self, x: np.ndarray, *sizes: Any) -> np.ndarray:
        return x.reshape(self.target(x.shape, *sizes))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, *sizes: Any) -> tuple[Any, ...]:
        return (ops.reshape_to(g, x.shape),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, *sizes: Any) -> OnnxValue:
        return g.reshape(x, g.out[0].shape)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, *sizes: Any) -> Tensor:
        shape = tuple(x.shape)
        return ops.reshape_to(x, (shape[0], *self.target(shape[1:], *sizes)))

    def put(self, x: Tensor, v: Tensor, *sizes: Any) -> Tensor:
        return ops.reshape_to(v, x.shape)

    def strides(self, shape: Shape, strides: tuple[int, ...], *sizes: Any) -> Strides | None:
        result = view_strides(shape, strides, self.target(tuple(shape), *sizes))
        return None if result is None else (result, 0)


def _nodes(n: NodeBuilder, x: NodeOperand, *sizes: Any) -> object:
    """The nodes of a reshape: a view, or a copy where the strides of x allow none."""
    return None if x.shape is None else n.laid(x).reshape(n.op.target(x.shape, *sizes)).edge


def reshaped(x: np.ndarray, sizes: Shape) -> np.ndarray:
    """Return the elements of x in the shape `sizes`; a single size may be -1."""
    return x.reshape(sizes)


class Reshape(Reshaping):
    """y = x in the given shape; an extent may be -1: it follows from the rest.

    shape: extents whose product is x's number of elements. Raises ShapeError otherwise.
    """

    signature = "input, shape: sizes"
    torch = TorchCall(names=("reshape",), grad_name="ViewBackward0")
    grad_nodes = staticmethod(lambda n, x, sizes: _nodes(n, x, sizes))

    def target(self, shape: Shape, sizes: Sizes) -> Shape:
        return resolve_shape(self.name, shape, tuple(sizes))

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for sizes that `infer` has checked."""
        return reshaped

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, target in (
            ((2, 3, 4), (6, 4)),
            ((2, 3, 4), (2, -1)),
            ((2, 6), (2, 3, -1, 2)),
            ((4, 6), (3, 8)),
            ((), (1, 1)),
            ((1,), ()),
            ((0, 3), (3, 0, 2)),
            ((0, 3), (-1, 3)),
            ((1, 5, 1), (5,)),
        ):
            yield Sample(rng.normal(size=shape), target)


class ReshapeTo(Reshaping):
    """y = x in the given shape, which is known to have as many elements.

    For rules: nothing is asked of the extents, so that a rule holds for all sizes, and the given
    extents stay those of the result.
    """

    signature = "input, shape: sizes"
    torch = TorchCall(grad_name="ViewBackward0")

    def target(self, shape: Shape, sizes: Sizes) -> Shape:
        return tuple(sizes)

    def runner(self, operands: list[Any]) -> Any:
        """`reference`, in a step."""
        return reshaped

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), (6, 4))
        yield Sample(rng.normal(size=()), (1, 1))
        yield Sample(rng.normal(size=(0, 3)), (2, 0))


class Flatten(Reshaping):
    """y = x with dims start_dim..end_dim merged; a 0-d tensor becomes 1-d."""

    signature = "input, start_dim: int = 0, end_dim: int = -1"
    start_dim: int
    end_dim: int
    torch = TorchCall(names=("flatten",), grad_name="ViewBackward0")
    grad_nodes = staticmethod(lambda n, x, *dims: _nodes(n, x))

    def target(self, shape: Shape) -> Shape:
        start = normalize_dim(self.start_dim, len(shape), "flatten")
        end = normalize_dim(self.end_dim, len(shape), "flatten")
        if start > end:
            raise ShapeError(
                f"flatten: start_dim {self.start_dim} comes after end_dim {self.end_dim} "
                f"in an input of {len(shape)} dims"
            )
        return (*shape[:start], numel(shape[start : end + 1]), *shape[end + 1 :])

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)))
        yield Sample(rng.normal(size=(2, 3, 4, 5)), 1, -2)
        yield Sample(rng.normal(size=(2, 3)), 1)
        yield Sample(rng.normal(size=()))
        yield Sample(rng.normal(size=(2, 0, 3)), 1)


class Unflatten(Reshaping):
    """y = x with dim `dim` split into dims of the given sizes; a size may be -1.

    Raises ShapeError if the sizes do not multiply up to the extent of that dim.
    """

    signature = "input, dim: int, sizes: sizes"
    dim: int
    torch = TorchCall(names=("unflatten",), grad_name="ViewBackward0")

    def target(self, shape: Shape, sizes: Sizes) -> Shape:
        dim = normalize_dim(self.dim, len(shape), "unflatten")
        if len(sizes) == 0:
            raise ShapeError("unflatten: sizes must be non-empty")
        if not shape:
            raise ShapeError("unflatten: the input has no dims")
        parts = resolve_shape("unflatten", (shape[dim],), tuple(sizes))
        return (*shape[:dim], *parts, *shape[dim + 1 :])

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(6, 4)), 0, (2, 3))
        yield Sample(rng.normal(size=(6, 4)), -1, (-1, 2))
        yield Sample(rng.normal(size=(0, 4)), 0, (2, 0))
        yield Sample(rng.normal(size=(3,)), 0, (-1,))


class Ravel(Reshaping):
    """y = x as one dim, in row-major order."""

    signature = "input"
    torch = TorchCall(names=("ravel",), grad_name="ViewBackward0")
    grad_nodes = staticmethod(lambda n, x: n.View(x if x.contiguous else n.Clone(x)))

    def target(self, shape: Shape) -> Shape:
        return (numel(shape),)

    def strides(self, shape: Shape, strides: Sequence[int]) -> Strides | None:
        # PyTorch's ravel makes a contiguous copy first, even where further strides would do.
        return ((1,), 0) if is_contiguous(shape, strides) else None

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((), (3,), (2, 3), (2, 0)):
            yield Sample(rng.normal(size=shape))


class Unsqueeze(Reshaping):
    """y = x with a dim of extent 1 put in at position dim (-rank-1 <= dim <= rank)."""

    signature = "input, dim: int"
    dim: int
    torch = TorchCall(names=("unsqueeze",), inplace=True)

    def by_rows(self, rows: tuple[bool, ...], ranks: tuple[int, ...]) -> bool:
        """The new dim is not the first."""
        return normalize_dim(self.dim, ranks[0] + 1, "unsqueeze") != 0

    def target(self, shape: Shape) -> Shape:
        dim = normalize_dim(self.dim, len(shape) + 1, "unsqueeze")
        return (*shape[:dim], 1, *shape[dim:])

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for an operand of known rank."""
        dim = normalize_dim(self.dim, operands[0].rank + 1, "unsqueeze")
        return lambda x: x.reshape((*x.shape[:dim], 1, *x.shape[dim:]))

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        dim = normalize_dim(self.dim, x.rank + 1, "unsqueeze")
        return g.with_axes("Unsqueeze", x, (dim,), g.out[0].shape)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return ops.unsqueeze(x, normalize_dim(self.dim, len(x.shape), "unsqueeze") + 1)

    def strides(self, shape: Shape, strides: Sequence[int]) -> Strides:
        dim = normalize_dim(self.dim, len(shape) + 1, "unsqueeze")
        # The stride of an extent of 1 is free; PyTorch shows the stride that steps over that dim.
        new = shape[dim] * strides[dim] if dim < len(shape) else 1
        return (*strides[:dim], new, *strides[dim:]), 0

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), 0)
        yield Sample(rng.normal(size=(2, 3)), -1)
        yield Sample(rng.normal(size=(2, 3)), 1)
        yield Sample(rng.normal(size=()), 0)
        yield Sample(rng.normal(size=(0,)), 1)


class Squeeze(Reshaping):
    """y = x without dims of extent 1: all such dims, or those among `dim`."""

    signature = "input, dim: dims = None"
    dim: tuple[int, ...] | None
    torch = TorchCall(names=("squeeze",), inplace=True)

    def target(self, shape: Shape) -> Shape:
        return tuple(shape[d] for d in self.kept(shape))

    def kept(self, shape: Shape) -> list[int]:
        """The dims that stay. Asks only the named dims for extents."""
        rank = len(shape)
        asked = normalize_dims(self.dim, rank, "squeeze")
        return [d for d in range(rank) if d not in asked or shape[d] != 1]

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for a pattern: which of the named dims are of extent 1 is part of this."""
        (x,) = operands
        kept = self.kept(x.shape)
        return methodcaller("squeeze", tuple(d for d in range(x.rank) if d not in kept))

    def strides(self, shape: Shape, strides: Sequence[int]) -> Strides:
        return tuple(strides[d] for d in self.kept(tuple(shape))), 0

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        kept = self.kept(x.shape)
        gone = tuple(d for d in range(x.rank) if d not in kept)
        return g.with_axes("Squeeze", x, gone, g.out[0].shape) if gone else x

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(1, 3, 1)))
        yield Sample(rng.normal(size=(1, 3, 1)), -1)
        yield Sample(rng.normal(size=(1, 3, 1)), 1)
        yield Sample(rng.normal(size=(1, 3, 1)), (0, 2))
        yield Sample(rng.normal(size=(1, 0)))
        yield Sample(rng.normal(size=()), 0)
        yield Sample(rng.normal(size=(2, 3)))

    @staticmethod
    def grad_nodes(n: NodeBuilder, x: NodeOperand, dim: tuple[int, ...] | None) -> object:
        """By whether dims were named."""
        if dim is None:
            return None
        return n.Squeeze1(x) if len(dim) == 1 else n.Squeeze2(x)


def resolve_shape(op: str, shape: Shape, sizes: Shape) -> Shape:
    """The extents that `sizes`, with at most one -1, means for the elements of `shape`.

    Extents that must equal an extent of the operand are replaced by it: a symbolic extent then
    stays the operand's own. Raises ShapeError.
    """
    inferred = -1
    for i, size in enumerate(sizes):
        if size < 0:
            if not size == -1:
                raise ShapeError(
                    f"{op}: invalid shape dimension {size} at index {i} of shape {hints(sizes)}"
                )
            if inferred >= 0:
                raise ShapeError(
                    f"{op}: only one dimension can be inferred, and shape {hints(sizes)} "
                    "has more than one -1"
                )
            inferred = i
    total = numel(shape)
    known = numel(size for i, size in enumerate(sizes) if i != inferred)
    if inferred < 0:
        if not known == total:
            raise _misfit(op, shape, sizes, total)
        return _shared_extents(shape, sizes)
    if known == 0:
        raise ShapeError(
            f"{op}: cannot reshape a tensor of 0 elements into shape {hints(sizes)}: the -1 can be "
            "any value and is ambiguous; give all extents"
            if total == 0
            else str(_misfit(op, shape, sizes, total))
        )
    if not total % known == 0:
        raise _misfit(op, shape, sizes, total)
    return _with_inferred(shape, sizes, inferred, total // known)


def _misfit(op: str, shape: Shape, sizes: Shape, total: int | SymInt) -> ShapeError:
    return ShapeError(
        f"{op}: shape '{list(hints(sizes))}' is invalid for input of size {total}, of shape "
        f"{hints(shape)}"
    )


def _with_inferred(shape: Shape, sizes: Shape, inferred: int, extent: Size) -> Shape:
    """sizes with the -1 resolved; matched from the left before the -1 and from the right behind."""
    left, used = _match(shape, sizes[:inferred])
    back = shape[used:][::-1]
    right, used_back = _match(back, sizes[inferred + 1 :][::-1])
    middle = back[used_back:]
    matched = len(left) + len(right) == len(sizes) - 1
    if matched and len(middle) == 1:
        extent = middle[0]
    left = (*left, *sizes[len(left) : inferred])
    right = (*right, *sizes[inferred + 1 :][::-1][len(right) :])
    return (*left, extent, *right[::-1])


def _shared_extents(shape: Shape, sizes: Shape) -> Shape:
    """sizes, each replaced by the operand's extent that it equals by factor grouping."""
    matched, _ = _match(shape, sizes)
    return (*matched, *sizes[len(matched) :])


def _match(shape: Shape, sizes: Shape) -> tuple[Shape, int]:
    """The longest prefix of sizes that groups with a prefix of shape, in the operand's extents.

    Asks only whether products are equal, never which is larger: the grouping is all that the
    pattern of the call then holds. Returns (extents, number of dims of shape that they cover).
    """
    if all(type(n) is int for n in shape) and all(type(n) is int for n in sizes):
        return sizes, len(shape)
    extents: list[Any] = []
    i = j = 0
    while i < len(shape) and j < len(sizes):
        group = _next_group(shape, sizes, i, j)
        if group is None:
            break
        extents += _group_extents(shape[i : group[0]], sizes[j : group[1]])
        i, j = group
    return tuple(extents), i


def _next_group(shape: Shape, sizes: Shape, i: int, j: int) -> tuple[int, int] | None:
    right: Any = 1
    for b in range(j, len(sizes)):
        right = right * sizes[b]
        left: Any = 1
        for a in range(i, len(shape)):
            left = left * shape[a]
            if left == right:
                return a + 1, b + 1
    return None


def _group_extents(ins: Shape, outs: Shape) -> Shape:
    """The extents of a group, whose products are equal."""
    if len(outs) == 1:
        return (numel(ins),)
    large = [k for k, n in enumerate(outs) if n != 1]
    if len(large) != 1:
        return outs
    return tuple(numel(ins) if k == large[0] else 1 for k in range(len(outs)))


def view_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides under which `target` shows the same memory, or None: then only a copy will do.

    Dims that lie densely in a row form a run; each run has to be split by the target's dims
    separately.
    """
    if 0 in shape:
        return strides if tuple(shape) == tuple(target) else contiguous_strides(target)
    if not shape:
        return (1,) * len(target)
    result = [0] * len(target)
    dim = len(target) - 1
    for count, base in _dense_runs(shape, strides):
        filled = 1
        # Extents of 1 belong to the run that they follow, as in PyTorch.
        while dim >= 0 and (filled < count or target[dim] == 1):
            result[dim] = filled * base
            filled *= target[dim]
            dim -= 1
        if filled != count:
            return None
    return tuple(result) if dim < 0 else None


def _dense_runs(shape: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(number of elements, stride of the innermost) of each run of dense dims, innermost first."""
    count, base = 1, strides[-1]
    for d in range(len(shape) - 1, -1, -1):
        count *= shape[d]
        if d == 0 or (shape[d - 1] != 1 and strides[d - 1] != count * base):
            yield count, base
            count, base = 1, strides[d - 1]
