"""Public functions over views: parts of a tensor, and tensors brought to equal shape or rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, int64
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimError,
    NotImplementedInWend,
    ShapeError,
)
from wend._engine.base.shapes import Size, normalize_dim
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot, _indexing
from wend._engine.core.kinds import Sizes, Tensor
from wend._engine.core.op_facts import TorchCall
from wend._engine.core.primitive import Composite, Sample, ops
from wend._engine.core.symbolic import SymInt, broadcast_shapes, hints
from wend._engine.ops.composites.shape import with_rank
from wend._engine.ops.sugar import overridable, same_tensors, spelled, sugar
from wend._engine.ops.views.family import Shape

Parts = tuple[Any, ...]
_CUTS: dict[str, Any] = {"sections": "indices_or_sections", "indices": "indices_or_sections"}


class EvenParts(Composite):
    """Views of `count` equal parts of x along `dim`. Raises ShapeError for a remainder."""

    signature = "input, count: int, dim: int"
    torch = TorchCall(grad_name="SplitBackward0")
    result = tuple
    vjp = None  # from the body
    count: int
    dim: int

    def __init__(self, attrs: dict[str, Any], form: tuple[Any, ...]) -> None:
        super().__init__(attrs, form)
        self.piece = ops.narrow.primitive.of(("T", "I", "I"), dim=self.dim)
        self.piece_dim = self.dim

    @staticmethod
    def body(input: Tensor, count: int, dim: int) -> Parts:
        n = input.shape[dim]
        if n % count != 0:
            raise ShapeError(f"even_parts: dim {dim} has size {n}, no multiple of {count}")
        length = n // count
        return tuple(ops.narrow(input, dim, k * length, length) for k in range(count))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 6)), 3, 1)
        yield Sample(rng.normal(size=(4, 1)), 1, 1)
        yield Sample(rng.normal(size=(6, 2)), 2, 0)
        yield Sample(rng.normal(size=(2, 0)), 2, 1)


_indexing.set_part_primitives(
    [ops.select.primitive.named("UnbindBackward0", ("T", "I"), dim=d) for d in range(6)],
    *(
        [ops.narrow.primitive.named(name, ("T", "I", "I"), dim=d) for d in range(6)]
        for name in ("SplitBackward0", "SplitWithSizesBackward0")
    ),
)
_hot.set_slot("even_parts", lambda count, dim: EvenParts.of(("T",), count=count, dim=dim))


def _cut(name: str, input: Tensor, dim: int, lengths: Sequence[Any]) -> Parts:
    """Views of parts of these lengths, which PyTorch makes by a node of that name."""
    parts: list[Any] = []
    start = 0
    for length in lengths:
        if _in_rules(input):
            parts.append(ops.narrow(input, dim, start, length))
        else:
            prim = ops.narrow.primitive.named(name, ("T", "I", "I"), dim=dim)
            parts.append(_hot.record_list(prim, [input], [start, length]))
        start = start + length
    return tuple(parts)


def _number(size: Any) -> int:
    """A size or a count; that of a tensor of one element is read.

    Raises ArgumentTypeError for a number that is no int.
    """
    if isinstance(size, (int, SymInt)):
        return size  # type: ignore[return-value]
    try:
        return size.__index__()  # type: ignore[no-any-return]
    except (AttributeError, TypeError):
        raise ArgumentTypeError(
            f"a count of elements or parts must be int, not {type(size).__name__}"
        ) from None


def _in_rules(x: Tensor) -> bool:
    """Whether x stands for a tensor, or is of a class with rules of its own: no part by itself."""
    return type(x) is not _hot.Tensor or _hot.current_trace().symbolic is not None


def _explored_parts(x: Tensor, dim: int, keeps_dim: bool, size: Any = 1) -> Parts | None:
    """The parts along a dim whose extent is a symbol of a function that is being explored."""
    parts_along = getattr(_hot.current_trace().symbolic, "parts_along", None)
    return None if parts_along is None else parts_along(x, dim, keeps_dim, size)


@sugar(functions=("split",), methods=("split",))
@_indexing.PartsFunction
@overridable
@spelled(input="tensor", split_size="split_size_or_sections", split_sizes="split_size_or_sections")
def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> Parts:
    """Views of parts along `dim`: of equal size (the last may be smaller), or of the sizes given.

    Raises ShapeError for a size of 0 of a dim that is not empty, sizes of another sum.
    """
    if not len(tensor.shape):
        raise ShapeError("split: expects at least a 1-dimensional tensor")
    dim = normalize_dim(dim, len(tensor.shape), "split")
    if isinstance(split_size_or_sections, (list, tuple)):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    return _split("SplitBackward0", tensor, split_size_or_sections, dim)


def _split(name: str, tensor: Tensor, size: Any, dim: int) -> Parts:
    n, size = tensor.shape[dim], _number(size)
    if size is None or isinstance(size, (float, str, bool)):
        raise ArgumentTypeError(
            f"split: split_size must be int or a list of ints, not {type(size).__name__}"
        )
    if size < 0 or (size == 0 and n != 0):
        raise ShapeError(
            f"split: split_size can only be 0 if dimension size is 0, and not negative: it is "
            f"{size} and dim {dim} has size {n}"
        )
    parts = _explored_parts(tensor, dim, True, size)
    if parts is not None:
        return parts
    starts = range(0, n, size) if n != 0 else (0,)
    if _in_rules(tensor):
        return tuple(ops.slice(tensor, dim, a, a + size) for a in starts)
    return _cut(name, tensor, dim, [min(size, n - a) for a in starts])


@sugar(functions=("split_with_sizes",), methods=("split_with_sizes",))
@spelled(tensor="input", split_size_or_sections="split_sizes")
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Parts:
    """Views of parts of the given sizes along `dim`. Raises ShapeError for sizes of another sum."""
    dim = normalize_dim(dim, len(input.shape), "split_with_sizes")
    n, total = input.shape[dim], 0
    split_sizes = [_number(size) for size in split_sizes]
    for size in split_sizes:
        if size < 0:
            raise ShapeError(
                "split_with_sizes: expects split_sizes have only non-negative entries, but got "
                f"{hints(split_sizes)}"
            )
        total = total + size
    if total != n:
        raise ShapeError(
            f"split_with_sizes: expects split_sizes to sum exactly to {n} (input tensor's size at "
            f"dimension {dim}), but got split_sizes={hints(split_sizes)}"
        )
    return _cut("SplitWithSizesBackward0", input, dim, split_sizes)


@sugar(functions=("chunk",), methods=("chunk",))
@_indexing.PartsFunction
@overridable
def chunk(input: Tensor, chunks: int, dim: int = 0) -> Parts:
    """Views of at most `chunks` parts of equal size along `dim`; the last may be smaller."""
    if not len(input.shape):
        raise ShapeError("chunk: expects at least a 1-dimensional tensor")
    chunks = _number(chunks)
    if isinstance(chunks, bool):
        raise ArgumentTypeError("chunk: argument 'chunks' must be int, not bool")
    if chunks <= 0:
        raise ShapeError(f"chunk: expects `chunks` to be greater than 0, got: {chunks}")
    dim = normalize_dim(dim, len(input.shape), "chunk")
    n = input.shape[dim]
    parts = _explored_parts(input, dim, True, max((n + chunks - 1) // chunks, 1))
    if parts is not None:
        return parts
    if n % chunks == 0:
        size = n // chunks
        return _cut("SplitBackward0", input, dim, [size] * chunks)
    return ops.split(input, (n + chunks - 1) // chunks, dim)  # type: ignore[return-value]


@sugar(functions=("unsafe_chunk",), methods=("unsafe_chunk",))
@short_errors
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> Parts:
    """As `chunk`."""
    chunks = _number(chunks)
    if _in_rules(input) or not input.shape or chunks <= 0:
        return ops.chunk(input, chunks, dim)  # type: ignore[return-value]
    n = input.shape[normalize_dim(dim, len(input.shape), "chunk")]
    return unsafe_split(input, max((n + chunks - 1) // chunks, 1), dim)


@sugar(functions=("unsafe_split",), methods=("unsafe_split",))
@spelled(tensor="input", split_size_or_sections="split_size")
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> Parts:
    """As `split`."""
    if _in_rules(input) or not input.shape or isinstance(split_size, (list, tuple)):
        return ops.split(input, split_size, dim)  # type: ignore[return-value]
    dim = normalize_dim(dim, len(input.shape), "split")
    return _split("UnsafeSplitBackward0", input, split_size, dim)


@sugar(functions=("unsafe_split_with_sizes",), methods=("unsafe_split_with_sizes",))
@spelled(out=True, tensor="input", split_size_or_sections="split_sizes")
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Parts:
    """split_with_sizes whose parts may be written to without gradients noticing; here they do."""
    return split_with_sizes(input, split_sizes, dim)


@sugar(functions=("unbind",), methods=("unbind",))
@_indexing.PartsFunction
@overridable
def unbind(input: Tensor, dim: int = 0) -> Parts:
    """Views of all slices along `dim`, without that dim. Raises DimError for a 0-d tensor."""
    rank = len(input.shape)
    if rank == 0:
        raise DimError(f"unbind: dimension specified as {dim} but tensor has no dimensions")
    dim = normalize_dim(dim, rank, "unbind")
    parts = _explored_parts(input, dim, False)
    if parts is not None:
        return parts
    return tuple(ops.select(input, dim, k) for k in range(input.shape[dim]))


@sugar(functions=("tensor_split",), methods=("tensor_split",))
@spelled(tensor_indices_or_sections="indices_or_sections", **_CUTS)
def tensor_split(
    input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0
) -> Parts:
    """Views of parts along `dim`: so many of nearly equal size, or cut at the given places.

    Raises ShapeError for a 0-d tensor or less than 1 section.
    """
    if not len(input.shape):
        raise ShapeError("tensor_split: expected at least a one-dimensional tensor")
    dim = normalize_dim(dim, len(input.shape), "tensor_split")
    sections: Any = indices_or_sections
    if hasattr(sections, "tolist"):
        sections = sections.tolist()
    if isinstance(sections, (list, tuple)):
        cuts = list(sections)
        return tuple(
            ops.slice(input, dim, a, b) for a, b in zip([0, *cuts], [*cuts, None], strict=True)
        )
    if sections <= 0:
        raise ShapeError(f"tensor_split: number of sections must be larger than 0, got {sections}")
    n = input.shape[dim]
    size, longer = n // sections, n % sections
    parts, start = [], 0
    for k in range(sections):
        length = size + 1 if k < longer else size
        parts.append(ops.narrow(input, dim, start, length))
        start = start + length
    return tuple(parts)


def _split_at(
    op: str, input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int, rank: int
) -> Parts:
    have = len(input.shape)
    if have < rank:
        raise ShapeError(
            f"{op}: requires a tensor with at least {rank} dimension{'s' * (rank > 1)}, but got a "
            f"tensor with {have} dimensions"
        )
    if isinstance(indices_or_sections, int):
        sections, n = indices_or_sections, input.shape[dim]
        if sections <= 0 or n % sections != 0:
            raise ShapeError(
                f"{op}: attempted to split along dimension {dim}, but the size of the dimension "
                f"{n} is not divisible by the split_size {sections}"
            )
    return tensor_split(input, indices_or_sections, dim)


@sugar(functions=("hsplit",), methods=("hsplit",))
@spelled(**_CUTS)
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> Parts:
    """Views of parts along dim 1 (of a vector along dim 0)."""
    return _split_at("hsplit", input, indices_or_sections, 0 if len(input.shape) == 1 else 1, 1)


@sugar(functions=("vsplit",), methods=("vsplit",))
@spelled(**_CUTS)
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> Parts:
    """Views of parts along dim 0."""
    return _split_at("vsplit", input, indices_or_sections, 0, 2)


@sugar(functions=("dsplit",), methods=("dsplit",))
@spelled(**_CUTS)
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> Parts:
    """Views of parts along dim 2."""
    return _split_at("dsplit", input, indices_or_sections, 2, 3)


# --- to another tensor's shape, or to a common shape ----------------------------


@sugar(name="as_strided_in_base", functions=("as_strided",), methods=("as_strided",))
def as_strided(input: Tensor, size: Sizes, stride: Sizes, storage_offset: Any = None) -> Tensor:
    """A view of the memory that input lies in, with the given extents and steps between elements.

    storage_offset: the start; by default the start of input. Raises ShapeError beyond the memory.
    Raises NotImplementedInWend for memory not in row-major order, or for a view that leaves the
    part of the memory in which input is a leaf.
    """
    alias = input.alias
    base = input if alias is None or alias.base is None else alias.base
    if input.requires_grad and not base.requires_grad and base is not input:
        return _within_leaf(input, tuple(size), tuple(stride), storage_offset)
    if storage_offset is None and base is not input:
        storage_offset = input.storage_offset()
    if getattr(base, "layout", None) is not None and not base.is_contiguous():
        raise NotImplementedInWend(
            "as_strided: the memory of this tensor is not in row-major order; "
            "use as_strided on .contiguous()"
        )
    if base.dtype is not input.dtype:
        base = ops.reinterpret(ops.view(base, (-1,)), input.dtype)
    return ops.as_strided(base, size, stride, storage_offset)


def _within_leaf(leaf: Tensor, size: Sizes, stride: Sizes, storage_offset: Any) -> Tensor:
    """`as_strided` of a leaf in memory without gradients: the leaf gets the gradient."""
    start = 0 if storage_offset is None else storage_offset - leaf.storage_offset()
    end = start + sum((n - 1) * step for n, step in zip(size, stride)) + 1
    if not leaf.is_contiguous() or start < 0 or (0 not in size and end > leaf.numel()):
        raise NotImplementedInWend(
            "as_strided: this leaf is a part of other memory, and not dense there, or the view "
            "leaves it; use as_strided on what covers all of the view"
        )
    return ops.as_strided(leaf, size, stride, start)


@sugar(functions=("as_strided_scatter",), methods=("as_strided_scatter",))
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sizes, stride: Sizes, storage_offset: int | None = None
) -> Tensor:
    """input, with the elements that as_strided would view replaced by src.

    The gradient is that of this function; PyTorch's drops the elements that are not replaced.
    Raises ShapeError.
    """
    return ops.strided_scatter(input, src, size, stride, storage_offset)


@sugar(methods=("reshape_as",))
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """self in the shape of other."""
    return ops.reshape(self, other.shape)


@sugar(methods=("expand_as",))
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """self expanded to the shape of other."""
    return ops.expand(self, other.shape)


@sugar(methods=("sum_to_size",))
@short_errors
def sum_to_size(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """self summed over the dims that broadcasting the size to self's shape would repeat."""
    sizes = sizes if size is None else (size,)
    target = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    shape = tuple(self.shape)
    lead = len(shape) - len(target)
    if lead < 0 or any(n not in (1, m) for n, m in zip(target, shape[max(lead, 0) :], strict=True)):
        raise ShapeError(
            f"sum_to_size: size {hints(target)} is not expandable to size {hints(shape)}"
        )
    axes = [*range(lead)]
    axes += [lead + i for i, n in enumerate(target) if n == 1 and shape[lead + i] != 1]
    if not axes and shape:
        return self
    if self.dtype.category < FLOAT:
        self = ops.cast(self, int64)  # as every sum of integers
    if not axes:
        return self
    return ops.sum_to(self, target, tuple(axes))


