"""Functions of torch.linalg that tell at once whether they failed."""

from __future__ import annotations

from wend.base.errors import ArgumentError, LinAlgError
from wend.core import _hot
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.frontend.interop.exchange import array_of

__all__ = ["cholesky", "solve"]


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """x such that A x = B (left) or x A = B.

    A: (..., n, n)   B: (..., n, k), or (..., n): a vector per matrix
    Computed at once: programs catch LinAlgError (a RuntimeError) where A is singular.
    """
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    if vector and not left:
        raise ArgumentError("linalg.solve: a vector B can only be solved for with left=True")
    right = ops.unsqueeze(B, -1) if vector else B
    if left:
        found = ops.solve_matrix(A, right)
    else:
        found = ops.matrix_transpose(
            ops.solve_matrix(ops.matrix_transpose(A), ops.matrix_transpose(right))
        )
    if vector:
        found = ops.squeeze(found, -1)
    if type(found) is Tensor:
        array_of(found)
    if out is not None:
        return _hot.slot("call_out")(lambda: found, (), {"out": out})  # type: ignore[no-any-return]
    return found  # type: ignore[no-any-return]


def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangular L with L L^T = A, or with `upper` the transpose of L.

    A: (..., n, n), symmetric and positive definite. Computed at once: programs catch LinAlgError (a
    RuntimeError) where A is not so.
    """
    found = ops.cholesky_lower(A)
    if type(found) is Tensor and bool(ops.any(ops.isnan(found))):
        raise LinAlgError(
            "linalg.cholesky: The factorization could not be completed because the input is not "
            "positive-definite."
        )
    if upper:
        found = ops.matrix_transpose(found)
    if out is not None:
        return _hot.slot("call_out")(lambda: found, (), {"out": out})  # type: ignore[no-any-return]
    return found  # type: ignore[no-any-return]
