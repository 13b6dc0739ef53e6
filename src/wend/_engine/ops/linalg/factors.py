"""Factorisations: Cholesky, LU, LDL and QR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import INT, int32, int64
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule, TorchCall
from wend._engine.core.primitive import NO_GRADIENT, Sample, ops
from wend._engine.core.symbolic import broadcast_shapes, sym_min
from wend._engine.core.types import Spec
from wend._engine.ops.linalg.family import (
    OfMatrices,
    by_columns,
    column,
    floating,
    from_columns,
    lesser,
    many_small,
    matrix,
    narrow,
    same_type,
    square,
    turned,
    volume,
    wide,
    with_diagonal,
)
from wend._engine.ops.linalg.lapack import integers, lapack
from wend._engine.ops.numeric import Array
from wend._engine.ops.placing import full_beside


class CholeskyEx(OfMatrices):
    """(L, info): the lower triangular L with a positive diagonal such that L L^H = A.

    A: (..., n, n), hermitian and positive definite; the lower triangle is read.
    info: the order of the leading minor that is not positive, or 0. A factor that could not be
    completed holds what was found up to there. The gradient is symmetric.
    """

    signature = "A"
    name = "cholesky_factor"
    result = ("L", "info")
    torch = TorchCall(label="linalg_cholesky_ex", grad_name="LinalgCholeskyExBackward0")
    formal_gradient = True  # of symmetric matrices, though a single triangle is read

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("linalg.cholesky", a.dtype)
        square("linalg.cholesky", a)
        return a, Spec(a.shape[:-2], int32)

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        full, info = wide(a), np.zeros(a.shape[:-2], np.int32)
        try:
            return narrow(np.linalg.cholesky(full), a), info
        except np.linalg.LinAlgError:
            # LAPACK's code per matrix is a result of the op; the caller raises.
            stack = by_columns(full)
        n, codes = a.shape[-1], np.zeros(len(stack), integers())
        lapack("potrf", full.dtype)(len(stack), "L", n, stack, n, codes)
        factors = np.tril(from_columns(stack, info.shape))
        return narrow(factors, a), codes.reshape(info.shape).astype(np.int32)

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> tuple[Any, ...]:
        upper = turned(y[0])
        inner = ops.matmul(upper, ops.tril(g[0]))
        half = (ops.tril(inner) + ops.tril(inner, -1)) * 0.5  # the diagonal counts half
        left = ops.triangular_solve_matrix(upper, half, upper=True)
        both = ops.triangular_solve_matrix(upper, turned(left), upper=True)
        return ((both + turned(both)) * 0.5,)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        root = rng.normal(size=(2, 3, 3))
        a = root @ np.swapaxes(root, -1, -2) + 2 * np.eye(3)
        yield Sample(a)
        yield Sample(a[0])
        yield Sample(a[:, :1, :1])
        yield Sample(a[:, :0, :0])


class LuFactorEx(OfMatrices):
    """(LU, pivots, info): A with rows exchanged is L U, both kept in a single matrix.

    A: (..., m, n)   pivots: (..., k), k = min(m, n): row i was exchanged with row pivots[i] - 1
    L: below the diagonal of LU, ones on the diagonal   U: the rest
    info: the first i for which U[i, i] is 0 (counted from 1), or 0
    """

    signature = "A"
    result = ("LU", "pivots", "info")
    torch = TorchCall(label="linalg_lu_factor_ex", grad_name="LinalgLuFactorExBackward0")

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("linalg.lu_factor", a.dtype)
        matrix("linalg.lu_factor", a)
        front = a.shape[:-2]
        pivots = Spec((*front, lesser(*a.shape[-2:])), int32)
        return a, pivots, Spec(front, int32)

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        full, front = wide(a), a.shape[:-2]
        factors, info = np.empty_like(full), np.zeros(front, np.int32)
        pivots = np.zeros((*front, min(a.shape[-2:])), np.int32)
        if full.size and many_small(full, 8):
            factors = np.ascontiguousarray(full).copy()
            count = volume(front)
            _eliminate(
                factors.reshape(count, *a.shape[-2:]), pivots.reshape(count, -1), info.reshape(-1)
            )
        elif full.size:
            (m, n), stack = a.shape[-2:], by_columns(full)
            count, kind = len(stack), integers()
            places, codes = np.zeros((count, min(m, n)), kind), np.zeros(count, kind)
            lapack("getrf", full.dtype)(count, m, n, stack, m, places, codes)
            factors = np.ascontiguousarray(from_columns(stack, front))
            pivots, info = (x.astype(np.int32) for x in (places, codes))
            pivots, info = pivots.reshape(*front, min(m, n)), info.reshape(front)
            if max(a.shape[-2:]) <= _SMALL and info.any():
                again = info > 0
                parts = full[again], pivots[again], np.zeros_like(info[again])
                _eliminate(*parts)
                factors[again], pivots[again], info[again] = parts
        return narrow(factors, a), pivots, info

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> tuple[Any, ...]:
        m, n = a.shape[-2:]
        k = lesser(m, n)
        lower, upper = _lower(y[0], k), ops.triu(ops.narrow(y[0], -2, 0, k))
        seed_l = ops.tril(ops.narrow(g[0], -1, 0, k), -1)
        seed_u = ops.triu(ops.narrow(g[0], -2, 0, k))
        order = ops.pivots_order(y[1], m)
        top = ops.narrow(lower, -2, 0, k)
        left = ops.narrow(upper, -1, 0, k)
        inner = ops.matmul(turned(top), ops.narrow(seed_l, -2, 0, k))
        outer = ops.matmul(ops.narrow(seed_u, -1, 0, k), turned(left))
        parts = []
        if m > n:  # the rows below: L2 = A2 U^-1
            below = ops.narrow(seed_l, -2, k, m - k)
            outer = outer - ops.matmul(turned(ops.narrow(lower, -2, k, m - k)), below)
            parts.append(_divided(below, left))
        if m < n:  # the columns beside: U2 = L^-1 A2
            beside = ops.narrow(seed_u, -1, k, n - k)
            inner = inner - ops.matmul(beside, turned(ops.narrow(upper, -1, k, n - k)))
            parts.append(ops.triangular_solve_matrix(turned(top), beside, **_ONES))
        core = _divided(ops.tril(inner, -1) + ops.triu(outer), left)
        grad = ops.triangular_solve_matrix(turned(top), core, **_ONES)
        if parts:
            grad = ops.cat([grad, *parts], -2 if m > n else -1)
        # Row i of the product is row order[i] of A.
        places = column(order, n)
        return (ops.scatter_add(ops.full(a.shape, 0, dtype=a.dtype), -2, places, grad),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.normal(size=(2, 4, 3))
        yield Sample(a)
        yield Sample(a[0].T)
        yield Sample(a[:, :3] + 2 * np.eye(3))
        yield Sample(a[:, :1, :1])
        yield Sample(a[:, :0])


#: The rows up to which a matrix that LAPACK calls singular is factored again, by `_eliminate`.
#: LAPACK's code of OpenBLAS adds up the products of a row and a column, rounds the sum, and then
#: subtracts this from the element: so a last pivot of rounding errors is 0 in a case of four.  Step
#: by step, and in PyTorch's library, it is seldom 0, and the division goes on.
_SMALL = 64


def _eliminate(a: Array, pivots: Array, info: Array) -> None:
    """LU with exchanges of rows in place, as getrf: each column for all matrices at once."""
    every = np.arange(len(a))
    for i in range(pivots.shape[1]):
        place = i + _size(a[:, i:, i]).argmax(1)
        pivots[:, i] = place + 1
        a[every, i], a[every, place] = a[every, place], a[every, i]
        pivot = a[:, i, i]
        info[(info == 0) & (pivot == 0)] = i + 1
        below = a[:, i + 1 :, i]
        np.divide(below, pivot[:, None], out=below, where=pivot[:, None] != 0)
        a[:, i + 1 :, i + 1 :] -= below[:, :, None] * a[:, i, None, i + 1 :]


def _size(x: Array) -> Array:
    """The size by which LAPACK chooses pivots."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