@sugar(name="broadcast_sizes", functions=("broadcast_shapes",))
@short_errors
def broadcast_sizes(*shapes: Any) -> Size:
    """The shape that all of these (ints count as 1-d shapes) broadcast to. Raises ShapeError."""
    return Size(broadcast_shapes("broadcast_shapes", (), *map(_as_shape, shapes)))


def _as_shape(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(
            f"broadcast_shapes: trying to create a tensor with negative dimension: {sizes}"
        )
    return sizes


@sugar(functions=("broadcast_tensors",))
@overridable
def broadcast_tensors(*tensors: Tensor) -> Parts:
    """Views of the tensors, all expanded to the shape that the tensors broadcast to."""
    tensors = same_tensors(tensors)
    if not tensors:
        return ()
    shape = broadcast_shapes("broadcast_tensors", *(tuple(t.shape) for t in tensors))
    return tuple(ops.expand(t, shape) for t in tensors)


@sugar(functions=("meshgrid",))
@overridable
def meshgrid(*tensors: Any, indexing: str = "ij") -> Parts:
    """Views of vectors as grids: grid k varies along dim k only ("xy": dims 0 and 1 swapped).

    Raises ShapeError unless all are 0-d or 1-d, ArgumentError for another indexing.
    """
    tensors = same_tensors(tensors)
    if indexing not in ("ij", "xy"):
        raise MeshIndexingError(
            f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    for t in tensors:
        if len(t.shape) > 1:
            raise ShapeError(
                f"meshgrid: expected 0D or 1D tensor in the tensor list but got shape "
                f"{hints(t.shape)}"
            )
    vectors = [t if len(t.shape) else ops.unsqueeze(t, 0) for t in tensors]
    shape = tuple(t.shape[0] for t in vectors)
    grids = []
    for k, t in enumerate(vectors):
        view = ops.reshape(t, tuple(n if d == k else 1 for d, n in enumerate(shape)))
        grid = ops.expand(view, shape)
        grids.append(ops.transpose(grid, 0, 1) if indexing == "xy" and len(shape) > 1 else grid)
    return tuple(grids)


class MeshIndexingError(ArgumentError, RuntimeError):
    """An unknown indexing: a RuntimeError in PyTorch."""


def _at_least(tensors: Parts, rank: int) -> Any:
    if not tensors:
        return ()
    many = same_tensors(tensors)
    done = tuple(with_rank(t, rank) for t in many)
    return done if len(tensors) > 1 or isinstance(tensors[0], (list, tuple)) else done[0]


@sugar(functions=("atleast_1d",))
@overridable
def atleast_1d(*tensors: Any) -> Any:
    """The tensors, 0-d tensors as views of 1 dim."""
    return _at_least(tensors, 1)


@sugar(functions=("atleast_2d",))
@overridable
def atleast_2d(*tensors: Any) -> Any:
    """The tensors, smaller tensors as views of 2 dims, with dims of extent 1 in front."""
    return _at_least(tensors, 2)


@sugar(functions=("atleast_3d",))
@overridable
def atleast_3d(*tensors: Any) -> Any:
    """The tensors, smaller tensors as views of 3 dims: (n,) as (1, n, 1), (n, m) as (n, m, 1)."""
    return _at_least(tensors, 3)
