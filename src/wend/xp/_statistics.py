"""Reductions, running sums and differences of the array API."""

from __future__ import annotations

from typing import Any

import wend
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ValueRefused
from wend.xp._operands import Array, axes, converted, summed_type

__all__ = [
    "all",
    "any",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def _by_axis(op: Any, x: Array, axis: Any, keepdims: bool) -> Array:
    """A fold over several axes in turn, the last first."""
    places = sorted((a % x.ndim for a in axes(axis, x.ndim)), reverse=True)
    for place in places:
        x = op(x, place, keepdims)
    return x


def all(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether all elements over the axes are not 0."""
    return _by_axis(wend.all, x != 0, axis, keepdims)


def any(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether any element over the axes is not 0."""
    return _by_axis(wend.any, x != 0, axis, keepdims)


def max(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The largest element over the axes."""
    places = axes(axis, x.ndim)
    return wend.amax(x, places, keepdims) if places else x.clone()


def min(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The smallest element over the axes."""
    places = axes(axis, x.ndim)
    return wend.amin(x, places, keepdims) if places else x.clone()


def mean(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The mean over the axes."""
    places = axes(axis, x.ndim)
    return wend.mean(x, places, keepdims) if places else x.clone()


def sum(
    x: Array, /, *, axis: Any = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """The sum over the axes; ints are summed in int64, or uint64."""
    kind, places = summed_type(x, dtype), axes(axis, x.ndim)
    x = converted(x, kind)
    return wend.sum(x, places, keepdims, dtype=kind) if places else x.clone()


def prod(
    x: Array, /, *, axis: Any = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """The product over the axes; ints are multiplied in int64, or uint64."""
    kind = summed_type(x, dtype)

    def along(x: Array, place: int, keepdims: bool) -> Array:
        return wend.prod(x, place, keepdims, dtype=kind)

    product = _by_axis(along, converted(x, kind), axis, keepdims)
    return product.clone() if product is x else product


def var(x: Array, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The mean square deviation, by the number of elements less `correction`."""
    places = axes(axis, x.ndim)
    if not places:
        return x - x
    return wend.var(x, places, correction=correction, keepdim=keepdims)


def std(x: Array, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The square root of the variance."""
    places = axes(axis, x.ndim)
    if not places:
        return x - x
    return wend.std(x, places, correction=correction, keepdim=keepdims)


def _running(op: Any, x: Array, axis: int | None, kind: DType, first: int | None) -> Array:
    if axis is None:
        if x.ndim > 1:
            raise ValueRefused("cumulative_sum, cumulative_prod: axis is needed beyond one dim")
        axis = 0
    if not x.ndim:
        x = x.reshape(1)
    totals = op(x, axis, dtype=kind)
    if first is not None:
        shape = list(totals.shape)
        shape[axis] = 1
        totals = wend.cat([wend.full(tuple(shape), first, dtype=kind), totals], axis)
    return totals


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Running sums along an axis, from 0 on with `include_initial`."""
    kind = summed_type(x, dtype)
    first = 0 if include_initial else None
    return _running(wend.cumsum, converted(x, kind), axis, kind, first)


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Running products along an axis, from 1 on with `include_initial`."""
    kind = summed_type(x, dtype)
    first = 1 if include_initial else None
    return _running(wend.cumprod, converted(x, kind), axis, kind, first)


def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """Differences of neighbours along an axis, n times over."""
    return wend.diff(x, n, axis, prepend, append)
