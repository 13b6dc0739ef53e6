"""Eigenvalues, of symmetric and of any square matrices, and singular values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.linalg.family import (
    OfMatrices,
    column,
    floating,
    lesser,
    matrix,
    narrow,
    narrow_real,
    raise_where,
    row,
    square,
    turned,
    wide,
    with_diagonal,
)
from wend._engine.ops.numeric import Array

_EIGEN = (
    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
    "repeated eigenvalues (error code: {0})."
)
_SINGULAR = (
    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
    "repeated singular values (error code: {0})."
)
_NOT_FINITE = "input tensor should not contain infs or NaNs."
_FINITE = "The algorithm failed to converge because the input matrix contained non-finite values."


class _Symmetric(OfMatrices, abstract=True):
    signature = "A, UPLO: str = 'L'"
    UPLO: str
    facts = OpFacts(fallible=True)

    def checked_type(self, a: Spec) -> None:
        """Raise the user's error for what is no batch of square matrices."""
        floating("linalg.eigh", a.dtype)
        square("linalg.eigh", a)
        if self.UPLO.upper() not in ("L", "U"):
            raise ShapeError(f"Expected UPLO argument to be 'L' or 'U', but got {self.UPLO}")

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.normal(size=(2, 4, 4))
        a = a + np.swapaxes(a, -1, -2)
        yield Sample(a)
        yield Sample(a[0], "U")
        yield Sample(a[:, :1, :1])
        yield Sample(a[:, :0, :0])


def _decomposed(op: str, fault: str, routine: Callable[..., Any], a: Array, *how: Any) -> Any:
    """routine(matrices, *how); LinAlgError names the first matrix for which it fails."""
    finite = np.isfinite(a).all((-2, -1))
    if not finite.all():
        raise_where(op, np.where(finite, 0, 1).astype(np.int32), fault)
    try:
        return routine(a, *how)
    except np.linalg.LinAlgError:  # the matrix that fails is looked for, and the error names it
        info = np.zeros(a.shape[:-2], np.int32)
    for place in np.ndindex(info.shape):
        try:
            routine(a[place], *how)
        except np.linalg.LinAlgError:  # the matrix that fails is looked for, and the error names it
            info[place] = 1
    raise_where(op, info, _SINGULAR if op == "linalg.svd" else _EIGEN)


class LinalgEigh(_Symmetric):
    """(eigenvalues, eigenvectors) of symmetric matrices, in ascending order; A = V diag(L) V^T.

    A: (..., n, n); UPLO 'L' reads the lower triangle, 'U' the upper. The sign of an eigenvector is
    a choice, and its gradient asks for eigenvalues that differ. Raises LinAlgError (when the value
    is computed) for inf and NaN.
    """

    result = ("eigenvalues", "eigenvectors")
    torch = TorchCall(grad_name="LinalgEighBackward0")
    formal_gradient = True  # of symmetric matrices, though a single triangle is read

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        self.checked_type(a)
        return Spec(a.shape[:-1], a.dtype.to_real()), a

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        eigenpairs = _decomposed("linalg.eigh", _EIGEN, np.linalg.eigh, wide(a), self.UPLO.upper())
        return narrow_real(eigenpairs[0], a), narrow(eigenpairs[1], a)

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> tuple[Any, ...]:
        values, vectors = y
        inner = ops.matmul(turned(vectors), g[1])
        inner = (inner - turned(inner)) * 0.5  # so that the gradient is symmetric
        n = a.shape[-1]
        inner = _quotient(_off_diagonal(inner), row(values, n) - column(values, n))
        inner = with_diagonal(inner, ops.cast(g[0], a.dtype))
        return (ops.matmul(vectors, ops.matmul(inner, turned(vectors))),)


class LinalgEigvalsh(_Symmetric):
    """y = the eigenvalues of symmetric matrices, in ascending order. See linalg_eigh."""

    torch = TorchCall(grad_name="LinalgEighBackward0")
    formal_gradient = True

    def infer(self, a: Spec) -> Spec:
        self.checked_type(a)
        return Spec(a.shape[:-1], a.dtype.to_real())

    def reference(self, a: Array) -> Any:
        how = self.UPLO.upper()
        return narrow_real(_decomposed("linalg.eigh", _EIGEN, np.linalg.eigvalsh, wide(a), how), a)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Any, ...]:
        vectors = ops.linalg_eigh(a, self.UPLO)[1]
        return (ops.matmul(vectors * row(g, a.shape[-1]), turned(vectors)),)


