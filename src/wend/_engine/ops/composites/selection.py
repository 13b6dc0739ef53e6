"""Selecting and writing elements, composed of the indexing primitives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import COMPLEX, DType, bool_, int64
from wend._engine.base.errors import ArgumentError, DTypeError, ShapeError, ValueRefused
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Dim, Operand, Scalar, Size, Tensor
from wend._engine.core.op_facts import ANY_DTYPE
from wend._engine.core.primitive import Sample, composite, ops, overload
from wend._engine.core.symbolic import broadcast_shapes, category_of, hints, numel
from wend._engine.ops.elementwise.family import is_number
from wend._engine.ops.indexing.gather import ScatterSrc, ScatterValue
from wend._engine.ops.indexing.index_dim import IndexAdd
from wend._engine.ops.views.scatters import DiagonalScatter, SelectScatter, SliceScatter


def as_dtype(op: str, value: Any, dtype: DType) -> Tensor:
    """A number or 0-d tensor as a 0-d tensor of that dtype.

    Raises DTypeError for a complex number in a real dtype, ShapeError for a tensor with dims.
    """
    if is_number(value):
        if category_of(value) == COMPLEX and not dtype.is_complex:
            raise DTypeError(f"{op}: a complex value cannot be converted to {dtype}")
        return ops.full((), value, dtype=dtype)
    if len(value.shape):
        raise ShapeError(
            f"{op}: only supports a 0-dimensional value tensor, but got one of shape "
            f"{hints(value.shape)}"
        )
    return ops.cast(value, dtype)


# --- masks ----------------------------------------------------------------------


def _check_mask(op: str, mask: Tensor) -> None:
    if mask.dtype is not bool_:
        raise DTypeError(f"{op}: only supports boolean masks, but got mask of dtype {mask.dtype}")


def _masked_fill_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 4))
    yield Sample(x, x > 0, 2)
    yield Sample(x, x[0] > 0, -1.5)
    yield Sample(x, x[:, :1] > 0, np.array(3.0))
    yield Sample(rng.normal(size=()), np.array(True), 1)
    yield Sample(rng.normal(size=(0, 3)), np.array([True, False, True]), 1)
    yield Sample(rng.normal(size=(1, 4)), x > 0, 2)


@composite(
    functions=("masked_fill",),
    methods=("masked_fill",),
    inplace=True,
    samples=_masked_fill_samples,
    supports=ANY_DTYPE,
    grad_nodes=lambda n, x, _, value: (
        n.MaskedFill(x) if is_number(value) else n.MaskedFill1(x, value)
    ),
    format_of="none",
)
def masked_fill(input: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """y = value where mask is True, else input; mask and input broadcast together.

    mask: bool   value: a number or a 0-d tensor, cast to the input's dtype
    Raises DTypeError, ShapeError.
    """
    _check_mask("masked_fill", mask)
    return ops.where(mask, as_dtype("masked_fill", value, input.dtype), input)


def _masked_scatter_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 4))
    yield Sample(x, x > 0, rng.normal(size=(13,)))
    yield Sample(x, x[0] > 0, rng.normal(size=(4, 4)))
    yield Sample(x, np.zeros((3, 4), bool), rng.normal(size=(0,)))
    yield Sample(rng.normal(size=()), np.array(True), rng.normal(size=(1,)))


@composite(
    functions=("masked_scatter",),
    methods=("masked_scatter",),
    inplace=True,
    samples=_masked_scatter_samples,
    supports=ANY_DTYPE,
    fallible=True,
)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """y = input, with elements where mask is True replaced by those of source, in order.

    mask: bool, broadcasts with input   source: at least as many elements as mask has True
    Raises DTypeError, IndexOutOfRange if source is too short.
    """
    _check_mask("masked_scatter", mask)
    if source.dtype is not input.dtype:
        raise DTypeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{input.dtype} and {source.dtype}"
        )
    shape = broadcast_shapes("masked_scatter", tuple(input.shape), tuple(mask.shape))
    input, mask = ops.expand(input, shape), ops.expand(mask, shape)
    flat = ops.ravel(source)
    if flat.shape[0] == 0:
        # Nothing to take from: an element stands for the missing ones. All of mask is False.
        flat = ops.full((1,), 0, dtype=input.dtype)
    place = ops.cumsum(ops.cast(ops.ravel(mask), int64), 0) - 1
    taken = ops.index_select(flat, 0, ops.maximum(place, 0))
    return ops.where(mask, ops.reshape(taken, shape), input)


def _index_true_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 4, 2))
    yield Sample(x, np.array([0, 5, 11]), dim=0, depth=2)
    yield Sample(x, np.array([7]), dim=1, depth=2)
    yield Sample(x, np.zeros((0,), np.int64), dim=0, depth=3)


@composite(
    samples=_index_true_samples,
    supports=ANY_DTYPE,
    fallible=True,
    grad_nodes=lambda n, x, *_: n.Index(x),
)
def index_true(input: Tensor, places: Tensor, *, dim: int, depth: int) -> Tensor:
    """The slices of input at the positions where a mask is True.

    places: (count,) of int64, positions among the places of dims dim, ..., dim + depth - 1, which
        the mask covers, in row-major order
    """
    shape, behind = tuple(input.shape), dim + depth
    if depth > 1:
        width = numel(shape[dim:behind])
        input = ops.reshape(input, (*shape[:dim], width, *shape[behind:]))
    return ops.index(input, [places], (dim,))


def _put_true_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3))
    mask, ranks = np.array([[True, False, True], [False, True, False]]), [[0, 0, 1], [1, 2, 2]]
    yield Sample(x, mask, np.array(ranks), rng.normal(size=(3,)), 3, dim=0)
    yield Sample(x, mask[0], np.array([0, 0, 1]), rng.normal(size=(2, 2)), 2, dim=1)
    yield Sample(x, mask[0, :2], np.array([0, 0]), rng.normal(size=(3,)), 1, dim=0)


@composite(
    samples=_put_true_samples,
    supports=ANY_DTYPE,
    fallible=True,
    grad_nodes=lambda n, x, mask, ranks, values, *_: n.IndexPut(x, values),
)
def put_true(
    input: Tensor, mask: Tensor, ranks: Tensor, values: Tensor, count: Size, *, dim: int
) -> Tensor:
    """The input, with slices of values, in order, where a mask over dims dim, ... is True.

    ranks: of the mask's shape, int64: the number of the slice for each place where mask is True
    values: broadcasts to the shape of all these slices   count: how many there are, at least 1
    """
    shape, depth = tuple(input.shape), len(mask.shape)
    behind = shape[dim + depth :]
    values = ops.expand(values, (*shape[:dim], count, *behind))
    flags = ops.reshape(mask, (*mask.shape, *(1,) * len(behind)))
    return ops.where(flags, ops.index(values, [ranks], (dim,)), input)


# --- along a dim ----------------------------------------------------------------


def _index_fill_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(4, 3))
    yield Sample(x, 0, np.array([0, -1, 0]), 2)
    yield Sample(x, -1, np.array([1]), np.array(1.5))
    yield Sample(x, 1, np.zeros((0,), np.int64), 2)
    yield Sample(rng.normal(size=()), 0, np.array([0]), 2)


@composite(
    functions=("index_fill",),
    methods=("index_fill",),
    inplace=True,
    samples=_index_fill_samples,
    supports=ANY_DTYPE,
    fallible=True,
)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """y = input, with y[..., index[k], ...] = value along dim `dim`.

    index: 1-d or 0-d; negative indices count from the end. Raises IndexOutOfRange.
    """
    value = as_dtype("index_fill", value, input.dtype)
    dim = normalize_dim(dim, len(input.shape), "index_fill")
    if not len(input.shape):
        return ops.reshape(ops.index_fill(ops.unsqueeze(input, 0), 0, index, value), ())
    n, rank = input.shape[dim], len(input.shape)
    # By a mask, so that an index that is named twice passes a gradient once.
    hit = ops.index_put(ops.full((n,), False), [index], ops.full((), True))
    hit = ops.reshape_to(hit, tuple(n if d == dim else 1 for d in range(rank)))
    return ops.where(hit, value, input)


def _index_add_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(4, 3)), 0, np.array([2, 0, 2]), rng.normal(size=(3, 3)), alpha=2)


@composite(
    grad_name="IndexAddBackward0",
    samples=_index_add_samples,
    fallible=True,
)
def index_add_scaled(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar
) -> Tensor:
    """y = input, with y[..., index[k], ...] += alpha * source[..., k, ...] along dim `dim`."""
    return ops.index_add(input, dim, index, ops.cast(source * alpha, source.dtype))


overload(
    "index_add",
    IndexAdd,
    index_add_scaled,
    functions=("index_add",),
    methods=("index_add",),
    inplace=True,
)


def _index_reduce_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x, source = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    for reduce in ("prod", "mean", "amax", "amin"):
        yield Sample(x, 0, np.array([2, 0, 2]), source, reduce)
        yield Sample(
            x, -1, np.array([2, 0, 2]), rng.normal(size=(4, 3)), reduce, include_self=False
        )


@composite(
    functions=("index_reduce",),
    methods=("index_reduce",),
    inplace=True,
    samples=_index_reduce_samples,
    fallible=True,
)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """y = input, with y[..., index[k], ...] reduced with all source[..., k, ...] that go there.

    reduce: prod, mean, amax or amin. Raises as scatter_reduce.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ArgumentError(
            f"index_reduce: reduce must be one of prod, mean, amax, amin, not {reduce!r}"
        )
    rank = len(source.shape)
    if rank:
        place = normalize_dim(dim, rank, "index_reduce")
        index = ops.reshape(index, tuple(-1 if d == place else 1 for d in range(rank)))
        index = ops.expand(index, source.shape)
    else:
        index = ops.reshape(index, ())
    return ops.scatter_reduce(input, dim, index, source, reduce, include_self=include_self)