_ONES = {"upper": True, "unitriangular": True}


def _lower(packed: Tensor, k: Size) -> Tensor:
    """L of a packed LU: (..., m, k), ones on the diagonal."""
    ones = ops.full((*packed.shape[:-2], k), 1, dtype=packed.dtype)
    return with_diagonal(ops.tril(ops.narrow(packed, -1, 0, k), -1), ones)


def _divided(x: Tensor, upper: Tensor) -> Tensor:
    """x U^-H, for an upper triangular U."""
    return turned(ops.triangular_solve_matrix(upper, turned(x), upper=True))


class PivotsOrder(OfMatrices):
    """The order of rows that exchanges make: row i of the product is row y[i] of the matrix.

    pivots: (..., k), int32, counted from 1   rows: m   ->   (..., m), int64
    """

    signature = "pivots, rows: size"
    facts = OpFacts(supports=frozenset({"int"}))
    schedule = OpSchedule(
        library="", unlowered="each exchange of rows depends on the exchanges before"
    )
    vjp = NO_GRADIENT

    def infer(self, pivots: Spec, rows: Size) -> Spec:
        if pivots.dtype.category != INT:
            raise DTypeError(
                "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32"
            )
        return Spec((*pivots.shape[:-1], rows), int64)

    def reference(self, pivots: Array, rows: int) -> Array:
        front = pivots.shape[:-1]
        order = np.broadcast_to(np.arange(rows, dtype=np.int64), (*front, rows)).copy()
        count = volume(front)
        flat, every = order.reshape(count, rows), np.arange(count)
        for i in range(pivots.shape[-1]):
            other = pivots[..., i].reshape(-1) - 1
            flat[every, i], flat[every, other] = flat[every, other], flat[every, i]
        return order

    def batch(self, batched: Sequence[bool], size: Size, pivots: Tensor, rows: Size) -> Tensor:
        return ops.pivots_order(pivots, rows)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(np.array([[2, 3, 3], [1, 2, 3]], np.int32), 4)
        yield Sample(np.array([3, 2], np.int32), 3)
        yield Sample(np.zeros((2, 0), np.int32), 0)


