"""Uses of factorisations: systems solved by factors, products of reflections, inverses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import broadcast_shapes, hints
from wend._engine.ops.linalg.family import (
    column,
    equation,
    floating,
    lesser,
    matrix,
    row,
    same_type,
    square,
    turned,
    with_diagonal,
)
from wend._engine.ops.numeric import INEXACT
from wend._engine.ops.placing import beside
from wend._engine.ops.sugar import sugar
from wend._engine.ops.views.strided import arange

ZERO_DIAGONAL = (
    "The diagonal element {0} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)


@sugar(name="inv")
def inv(A: Tensor, op: str = "linalg.inv") -> Any:
    """The inverse of square matrices; LinAlgError (when the value is computed) if singular."""
    inverse, info = ops.inv_ex(A)
    return ops.linalg_completed(inverse, info, op=op, fault=ZERO_DIAGONAL)


@sugar(name="solve_triangular")
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X such that A X = B (left) or X A = B, for triangular matrices A."""
    equation("linalg.solve_triangular", A, B, left)
    how = {"unitriangular": unitriangular}
    if left:
        return ops.triangular_solve_matrix(A, B, upper=upper, **how)
    right = ops.matrix_transpose(B)
    solution = ops.triangular_solve_matrix(ops.matrix_transpose(A), right, upper=not upper, **how)
    return ops.matrix_transpose(solution)


# -- LU --------------------------------------------------------------------------------------------


def _packed(rng: np.random.Generator, rows: int, columns: int) -> tuple[Any, Any]:
    """A packed LU and pivots."""
    factors = rng.normal(size=(2, rows, columns)) + 3 * np.eye(rows, columns)
    k = min(rows, columns)
    pivots = np.minimum(np.arange(k) + rng.integers(1, 3, size=(2, k)), rows)
    return factors, pivots.astype(np.int32)


def _triangle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((2, 4, 3), (3, 4), (2, 3, 3), (2, 0, 3), (2, 1, 1)):
        yield Sample(rng.normal(size=shape))


@composite(result=("L", "U"), samples=_triangle_samples, supports=INEXACT)
def lu_triangles(LU: Tensor) -> tuple[Tensor, ...]:
    """(L, U) of a packed LU: (..., m, k) with ones on the diagonal, and (..., k, n)."""
    k = lesser(*LU.shape[-2:])
    ones = ops.full((*LU.shape[:-2], k), 1, dtype=LU.dtype)
    lower = with_diagonal(ops.tril(ops.narrow(LU, -1, 0, k), -1), ones)
    return lower, ops.triu(ops.narrow(LU, -2, 0, k))


def _solve_samples(rng: np.random.Generator) -> Iterator[Sample]:
    factors, pivots = _packed(rng, 3, 3)
    b = rng.normal(size=(2, 3, 4))
    yield Sample(factors, pivots, b)
    yield Sample(factors[0], pivots[0], b)
    yield Sample(factors, pivots, b[0], adjoint=True)
    yield Sample(factors, pivots, np.swapaxes(b, -1, -2), left=False)
    yield Sample(factors, pivots, b[:, :, 0:3], left=False, adjoint=True)


