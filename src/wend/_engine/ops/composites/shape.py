"""Rearranging and joining tensors, composed of the view primitives, cat and pad."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Dim, Ints, Size, Sizes, Tensor
from wend._engine.core.op_facts import ANY_DTYPE
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints

# --- stacks ---------------------------------------------------------------------


def _stack_samples(rng: np.random.Generator) -> Iterator[Sample]:
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    yield Sample((a, b))
    yield Sample((a, b, a), -1)
    yield Sample((a,), 1)
    yield Sample((rng.normal(size=()), rng.normal(size=())))
    yield Sample((a[:0], b[:0]), 1)


def _stacked(self: Any, arrays: list[np.ndarray]) -> np.ndarray | None:
    try:
        return np.stack(arrays, axis=self.dim)
    except ValueError:  # no such dim
        return None


@composite(
    functions=("stack",),
    samples=_stack_samples,
    supports=ANY_DTYPE,
    joined=_stacked,
)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """y = the tensors, all of equal shape, along a new dim `dim`. Raises ShapeError."""
    if not tensors:
        raise ShapeError("stack: expects a non-empty list of tensors")
    first = tuple(tensors[0].shape)
    for k, t in enumerate(tensors):
        if len(t.shape) != len(first) or any(n != m for n, m in zip(first, t.shape, strict=True)):
            raise ShapeError(
                f"stack: expects each tensor to be equal size, but got {hints(first)} at entry 0 "
                f"and {hints(t.shape)} at entry {k}"
            )
    dim = normalize_dim(dim, len(first) + 1, "stack")
    return ops.cat([ops.unsqueeze(t, dim) for t in tensors], dim)


def _require_some(op: str, tensors: Sequence[Tensor]) -> None:
    if not tensors:
        raise ShapeError(f"{op}: expects a non-empty list of tensors")


def _rows_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((rng.normal(size=(2, 3)), rng.normal(size=(2, 3))))
    yield Sample((rng.normal(size=(3,)), rng.normal(size=(3,))))
    yield Sample((rng.normal(size=()), rng.normal(size=())))


@composite(
    functions=("hstack",),
    samples=_rows_samples,
    supports=ANY_DTYPE,
    grad_name="CatBackward0",
)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """y = the tensors side by side: along dim 1, vectors along the only dim."""
    _require_some("hstack", tensors)
    at_least = [with_rank(t, 1) for t in tensors]
    return ops.cat(at_least, 0 if len(at_least[0].shape) == 1 else 1)


@composite(
    functions=("vstack", "row_stack"),
    samples=_rows_samples,
    supports=ANY_DTYPE,
    grad_name="CatBackward0",
    grad_nodes=lambda n, tensors: n.Cat(*[x if x.rank > 1 else n.Unsqueeze(x) for x in tensors]),
)
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """y = the tensors stacked vertically: along dim 0, vectors as rows."""
    _require_some("vstack", tensors)
    return ops.cat([with_rank(t, 2) for t in tensors], 0)


@composite(
    functions=("dstack",),
    samples=_rows_samples,
    supports=ANY_DTYPE,
    grad_name="CatBackward0",
    grad_nodes=lambda n, tensors: n.Cat(
        *[x if x.rank > 2 else n.Unsqueeze(x if x.rank == 2 else n.Unsqueeze(x)) for x in tensors]
    ),
)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """y = the tensors stacked in depth: along dim 2."""
    _require_some("dstack", tensors)
    return ops.cat([with_rank(t, 3) for t in tensors], 2)


@composite(
    functions=("column_stack",),
    samples=_rows_samples,
    supports=ANY_DTYPE,
    grad_name="CatBackward0",
    grad_nodes=lambda n, tensors: n.Cat(*[x if x.rank > 1 else n.View(x) for x in tensors]),
)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """y = the tensors side by side: along dim 1, vectors and numbers as columns."""
    columns = [t if len(t.shape) > 1 else ops.reshape(t, (-1, 1)) for t in tensors]
    return ops.cat(columns, 1)


def with_rank(x: Tensor, rank: int) -> Tensor:
    """x as a view of at least `rank` dims (1 to 3), placed as atleast_1d to atleast_3d do."""
    have = len(x.shape)
    if have >= rank:
        return x
    if rank == 3 and have:
        return ops.unsqueeze(x if have == 2 else ops.unsqueeze(x, 0), -1)
    for _ in range(rank - have):
        x = ops.unsqueeze(x, 0)
    return x


# --- repeats --------------------------------------------------------------------


def _repeat_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3))
    yield Sample(x, (2, 1))
    yield Sample(x, (2, 3, 2))
    yield Sample(x, (0, 1))
    yield Sample(rng.normal(size=()), (2,))
    yield Sample(rng.normal(size=()), ())


@composite(methods=("repeat",), samples=_repeat_samples, supports=ANY_DTYPE)
def repeat(input: Tensor, repeats: Sizes) -> Tensor:
    """y = input, repeats[d] times over along dim d; there may be more repeats than dims.

    Raises ShapeError for fewer, or for a negative number.
    """
    return _repeated("repeat", input, tuple(repeats))


def _repeated(op: str, x: Tensor, repeats: tuple[Any, ...]) -> Tensor:
    shape = tuple(x.shape)
    lead = len(repeats) - len(shape)
    if lead < 0:
        raise ShapeError(
            f"{op}: number of dimensions of repeat dims can not be smaller than number of "
            f"dimensions of tensor: repeats {hints(repeats)}, shape {hints(shape)}"
        )
    if any(times < 0 for times in repeats):
        raise ShapeError(f"{op}: repeats must not be negative, and are {hints(repeats)}")
    shape = (1,) * lead + shape
    split: list[Any] = []
    wide: list[Any] = []
    for n, times in zip(shape, repeats, strict=True):
        split += [1, n]
        wide += [times, n]
    x = ops.expand(ops.reshape(x, tuple(split)), tuple(wide))
    return ops.reshape(x, tuple(n * times for n, times in zip(shape, repeats, strict=True)))


@composite(
    functions=("tile",),
    methods=("tile",),
    samples=_repeat_samples,
    supports=ANY_DTYPE,
    grad_name="RepeatBackward0",
)
def tile(input: Tensor, dims: Sizes) -> Tensor:
    """y = input, dims[d] times over along dim d; missing leading repeats are 1."""
    missing = max(len(input.shape) - len(dims), 0)
    return _repeated("tile", input, (1,) * missing + tuple(dims))


def _interleave_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3))
    yield Sample(x, 2, 1)
    yield Sample(x, 3, 0)
    yield Sample(x, 0, -1)
    yield Sample(x, 2)


@composite(
    name="repeat_each",
    grad_name="RepeatInterleaveBackward0",
    samples=_interleave_samples,
    supports=ANY_DTYPE,
)
def repeat_each(input: Tensor, repeats: Size, dim: Dim | None = None) -> Tensor:
    """y = input, each slice along `dim` `repeats` times in a row; by default of all elements."""
    if repeats < 0:
        raise ShapeError(f"repeat_interleave: repeats can not be negative, and is {repeats}")
    if dim is None:
        input, dim = ops.ravel(input), 0
    dim = normalize_dim(dim, len(input.shape), "repeat_interleave")
    shape = tuple(input.shape) or (1,)
    input = ops.reshape(input, (*shape[: dim + 1], 1, *shape[dim + 1 :]))
    wide = ops.expand(input, (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return ops.flatten(wide, dim, dim + 1)


# --- turns ----------------------------------------------------------------------


@composite(
    functions=("fliplr",),
    methods=("fliplr",),
    samples=lambda rng: iter([Sample(rng.normal(size=(2, 3))), Sample(rng.normal(size=(2, 0, 2)))]),
    supports=ANY_DTYPE,
    grad_name="FlipBackward0",
)
def fliplr(input: Tensor) -> Tensor:
    """y = input with columns in reverse order. Raises ShapeError below 2 dims."""
    if len(input.shape) < 2:
        raise ShapeError(f"fliplr: input must be >= 2-d, and has shape {hints(input.shape)}")
    return ops.flip(input, (1,))


@composite(
    functions=("flipud",),
    methods=("flipud",),
    samples=lambda rng: iter([Sample(rng.normal(size=(2, 3))), Sample(rng.normal(size=(3,)))]),
    supports=ANY_DTYPE,
    grad_name="FlipBackward0",
)
def flipud(input: Tensor) -> Tensor:
    """y = input with rows in reverse order. Raises ShapeError for a 0-d tensor."""
    if len(input.shape) < 1:
        raise ShapeError("flipud: input must be >= 1-d, and is 0-d")
    return ops.flip(input, (0,))


def _rot90_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for k in (-1, 0, 1, 2, 5):
        yield Sample(rng.normal(size=(2, 3)), k)
    yield Sample(rng.normal(size=(2, 3, 4)), 1, (2, 0))


@composite(
    functions=("rot90",),
    methods=("rot90",),
    samples=_rot90_samples,
    supports=ANY_DTYPE,
)
def rot90(input: Tensor, k: int = 1, dims: Ints = (0, 1)) -> Tensor:
    """y = input turned k times by 90 degrees, from dims[0] towards dims[1]. Raises ShapeError."""
    if len(dims) != 2:
        raise ShapeError(f"rot90: expected total rotation dims == 2, but got dims {dims}")
    rank = len(input.shape)
    if rank < 2:
        raise ShapeError(f"rot90: expected total dims >= 2, but got shape {hints(input.shape)}")
    a, b = (normalize_dim(d, rank, "rot90") for d in dims)
    if a == b:
        raise ShapeError(f"rot90: expected rotation dims to be different, but got {dims}")
    turns = k % 4
    if turns == 0:
        return ops.clone(input)
    if turns == 2:
        return ops.flip(input, (a, b))
    return ops.transpose(ops.flip(input, (b if turns == 1 else a,)), a, b)


# --- products -------------------------------------------------------------------


def _kron_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 3)), rng.normal(size=(3, 2)))
    yield Sample(rng.normal(size=(2,)), rng.normal(size=(3, 1, 2)))
    yield Sample(rng.normal(size=()), rng.normal(size=(2,)))
    yield Sample(rng.normal(size=(0, 2)), rng.normal(size=(2, 2)))


@composite(
    functions=("kron",),
    methods=("kron",),
    samples=_kron_samples,
    grad_nodes=lambda n, x, y: n.UnsafeView(n.Mul(n.UnsafeView(x), n.UnsafeView(y))),
)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """y[i * m + k, ...] = input[i, ...] * other[k, ...] in every dim, of extent n * m."""
    rank = max(len(input.shape), len(other.shape))
    a = (1,) * (rank - len(input.shape)) + tuple(input.shape)
    b = (1,) * (rank - len(other.shape)) + tuple(other.shape)
    left: list[Any] = []
    right: list[Any] = []
    for n, m in zip(a, b, strict=True):
        left += [n, 1]
        right += [1, m]
    product = ops.mul(ops.reshape(input, tuple(left)), ops.reshape(other, tuple(right)))
    return ops.reshape(product, tuple(n * m for n, m in zip(a, b, strict=True)))