def _scatter_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x, index = rng.normal(size=(4, 3)), np.array([[1, 0, 2], [1, 1, 3]])
    yield Sample(x, 0, index, rng.normal(size=(2, 3)), reduce="add")
    yield Sample(x, 0, index, rng.normal(size=(2, 3)), reduce="multiply")
    yield Sample(x, 0, index, 2.5, reduce="multiply")


@composite(
    name="scatter_with",
    spellings={"value": "src"},
    grad_name="ScatterBackward2",
    samples=_scatter_samples,
    fallible=True,
)
def scatter_with(input: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str) -> Tensor:
    """y = input, with y[index[i, j], j] combined with src[i, j] by "add" or "multiply"."""
    kinds = {"add": "sum", "multiply": "prod"}
    if reduce not in kinds:
        raise ValueRefused(f"scatter: reduce argument must be add or multiply, not {reduce!r}")
    if is_number(src):
        src = ops.full(index.shape, src, dtype=input.dtype)
    return ops.scatter_reduce(input, dim, index, src, kinds[reduce])


overload(
    "scatter",
    ScatterSrc,
    ScatterValue,
    scatter_with,
    functions=("scatter",),
    methods=("scatter",),
    inplace=True,
)


# --- take and put ---------------------------------------------------------------


def _take_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(3, 4)), np.array([[0, -1], [5, 5]]))
    yield Sample(rng.normal(size=()), np.array([0]))
    yield Sample(rng.normal(size=(2, 2)), np.zeros((0, 2), np.int64))


