"""Reductions over the elements where a mask is True; over all elements without a mask."""

from __future__ import annotations

import builtins
import math
from typing import Any

from wend._engine.base.dtypes import FLOAT
from wend._frontend.toolkit import Tensor, get_default_dtype, int64, ops
from wend.masked.filling import (
    dims_of,
    filled,
    highest,
    lowest,
    mask_like,
    mean_type,
    summed_type,
)

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "prod",
    "std",
    "sum",
    "var",
]


def sum(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum over the dims; 0 where nothing is left."""
    x = filled("sum", input, mask, 0)
    return _over(ops.sum, x.to(summed_type(input, dtype)), dims_of("sum", input, dim), keepdim)


def prod(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product over the dims; 1 where nothing is left."""
    x = filled("prod", input.to(summed_type(input, dtype)), mask, 1)
    for axis in reversed(dims_of("prod", input, dim)):
        x = ops.prod(x, axis, keepdim)
    return x


def amax(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The greatest element over the dims; the least number of the type where nothing is left."""
    x = input.to(dtype or input.dtype)
    return _over(
        ops.amax, filled("amax", x, mask, lowest(x.dtype)), dims_of("amax", x, dim), keepdim
    )


def amin(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The least element over the dims; the greatest number of the type where nothing is left."""
    x = input.to(dtype or input.dtype)
    return _over(
        ops.amin, filled("amin", x, mask, highest(x.dtype)), dims_of("amin", x, dim), keepdim
    )


def _over(reduce: Any, x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    return reduce(x, axes, keepdim) if axes else x


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The first place of the greatest element, as a number of the input's type."""
    x = input.to(dtype or input.dtype)
    found = ops.argmax(filled("argmax", x, mask, lowest(x.dtype)), dim, keepdim)
    return found.to(x.dtype)  # type: ignore[no-any-return]


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The first place of the least element, as a number of the input's type."""
    x = input.to(dtype or input.dtype)
    found = ops.argmin(filled("argmin", x, mask, highest(x.dtype)), dim, keepdim)
    return found.to(x.dtype)  # type: ignore[no-any-return]


def logsumexp(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """log(sum of exp(x)) over the dims, in the input's type; -inf where nothing is left."""
    x = input.to(dtype or input.dtype)
    whole = filled("logsumexp", x, mask, lowest(x.dtype))
    return ops.logsumexp(whole, dims_of("logsumexp", x, dim), keepdim).to(x.dtype)  # type: ignore[no-any-return]


def mean(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean over the dims; NaN where nothing is left. Raises ValueError for ints."""
    out = dtype or input.dtype
    if out.category < FLOAT:
        raise ValueError(
            "masked.mean: could not infer output dtype. Input dtype must be either a floating "
            f"point or complex dtype. Got: {out}"
        )
    x = input.to(out)
    total = sum(x, dim, keepdim=keepdim, mask=mask)
    return total / _count(x, dim, keepdim, mask)


def _count(x: Tensor, dim: Any, keepdim: bool, mask: Tensor | None) -> Any:
    """How many elements are left: a tensor, or a number without a mask."""
    axes = dims_of("mean", x, dim)
    if mask is None:
        return math.prod(x.shape[axis] for axis in axes)
    return _over(ops.sum, mask_like("mean", x, mask).to(int64), axes, keepdim)


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The lower median along a dim; NaN where nothing is left, ValueError of ints there."""
    x = input.to(dtype or input.dtype)
    if x.dtype.category >= FLOAT:
        return ops.nanmedian(filled("median", x, mask, math.nan), dim, keepdim)[0]  # type: ignore[no-any-return]
    if mask is not None and not bool(mask_like("median", x, mask).any(dim).all()):
        raise ValueError(
            "masked.median: expects no fully masked out rows if dtype is not floating point"
        )
    wide = filled("median", x.to(get_default_dtype()), mask, math.nan)
    return ops.nanmedian(wide, dim, keepdim)[0].to(x.dtype)  # type: ignore[no-any-return]


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The norm of the vectors over the dims, of the elements that are left."""
    x = input.to(dtype or input.dtype)
    whole = filled("norm", x, mask, math.inf if ord == -math.inf else 0)
    return ops.vector_norm(whole, ord, dims_of("norm", x, dim), keepdim)  # type: ignore[no-any-return]


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance over the dims, of the elements that are left; see `std`."""
    if unbiased is not None and correction is not None:
        raise ValueError("masked.var: only one of correction and unbiased may be given")
    less = correction if correction is not None else int(unbiased is None or unbiased)
    x = input.to(mean_type(input, dtype))
    count = _count(x, dim, True, mask)
    away = x - sum(x, dim, keepdim=True, mask=mask) / count
    squares = away * away.conj() if x.dtype.is_complex else away * away
    total = sum(squares, dim, keepdim=keepdim, mask=mask)
    left = _count(x, dim, keepdim, mask)
    if isinstance(left, int):
        return total / builtins.max(left - less, 0)
    return (total / (left - less).clamp(min=0)).to(x.dtype)


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation over the dims, of the elements that are left.

    correction: the count is lessened by that; 1 by default, 0 for unbiased=False
    """
    found = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )
    return ops.sqrt(found)  # type: ignore[no-any-return]
