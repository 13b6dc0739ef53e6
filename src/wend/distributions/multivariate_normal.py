"""The Gaussian over vectors, by a full matrix, or by a matrix of low rank and a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import broadcast_shapes
from wend._frontend import linalg
from wend._frontend.creation import eye
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, in_support
from wend.distributions.distribution import Distribution
from wend.distributions.utils import lazy_property, standard_normal

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def turned(x: Tensor) -> Tensor:
    """The last two dims exchanged."""
    return ops.matrix_transpose(x)


def identity(like: Tensor) -> Tensor:
    """The unit matrix of the size and type of square matrices."""
    return eye(like.shape[-1], dtype=like.dtype, device=like.device)


def solved(lower: Tensor, right: Tensor) -> Tensor:
    """X of lower X = right, for a lower triangle."""
    return linalg.solve_triangular(lower, right, upper=False)


def from_precision(precision: Tensor) -> Tensor:
    """The lower Cholesky factor of the inverse of a matrix.

    By the factor of the matrix with rows and columns in reverse order, which is the transposed
    inverse of the factor wanted: no matrix is inverted in full.
    """
    flipped = ops.flip(precision, (-2, -1))
    upper = turned(ops.flip(linalg.cholesky(flipped), (-2, -1)))
    return solved(upper, identity(precision))


def inverse_from_factor(factor: Tensor) -> Tensor:
    """The inverse of factor factor^T, for a lower triangle."""
    root = solved(factor, identity(factor))
    return ops.matmul(turned(root), root)


def squared(factor: Tensor) -> Tensor:
    """factor factor^T."""
    return ops.matmul(factor, turned(factor))


def log_diagonal(factor: Tensor) -> Tensor:
    """The logarithm of the determinant of a triangle: half that of its square."""
    return ops.sum(ops.log(ops.diagonal(factor, 0, -2, -1)), -1)


def distance(factor: Tensor, apart: Tensor) -> Tensor:
    """x^T (factor factor^T)^-1 x of vectors x, whose leading dims broadcast."""
    front = broadcast_shapes("log_prob", tuple(factor.shape[:-2]), tuple(apart.shape[:-1]))
    n = factor.shape[-1]
    left = ops.expand(factor, (*front, n, n))
    right = ops.unsqueeze(ops.expand(apart, (*front, n)), -1)
    return ops.sum(ops.square(solved(left, right)), (-2, -1))


def check_matrix(name: str, **forms: Tensor | None) -> tuple[str, Tensor]:
    """Name and matrix; raises ArgumentError unless a single matrix is given, of two dims."""
    present = [(key, matrix) for key, matrix in forms.items() if matrix is not None]
    if len(present) != 1:
        raise ArgumentError(
            f"{name}: exactly one of covariance_matrix or precision_matrix or scale_tril must be "
            f"specified; got {len(present)}"
        )
    key, matrix = present[0]
    if matrix.dim() < 2:
        raise ArgumentError(
            f"{name}: {key} must be at least two-dimensional, with optional leading batch "
            "dimensions"
        )
    return key, matrix


class OfShape(Distribution):
    """Base: a distribution with a covariance matrix, of which a single form is given."""

    _unbroadcasted_scale_tril: Tensor

    def _keep_factor(self, name: str, matrix: Tensor) -> None:
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = from_precision(matrix)

    def _matrix(self, value: Tensor) -> Tensor:
        n = value.shape[-1]
        return ops.expand(value, (*self._batch_shape, n, n))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance matrix."""
        return self._matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        return self._matrix(squared(self._unbroadcasted_scale_tril))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return self._matrix(inverse_from_factor(self._unbroadcasted_scale_tril))


