"""Order statistics and look-ups, composed of sort and search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Attr, Operand, Size, Tensor
from wend._engine.core.primitive import Sample, composite, ops, overload
from wend._engine.core.symbolic import hints
from wend._engine.ops.numeric import require
from wend._engine.ops.order import MedianAll, NanmedianAll, check_not_empty

NUMERIC = frozenset({"int", "float"})


def _sorting_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.permuted(np.arange(12.0)).reshape(3, 4)
    yield Sample(x)
    yield Sample(x, 0, True)
    yield Sample(np.array(1.0), 0)


@composite(
    functions=("argsort",),
    methods=("argsort",),
    samples=_sorting_samples,
)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: Attr = None) -> Tensor:
    """y = the indices that put the elements in order along `dim`; ties keep their order."""
    return ops.sort(ops.detach(input), dim, descending)[1]


def _msort_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.permuted(np.arange(12.0)).reshape(3, 4))


@composite(
    functions=("msort",),
    methods=("msort",),
    samples=_msort_samples,
    grad_name="SortBackward0",
)
def msort(input: Tensor) -> Tensor:
    """y = the elements in order along dim 0."""
    return ops.sort(input, 0)[0]


def _picked(input: Tensor, dim: int, index: Tensor, keepdim: bool) -> tuple[Tensor, Tensor]:
    """(values, indices) at `index`, of extent 1 along dim."""
    value = ops.gather(input, dim, index)
    if keepdim:
        return value, index
    return ops.squeeze(value, dim), ops.squeeze(index, dim)


def _kthvalue_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.permuted(np.arange(12.0)).reshape(3, 4)
    yield Sample(x, 2)
    yield Sample(x, 3, 0, True)
    yield Sample(np.array(1.0), 1)


@composite(
    functions=("kthvalue",),
    methods=("kthvalue",),
    result=("values", "indices"),
    supports=NUMERIC,
    samples=_kthvalue_samples,
)
def kthvalue(input: Tensor, k: Size, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """(values, indices): the k-th least element along `dim`, k from 1; NaN is the greatest.

    Raises ShapeError unless 1 <= k <= the extent, DimError if that dim is empty.
    """
    require("kthvalue", NUMERIC, input.dtype)
    shape = tuple(input.shape)
    dim = normalize_dim(dim, len(shape), "kthvalue")
    check_not_empty("kthvalue", shape, dim)
    n = shape[dim] if shape else 1
    if k < 1 or k > n:
        raise ShapeError(
            f"kthvalue: selected number k out of range for dimension {dim}: k is {k}, size {n}"
        )
    if not shape:
        return ops.alias(input), ops.full((), 0, dtype=int64)
    order = ops.argsort(input, dim)
    return _picked(input, dim, ops.slice(order, dim, k - 1, k), keepdim)


def _median_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.permuted(np.arange(12.0)).reshape(3, 4)
    yield Sample(x, 1)
    yield Sample(x, 0, True)
    yield Sample(np.array(1.0), 0)
    yield Sample(np.array([[3, 1, 2]]), -1)


def _median(op: str, input: Tensor, dim: int, keepdim: bool, skip_nan: bool) -> tuple[Tensor, ...]:
    require(op, NUMERIC, input.dtype)
    shape = tuple(input.shape)
    dim = normalize_dim(dim, len(shape), op)
    check_not_empty(op, shape, dim)
    if not shape:
        return ops.alias(input), ops.full((), 0, dtype=int64)
    n = shape[dim]
    values, order = ops.sort(ops.detach(input), dim)
    if not input.dtype.is_floating_point:
        middle = (n - 1) // 2
        return _picked(input, dim, ops.slice(order, dim, middle, middle + 1), keepdim)
    # NaN sorts last: the median is the first NaN, or the median of all else.
    missing = ops.sum(ops.cast(ops.isnan(values), int64), dim, True)
    if skip_nan:
        place = ops.maximum(ops.floor_divide(n - 1 - missing, 2), 0)
    else:
        place = ops.where(ops.gt(missing, 0), n - missing, (n - 1) // 2)
    return _picked(input, dim, ops.gather(order, dim, place), keepdim)


@composite(
    grad_name="MedianBackward1",
    result=("values", "indices"),
    supports=NUMERIC,
    samples=_median_samples,
)
def median_dim(input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, ...]:
    """(values, indices): the median along `dim`, the lower in the middle; NaN beside any NaN.

    Raises DimError for an empty dim.
    """
    return _median("median", input, dim, keepdim, skip_nan=False)


@composite(
    grad_name="NanmedianBackward1",
    result=("values", "indices"),
    supports=NUMERIC,
    samples=_median_samples,
)
def nanmedian_dim(input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, ...]:
    """(values, indices): the median along `dim` of the elements that are not NaN."""
    return _median("nanmedian", input, dim, keepdim, skip_nan=True)


overload("median", MedianAll, median_dim, functions=("median",), methods=("median",))
overload("nanmedian", NanmedianAll, nanmedian_dim, functions=("nanmedian",), methods=("nanmedian",))


def _bucketize_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(3, 4)), np.array([-1.0, 0.0, 0.5]))
    yield Sample(0.5, np.array([-1.0, 0.5]), right=True)


@composite(
    functions=("bucketize",),
    samples=_bucketize_samples,
)
def bucketize(
    input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """y = the number of boundaries below each element (right: not above the element).

    boundaries: (n,), in order. Raises ShapeError.
    """
    if len(boundaries.shape) != 1:
        raise ShapeError(
            f"bucketize: boundaries tensor must be 1 dimension, but got shape "
            f"{hints(boundaries.shape)}"
        )
    return ops.searchsorted(boundaries, input, out_int32=out_int32, right=right)