class LdlFactorEx(OfMatrices):
    """(LD, pivots, info): A = L D L^T with exchanges of rows, as LAPACK's sytrf packs them.

    A: (..., n, n), symmetric; the lower triangle is read. D has blocks of 1 x 1 and 2 x 2.
    hermitian: of complex matrices, A = L D L^H
    """

    signature = "A, *, hermitian: bool = False"
    hermitian: bool = False
    result = ("LD", "pivots", "info")
    torch = TorchCall(label="linalg_ldl_factor_ex")
    vjp = NO_GRADIENT

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("torch.linalg.ldl_factor_ex", a.dtype)
        square("torch.linalg.ldl_factor_ex", a)
        return a, Spec(a.shape[:-1], int32), Spec(a.shape[:-2], int32)

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        full = wide(a)
        front, n = a.shape[:-2], a.shape[-1]
        if not full.size:
            return a.copy(), np.zeros(a.shape[:-1], np.int32), np.zeros(front, np.int32)
        stack, kind = by_columns(full), integers()
        places, codes = np.zeros((len(stack), n), kind), np.zeros(len(stack), kind)
        turns = self.hermitian and full.dtype.kind == "c"
        lapack("hetrf" if turns else "sytrf", full.dtype).with_room(
            len(stack), ("L", n, stack, n, places), full.dtype, (codes,)
        )
        pivots, info = (x.astype(np.int32) for x in (places, codes))
        factors = np.tril(from_columns(stack, front))
        return narrow(factors, a), pivots.reshape(a.shape[:-1]), info.reshape(front)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.normal(size=(2, 4, 4))
        a = a + np.swapaxes(a, -1, -2)
        yield Sample(a)
        yield Sample(a[0, :1, :1])
        yield Sample(a[:, :0, :0])


