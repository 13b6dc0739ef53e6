"""Functions that keep the shape: running sums, softmax, norms made 1."""

from __future__ import annotations

import math
from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.masked.filling import filled, of_masked
from wend.masked.reductions import norm

__all__ = [
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "normalize",
    "softmax",
    "softmin",
]


def _kept(input: Tensor) -> Any:
    """The dtype of running sums and products: the input's, but none of bools."""
    return input.dtype if input.dtype.category else None


@of_masked
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The running sums along a dim, of the elements that are left, in the input's dtype."""
    dtype = dtype or _kept(input)
    return ops.cumsum(filled("cumsum", input, mask, 0), dim, dtype=dtype)  # type: ignore[no-any-return]


@of_masked
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The running products along a dim, of the elements that are left, in the input's dtype."""
    dtype = dtype or _kept(input)
    return ops.cumprod(filled("cumprod", input, mask, 1), dim, dtype=dtype)  # type: ignore[no-any-return]


@of_masked
def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """exp(x) / its sum along a dim; 0 for elements left out, NaN where nothing is left."""
    x = input.to(dtype or input.dtype)
    return ops.softmax(filled("softmax", x, mask, -math.inf), dim)  # type: ignore[no-any-return]


@of_masked
def log_softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """log of `softmax`; -inf for elements left out."""
    x = input.to(dtype or input.dtype)
    return ops.log_softmax(filled("log_softmax", x, mask, -math.inf), dim)  # type: ignore[no-any-return]


@of_masked
def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` of -x."""
    x = input.to(dtype or input.dtype)
    return ops.softmax(-filled("softmin", x, mask, math.inf), dim)  # type: ignore[no-any-return]


@of_masked
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """x / max(norm of the elements left along a dim, eps); 0 for elements left out."""
    x = input.to(dtype or input.dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return filled("normalize", x, mask, 0) / size.clamp(min=eps)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)); an element left out counts as -inf."""
    x, y = (t if dtype is None else t.to(dtype) for t in (input, other))
    x = filled("logaddexp", x, input_mask, -math.inf)
    y = filled("logaddexp", y, other_mask, -math.inf)
    return ops.logaddexp(x, y)  # type: ignore[no-any-return]
