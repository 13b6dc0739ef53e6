"""Systems of linear equations, inverses and least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wend._engine.base.dtypes import FLOAT, finfo
from wend._engine.base.errors import DTypeError, ShapeError, ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.composites.products.factored import ZERO_DIAGONAL, batched_like
from wend._engine.ops.linalg.family import equation, floating, same_type, square
from wend._engine.ops.linalg.systems import SINGULAR
from wend._frontend.linalg.entries import at_once, completed, entry, results

if TYPE_CHECKING:
    from wend._frontend.linalg.named_results import (
        InverseInfo,
        LeastSquares,
        SolveInfo,
        TriangularSolution,
    )

__all__ = [
    "inv",
    "inv_ex",
    "inverse",
    "lstsq",
    "pinv",
    "pinverse",
    "solve",
    "solve_ex",
    "solve_triangular",
    "tensorinv",
    "tensorsolve",
    "triangular_solve",
]

Number = float | Tensor | None


def _is_vector(A: Tensor, B: Tensor) -> bool:
    """Whether B is a vector per matrix of A."""
    return B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])


def _solved(op: Any, A: Tensor, B: Tensor, left: bool) -> Any:
    """(the solution by `op`, whether B is a vector)."""
    same_type("linalg.solve", A, B)
    square("linalg.solve", A)
    vector = _is_vector(A, B)
    right = ops.unsqueeze(B, -1) if vector else B
    equation("linalg.solve", A, right, left)
    if not left:
        A, right = ops.matrix_transpose(A), ops.matrix_transpose(right)
    return op(A, right), vector


def _shaped(solution: Tensor, vector: bool, left: bool) -> Tensor:
    if not left:
        solution = ops.matrix_transpose(solution)
    return ops.squeeze(solution, -1) if vector else solution  # type: ignore[no-any-return]


@entry("A", "B")
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """x such that A x = B (left) or x A = B.

    A: (..., n, n)   B: (..., n, k), or (..., n): a vector per matrix
    Computed at once. Raises LinAlgError where A is singular.
    """
    solution, vector = _solved(ops.solve_matrix, A, B, left)
    return _shaped(at_once(solution), vector, left)


@entry("A", "B")
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> SolveInfo:
    """(result, info): as solve, and per matrix the pivot that is 0 (from 1), or 0."""

    def by_factors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        factors, pivots, info = ops.lu_factor_ex(a)
        return ops.linalg_lu_solve(factors, pivots, b), info

    (solution, info), vector = _solved(by_factors, A, B, left)
    if check_errors:
        solution = completed("torch.linalg.solve_ex", solution, info, SINGULAR)
    return results("linalg_solve_ex", "result info")(_shaped(solution, vector, left), info)


@entry("input", "B")
def solve_triangular(
    input: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """X such that A X = B (left) or X A = B, for triangular matrices A (`input`).

    A: (..., n, n)   B: (..., n, k)   unitriangular: the diagonal counts as ones
    """
    how = {"upper": upper, "left": left, "unitriangular": unitriangular}
    return ops.solve_triangular(input, B, **how)  # type: ignore[no-any-return]


@entry("input", "A", functions=("triangular_solve",), methods=("triangular_solve",))
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: tuple[Tensor, ...] | None = None,
) -> TriangularSolution:
    """(solution, cloned_coefficient): X such that A X = input, and a copy of A.

    The former name of linalg.solve_triangular. transpose: of A^T X = input
    """
    for x, name in ((input, "b"), (A, "A")):
        if x.dim() < 2:
            raise ShapeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it "
                f"has {x.dim()} dimensions instead"
            )
    right, a = batched_like("triangular_solve", input, A)
    lower, moved = (not upper, ops.matrix_transpose(a)) if transpose else (upper, a)
    solution = ops.solve_triangular(moved, right, upper=lower, unitriangular=unitriangular)
    return results("triangular_solve", "solution cloned_coefficient")(solution, ops.clone(a))


def _inverse(op: str, A: Tensor) -> Tensor:
    floating(op, A.dtype)
    square(op, A)
    inverse, info = ops.inv_ex(A)
    return completed(op, inverse, info, ZERO_DIAGONAL)


@entry("A")
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices. Raises LinAlgError where A is singular."""
    return _inverse("linalg.inv", A)


@entry("input", functions=("inverse",), methods=("inverse",))
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """linalg.inv."""
    return _inverse("linalg.inv", input)


@entry("A")
def inv_ex(
    A: Tensor, *, check_errors: bool = False, out: tuple[Tensor, ...] | None = None
) -> InverseInfo:
    """(inverse, info): info names the pivot that is 0, from 1, or is 0."""
    parts: Any = ops.inv_ex(A)
    inverse, info = parts
    return (
        parts._make((completed("linalg.inv_ex", inverse, info, ZERO_DIAGONAL), info))
        if check_errors
        else parts
    )


