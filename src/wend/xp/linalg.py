"""The extension `linalg` of the array API."""

from __future__ import annotations

from typing import Any, NamedTuple

import wend
from wend._engine.base.dtypes import DType
from wend.xp._manipulation import matmul, matrix_transpose, tensordot, vecdot
from wend.xp._operands import Array, converted, functions, summed_type, together

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class Eigh(NamedTuple):
    """The results of `eigh`."""

    eigenvalues: Array
    eigenvectors: Array


class Factors(NamedTuple):
    """The results of `qr`."""

    Q: Array
    R: Array


class SignAndSize(NamedTuple):
    """The results of `slogdet`."""

    sign: Array
    logabsdet: Array


class Singular(NamedTuple):
    """The results of `svd`."""

    U: Array
    S: Array
    Vh: Array


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The triangular L such that L L^H = x, or U such that U^H U = x."""
    return wend.linalg.cholesky(x, upper=upper)


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The vector product along an axis of size 3."""
    return wend.linalg.cross(*functions.broadcast_tensors(*together("cross", x1, x2)), dim=axis)


def det(x: Array, /) -> Array:
    """The determinant."""
    return wend.linalg.det(x)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices."""
    return wend.diagonal(x, offset, -2, -1)


def eigh(x: Array, /) -> Eigh:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices."""
    return Eigh(*wend.linalg.eigh(x))


def eigvalsh(x: Array, /) -> Array:
    """The eigenvalues of symmetric matrices, ascending."""
    return wend.linalg.eigvalsh(x)


def inv(x: Array, /) -> Array:
    """The inverse."""
    return wend.linalg.inv(x)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of the matrices."""
    return wend.linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x: Array, n: int, /) -> Array:
    """The product of n equal matrices; of inverses, if n is negative."""
    return wend.linalg.matrix_power(x, n)


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """The number of singular values above rtol times the largest."""
    return wend.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Array, x2: Array, /) -> Array:
    """The products of all pairs of elements of two vectors."""
    return wend.outer(*together("outer", x1, x2))


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """The pseudoinverse (Moore, Penrose)."""
    return wend.linalg.pinv(x, rtol=rtol)


def qr(x: Array, /, *, mode: str = "reduced") -> Factors:
    """Orthonormal columns Q and upper triangular R such that x = Q R."""
    return Factors(*wend.linalg.qr(x, mode))


def slogdet(x: Array, /) -> SignAndSize:
    """The sign of the determinant, and the logarithm of its size."""
    return SignAndSize(*wend.linalg.slogdet(x))


def solve(x1: Array, x2: Array, /) -> Array:
    """X such that x1 X = x2; x2 is a vector only if 1-d."""
    a, b = together("solve", x1, x2)
    if b.ndim == 1:
        return wend.linalg.solve(a, b.unsqueeze(-1).expand(*a.shape[:-1], 1)).squeeze(-1)
    front = functions.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return wend.linalg.solve(a, b.expand(*front, *b.shape[-2:]))


def svd(x: Array, /, *, full_matrices: bool = True) -> Singular:
    """U, S and Vh such that x = U diag(S) Vh."""
    return Singular(*wend.linalg.svd(x, full_matrices))


def svdvals(x: Array, /) -> Array:
    """The singular values, descending."""
    return wend.linalg.svdvals(x)


def trace(x: Array, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """The sum of the diagonals of the matrices."""
    kind = summed_type(x, dtype)
    return wend.sum(converted(diagonal(x, offset=offset), kind), -1, dtype=kind)


def vector_norm(x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Array:
    """The norm of the vectors along axes."""
    if axis == ():
        return wend.linalg.vector_norm(x.unsqueeze(0), ord, 0)
    return wend.linalg.vector_norm(x, ord, axis, keepdims)
