"""Quantiles: order statistics, and values between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, int64
from wend._engine.base.errors import DTypeError, ExecutionError, ShapeError, ValueRefused
from wend._engine.base.shapes import normalize_dim
from wend._engine.core._hot import Tensor, value_of
from wend._engine.core.kinds import Dim, Operand
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.sugar import spelled, sugar

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.permuted(np.arange(12.0)).reshape(3, 4)
    for method in METHODS:
        yield Sample(x, np.array([0.1, 0.3, 0.9]), 1, interpolation=method)
    yield Sample(x, np.array(0.5), None)
    yield Sample(x, np.array([0.25]), 0, True, skip_nan=True)
    yield Sample(np.array([1.0, np.nan, 3.0]), np.array(0.5), 0, skip_nan=True)
    yield Sample(np.array([1.0, np.nan, 3.0]), np.array(0.5), 0)


def _check_levels(op: str, q: np.ndarray[Any, Any]) -> None:
    """Raise ExecutionError unless all of q lies between 0 and 1; NaN does not."""
    if not np.all((q >= 0) & (q <= 1)):
        raise ExecutionError(f"{op}: q values must be in the range [0, 1]")


@composite(
    name="quantiles",
    grad_name="SqueezeBackward4",
    samples=_samples,
    supports=frozenset({"float"}),
    fallible=True,
)
def quantiles(
    input: Tensor,
    q: Tensor,
    dim: Dim | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    skip_nan: bool = False,
) -> Tensor:
    """The q-th quantiles along `dim` (of all elements without it), q's dim first.

    q: 0-d or 1-d, from 0 to 1   interpolation: the value between two elements
    A slice with a NaN gives NaN, unless skip_nan. Raises ValueRefused, ShapeError, DTypeError,
    ExecutionError (when the value is computed) if q is out of range.
    """
    op = "nanquantile" if skip_nan else "quantile"
    _check(op, input, q, interpolation)
    rank = len(input.shape)
    if dim is None:
        rows, kept = ops.reshape(input, (-1,)), (1,) * rank
    else:
        axis = normalize_dim(dim, rank, op)
        rows = ops.movedim(input, axis, -1) if rank else ops.unsqueeze(input, 0)
        kept = tuple(1 if d == axis else n for d, n in enumerate(input.shape))
    n = rows.shape[-1]
    if any(extent == 0 for extent in input.shape):
        raise ShapeError(
            f"{op}: input tensor must be non-empty, and is of size {hints(input.shape)}"
        )
    values = ops.sort(rows, -1)[0]  # NaN sorts last
    known = ops.sum(ops.cast(ops.logical_not(ops.isnan(values)), int64), -1, True)
    last = ops.clamp(known - 1, min=0) if skip_nan else ops.full_like(known, n - 1)
    levels = ops.within(q, fault=f"{op}: q values must be in the range [0, 1]")
    quantile = _between(values, _ranks(levels, last, values.dtype), interpolation)
    if not skip_nan:
        quantile = ops.where(known < n, float("nan"), quantile)
    single = len(q.shape) == 0
    if keepdim:
        count = () if single else (q.shape[0],)
        return ops.reshape(ops.movedim(quantile, -1, 0), (*count, *kept))
    return ops.squeeze(quantile, -1) if single else ops.movedim(quantile, -1, 0)


def _check(op: str, input: Tensor, q: Tensor, interpolation: str) -> None:
    if not input.dtype.is_floating_point or input.dtype.itemsize < 4:
        raise DTypeError(f"{op}: input tensor must be either float or double dtype")
    if q.dtype is not input.dtype:
        raise DTypeError(f"{op}: q tensor must be same dtype as the input tensor")
    if len(q.shape) > 1:
        raise ShapeError(f"{op}: q must be a scalar or 1D tensor, not {hints(q.shape)}")
    if interpolation not in METHODS:
        raise ValueRefused(
            f"{op}: interpolation must be one of {', '.join(METHODS)}, but got {interpolation!r}"
        )


def _ranks(q: Tensor, last: Tensor, dtype: DType) -> Tensor:
    """Where the quantiles lie in order, as fractional indices: (..., count of q)."""
    return ops.cast(last, dtype) * ops.reshape(q, (-1,))


def _between(values: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    """The elements at fractional indices along the last dim."""
    below, above = ops.floor(ranks), ops.ceil(ranks)
    if interpolation == "lower":
        above = below
    elif interpolation == "higher":
        below = above
    elif interpolation == "nearest":
        below = above = ops.round(ranks)
    low = ops.gather(values, -1, ops.cast(below, int64))
    if interpolation in ("lower", "higher", "nearest"):
        return low
    high = ops.gather(values, -1, ops.cast(above, int64))
    weight = 0.5 if interpolation == "midpoint" else ops.sub(ranks, below)
    return ops.lerp(low, high, weight)


def _quantile(op: str, input: Tensor, q: Operand, rest: Any, skip_nan: bool) -> Tensor:
    dim, keepdim, interpolation = rest
    if not hasattr(q, "shape"):
        if not 0 <= q <= 1:
            raise ExecutionError(f"{op}: q must be in the range [0, 1] but got {q}")
        q = ops.full((), q, dtype=input.dtype)
    elif isinstance(q, Tensor) and (known := value_of(q).buffer) is not None:
        _check_levels(op, known)
    return ops.quantiles(input, q, dim, keepdim, interpolation=interpolation, skip_nan=skip_nan)


@sugar(functions=("quantile",), methods=("quantile",))
@spelled(out=True)
def quantile(
    input: Tensor,
    q: Operand,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The q-th quantiles along `dim`, or of all elements; see `quantiles`."""
    return _quantile("quantile", input, q, (dim, keepdim, interpolation), False)


@sugar(functions=("nanquantile",), methods=("nanquantile",))
@spelled(out=True)
def nanquantile(
    input: Tensor,
    q: Operand,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The q-th quantiles of the elements that are not NaN; see `quantiles`."""
    return _quantile("nanquantile", input, q, (dim, keepdim, interpolation), True)
