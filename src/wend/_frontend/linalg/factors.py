"""Factorisations: Cholesky, LU, LDL, QR, eigenvalues and singular values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wend._engine.base.dtypes import int32
from wend._engine.base.errors import DTypeError, NotImplementedInWend, ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.linalg.family import floating, matrix, square, turned
from wend._engine.ops.placing import full_beside
from wend._frontend.linalg.entries import at_once, completed, entry, results

if TYPE_CHECKING:
    from wend._frontend.linalg.named_results import (
        CholeskyInfo,
        Eigensystem,
        FormerSvdParts,
        LdlFactors,
        LdlFactorsInfo,
        LuFactors,
        LuFactorsInfo,
        LuParts,
        QrParts,
        SvdParts,
    )

__all__ = [
    "cholesky",
    "cholesky_ex",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "lu_unpack",
    "orgqr",
    "qr",
    "svd",
    "svdvals",
]

# -- Cholesky --------------------------------------------------------------------------------------

_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {0} is not positive-definite)."
)


def _cholesky(op: str, A: Tensor, upper: bool, check: bool) -> tuple[Tensor, Tensor]:
    floating(op, A.dtype)
    square(op, A)
    # U^H is the lower factor of A^H, whose lower triangle comes from the upper triangle of A.
    factor, info = ops.cholesky_factor(turned(A) if upper else A)
    if check:
        factor = completed(op, factor, info, _NOT_POSITIVE)
    return turned(factor) if upper else factor, info


@entry("input")
def cholesky(input: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangular L with L L^T = A, or with `upper` the upper U with U^T U = A.

    input: A, (..., n, n), symmetric and positive definite; the triangle of the result is read.
    Computed at once. Raises LinAlgError where A is not positive definite.
    """
    return _cholesky("linalg.cholesky", input, upper, True)[0]


@entry("input", functions=("cholesky",), methods=("cholesky",))
def former_cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """linalg.cholesky."""
    return _cholesky("cholesky", input, upper, True)[0]


@entry("input")
def cholesky_ex(
    input: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> CholeskyInfo:
    """(L, info): info is the order of the leading minor that is not positive, or 0."""
    parts = _cholesky("linalg.cholesky_ex", input, upper, check_errors)
    return results("linalg_cholesky_ex", "L info")(*parts)


# -- LU --------------------------------------------------------------------------------------------

_ZERO_PIVOT = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still "
    "want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)"
)


def _lu(A: Tensor, pivot: bool) -> Any:
    if not pivot:
        raise NotImplementedInWend(
            "linalg.lu_factor: LU without pivoting is not implemented on the CPU"
        )
    return ops.lu_factor_ex(A)


@entry("A")
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> LuFactorsInfo:
    """(LU, pivots, info): the factors in a single matrix, exchanges of rows from 1.

    info: the first pivot that is 0 (from 1), or 0
    """
    parts = _lu(A, pivot)
    if check_errors:
        op = "torch.linalg.lu_factor_ex"
        return parts._make((completed(op, parts[0], parts[2], _ZERO_PIVOT), *parts[1:]))
    return parts


@entry("A")
def lu_factor(A: Tensor, *, pivot: bool = True, out: tuple[Tensor, ...] | None = None) -> LuFactors:
    """(LU, pivots), for lu_solve. Raises LinAlgError where a pivot is 0."""
    factors, pivots, info = _lu(A, pivot)
    checked = completed("torch.linalg.lu_factor", factors, info, _ZERO_PIVOT)
    return results("linalg_lu_factor", "LU pivots")(checked, pivots)


@entry("A")
def lu(A: Tensor, *, pivot: bool = True, out: tuple[Tensor, ...] | None = None) -> LuParts:
    """(P, L, U): A = P L U, a permutation, ones on the diagonal of L, and U upper triangular."""
    factors, pivots, _ = _lu(A, pivot)
    lower, upper = ops.lu_triangles(factors)
    order = ops.permutation_matrix(pivots, A.shape[-2], A.dtype)
    return results("linalg_lu", "P L U")(order, lower, upper)


@entry("A", functions=("lu",), methods=("lu",))
def former_lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple[Tensor, ...] | None = None
) -> Any:
    """linalg.lu_factor_ex: (LU, pivots), and with `get_infos` info."""
    parts = _lu(A, pivot)
    return results("_lu_with_info", "LU pivots info")(*parts) if get_infos else tuple(parts[:2])


@entry("LU_data", "LU_pivots", functions=("lu_unpack",))
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: tuple[Tensor, ...] | None = None,
) -> LuParts:
    """(P, L, U) of what lu_factor gives; what is not asked for is empty."""
    matrix("torch.lu_unpack", LU_data, "LU_data")
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise DTypeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
            "\nNote: this function is intended to be used with the output produced by torch.linalg."
            "lu_factor"
        )
    empty = full_beside(LU_data, (0,), 0)
    lower, upper = ops.lu_triangles(LU_data) if unpack_data else (empty, empty)
    order = empty
    if unpack_pivots:
        order = ops.permutation_matrix(LU_pivots, LU_data.shape[-2], LU_data.dtype)
    return results("lu_unpack", "P L U")(order, lower, upper)


def _lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    if pivots.dtype is not int32:
        raise DTypeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    return ops.linalg_lu_solve(LU, pivots, B, left=left, adjoint=adjoint)  # type: ignore[no-any-return]