class _Singular(OfMatrices, abstract=True):
    facts = OpFacts(fallible=True)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.normal(size=(2, 4, 3))
        yield Sample(a)
        yield Sample(a[0].T)
        yield Sample(a[:, :3])
        yield Sample(a[:, :1, :1])
        yield Sample(a[:, :0])


class LinalgSvd(_Singular):
    """(U, S, Vh): A = U diag(S) Vh, S descending, columns of U and rows of Vh orthonormal.

    A: (..., m, n)   U: (..., m, k)   S: (..., k)   Vh: (..., k, n), k = min(m, n)
    full_matrices: U and Vh are square. The signs of singular vectors are a choice, and their
    gradient asks for singular values that differ. Raises LinAlgError (when the value is computed)
    for inf and NaN.
    """

    signature = "A, full_matrices: bool = True"
    result = ("U", "S", "Vh")
    torch = TorchCall(grad_name="LinalgSvdBackward0")
    full_matrices: bool

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("linalg.svd", a.dtype)
        matrix("linalg.svd", a)
        front, (m, n) = a.shape[:-2], a.shape[-2:]
        k = lesser(m, n)
        left, right = (m, n) if self.full_matrices else (k, k)
        values = Spec((*front, k), a.dtype.to_real())
        return Spec((*front, m, left), a.dtype), values, Spec((*front, right, n), a.dtype)

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        routine = np.linalg.svd
        factors = _decomposed("linalg.svd", _FINITE, routine, wide(a), self.full_matrices)
        return narrow(factors[0], a), narrow_real(factors[1], a), narrow(factors[2], a)

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> tuple[Any, ...]:
        m, n = a.shape[-2:]
        k = lesser(m, n)
        (u, s, vh), (seed_u, seed_s, seed_vh) = y, g
        if self.full_matrices:  # further vectors are any that are orthogonal to these
            u, seed_u = ops.narrow(u, -1, 0, k), ops.narrow(seed_u, -1, 0, k)
            vh, seed_vh = ops.narrow(vh, -2, 0, k), ops.narrow(seed_vh, -2, 0, k)
        left, right = ops.matmul(turned(u), seed_u), ops.matmul(seed_vh, turned(vh))
        squares = ops.mul(s, s)
        inner = (left - turned(left)) * row(s, k) + column(s, k) * (turned(right) - right)
        inner = _quotient(_off_diagonal(inner), row(squares, k) - column(squares, k))
        if a.dtype.is_complex:  # the phases of a pair of vectors turn together
            phases = ops.imag(ops.diagonal(left + right, 0, -2, -1))
            seed_s = ops.complex(seed_s, _quotient(phases, s * 2))
        grad = ops.matmul(u, with_diagonal(inner, seed_s))
        if m > n:
            grad = grad + _quotient(seed_u - ops.matmul(u, left), row(s, m))
        grad = ops.matmul(grad, vh)
        if m < n:
            rest = _quotient(seed_vh - ops.matmul(right, vh), column(s, n))
            grad = grad + ops.matmul(u, rest)
        return (grad,)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield Sample(*sample.args, full_matrices=False)
        yield Sample(rng.normal(size=(3, 3)))


class LinalgSvdvals(_Singular):
    """y = the singular values, descending. See linalg_svd."""

    signature = "A"
    torch = TorchCall(grad_name="LinalgSvdBackward0")

    def infer(self, a: Spec) -> Spec:
        floating("linalg.svd", a.dtype)
        matrix("linalg.svd", a)
        return Spec((*a.shape[:-2], lesser(*a.shape[-2:])), a.dtype.to_real())

    def reference(self, a: Array) -> Any:
        full = wide(a)
        if not full.size:
            return narrow_real(np.zeros((*a.shape[:-2], min(a.shape[-2:]))), a)
        return narrow_real(_decomposed("linalg.svd", _FINITE, _values_alone, full), a)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Any, ...]:
        u, _, vh = ops.linalg_svd(a, False)
        return (ops.matmul(u * row(g, a.shape[-2]), vh),)


