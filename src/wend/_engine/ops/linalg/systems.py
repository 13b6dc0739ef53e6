"""Systems of linear equations: general, triangular, inverses, and least squares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import finfo, int32, int64
from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.symbolic import broadcast_shapes, hints, sym_max, sym_min
from wend._engine.core.types import Spec
from wend._engine.ops.linalg.family import (
    OfMatrices,
    across,
    broadcast_batches,
    by_columns,
    by_rows,
    equation,
    floating,
    from_columns,
    many_small,
    narrow,
    narrow_real,
    raise_where,
    same_type,
    square,
    turned,
    wide,
)
from wend._engine.ops.linalg.lapack import asked, integers, lapack, scratch
from wend._engine.ops.numeric import Array

_HAS_INFINITE = (
    "The algorithm failed to converge because the input matrix contained non-finite values."
)

SINGULAR = "The solver failed because the input matrix is singular."


class SolveMatrix(OfMatrices):
    """y such that A y = B, for square matrices A.

    A: (..., n, n)   B: (..., n, k)   ->   (..., n, k); the leading dims broadcast
    float16 and bfloat16 are computed in float32. Raises ShapeError for any other shape, DTypeError
    for operands of two types, LinAlgError (when the value is computed) for a singular A.
    """

    signature = "A, B"
    tails = (2, 2)
    broadcasts = True
    facts = OpFacts(fallible=True)
    torch = TorchCall(grad_name="LinalgSolveExBackward0")

    def infer(self, a: Spec, b: Spec) -> Spec:
        front = equation("linalg.solve", a, b)
        return Spec((*front, *b.shape[-2:]), a.dtype)

    def reference(self, a: Array, b: Array) -> Array:
        try:
            return narrow(np.linalg.solve(wide(a), wide(b)), a)
        except np.linalg.LinAlgError:
            raise_where("torch.linalg.solve", _singular(wide(a)), SINGULAR)
            raise

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        grad_b = ops.solve_matrix(turned(a), g)
        return -ops.matmul(grad_b, turned(y)), grad_b

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.normal(size=(2, 3, 3)) + 4 * np.eye(3), rng.normal(size=(2, 3, 4))
        yield Sample(a, b)
        yield Sample(a[0], b)
        yield Sample(a, b[0, :, :1])
        yield Sample(a[0, :1, :1], b[0, :1])
        yield Sample(a[:, :0, :0], b[:, :0])


def _singular(a: Array) -> Array:
    """Per matrix the number of the first pivot that is 0, or 0."""
    stack, n = by_columns(a), a.shape[-1]
    codes = np.zeros(len(stack), integers())
    if stack.size:
        pivots = scratch(integers(), n)
        lapack("getrf", a.dtype)(len(stack), n, n, stack, n, pivots, codes)
    return codes.reshape(a.shape[:-2]).astype(np.int32)


class TriangularSolve(OfMatrices):
    """y such that A y = B, for triangular matrices A; the other triangle is not read.

    A: (..., n, n)   B: (..., n, k)   ->   (..., n, k); the leading dims broadcast
    unitriangular: the diagonal counts as ones. A zero on the diagonal gives inf and NaN.
    """

    signature = "A, B, *, upper: bool, unitriangular: bool = False"
    name = "triangular_solve_matrix"
    tails = (2, 2)
    broadcasts = True
    upper: bool
    unitriangular: bool
    torch = TorchCall(grad_name="LinalgSolveTriangularBackward0")

    def infer(self, a: Spec, b: Spec) -> Spec:
        front = equation("linalg.solve_triangular", a, b)
        return Spec((*front, *b.shape[-2:]), a.dtype)

    def reference(self, a: Array, b: Array) -> Array:
        like, (a, b) = a, broadcast_batches(wide(a), wide(b))
        if many_small(a, 24):
            return narrow(self._substituted(a, b), like)
        solution = np.array(b, order="C")
        if solution.size:
            n, k = b.shape[-2:]
            # A row after a row is a transpose to Fortran: X^T A^T = B^T, without a copy of A.
            triangle, diagonal = "L" if self.upper else "U", "U" if self.unitriangular else "N"
            matrices, factor = by_rows(a), np.ones((), a.dtype)
            rights = solution.reshape(len(matrices), n, k)
            lapack("trsm", a.dtype)(
                *(len(matrices), "R", triangle, "N", diagonal),
                *(k, n, factor, matrices, n, rights, k),
            )
        return narrow(solution, like)

    def _substituted(self, a: Array, b: Array) -> Array:
        """Row after row, for all matrices at once."""
        solution, n = b.copy(), a.shape[-1]
        with np.errstate(all="ignore"):
            for i in reversed(range(n)) if self.upper else range(n):
                known = slice(i + 1, n) if self.upper else slice(0, i)
                part = a[..., i : i + 1, known] @ solution[..., known, :]
                solution[..., i : i + 1, :] -= part
                if not self.unitriangular:
                    solution[..., i, :] /= a[..., i, i, None]
        return solution

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        grad_b = ops.triangular_solve_matrix(
            turned(a), g, upper=not self.upper, unitriangular=self.unitriangular
        )
        whole = -ops.matmul(grad_b, turned(y))
        beside = int(self.unitriangular)
        return ops.triu(whole, beside) if self.upper else ops.tril(whole, -beside), grad_b

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.normal(size=(2, 3, 3)) + 4 * np.eye(3), rng.normal(size=(2, 3, 4))
        yield Sample(a, b, upper=True)
        yield Sample(a[0], b, upper=False)
        yield Sample(a, b[0, :, :1], upper=True, unitriangular=True)
        yield Sample(a[0, :1, :1], b[0, :1], upper=False, unitriangular=True)
        yield Sample(a[:, :0, :0], b[:, :0], upper=True)


class CholeskySolve(OfMatrices):
    """X such that A X = B, of the Cholesky factor of A: L L^H = A, or with `upper` U^H U = A.

    input: B, (..., n, k)   input2: the factor, (..., n, n)   ->   (..., n, k)
    The leading dims broadcast. The gradient is that of a whole matrix L.
    """

    signature = "input, input2, upper: bool = False"
    torch = TorchCall(names=("cholesky_solve",))
    tails = (2, 2)
    broadcasts = True
    upper: bool

    def infer(self, b: Spec, factor: Spec) -> Spec:
        op = "cholesky_solve"
        floating(op, b.dtype, factor.dtype)
        same_type(op, b, factor, ("b", "u"))
        for x, name in ((b, "b"), (factor, "u")):
            if len(x.shape) < 2:
                raise ShapeError(
                    f"{op}: {name} should have at least 2 dimensions, but has {len(x.shape)} "
                    "dimensions instead"
                )
        square(op, factor)
        if b.shape[-2] != factor.shape[-1]:
            (p, q), (n, m) = hints(b.shape[-2:]), hints(factor.shape[-2:])
            raise ShapeError(
                f"Incompatible matrix sizes for cholesky_solve: each A matrix is {n} by {m} but "
                f"each b matrix is {p} by {q}"
            )
        front = broadcast_shapes(op, b.shape[:-2], factor.shape[:-2])
        return Spec((*front, *b.shape[-2:]), b.dtype)

    def reference(self, b: Array, factor: Array) -> Array:
        like, (b, factor) = b, broadcast_batches(wide(b), wide(factor))
        solution, (n, k) = by_columns(b), b.shape[-2:]
        if solution.size:
            count, triangle = len(solution), "U" if self.upper else "L"
            codes = np.zeros(count, integers())
            lapack("potrs", b.dtype)(
                count, triangle, n, k, by_columns(factor), n, solution, n, codes
            )
        return narrow(from_columns(solution, b.shape[:-2]), like)

    def vjp(self, g: Tensor, y: Tensor, b: Tensor, factor: Tensor) -> tuple[Any, ...]:
        grad = ops.cholesky_solve(g, factor, self.upper)
        inner = ops.matmul(grad, turned(y))
        both = inner + turned(inner)
        along = ops.matmul(factor, both) if self.upper else ops.matmul(both, factor)
        return grad, -along

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        factor, b = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3), rng.normal(size=(2, 3, 4))
        factor = np.tril(factor)
        yield Sample(b, factor)
        yield Sample(b, factor[0].T, True)
        yield Sample(b[0, :, :1], factor)
        yield Sample(b[:, :0], factor[:, :0, :0])


class CholeskyInverse(OfMatrices):
    """The inverse of A, of its Cholesky factor: L L^H = A, or with `upper` U^H U = A.

    The gradient is that of a whole matrix L.
    """

    signature = "input, upper: bool = False"
    torch = TorchCall(names=("cholesky_inverse",))
    upper: bool

    def infer(self, factor: Spec) -> Spec:
        floating("cholesky_inverse", factor.dtype)
        square("cholesky_inverse", factor)
        return factor

    def reference(self, factor: Array) -> Array:
        full = wide(factor)
        if not full.size:
            return factor.copy()
        stack, n = by_columns(full), factor.shape[-1]
        codes = np.zeros(len(stack), integers())
        lapack("potri", full.dtype)(len(stack), "U" if self.upper else "L", n, stack, n, codes)
        half = from_columns(stack, factor.shape[:-2])
        if self.upper:
            inverse = np.triu(half) + across(np.triu(half, 1))
        else:
            inverse = np.tril(half) + across(np.tril(half, -1))
        return narrow(inverse, factor)

    def vjp(self, g: Tensor, y: Tensor, factor: Tensor) -> tuple[Any, ...]:
        both = ops.matmul(y, ops.matmul(g + turned(g), y))
        along = ops.matmul(factor, both) if self.upper else ops.matmul(both, factor)
        return (-along,)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        factor = np.tril(rng.normal(size=(2, 3, 3)) + 3 * np.eye(3))
        yield Sample(factor)
        yield Sample(factor[0].T, True)
        yield Sample(factor[:, :0, :0])


class InvEx(OfMatrices):
    """(inverse, info) of square matrices; info names the pivot that is 0, from 1, or is 0.

    A: (..., n, n). The inverse of a singular matrix has inf and NaN.
    """

    signature = "A"
    result = ("inverse", "info")
    torch = TorchCall(label="linalg_inv_ex", grad_name="LinalgInvExBackward0")

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("linalg.inv", a.dtype)
        square("linalg.inv", a)
        return a, Spec(a.shape[:-2], int32)

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        full = wide(a)
        try:
            return narrow(np.linalg.inv(full), a), np.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:
            # The pivot that is 0 is a result of the op; the caller raises.
            info = _singular(full)
        inverse = np.full_like(full, np.nan)
        inverse[info == 0] = np.linalg.inv(full[info == 0])
        return narrow(inverse, a), info

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> tuple[Any, ...]:
        inverse = turned(y[0])
        return (-ops.matmul(inverse, ops.matmul(g[0], inverse)),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.normal(size=(2, 3, 3)) + 4 * np.eye(3)
        yield Sample(a)
        yield Sample(a[0, :1, :1])
        yield Sample(a[:, :0, :0])
        yield Sample(a[:0])


class LinalgPinv(OfMatrices):
    """y = the pseudoinverse (Moore, Penrose) of A, singular values up to a bound taken for 0.

    A: (..., m, n)   atol, rtol: bounds that broadcast with the batch   ->   (..., n, m)
    The bound is the greater of atol and rtol times the largest singular value. The gradient takes
    the rank for constant.
    """

    signature = "A, atol, rtol"
    tails = (2, 0, 0)
    facts = OpFacts(fallible=True)

    def infer(self, a: Spec, atol: Spec, rtol: Spec) -> Spec:
        return Spec((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)

    def reference(self, a: Array, atol: Array, rtol: Array) -> Array:
        full = wide(a)
        if not full.size:
            return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
        # LAPACK's routine does not end for some matrices with NaN or infinities.
        faulty = ~np.isfinite(full).all((-2, -1))
        if faulty.any():
            raise_where("linalg.pinv", faulty.astype(np.int32), _HAS_INFINITE)
        try:
            left, values, right = self.decomposed(full)
        except np.linalg.LinAlgError:
            raise_where("linalg.pinv", np.ones((), np.int32), "The algorithm failed to converge.")
            raise
        size = np.abs(values)
        largest = size.max(-1)
        bound = np.maximum(np.asarray(atol), np.asarray(rtol) * largest)[..., None]
        with np.errstate(all="ignore"):
            inverse = np.where(size > bound, 1 / values, 0)[..., None, :]
        pseudoinverse = (across(right) * inverse) @ across(left)
        return narrow(pseudoinverse, a)

    def decomposed(self, a: Array) -> tuple[Array, Array, Array]:
        """(U, s, V^H) such that A = U diag(s) V^H."""
        left, values, right = np.linalg.svd(a, full_matrices=False)
        return left, values, right

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, atol: Tensor, rtol: Tensor) -> tuple[Any, ...]:
        p, seed = turned(y), turned(g)
        outer = ops.matmul(p, ops.matmul(g, p))
        rows = seed - ops.matmul(a, ops.matmul(y, seed))
        columns = seed - ops.matmul(ops.matmul(seed, y), a)
        beside = ops.matmul(ops.matmul(rows, y), p) + ops.matmul(p, ops.matmul(y, columns))
        return beside - outer, None, None

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a, zero, bound = rng.normal(size=(2, 4, 3)), np.zeros(()), np.full((), 1e-6)
        yield Sample(a, zero, bound)
        yield Sample(a[0].T, zero, bound)
        yield Sample(a[:, :1, :1], zero, bound)
        yield Sample(a[:, :, :0], zero, bound)


class LinalgPinvHermitian(LinalgPinv):
    """y = the pseudoinverse of symmetric matrices, of which the lower triangle is read."""

    formal_gradient = True  # of symmetric matrices, though a single triangle is read

    def infer(self, a: Spec, atol: Spec, rtol: Spec) -> Spec:
        square("linalg.pinv", a)
        return super().infer(a, atol, rtol)

    def decomposed(self, a: Array) -> tuple[Array, Array, Array]:
        """(V, eigenvalues, V^H)."""
        values, vectors = np.linalg.eigh(a)
        return vectors, values, across(vectors)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a, zero, bound = rng.normal(size=(2, 3, 3)), np.zeros(()), np.full((), 1e-6)
        a = a + np.swapaxes(a, -1, -2)
        yield Sample(a, zero, bound)
        yield Sample(a[0, :1, :1], zero, bound)


_WITH_RANK = ("gelsy", "gelsd", "gelss")


class LeastSquares(OfMatrices):
    """(solution, rank, singular_values): the y of the least |A y - B|, the shortest such y.

    A: (..., m, n)   B: (..., m, k)   rcond: 0-d   ->   (..., n, k)
    driver: the routine of LAPACK; 'gels' takes matrices of full rank only, and gives no rank.
    Singular values up to rcond times the largest count as 0. The solution alone has a gradient.
    Raises LinAlgError (when the value is computed) where the routine fails.
    """

    signature = "A, B, rcond, *, driver: str = 'gelsy'"
    tails = (2, 2, 0)
    driver: str
    facts = OpFacts(fallible=True)
    formal_gradient = True  # the singular values have none
    result = ("solution", "rank", "singular_values")

    def infer(self, a: Spec, b: Spec, rcond: Spec) -> tuple[Spec, ...]:
        op = "torch.linalg.lstsq"
        same_type(op, a, b, ("input", "other"))
        same = len(a.shape) == len(b.shape)
        if not (same and all(p == q for p, q in zip(a.shape[:-1], b.shape[:-1], strict=True))):
            raise ShapeError(
                f"{op}: input.size(-2) should match other.size(-2); the shapes are "
                f"{hints(a.shape)} and {hints(b.shape)}"
            )
        front, (m, n) = a.shape[:-2], a.shape[-2:]
        ranks = front if self.driver in _WITH_RANK else (0,)
        values = (*front, sym_min(m, n)) if self.driver in _WITH_RANK[1:] else (0,)
        solution = Spec((*front, n, b.shape[-1]), a.dtype)
        return solution, Spec(ranks, int64), Spec(values, a.dtype.to_real())

    def reference(self, a: Array, b: Array, rcond: Array) -> tuple[np.ndarray, ...]:
        like, (a, b) = a, broadcast_batches(wide(a), wide(b))
        front, (m, n), k = a.shape[:-2], a.shape[-2:], b.shape[-1]
        x, rank = np.zeros((*front, n, k), a.dtype), np.zeros(front, np.int64)
        values = np.zeros((*front, min(m, n)), a.real.dtype)
        if a.size and b.size:
            # LAPACK may write beyond its arrays, or not end.
            finite = np.isfinite(a).all((-2, -1)) & np.isfinite(b).all((-2, -1))
            raise_where(
                "torch.linalg.lstsq",
                ~finite,
                "The least squares solution could not be computed because the input has elements "
                "that are not finite.",
            )
            stack = by_columns(a)
            tall = np.zeros((len(stack), k, max(m, n)), a.dtype)
            tall[..., :m] = by_columns(b)
            bound = np.broadcast_to(np.asarray(rcond), front).astype(values.dtype).reshape(-1)
            rank, info = self._solve(stack, tall, bound, values)
            raise_where(
                "torch.linalg.lstsq",
                info.reshape(front),
                "The least squares solution could not be computed because the input matrix does "
                "not have full rank (error code: {0}).",
            )
            x, rank = from_columns(tall[..., :n], front), rank.reshape(front).astype(np.int64)
        ranks = rank if self.driver in _WITH_RANK else np.zeros((0,), np.int64)
        kept = values if self.driver in _WITH_RANK[1:] else np.zeros((0,), values.dtype)
        return narrow(x, like), ranks, narrow_real(kept, like)

    def _solve(self, a: Array, b: Array, rcond: Array, values: Array) -> tuple[Array, Array]:
        """(ranks, codes) by the routine; it puts solutions into b, singular values into `values`.

        a: (count, n, m), written over   b: (count, k, max(m, n))   rcond: (count,)
        """
        (count, n, m), (k, rows), kind = a.shape, b.shape[1:], integers()
        rank, info = np.zeros(count, kind), np.zeros(count, kind)
        routine, least = lapack(self.driver, a.dtype), min(m, n)
        system = (m, n, k, a, m, b, rows)
        if self.driver == "gels":
            routine.with_room(count, ("N", *system), a.dtype, (info,))
            return rank, info
        # Routines for complex matrices take scratch of real numbers too.
        room = {"gelsy": 2 * n, "gelss": 5 * least, "gelsd": 1}[self.driver]
        real = (scratch(rcond.dtype, room),) if a.dtype.kind == "c" else ()
        if self.driver == "gelsy":
            before = (*system, np.zeros((count, n), kind), rcond, rank)
            routine.with_room(count, before, a.dtype, (*real, info))
            return rank, info
        before = (*system, values.reshape(count, least), rcond, rank)
        if self.driver == "gelss":
            routine.with_room(count, before, a.dtype, (*real, info))
            return rank, info
        size, whole = scratch(a.dtype, 1), scratch(kind, 1)
        routine(1, *before, size, -1, *real, whole, info)  # only tells the sizes
        lists = [scratch(x.dtype, asked(x)) for x in (*real, whole)]
        routine(count, *before, scratch(a.dtype, asked(size)), asked(size), *lists, info)
        return rank, info

    def vjp(
        self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor, b: Tensor, rcond: Tensor
    ) -> tuple[Any, ...]:
        # The solution is pinv(A) B.
        pinv = ops.linalg_pinv(a, ops.full((), 0.0, dtype=a.dtype.to_real()), _precision(a))
        grad_b = ops.matmul(turned(pinv), g[0])
        p, seed = turned(pinv), ops.matmul(b, turned(g[0]))
        outer = ops.matmul(p, ops.matmul(turned(seed), p))
        rows = seed - ops.matmul(a, ops.matmul(pinv, seed))
        columns = seed - ops.matmul(ops.matmul(seed, pinv), a)
        beside = ops.matmul(ops.matmul(rows, pinv), p) + ops.matmul(p, ops.matmul(pinv, columns))
        return beside - outer, grad_b, None

    def batch(
        self, batched: Sequence[bool], size: Size, a: Tensor, b: Tensor, rcond: Tensor
    ) -> Any:
        if self.driver not in _WITH_RANK[1:]:
            results = super().batch(batched, size, a, b, rcond)
            empty = ops.full((size, 0), 0, dtype=a.dtype.to_real())
            rank = results[1] if self.driver in _WITH_RANK else ops.full((size, 0), 0, dtype=int64)
            return results[0], rank, empty
        return super().batch(batched, size, a, b, rcond)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a, b, bound = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5, 2)), np.full((), 1e-10)
        yield Sample(a, b, bound)
        yield Sample(a[0], b[0], bound, driver="gelsd")
        yield Sample(np.swapaxes(a, -1, -2), b[:, :3], bound, driver="gelss")
        yield Sample(a, b, bound, driver="gels")
        yield Sample(a[:, :, :0], b, bound)


def _precision(a: Tensor) -> Tensor:
    """The bound below which singular values of matrices like A are noise."""
    m, n = a.shape[-2:]
    dtype = a.dtype.to_real()
    return ops.mul(ops.full((), sym_max(m, n), dtype=dtype), float(finfo(dtype).eps))