@composite(
    functions=("take",),
    methods=("take",),
    samples=_take_samples,
    supports=ANY_DTYPE,
    fallible=True,
)
def take(input: Tensor, index: Tensor) -> Tensor:
    """y[...] = input.ravel()[index[...]]: elements by place in row-major order.

    Negative places count from the end. Raises IndexOutOfRange.
    """
    if index.dtype is not int64:
        raise DTypeError(f"take: expected a long tensor for index, but got {index.dtype}")
    return ops.index(ops.ravel(input), [index], (0,))


def _put_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 4))
    yield Sample(x, np.array([[0, -1], [5, 6]]), rng.normal(size=(2, 2)))
    yield Sample(x, np.array([0, -1, 0]), rng.normal(size=(3,)), True)
    yield Sample(x, np.zeros((0,), np.int64), rng.normal(size=(0,)))


@composite(
    name="put",
    functions=("put",),
    methods=("put",),
    inplace=True,
    samples=_put_samples,
    supports=ANY_DTYPE,
    fallible=True,
)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """y = input, with y.ravel()[index[k]] = source[k], or += with `accumulate`.

    index and source: as many elements each. Raises IndexOutOfRange, ShapeError, DTypeError.
    """
    if index.dtype is not int64:
        raise DTypeError(f"put: expected a long tensor for index, but got {index.dtype}")
    if numel(index.shape) != numel(source.shape):
        raise ShapeError(
            "put: expected source and index to have the same number of elements, but got shapes "
            f"{hints(source.shape)} and {hints(index.shape)}"
        )
    flat = ops.index_put(ops.ravel(input), [ops.ravel(index)], ops.ravel(source), accumulate)
    return ops.reshape(flat, input.shape)