class LinalgEig(OfMatrices):
    """(eigenvalues, eigenvectors) of square matrices, complex: A V = V diag(L).

    A: (..., n, n), real or complex. Columns of V have length 1; their phases are a choice, and the
    order too. The gradient asks for eigenvalues that differ. Raises LinAlgError (when the value is
    computed) for inf and NaN.
    """

    signature = "A"
    result = ("eigenvalues", "eigenvectors")
    torch = TorchCall(grad_name="LinalgEigBackward0")
    facts = OpFacts(fallible=True)
    formal_gradient = True  # of vectors of length 1 with any phase

    def infer(self, a: Spec) -> tuple[Spec, ...]:
        floating("linalg.eig", a.dtype)
        square("linalg.eig", a)
        dtype = a.dtype.to_complex()
        return Spec(a.shape[:-1], dtype), Spec(a.shape, dtype)

    def reference(self, a: Array) -> tuple[np.ndarray, ...]:
        full = wide(a)
        dtype = np.result_type(full.dtype, np.complex64)
        if not full.size:
            return np.zeros(a.shape[:-1], dtype), np.zeros(a.shape, dtype)
        eigenpairs = _decomposed("linalg.eig", _NOT_FINITE, np.linalg.eig, full)
        return eigenpairs[0].astype(dtype, copy=False), eigenpairs[1].astype(dtype, copy=False)

    def vjp(self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> tuple[Any, ...]:
        values, vectors = y
        n = a.shape[-1]
        back = turned(vectors)
        inner = ops.matmul(back, g[1])
        along = ops.real(ops.diagonal(inner, 0, -2, -1))
        inner = _off_diagonal(inner - ops.matmul(back, vectors) * row(along, n))
        inner = _quotient(inner, ops.conj(row(values, n) - column(values, n)))
        return (_changed_basis(with_diagonal(inner, g[0]), back),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.normal(size=(2, 4, 4))
        yield Sample(a)
        yield Sample(a[0, :3, :3])
        yield Sample(a[:, :1, :1])
        yield Sample(a[:, :0, :0])


class LinalgEigvals(OfMatrices):
    """y = the eigenvalues of square matrices, complex. See linalg_eig."""

    signature = "A"
    torch = TorchCall(grad_name="LinalgEigBackward0")
    facts = OpFacts(fallible=True)

    def infer(self, a: Spec) -> Spec:
        floating("linalg.eigvals", a.dtype)
        square("linalg.eigvals", a)
        return Spec(a.shape[:-1], a.dtype.to_complex())

    def reference(self, a: Array) -> Any:
        full = wide(a)
        dtype = np.result_type(full.dtype, np.complex64)
        if not full.size:
            return np.zeros(a.shape[:-1], dtype)
        values = _decomposed("linalg.eigvals", _NOT_FINITE, np.linalg.eigvals, full)
        return values.astype(dtype, copy=False)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Any, ...]:
        back = turned(ops.linalg_eig(a)[1])
        core = with_diagonal(ops.full(a.shape, 0, dtype=g.dtype), g)
        return (_changed_basis(core, back),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return LinalgEig.samples(self, rng)  # type: ignore[arg-type]


def _changed_basis(inner: Tensor, back: Tensor) -> Tensor:
    """V^-H inner V^H, where `back` is V^H."""
    return ops.solve_matrix(back, ops.matmul(inner, back))


def _off_diagonal(x: Tensor) -> Tensor:
    """The matrices with zeros on the diagonal, where complex numbers have an imaginary part.

    For real numbers these are zeros already: differences of a matrix and its transpose.
    """
    if not x.dtype.is_complex:
        return x
    zeros = ops.full(x.shape[:-1], 0, dtype=x.dtype)
    return with_diagonal(x, zeros)


def _values_alone(a: Array) -> Array:
    return np.linalg.svd(a, compute_uv=False)


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """x / y; 0 for 0 / 0, where no gradient came in: nothing is said about equal values."""
    nothing = ops.logical_and(ops.eq(x, 0), ops.eq(y, 0))
    return x / ops.where(nothing, 1, y)
