"""Systems of linear equations, and Cholesky factors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend.base.dtypes import from_numpy
from wend.base.errors import DTypeError, LinAlgError, ShapeError
from wend.core.primitive import Primitive, Sample, Spec, ops
from wend.core.symbolic import broadcast_shapes, hints
from wend.ops.numeric import Array, array, require, widen


class SolveMatrix(Primitive):
    """y such that A y = B, for square matrices A.

    A: (..., n, n)   B: (..., n, k)   ->   (..., n, k); the leading dims broadcast
    float16 and bfloat16 are computed in float32. Raises ShapeError for any other shape, DTypeError
    for operands of two types, LinAlgError (when the value is computed) for a singular A.
    """

    signature = "A, B"
    fallible = True
    supports = frozenset({"float", "complex"})
    grad_name = "LinalgSolveExBackward0"

    def infer(self, a: Spec, b: Spec) -> Spec:
        require("linalg.solve", self.supports, a.dtype, b.dtype)
        if a.dtype is not b.dtype:
            raise DTypeError(
                f"linalg.solve: expected A and B to have the same dtype, but found {a.dtype} and "
                f"{b.dtype}"
            )
        if len(a.shape) < 2 or not a.shape[-1] == a.shape[-2]:
            raise ShapeError(
                f"linalg.solve: A must be batches of square matrices, but it has shape "
                f"{hints(a.shape)}"
            )
        if len(b.shape) < 2 or not b.shape[-2] == a.shape[-1]:
            raise ShapeError(
                f"linalg.solve: A of shape {hints(a.shape)} and B of shape {hints(b.shape)} do not "
                "make a system of equations"
            )
        front = broadcast_shapes("linalg.solve", a.shape[:-2], b.shape[:-2])
        return Spec((*front, *b.shape[-2:]), a.dtype)

    def reference(self, a: Array, b: Array) -> Array:
        try:
            return array(np.linalg.solve(widen(a), widen(b)), from_numpy(a.dtype))
        except np.linalg.LinAlgError:
            raise LinAlgError(
                "linalg.solve: The solver failed because the input matrix is singular."
            ) from None

    def vjp(self, g: Any, y: Any, a: Any, b: Any) -> Any:
        adjoint = ops.matrix_transpose(a)
        grad_b = ops.solve_matrix(ops.conj(adjoint) if a.dtype.is_complex else adjoint, g)
        last = ops.matrix_transpose(y)
        grad_a = -ops.matmul(grad_b, ops.conj(last) if y.dtype.is_complex else last)
        return grad_a, grad_b

    def batch(self, batched: Any, size: Any, a: Any, b: Any) -> Any:
        ranks = len(a.shape) - batched[0], len(b.shape) - batched[1]
        a, b = (
            _spread(x, rank, max(ranks)) if is_batched else x
            for x, rank, is_batched in zip((a, b), ranks, batched, strict=True)
        )
        return ops.solve_matrix(a, b)

    def samples(self, rng: Any) -> Iterator[Sample]:
        a, b = rng.normal(size=(2, 3, 3)) + 4 * np.eye(3), rng.normal(size=(2, 3, 4))
        yield Sample(a, b)
        yield Sample(a[0], b)
        yield Sample(a, b[0, :, :1])
        yield Sample(a[0, :1, :1], b[0, :1])
        yield Sample(a[:, :0, :0], b[:, :0])


class CholeskyLower(Primitive):
    """y = the lower triangular matrix with a positive diagonal such that y y^T = A.

    A: (..., n, n), symmetric (the mean of A and A^T counts) and positive definite.
    float16 and bfloat16 are computed in float32. NaN for matrices that are not positive definite.
    Raises ShapeError for matrices that are not square.
    """

    signature = "A"
    supports = frozenset({"float"})
    grad_name = "LinalgCholeskyExBackward0"

    def infer(self, a: Spec) -> Spec:
        require("linalg.cholesky", self.supports, a.dtype)
        if len(a.shape) < 2 or not a.shape[-1] == a.shape[-2]:
            raise ShapeError(
                f"linalg.cholesky: A must be batches of square matrices, but it has shape "
                f"{hints(a.shape)}"
            )
        return a

    def reference(self, a: Array) -> Array:
        wide = widen(a)
        wide = (wide + np.swapaxes(wide, -1, -2)) / 2
        found = np.empty_like(wide)
        for place in np.ndindex(wide.shape[:-2]):
            try:
                found[place] = np.linalg.cholesky(wide[place])
            except np.linalg.LinAlgError:
                found[place] = np.nan
        return array(found, from_numpy(a.dtype))

    def vjp(self, g: Any, y: Any, a: Any) -> Any:
        upper = ops.matrix_transpose(y)
        inner = ops.matmul(upper, ops.tril(g))
        half = (ops.tril(inner) + ops.tril(inner, -1)) * 0.5  # the diagonal counts half
        left = ops.solve_matrix(upper, half)
        both = ops.solve_matrix(upper, ops.matrix_transpose(left))
        return ((both + ops.matrix_transpose(both)) * 0.5,)

    def batch(self, batched: Any, size: Any, a: Any) -> Any:
        return ops.cholesky_lower(a)

    def samples(self, rng: Any) -> Iterator[Sample]:
        root = rng.normal(size=(2, 3, 3))
        a = root @ np.swapaxes(root, -1, -2) + 2 * np.eye(3)
        yield Sample(a)
        yield Sample(a[0])
        yield Sample(a[:, :1, :1])
        yield Sample(a[:, :0, :0])


def _spread(x: Any, rank: int, wanted: int) -> Any:
    """x with the batch axis before `wanted` dims: dims of 1 come in between."""
    for _ in range(wanted - rank):
        x = ops.unsqueeze(x, 1)
    return x
