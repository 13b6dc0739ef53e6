"""Factors of low rank, from products with random vectors (Halko, Martinsson and Tropp, 2009)."""

from __future__ import annotations

from typing import Any

from wend.base.errors import ArgumentError
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.frontend.linalg.entries import entry
from wend.frontend.linalg.factors import qr, svd
from wend.frontend.random import randn
from wend.ops.linalg.family import turned

__all__ = ["pca_lowrank", "svd_lowrank"]


def _range(apply: Any, applied_back: Any, start: Tensor, niter: int) -> Tensor:
    """Orthonormal columns that span most of the range of a matrix (algorithm 4.4)."""
    found: Tensor = qr(apply(start))[0]
    for _ in range(niter):
        found = qr(apply(qr(applied_back(found))[0]))[0]
    return found


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
    start = randn(tall.shape[-1], q, dtype=A.dtype)
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
