"""Numbers and functions of matrices: determinants, condition, rank, powers, the exponential."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from wend._engine.base.dtypes import FLOAT, DType
from wend._engine.base.errors import DTypeError, ShapeError, ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import PUBLIC, ops
from wend._engine.ops.linalg.family import matrix, square
from wend._frontend.linalg.entries import at_once, entry, results
from wend._frontend.linalg.systems import Number, bounds

if TYPE_CHECKING:
    from wend._frontend.linalg.named_results import (
        SignAndLog,
    )

__all__ = [
    "cond",
    "det",
    "frobenius_norm",
    "matrix_exp",
    "matrix_power",
    "matrix_rank",
    "norm",
    "nuclear_norm",
    "slogdet",
]


@entry("A")
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinant of square matrices."""
    return ops.det(A)  # type: ignore[no-any-return]


@entry("A")
def slogdet(A: Tensor, *, out: tuple[Tensor, ...] | None = None) -> SignAndLog:
    """(sign, logabsdet): the determinant is sign * exp(logabsdet)."""
    pair: Any = ops.linalg_slogdet(A)
    return pair  # type: ignore[no-any-return]


@entry("input", functions=("slogdet",), methods=("slogdet",))
def former_slogdet(input: Tensor, *, out: tuple[Tensor, ...] | None = None) -> SignAndLog:
    """linalg.slogdet."""
    return results("slogdet", "sign logabsdet")(*ops.linalg_slogdet(input))


@entry("input", functions=("matrix_exp",), methods=("matrix_exp",))
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of square matrices: I + A + A^2 / 2 + A^3 / 6 + ..."""
    return ops.matrix_exp(input)  # type: ignore[no-any-return]


@entry("input")
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """The n-th power of square matrices; of the inverse for n < 0."""
    return at_once(PUBLIC["matrix_power"](input, n))  # type: ignore[no-any-return]


@entry("input")
def norm(
    input: Tensor,
    ord: float | str | None = None,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of vectors, or of matrices where `ord` is for two dims.

    Without ord: the 2-norm of all elements (of `dim`). With ord: of a vector for a single dim, of a
    matrix for two dims.
    """
    return ops.linalg_norm(input, ord, dim, keepdim, dtype=dtype)  # type: ignore[no-any-return]


@entry("input")
def matrix_rank(
    input: Tensor,
    tol: Number = None,
    hermitian: bool = False,
    *,
    atol: Number = None,
    rtol: Number = None,
    out: Tensor | None = None,
) -> Tensor:
    """The number of singular values above max(atol, rtol s_max). tol: a former name of atol.

    hermitian: symmetric matrices, read in the lower triangle
    """
    op = "torch.linalg.matrix_rank"
    matrix(op, input, "input")
    if input.dtype.category < FLOAT:
        raise DTypeError(f"{op}: This function doesn't handle types other than float and double")
    if tol is not None:
        atol, rtol = tol, 0.0
    absolute, relative = bounds(op, input, atol, rtol)
    if hermitian:
        square(op, input)
        sizes = ops.abs(ops.linalg_eigvalsh(input, "L"))
    else:
        sizes = ops.linalg_svdvals(input)
    sizes = at_once(sizes.detach())
    if sizes.shape[-1] == 0:
        return ops.sum(ops.ne(sizes, sizes), -1)  # type: ignore[no-any-return]
    bound = ops.maximum(absolute, ops.mul(relative, ops.amax(sizes, -1)))
    return ops.sum(ops.gt(sizes, ops.unsqueeze(bound, -1)), -1)  # type: ignore[no-any-return]


@entry("input")
def cond(input: Tensor, p: float | str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number: |A| |A^-1| of a matrix norm; of singular values for None, 2 and -2.

    p: None, 2, -2, 'fro', 'nuc', inf, -inf, 1 or -1
    """
    if input.dim() < 2:
        raise ShapeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    known = p in (None, 2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc")
    if not known or isinstance(p, bool):
        raise ValueRefused(f"linalg.cond got an invalid norm type: {p}")
    if p in (None, 2, -2):
        values = at_once(ops.linalg_svdvals(input))
        if values.shape[-1] == 0:
            return ops.sum(values, -1)  # type: ignore[no-any-return]
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    square(f"linalg.cond(ord={p})", input)
    if input.shape[-1] == 0:
        return ops.sum(ops.abs(input), (-2, -1))  # type: ignore[no-any-return]
    if p == "nuc":
        values = at_once(ops.linalg_svdvals(input))
        return ops.sum(values, -1) * ops.sum(ops.reciprocal(values), -1)  # type: ignore[no-any-return]
    inverse, info = ops.inv_ex(input)
    whole = ops.matrix_norm(input, p)
    size = ops.where(ops.gt(info, 0), math.inf, ops.matrix_norm(inverse, p))
    return whole * size


@entry("input", functions=("nuclear_norm",))
def nuclear_norm(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The sum of the singular values of a matrix, or of the matrices in the two dims."""
    if isinstance(dim, bool):  # the call (input, keepdim)
        dim, keepdim = None, dim
    return ops.matrix_norm(input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim)  # type: ignore[no-any-return]


@entry("input", functions=("frobenius_norm",))
def frobenius_norm(
    input: Tensor, dim: int | tuple[int, ...], keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The 2-norm of all elements over the dims."""
    return ops.vector_norm(input, 2, dim, keepdim)  # type: ignore[no-any-return]
