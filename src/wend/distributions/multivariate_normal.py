"""The Gaussian over vectors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from wend.base.errors import ArgumentError
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.distributions import constraints
from wend.distributions.distribution import Distribution
from wend.frontend import linalg
from wend.frontend.creation import eye
from wend.frontend.random import randn

__all__ = ["MultivariateNormal"]


def _from_precision(precision: Tensor) -> Tensor:
    """The lower Cholesky factor of the inverse of a matrix."""
    identity = eye(precision.shape[-1], dtype=precision.dtype)
    return linalg.cholesky(ops.solve_matrix(precision, identity))


class MultivariateNormal(Distribution):
    """The Gaussian over vectors of n numbers with mean `loc`.

    The shape is given by exactly one of: covariance_matrix; precision_matrix, its inverse;
    scale_tril, its lower Cholesky factor. Each is (..., n, n), loc is (..., n); the leading dims
    broadcast.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        shapes = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(shapes) != 1:
            raise ArgumentError(
                "MultivariateNormal: exactly one of covariance_matrix or precision_matrix or "
                "scale_tril must be given"
            )
        if loc.dim() < 1:
            raise ArgumentError("MultivariateNormal: loc must be at least one-dimensional")
        (name, matrix), n = shapes[0], loc.shape[-1]
        if matrix.dim() < 2 or tuple(matrix.shape[-2:]) != (n, n):
            raise ArgumentError(
                f"MultivariateNormal: {name} of shape {tuple(matrix.shape)} does not fit loc of "
                f"shape {tuple(loc.shape)}"
            )
        column, matrix = ops.broadcast_tensors(ops.unsqueeze(loc, -1), matrix)
        self.loc = column[..., 0]
        self.__dict__[name] = matrix
        super().__init__(self.loc.shape[:-1], (n,), validate_args)
        if name == "scale_tril":
            self._factor = matrix
        elif name == "covariance_matrix":
            self._factor = linalg.cholesky(matrix)
        else:
            self._factor = _from_precision(matrix)

    def __getattr__(self, name: str) -> Any:
        # The two forms that were not given.
        if "_factor" in self.__dict__:
            if name == "scale_tril":
                return self._factor
            if name == "covariance_matrix":
                return ops.matmul(self._factor, ops.matrix_transpose(self._factor))
            if name == "precision_matrix":
                identity = eye(self._factor.shape[-1], dtype=self._factor.dtype)
                return ops.solve_matrix(self.covariance_matrix, identity)
        raise AttributeError(f"'MultivariateNormal' object has no attribute {name!r}")

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ops.sum(ops.square(self._factor), -1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + ops.matmul(self._factor, ops.unsqueeze(noise, -1))[..., 0]

    def _log_volume(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance."""
        return ops.sum(ops.log(ops.diagonal(self._factor, 0, -2, -1)), -1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = ops.unsqueeze(value - self.loc, -1)
        steps = ops.solve_matrix(self._factor, distance)[..., 0]
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + ops.sum(ops.square(steps), -1)) - self._log_volume()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_volume()

    def expand(self, batch_shape: Any, _instance: Any = None) -> MultivariateNormal:
        made = self._expanded(("loc",), batch_shape, self._event_shape)
        matrices = ("covariance_matrix", "precision_matrix", "scale_tril", "_factor")
        square = (*self._event_shape, *self._event_shape)
        return made._expanded(matrices, batch_shape, square)