@entry("LU", "pivots", "B")
def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """X such that A X = B (left) or X A = B, of the factors of A; `adjoint`: of A^T."""
    return _lu_solve(LU, pivots, B, left, adjoint)


@entry("input", "LU_data", "LU_pivots", functions=("lu_solve",), methods=("lu_solve",))
def former_lu_solve(
    input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """X such that A X = input, of the factors of A."""
    return _lu_solve(LU_data, LU_pivots, input, True, False)


# -- LDL -------------------------------------------------------------------------------------------

_ZERO_BLOCK = "D[{0},{0}] is zero and using it on ldl_solve would result in a division by zero."


@entry("input")
def ldl_factor_ex(
    input: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> LdlFactorsInfo:
    """(LD, pivots, info): a symmetric A = L D L^T in a single matrix, without gradients."""
    parts: Any = ops.ldl_factor_ex(input, hermitian=hermitian)
    if check_errors:
        op = "torch.linalg.ldl_factor_ex"
        return parts._make((completed(op, parts[0], parts[2], _ZERO_BLOCK), *parts[1:]))
    return parts


@entry("input")
def ldl_factor(
    input: Tensor, *, hermitian: bool = False, out: tuple[Tensor, ...] | None = None
) -> LdlFactors:
    """(LD, pivots) of a symmetric matrix, for ldl_solve. Raises LinAlgError for a zero in D."""
    factors, pivots, info = ops.ldl_factor_ex(input, hermitian=hermitian)
    checked = completed("torch.linalg.ldl_factor", factors, info, _ZERO_BLOCK)
    return results("linalg_ldl_factor", "LD pivots")(checked, pivots)


@entry("LD", "pivots", "B")
def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """X such that A X = B, of the factors that ldl_factor gives."""
    return ops.ldl_solve(LD, pivots, B, hermitian=hermitian)  # type: ignore[no-any-return]


# -- QR --------------------------------------------------------------------------------------------


@entry("A")
def qr(A: Tensor, mode: str = "reduced", *, out: tuple[Tensor, ...] | None = None) -> QrParts:
    """(Q, R): orthonormal columns and an upper triangle, A = Q R.

    mode: 'reduced', 'complete' (a square Q), or 'r' (Q is empty)
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueRefused(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    parts: Any = ops.linalg_qr(A, mode)
    return parts  # type: ignore[no-any-return]


@entry("input", functions=("qr",), methods=("qr",))
def former_qr(
    input: Tensor, some: bool = True, *, out: tuple[Tensor, ...] | None = None
) -> QrParts:
    """linalg.qr, 'complete' unless `some`."""
    return results("qr", "Q R")(*ops.linalg_qr(input, "reduced" if some else "complete"))


@entry("input", "tau")
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of the reflections that geqrf gives: Q."""
    return ops.householder_product(input, tau)  # type: ignore[no-any-return]


@entry("input", "input2", functions=("orgqr",), methods=("orgqr",))
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """linalg.householder_product."""
    return ops.householder_product(input, input2)  # type: ignore[no-any-return]


# -- eigenvalues and singular values ---------------------------------------------------------------


@entry("input")
def eigh(input: Tensor, UPLO: str = "L", *, out: tuple[Tensor, ...] | None = None) -> Eigensystem:
    """(eigenvalues, eigenvectors) of symmetric matrices, ascending; columns are vectors.

    UPLO: the triangle that is read. Raises LinAlgError for inf and NaN.
    """
    return at_once(ops.linalg_eigh(input, UPLO))


@entry("input")
def eigvalsh(input: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of symmetric matrices, ascending. UPLO: the triangle that is read."""
    return at_once(ops.linalg_eigvalsh(input, UPLO))  # type: ignore[no-any-return]


@entry("input")
def eig(input: Tensor, *, out: tuple[Tensor, ...] | None = None) -> Eigensystem:
    """(eigenvalues, eigenvectors) of square matrices, complex; columns are vectors of length 1.

    Eigenvalues come in no order. Raises LinAlgError for inf and NaN.
    """
    return at_once(ops.linalg_eig(input))


@entry("input")
def eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of square matrices, complex, in no order."""
    return at_once(ops.linalg_eigvals(input))  # type: ignore[no-any-return]


def _refuse_driver(driver: str | None) -> None:
    if driver is not None:
        raise ValueRefused(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )


@entry("A")
def svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None
) -> SvdParts:
    """(U, S, Vh): A = U diag(S) Vh, singular values descending.

    full_matrices: U and Vh are square. Raises LinAlgError for inf and NaN.
    """
    _refuse_driver(driver)
    return at_once(ops.linalg_svd(A, full_matrices))


@entry("A")
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values of matrices, descending."""
    _refuse_driver(driver)
    return at_once(ops.linalg_svdvals(A))  # type: ignore[no-any-return]


@entry("input", functions=("svd",), methods=("svd",))
def former_svd(
    input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None
) -> FormerSvdParts:
    """(U, S, V): input = U diag(S) V^T; without `compute_uv`, U and V are zeros."""
    make = results("svd", "U S V")
    if compute_uv:
        u, s, vh = at_once(ops.linalg_svd(input, not some))
        return make(u, s, turned(vh))
    s = at_once(ops.linalg_svdvals(input))
    (m, n), front = input.shape[-2:], input.shape[:-2]
    zeros = [full_beside(input, (*front, k, k), 0) for k in (m, n)]
    return make(zeros[0], s, zeros[1])
