"""Numbers in the place of elements that a mask leaves out, and the dims of a reduction."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec, cast

from wend._engine.base.dtypes import FLOAT, INT, DType, iinfo, int64
from wend._engine.base.shapes import normalize_dims
from wend._frontend.toolkit import Tensor, get_default_dtype, ops

P = ParamSpec("P")


def of_masked(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """`function`, which also takes a MaskedTensor: as its data, with both masks."""

    @functools.wraps(function)
    def taking(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        first = args[0] if args else kwargs.get("input")
        inside = None if type(first) is Tensor else getattr(first, "_masked_mask", None)
        if inside is None:
            return function(*args, **kwargs)
        call_mask: Any = kwargs.get("mask")
        mask = inside if call_mask is None else ops.logical_and(inside, call_mask)
        data = cast(Any, first).get_data()
        if args:
            return cast(Any, function)(data, *args[1:], **{**kwargs, "mask": mask})
        return cast(Any, function)(**{**kwargs, "input": data, "mask": mask})

    return taking


def dims_of(op: str, x: Tensor, dim: Any) -> tuple[int, ...]:
    """The dims, counted from 0, ascending; None means all. Raises DimError, ShapeError."""
    rank = x.dim()
    if dim is None:
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    axes = normalize_dims(dims, rank, op)
    return tuple(sorted(axes)) if rank else ()


def lowest(dtype: DType) -> Any:
    """The number that no element of this type lies below."""
    return -math.inf if dtype.category >= FLOAT else iinfo(dtype).min


def highest(dtype: DType) -> Any:
    """The number that no element of this type lies above."""
    return math.inf if dtype.category >= FLOAT else iinfo(dtype).max


def filled(op: str, x: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """x, with a number where the mask is False. The mask is broadcast to the shape of x."""
    return x if mask is None else ops.where(mask_like(op, x, mask), x, value)  # type: ignore[no-any-return]


def mask_like(op: str, x: Tensor, mask: Tensor) -> Tensor:
    """The mask in the shape of x. Raises ValueError, IndexError, RuntimeError."""
    if mask.dim() > x.dim():
        raise IndexError(
            f"masked.{op}: expected mask with at most {x.dim()} dims (those of input), but got "
            f"{mask.dim()}"
        )
    return mask.bool().expand(x.shape)


def summed_type(x: Tensor, dtype: DType | None) -> DType:
    """The type of sums and products: ints and bool become int64."""
    return dtype or (int64 if x.dtype.category <= INT else x.dtype)


def mean_type(x: Tensor, dtype: DType | None) -> DType:
    """The type of variances: ints and bool become the default float type."""
    return dtype or (get_default_dtype() if x.dtype.category <= INT else x.dtype)