class LdlSolve(OfMatrices):
    """y such that A y = B, for the factors that ldl_factor_ex gives of A.

    LD: (..., n, n)   pivots: (..., n)   B: (..., n, k)   ->   (..., n, k); leading dims broadcast
    """

    signature = "LD, pivots, B, *, hermitian: bool = False"
    hermitian: bool = False
    tails = (2, 1, 2)
    vjp = NO_GRADIENT

    def infer(self, ld: Spec, pivots: Spec, b: Spec) -> Spec:
        op = "torch.linalg.ldl_solve"
        same_type(op, ld, b, ("LD", "B"))
        square(op, ld, "LD")
        matrix(op, b, "B")
        if pivots.dtype is not int32:
            raise DTypeError(f"{op}: Expected pivots to be integers of type int32")
        if not (b.shape[-2] == ld.shape[-1] and pivots.shape[-1] == ld.shape[-1]):
            raise ShapeError(
                f"{op}: Expected LD.shape[-1] to match B.shape[-2] and pivots.shape[-1]"
            )
        front = broadcast_shapes(op, ld.shape[:-2], b.shape[:-2])
        return Spec((*front, *b.shape[-2:]), b.dtype)

    def reference(self, ld: Array, pivots: Array, b: Array) -> Array:
        like, ld, b = b, wide(ld), wide(b)
        front = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
        n, k = b.shape[-2:]
        solution = by_columns(np.broadcast_to(b, (*front, n, k)))
        if solution.size:
            stack, count = by_columns(np.broadcast_to(ld, (*front, n, n))), len(solution)
            rows = np.broadcast_to(pivots, (*front, n)).reshape(count, n)
            rows = np.ascontiguousarray(rows, integers())  # `astype` keeps the order of strides
            turns = self.hermitian and ld.dtype.kind == "c"
            lapack("hetrs" if turns else "sytrs", ld.dtype)(
                *(count, "L", n, k, stack, n, rows, solution, n),
                np.zeros(count, integers()),
            )
        return narrow(from_columns(solution, front), like)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        from wend._engine.core.primitive import REGISTRY

        a = rng.normal(size=(2, 4, 4))
        a = a + np.swapaxes(a, -1, -2)
        ld, pivots, _ = LdlFactorEx.reference(REGISTRY["ldl_factor_ex"], a)  # type: ignore[arg-type]
        b = rng.normal(size=(2, 4, 3))
        yield Sample(ld, pivots, b)
        yield Sample(ld[0], pivots[0], b)


class Geqrf(OfMatrices):
    """(a, tau): the factors of a QR decomposition as reflections: R above, vectors below.

    input: (..., m, n)   tau: (..., min(m, n)). See householder_product for Q.
    """

    signature = "input"
    torch = TorchCall(names=("geqrf",))
    result = ("a", "tau")
    vjp = NO_GRADIENT

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("geqrf", a.dtype)
        matrix("torch.geqrf", a, "input")
        return a, Spec((*a.shape[:-2], sym_min(*a.shape[-2:])), a.dtype)

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        full = wide(a)
        front, (m, n) = a.shape[:-2], a.shape[-2:]
        stack = by_columns(full)
        tau = np.zeros((len(stack), min(m, n)), full.dtype)
        if full.size:
            lapack("geqrf", full.dtype).with_room(
                len(stack), (m, n, stack, m, tau), full.dtype, (np.zeros(len(stack), integers()),)
            )
        return narrow(from_columns(stack, front), a), narrow(tau.reshape(*front, min(m, n)), a)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.normal(size=(2, 4, 3))
        yield Sample(a)
        yield Sample(a[0].T)
        yield Sample(a[:, :1, :1])
        yield Sample(a[:, :0])