def _take_along_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 4))
    yield Sample(x, np.array([[0], [1], [3]]), 1)
    yield Sample(x, np.array([[0, 1, 2, 0]]), 0)
    yield Sample(x[:1], np.array([[0, 1], [2, 3]]), 1)
    yield Sample(x, np.array([11, 0]))


@composite(
    functions=("take_along_dim",),
    methods=("take_along_dim",),
    samples=_take_along_samples,
    supports=ANY_DTYPE,
    fallible=True,
    grad_name="GatherBackward0",
    grad_nodes=lambda n, x, index, dim: n.Gather(x if dim is not None else n.View(x)),
)
def take_along_dim(input: Tensor, indices: Tensor, dim: Dim | None = None) -> Tensor:
    """y[i, j] = input[indices[i, j], j] for dim 0, and so on; all dims but `dim` broadcast.

    Negative indices count from the end. Without `dim`, of input as a single row of elements.
    Raises IndexOutOfRange, ShapeError.
    """
    if indices.dtype is not int64:
        raise DTypeError(f"take_along_dim: dtype of indices should be Long but got {indices.dtype}")
    if dim is None:
        return ops.gather(ops.ravel(input), 0, ops.ravel(indices))
    rank = len(input.shape)
    if len(indices.shape) != rank:
        raise ShapeError(
            "take_along_dim: input and indices should have the same number of dimensions, but got "
            f"{rank} dimensions for input, and {len(indices.shape)} for indices"
        )
    dim = normalize_dim(dim, rank, "take_along_dim")
    others = [tuple(1 if d == dim else n for d, n in enumerate(t.shape)) for t in (input, indices)]
    common = broadcast_shapes("take_along_dim", *others)
    full = [
        ops.expand(t, tuple(t.shape[dim] if d == dim else n for d, n in enumerate(common)))
        for t in (input, indices)
    ]
    n = input.shape[dim]
    place = ops.where(ops.lt(full[1], 0), full[1] + n, full[1])
    return ops.gather(full[0], dim, place)


# --- the input with a part replaced: writes through views are made of these primitives ----------


def _part_scatter(of: Any) -> None:
    def body(*params: Any) -> Any:
        return getattr(ops, of.name)(*params)

    body.__doc__, body.__module__ = of.__doc__, __name__
    composite(
        of.signature,
        name=f"{of.name}_of",
        functions=(of.name,),
        methods=(of.name,),
        grad_name=f"{of.__name__}Backward0",
        supports=ANY_DTYPE,
        samples=lambda rng: of.samples(None, rng),
    )(body)


for _scatter in (SliceScatter, SelectScatter, DiagonalScatter):
    _part_scatter(_scatter)