class MultivariateNormal(OfShape):
    """The Gaussian over vectors of n numbers with mean `loc`.

    A single matrix gives the shape: covariance_matrix; precision_matrix, the inverse; or
    scale_tril, the lower Cholesky factor. Each is (..., n, n), loc is (..., n); the leading dims
    broadcast.
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ArgumentError("loc must be at least one-dimensional.")
        name, matrix = check_matrix(
            "MultivariateNormal",
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        n = loc.shape[-1]
        if tuple(matrix.shape[-2:]) != (n, n):
            raise ArgumentError(
                f"MultivariateNormal: {name} of shape {tuple(matrix.shape)} does not fit loc of "
                f"shape {tuple(loc.shape)}"
            )
        batch = broadcast_shapes("MultivariateNormal", tuple(matrix.shape[:-2]), loc.shape[:-1])
        self.loc: Tensor = ops.expand(loc, (*batch, n))
        self.__dict__[name] = ops.expand(matrix, (*batch, n, n))
        super().__init__(batch, (n,), validate_args)
        self._keep_factor(name, matrix)

    _formulas = Formulas(
        "loc covariance_matrix precision_matrix scale_tril",
        mean=lambda loc: loc,
        mode=lambda loc: loc,
    )

    @property
    def variance(self) -> Tensor:
        squares = ops.square(self._unbroadcasted_scale_tril)
        return ops.expand(ops.sum(squares, -1), self._extended_shape())

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        moved = ops.matmul(self._unbroadcasted_scale_tril, ops.unsqueeze(noise, -1))
        return self.loc + ops.squeeze(moved, -1)

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        constant = self._event_shape[0] * math.log(2 * math.pi)
        apart = distance(factor, value - self.loc)
        return -0.5 * (constant + apart) - log_diagonal(factor)

    def entropy(self) -> Tensor:
        volume = log_diagonal(self._unbroadcasted_scale_tril)
        total = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + volume
        return ops.expand(total, tuple(self._batch_shape))


class LowRankMultivariateNormal(Distribution):
    """The Gaussian over vectors with covariance cov_factor cov_factor^T + diag(cov_diag).

    loc: (..., n)   cov_factor: (..., n, r)   cov_diag: (..., n), positive
    Inverse and determinant come from an r x r matrix: the Woodbury identity, and the matrix
    determinant lemma.
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ArgumentError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.dim() < 2 or cov_factor.shape[-2] != n:
            raise ArgumentError(
                f"cov_factor must be a batch of matrices with shape {n} x m, and has shape "
                f"{tuple(cov_factor.shape)}"
            )
        if cov_diag.dim() < 1 or cov_diag.shape[-1] != n:
            raise ArgumentError(f"cov_diag must be a batch of vectors with shape ({n},)")
        batch = broadcast_shapes(
            "LowRankMultivariateNormal",
            tuple(loc.shape[:-1]),
            tuple(cov_factor.shape[:-2]),
            tuple(cov_diag.shape[:-1]),
        )
        self.loc: Tensor = ops.expand(loc, (*batch, n))
        self.cov_diag: Tensor = ops.expand(cov_diag, (*batch, n))
        self.cov_factor: Tensor = ops.expand(cov_factor, (*batch, *cov_factor.shape[-2:]))
        super().__init__(batch, (n,), validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        weighted = turned(cov_factor / ops.unsqueeze(cov_diag, -1))
        inner = ops.matmul(weighted, cov_factor)
        self._capacitance_tril = linalg.cholesky(inner + identity(inner))

    _formulas = Formulas(
        "loc cov_diag cov_factor",
        mean=lambda loc: loc,
        mode=lambda loc: loc,
    )

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The diagonal of the covariance matrix."""
        return ops.sum(ops.square(self.cov_factor), -1) + self.cov_diag

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance matrix."""
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix, in full."""
        return squared(self.cov_factor) + ops.diag_embed(self.cov_diag)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix, in full."""
        weighted = turned(self.cov_factor / ops.unsqueeze(self.cov_diag, -1))
        root = solved(_like_batch(self._capacitance_tril, weighted), weighted)
        return ops.diag_embed(1 / self.cov_diag) - ops.matmul(turned(root), root)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        low = standard_normal((*shape[:-1], rank, 1), self.loc)
        own = standard_normal(shape, self.loc)
        shared = ops.squeeze(ops.matmul(self._unbroadcasted_cov_factor, low), -1)
        return self.loc + shared + ops.sqrt(self._unbroadcasted_cov_diag) * own

    def log_volume(self) -> Tensor:
        """The logarithm of the determinant of the covariance."""
        diagonal = ops.sum(ops.log(self._unbroadcasted_cov_diag), -1)
        return 2 * log_diagonal(self._capacitance_tril) + diagonal

    def distance(self, apart: Tensor) -> Tensor:
        """x^T covariance^-1 x of vectors x."""
        weighted = apart / self._unbroadcasted_cov_diag
        column = ops.unsqueeze(weighted, -1)
        low = ops.squeeze(ops.matmul(turned(self._unbroadcasted_cov_factor), column), -1)
        return ops.sum(weighted * apart, -1) - distance(self._capacitance_tril, low)

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self.log_volume() + self.distance(value - self.loc))

    def entropy(self) -> Tensor:
        total = 0.5 * (self._event_shape[0] * (1 + math.log(2 * math.pi)) + self.log_volume())
        return ops.expand(total, tuple(self._batch_shape))


def _like_batch(matrix: Tensor, like: Tensor) -> Tensor:
    """Square matrices, repeated over the leading dims of `like`."""
    return ops.expand(matrix, (*like.shape[:-2], *matrix.shape[-2:]))