class LinalgQr(OfMatrices):
    """(Q, R): orthonormal columns Q and upper triangular R such that A = Q R.

    A: (..., m, n)   mode: 'reduced' (Q of min(m, n) columns), 'complete' (m columns), or 'r' (R
    alone; Q is empty). The gradient of 'reduced' asks for independent leading columns. Gradients of
    'r', and of 'complete' with m > n, raise LinAlgError when they are computed.
    """

    signature = "A, mode: str = 'reduced'"
    result = ("Q", "R")
    torch = TorchCall(grad_name="LinalgQrBackward0")
    mode: str

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("linalg.qr", a.dtype)
        matrix("linalg.qr", a)
        front, (m, n) = a.shape[:-2], a.shape[-2:]
        k = lesser(m, n)
        inner = m if self.mode == "complete" else k
        q = (0,) if self.mode == "r" else (*front, m, inner)
        return Spec(q, a.dtype), Spec((*front, inner, n), a.dtype)

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        full = wide(a)
        m, n = a.shape[-2:]
        inner = m if self.mode == "complete" else min(m, n)
        routine: Any = np.linalg.qr
        if not full.size:
            q = np.zeros((*a.shape[:-2], m, inner), full.dtype)
            if self.mode == "complete":
                q[...] = np.eye(m, dtype=full.dtype)
            r = np.zeros((*a.shape[:-2], inner, n), full.dtype)
        elif self.mode == "r":
            q, r = full, routine(full, "r")
        else:
            q, r = routine(full, self.mode)
        q = np.zeros((0,), full.dtype) if self.mode == "r" else q
        return narrow(q, a), narrow(r, a)

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> tuple[Any, ...]:
        m, n = a.shape[-2:]
        if self.mode == "r":
            return (_refused(a, _WITHOUT_Q),)
        if self.mode == "complete" and m > n:
            return (_refused(a, _COMPLETE),)
        (seed_q, seed_r), (q, r) = g, y
        if m >= n:
            return (_qr_gradient(q, r, seed_q, seed_r),)
        # A = [X Y], R = [U V]: V = Q^T Y, and Q U is the decomposition of X.
        beside = ops.narrow(seed_r, -1, m, n - m)
        seed_q = seed_q + ops.matmul(ops.narrow(a, -1, m, n - m), turned(beside))
        first = _qr_gradient(q, ops.narrow(r, -1, 0, m), seed_q, ops.narrow(seed_r, -1, 0, m))
        return (ops.cat([first, ops.matmul(q, beside)], -1),)

    def batch(self, batched: Sequence[bool], size: Size, a: Tensor) -> Any:
        q, r = ops.linalg_qr(a, self.mode)
        return (full_beside(a, (size, 0), 0), r) if self.mode == "r" else (q, r)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.normal(size=(2, 4, 3))
        yield Sample(a)
        yield Sample(a[0].T)
        yield Sample(a[:, :3], "complete")
        yield Sample(a[:, :1, :1])
        yield Sample(a[:, :0])


_WITHOUT_Q = (
    "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
    "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
)
_COMPLETE = "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."


def _refused(a: Tensor, reason: str) -> Tensor:
    """A gradient that raises when it is computed: rules are also asked what they would read."""
    nothing = full_beside(a, a.shape, 0)
    return ops.linalg_completed(nothing, ops.full((), 1), op="linalg.qr", fault=reason)


def _diagonal(x: Tensor) -> Tensor:
    return ops.diagonal(x, 0, -2, -1)


def _qr_gradient(q: Tensor, r: Tensor, seed_q: Tensor, seed_r: Tensor) -> Tensor:
    """(gQ + Q S) R^-H, S the hermitian matrix with the upper triangle of gR R^H - Q^H gQ."""
    inner = ops.matmul(seed_r, turned(r)) - ops.matmul(turned(q), seed_q)
    if inner.dtype.is_complex:  # the diagonal of R is real
        inner = with_diagonal(inner, ops.cast(ops.real(_diagonal(inner)), inner.dtype))
    both = ops.triu(inner) + turned(ops.triu(inner, 1))
    return _divided(seed_q + ops.matmul(q, both), r)
