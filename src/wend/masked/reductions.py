"""Reductions over the elements where a mask is True; over all elements without a mask."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, Protocol

from wend._engine.base.dtypes import FLOAT
from wend._frontend.toolkit import Tensor, get_default_dtype, int64, ops
from wend.masked.filling import (
    dims_of,
    filled,
    highest,
    lowest,
    mask_like,
    mean_type,
    of_masked,
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

Mask = Tensor | None


class Reduction(Protocol):
    """The signature of most reductions."""

    def __call__(
        self,
        input: Tensor,
        dim: Any = None,
        *,
        keepdim: bool = False,
        dtype: Any = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The reduction over the dims, of the elements that are left."""
        ...


def reduction(dim: Any = None, kind: str = "Any") -> Callable[[Callable[..., Tensor]], Reduction]:
    """Give a rule that signature, where `dim` has this default and this type.

    The rule is called with all arguments by position.
    """

    def public(rule: Callable[..., Tensor]) -> Reduction:
        def function(
            input: Any, dim: Any = dim, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
        ) -> Any:
            return rule(input, dim, keepdim, dtype, mask)

        function.__name__ = function.__qualname__ = rule.__name__
        function.__doc__ = rule.__doc__
        function.__annotations__ = {**Reduction.__call__.__annotations__, "dim": kind}
        return of_masked(function)

    return public


@reduction()
def sum(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
    """The sum over the dims; 0 where nothing is left."""
    x = filled("sum", input, mask, 0).to(summed_type(input, dtype))
    return _over(ops.sum, x, dims_of("sum", input, dim), keepdim)


@reduction()
def prod(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
    """The product over the dims; 1 where nothing is left."""
    x = filled("prod", input.to(summed_type(input, dtype)), mask, 1)
    for axis in reversed(dims_of("prod", input, dim)):
        x = ops.prod(x, axis, keepdim)
    return x


@reduction()
def amax(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
    """The greatest element over the dims; the least number of the type where nothing is left."""
    x = _ended("amax", input, dtype, mask, lowest)
    return _over(ops.amax, x, dims_of("amax", x, dim), keepdim)


@reduction()
def amin(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
    """The least element over the dims; the greatest number of the type where nothing is left."""
    x = _ended("amin", input, dtype, mask, highest)
    return _over(ops.amin, x, dims_of("amin", x, dim), keepdim)


def _ended(op: str, input: Tensor, dtype: Any, mask: Mask, end: Callable[..., Any]) -> Tensor:
    """The operand in a dtype; elements that do not count are an end of the numbers of the dtype."""
    x = input.to(dtype or input.dtype)
    return filled(op, x, mask, end(x.dtype))


def _over(reduce: Any, x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    return reduce(x, axes, keepdim) if axes else x


@reduction(kind="int | None")
def argmax(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
    """The first place of the greatest element, as a number of the input's type."""
    x = _ended("argmax", input, dtype, mask, lowest)
    return ops.argmax(x, dim, keepdim).to(x.dtype)  # type: ignore[no-any-return]


@reduction(kind="int | None")
def argmin(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
    """The first place of the least element, as a number of the input's type."""
    x = _ended("argmin", input, dtype, mask, highest)
    return ops.argmin(x, dim, keepdim).to(x.dtype)  # type: ignore[no-any-return]


@reduction()
def logsumexp(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
    """log(sum of exp(x)) over the dims, in the input's type; -inf where nothing is left."""
    x = _ended("logsumexp", input, dtype, mask, lowest)
    return ops.logsumexp(x, dims_of("logsumexp", x, dim), keepdim).to(x.dtype)  # type: ignore[no-any-return]


@reduction()
def mean(input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
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


def _count(x: Tensor, dim: Any, keepdim: bool, mask: Mask) -> Any:
    """How many elements are left: a tensor, or a number without a mask."""
    axes = dims_of("mean", x, dim)
    if mask is None:
        return math.prod(x.shape[axis] for axis in axes)
    return _over(ops.sum, mask_like("mean", x, mask).to(int64), axes, keepdim)


@reduction(dim=-1, kind="int")
def median(input: Tensor, dim: int, keepdim: bool, dtype: Any, mask: Mask) -> Tensor:
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


@of_masked
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


@of_masked
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


@of_masked
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
    variance = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )
    return ops.sqrt(variance)  # type: ignore[no-any-return]