@composite(
    name="linalg_lu_solve",
    grad_name="LinalgLuSolveBackward0",
    samples=_solve_samples,
    supports=INEXACT,
)
def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X such that A X = B (left) or X A = B, of the factors of A; A^H for A with `adjoint`."""
    op = "linalg.lu_solve"
    same_type(op, LU, B, ("LU", "B"))
    square(op, LU, "LU")
    front = equation(op, LU, B, left)
    if not pivots.shape[-1] == LU.shape[-1] or len(pivots.shape) != len(LU.shape) - 1:
        raise ShapeError(
            f"{op}: Number of pivots per batch should be same as the dimension of the matrix: LU "
            f"has shape {hints(LU.shape)} and pivots {hints(pivots.shape)}"
        )
    if not left:
        B, adjoint = turned(B), not adjoint
    n, k = B.shape[-2:]
    order = ops.pivots_order(pivots, n)
    if adjoint:
        order = ops.argsort(order, -1)
    places = ops.expand(column(order, k), (*front, n, k))
    if not adjoint:
        moved = ops.gather(ops.expand(B, (*front, n, k)), -2, places)
        half = ops.triangular_solve_matrix(LU, moved, upper=False, unitriangular=True)
        solution = ops.triangular_solve_matrix(LU, half, upper=True)
    else:
        across = turned(LU)
        half = ops.triangular_solve_matrix(across, B, upper=False)
        half = ops.triangular_solve_matrix(across, half, upper=True, unitriangular=True)
        solution = ops.gather(ops.expand(half, (*front, n, k)), -2, places)
    return solution if left else turned(solution)


@sugar(name="permutation_matrix")
def permutation_matrix(pivots: Any, rows: Any, dtype: Any) -> Tensor:
    """P such that A = P L U, from the exchanges of rows that gave L U."""
    order = ops.pivots_order(pivots, rows)
    return ops.cast(ops.eq(row(order, rows), ops.unsqueeze(beside(pivots, arange(rows)), 1)), dtype)


# -- reflections -----------------------------------------------------------------------------------


def _reflections(input: Tensor, tau: Tensor) -> tuple[Any, Any]:
    """(V, T) such that the product of the reflections I - tau_i v_i v_i^H is I - V T V^H.

    By Schreiber and Van Loan (1989): T^-1 = diag(1 / tau) + the upper triangle of V^H V.
    """
    k = tau.shape[-1]
    ones = ops.full(tau.shape, 1, dtype=tau.dtype)
    v = with_diagonal(ops.tril(ops.narrow(input, -1, 0, k), -1), ones)
    inner = ops.triu(ops.matmul(turned(v), v), 1) * row(tau, k)
    diagonal = with_diagonal(ops.full(inner.shape, 0, dtype=tau.dtype), tau)
    # T (I + S D) = D, which has no division by a tau of 0
    across = ops.triangular_solve_matrix(
        ops.matrix_transpose(inner), diagonal, upper=False, unitriangular=True
    )
    return v, ops.matrix_transpose(across)


def _check_reflections(op: str, input: Tensor, tau: Tensor) -> None:
    floating(op, input.dtype)
    matrix(op, input, "input")
    if input.dtype is not tau.dtype:
        raise DTypeError(f"{op}: tau dtype {tau.dtype} does not match input dtype {input.dtype}")
    if not input.shape[-2] >= input.shape[-1]:
        raise ShapeError(f"{op}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if not input.shape[-1] >= tau.shape[-1]:
        raise ShapeError(f"{op}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if len(tau.shape) != len(input.shape) - 1 or not all(
        a == b for a, b in zip(tau.shape[:-1], input.shape[:-2], strict=True)
    ):
        raise ShapeError(
            f"{op}: Expected tau to have one dimension less than input and the same batch, but "
            f"got shapes {hints(input.shape)} and {hints(tau.shape)}"
        )


def _reflection_samples(rng: np.random.Generator) -> Iterator[Sample]:
    a, tau = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 3))
    yield Sample(a, tau)
    yield Sample(a[0], tau[0, :2])
    yield Sample(a[:, :3], np.zeros((2, 3)))
    yield Sample(a[:, :, :0], tau[:, :0])


@composite(
    name="householder_product",
    grad_name="LinalgHouseholderProductBackward0",
    samples=_reflection_samples,
    supports=INEXACT,
)
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflections I - tau_i v_i v_i^H.

    input: (..., m, n), v_i in column i below the diagonal (see geqrf)   tau: (..., k)
    """
    _check_reflections("torch.linalg.householder_product", input, tau)
    v, t = _reflections(input, tau)
    n = input.shape[-1]
    right = turned(ops.narrow(v, -2, 0, n))
    zero = ops.full(input.shape, 0, dtype=input.dtype)
    ones = with_diagonal(zero, ops.full((*input.shape[:-2], n), 1, dtype=input.dtype))
    return ones - ops.matmul(ops.matmul(v, t), right)


def _ormqr_samples(rng: np.random.Generator) -> Iterator[Sample]:
    a, tau, other = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 4, 5))
    yield Sample(a, tau, other)
    yield Sample(a[0], tau[0], other[0].T, False)
    yield Sample(a, tau, other, True, True)


@composite(
    functions=("ormqr",),
    methods=("ormqr",),
    samples=_ormqr_samples,
    supports=INEXACT,
)
def ormqr(
    input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q C (left) or C Q, Q the product of the reflections, or its transpose.

    input, input2: vectors and factors, as geqrf gives   input3: C, (..., m, n)
    """
    op = "torch.ormqr"
    same_type(op, input, input3, ("input", "other"))
    matrix(op, input, "input")
    matrix(op, input3, "other")
    if input3.shape[-2 if left else -1] != input.shape[-2]:
        side = -2 if left else -1
        raise ShapeError(f"{op}: other.shape[{side}] must be equal to input.shape[-2]")
    if not input2.shape[-1] <= input.shape[-1]:
        raise ShapeError(f"{op}: tau.shape[-1] must be less than or equal to input.shape[-1]")
    if len(input2.shape) != len(input.shape) - 1 or len(input3.shape) != len(input.shape):
        raise ShapeError(
            f"{op}: Expected tau to have one dimension less than input, and other as many, but "
            f"got shapes {hints(input.shape)}, {hints(input2.shape)} and {hints(input3.shape)}"
        )
    v, t = _reflections(input, input2)
    t = turned(t) if transpose else t
    if left:
        return input3 - ops.matmul(v, ops.matmul(t, ops.matmul(turned(v), input3)))
    return input3 - ops.matmul(ops.matmul(ops.matmul(input3, v), t), turned(v))


# -- symmetric factors, ranks ----------------------------------------------------------------------


@composite(
    functions=("logdet",),
    methods=("logdet",),
    spellings={"input": "A"},
    samples=lambda rng: iter([Sample(rng.normal(size=(2, 3, 3))), Sample(np.eye(2))]),
    supports=INEXACT,
)
def logdet(A: Tensor) -> Tensor:
    """The logarithm of the determinant: -inf for 0; of real matrices, NaN if negative."""
    floating("logdet", A.dtype)
    square("logdet", A)
    sign, size = ops.linalg_slogdet(A)
    if A.dtype.is_complex:
        return ops.log(sign) + size
    return ops.where(ops.eq(sign, -1), float("nan"), size)


def batched_like(op: str, *tensors: Tensor) -> list[Any]:
    """The tensors with equal leading dims."""
    front = broadcast_shapes(op, *(x.shape[:-2] for x in tensors))
    return [ops.expand(x, (*front, *x.shape[-2:])) for x in tensors]