def bounds(op: str, A: Tensor, atol: Number, rtol: Number) -> tuple[Tensor, Tensor]:
    """(atol, rtol) as tensors; the default rtol is 0 where there is an atol above 0."""
    for name, bound in (("atol", atol), ("rtol", rtol)):
        if isinstance(bound, Tensor) and bound.dtype.is_complex:
            raise DTypeError(f"{op}: {name} tensor of complex type is not supported.")
    dtype = A.dtype.to_real()
    usual = max(A.shape[-2:]) * finfo(dtype).eps

    def tensor(value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return ops.cast(value, dtype)  # type: ignore[no-any-return]
        return ops.full((), float(value), dtype=dtype)  # type: ignore[no-any-return]

    absolute = tensor(0.0 if atol is None else atol)
    if rtol is not None:
        return absolute, tensor(rtol)
    if isinstance(atol, Tensor):
        return absolute, ops.where(ops.gt(absolute, 0), tensor(0.0), tensor(usual))
    return absolute, tensor(0.0 if atol is not None and atol > 0 else usual)


@entry("input")
def pinv(
    input: Tensor,
    rcond: Number = None,
    hermitian: bool = False,
    *,
    atol: Number = None,
    rtol: Number = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudoinverse of matrices: singular values up to max(atol, rtol s_max) count as 0.

    rcond: the former name of rtol   hermitian: symmetric matrices, read in the lower triangle
    """
    if input.dim() < 2 or input.dtype.category < FLOAT:
        raise ShapeError(
            f"linalg.pinv({input.dtype}{{{list(input.shape)}}}): expected a tensor with 2 or more "
            "dimensions of float, double, cfloat or cdouble types"
        )
    if rcond is not None:
        atol, rtol = (0.0 if atol is None else atol), rcond
    function = ops.linalg_pinv_hermitian if hermitian else ops.linalg_pinv
    return at_once(function(input, *bounds("linalg.pinv", input, atol, rtol)))  # type: ignore[no-any-return]


@entry("input", functions=("pinverse",), methods=("pinverse",))
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """linalg.pinv with singular values up to rcond times the largest taken for 0."""
    return pinv(input, rcond)  # type: ignore[no-any-return]


@entry("input", "b")
def lstsq(
    input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> LeastSquares:
    """(solution, residuals, rank, singular_values): X of the least norm of A X - B.

    input: A, (..., m, n)   b: (..., m, k), or a vector per matrix
    driver: 'gelsy' (by default), 'gelsd', 'gelss', or 'gels' for matrices of full rank
    residuals: squared norms, of m > n and full rank, but for 'gelsy'; otherwise empty
    """
    op = "torch.linalg.lstsq"
    driver = driver or "gelsy"
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise ValueRefused(f"{op}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if input.dim() < 2:
        raise ShapeError(f"{op}: input must have at least 2 dimensions.")
    if b.dim() < 1:
        raise ShapeError(f"{op}: other must have at least 1 dimension.")
    if not 0 <= input.dim() - b.dim() <= 1:
        raise ShapeError(
            f"{op}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            "other.dim()) <= 1"
        )
    vector = _is_vector(input, b)
    right = ops.unsqueeze(b, -1) if vector else b
    if input.shape[-2] != right.shape[-2]:
        raise ShapeError(f"{op}: input.size(-2) should match other.size(-2)")
    a, right = batched_like(op, input, right)
    m, n = a.shape[-2:]
    dtype = a.dtype.to_real()
    bound = finfo(dtype).eps * max(m, n) if rcond is None else float(rcond)
    bound = ops.full((), bound, dtype=dtype)
    solution, rank, values = at_once(ops.least_squares(a, right, bound, driver=driver))
    residuals = ops.sum(_squares(ops.sub(ops.matmul(a, solution), right)), -2)
    whole = driver == "gels" or (driver != "gelsy" and bool(ops.all(ops.eq(rank, n))))
    if m <= n or not whole:
        residuals = ops.ravel(residuals)[:0]
    if vector:
        solution = ops.squeeze(solution, -1)
    parts = (solution, residuals, rank, values.detach())
    return results("linalg_lstsq", "solution residuals rank singular_values")(*parts)


def _squares(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        return ops.real(ops.mul(x, ops.conj(x)))  # type: ignore[no-any-return]
    return ops.mul(x, x)  # type: ignore[no-any-return]


@entry("input")
def tensorinv(input: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of a tensor as a map from its last dims to its first `ind` dims."""
    if ind <= 0:
        raise ValueRefused(f"Expected a strictly positive integer for 'ind', but got {ind}")
    rows, columns = input.shape[:ind], input.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ShapeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(columns)} != {math.prod(rows)}"
        )
    size = math.prod(rows)
    flat = _inverse("inv", ops.reshape(input, (size, size)))
    return ops.reshape(flat, (*columns, *rows))  # type: ignore[no-any-return]


@entry("input", "other")
def tensorsolve(
    input: Tensor, other: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor:
    """X such that tensordot(input, X, X.dim()) is `other`. dims: moved to the end of input."""
    moved = input
    if dims is not None:
        dims = tuple(d % input.dim() for d in dims)
        kept = tuple(d for d in range(input.dim()) if d not in dims)
        moved = ops.permute(input, (*kept, *dims))
    shape = moved.shape[other.dim() :]
    size = math.prod(shape)
    if math.prod(moved.shape[: other.dim()]) != size or other.numel() != size:
        raise ShapeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {size} != "
            f"{math.prod(moved.shape[: other.dim()])}"
        )
    solution = solve(ops.reshape(moved, (size, size)), ops.reshape(other, (size,)))
    return ops.reshape(solution, shape)  # type: ignore[no-any-return]
