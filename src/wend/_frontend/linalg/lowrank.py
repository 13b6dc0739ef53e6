"""Factors of low rank, from products with random vectors (Halko, Martinsson and Tropp, 2009)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.linalg.family import turned
from wend._frontend.linalg.entries import entry
from wend._frontend.linalg.factors import cholesky, eigh, qr, svd
from wend._frontend.random import randn

__all__ = ["lobpcg", "pca_lowrank", "svd_lowrank"]


def _range(
    apply: Callable[..., Any], applied_back: Callable[..., Any], start: Tensor, niter: int
) -> Tensor:
    """Orthonormal columns that span most of the range of a matrix (algorithm 4.4)."""
    columns: Tensor = qr(apply(start))[0]
    for _ in range(niter):
        columns = qr(apply(qr(applied_back(columns))[0]))[0]
    return columns


@entry("A", functions=("svd_lowrank",))
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of q singular values of A, or of A - M, by niter iterations of a subspace.

    A: (..., m, n)   M: broadcasts to A   ->   (..., m, q), (..., q), (..., n, q)
    Random vectors come from the default generator.
    """
    q = 6 if q is None else q
    whole = A if M is None else A - M
    wide = A.shape[-2] < A.shape[-1]
    tall = turned(whole) if wide else whole
    across = turned(tall)
    start = randn(tall.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = _range(
        lambda x: ops.matmul(tall, x), lambda x: ops.matmul(across, x), start, niter or 0
    )
    u, s, vh = svd(ops.matmul(turned(basis), tall), False)
    left, right = ops.matmul(basis, u), turned(vh)
    return (right, s, left) if wide else (left, s, right)


@entry("A", functions=("pca_lowrank",))
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V): principal components of rows of A, the first q; see svd_lowrank.

    center: the mean of the rows is taken off
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ArgumentError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ArgumentError(f"niter(={niter}) must be non-negative integer")
    mean = ops.mean(A, -2, True) if center else None
    return svd_lowrank(A, q, niter, mean)  # type: ignore[no-any-return]


@entry("A", functions=("lobpcg",))
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[..., Any] | None = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """(E, X): the k largest (or smallest) eigenvalues of A X = B X diag(E), and their vectors.

    A, B: (..., m, m), symmetric, B positive definite   k: 1 by default, or the columns of X
    Matrices are dense here, so that all eigenvectors are found, exactly: iterations, tolerance,
    start, preconditioner and tracker are accepted and not needed.
    """
    if A.dim() < 2 or A.shape[-2] != A.shape[-1]:
        raise ShapeError(f"lobpcg: A must be square, got shape {A.shape}")
    m = A.shape[-1]
    k = k or (1 if X is None else X.shape[-1])
    if m < 3 * (n or (k if X is None else X.shape[-1])):
        raise ArgumentError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n or k})"
        )
    matrix = A
    if B is not None:  # B = L L^T: the matrix L^-1 A L^-T has the same eigenvalues
        factor = cholesky(B)
        half = ops.solve_triangular(factor, A, upper=False)
        matrix = ops.solve_triangular(factor, turned(half), upper=False)
    values, vectors = eigh(matrix)
    if largest is None or largest:
        values, vectors = ops.flip(values[..., -k:], (-1,)), ops.flip(vectors[..., -k:], (-1,))
    else:
        values, vectors = values[..., :k], vectors[..., :k]
    if B is not None:
        vectors = ops.solve_triangular(turned(factor), vectors, upper=True)
    return values, vectors
