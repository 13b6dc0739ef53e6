"""Random matrices: covariances (Wishart), and Cholesky factors of correlations (LKJ)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import broadcast_shapes
from wend._frontend import linalg
from wend._frontend.autograd.backward import no_grad
from wend._frontend.creation import arange, tensor
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, in_support
from wend.distributions.dirichlet import Beta
from wend.distributions.distribution import Distribution, ExponentialFamily
from wend.distributions.gamma import Chi2
from wend.distributions.multivariate_normal import (
    OfShape,
    check_matrix,
    log_diagonal,
    solved,
    squared,
)
from wend.distributions.utils import broadcast_all, standard_normal

__all__ = ["LKJCholesky", "Wishart"]


class Wishart(OfShape, ExponentialFamily):
    """The sum of x x^T of `df` Gaussian vectors x around 0; df > n - 1 need not be an integer.

    A single matrix gives the shape of x, as of MultivariateNormal.
    Bartlett: On the theory of statistical regression (1933).
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> dict[str, Any]:  # type: ignore[override]
        """The degrees of freedom are bounded by the size of the matrices."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Operand,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = check_matrix(
            "Wishart",
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if not isinstance(df, Tensor):
            df = tensor(float(df), dtype=matrix.dtype)
        event = tuple(matrix.shape[-2:])
        batch = broadcast_shapes("Wishart", tuple(df.shape), tuple(matrix.shape[:-2]))
        self.df: Tensor = ops.expand(df, batch)
        # Asked before the parameters are checked; the base class sets it again.
        self._event_shape = event  # type: ignore[assignment]
        if bool(ops.any(self.df <= event[-1] - 1)):
            raise ArgumentError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}."
            )
        self.__dict__[name] = ops.expand(matrix, (*batch, *event))
        super().__init__(batch, event, validate_args)
        self._keep_factor(name, matrix)

    _formulas = Formulas(
        "df covariance_matrix precision_matrix scale_tril",
        mean=lambda _df, covariance_matrix: _df * covariance_matrix,
    )

    @property
    def _df(self) -> Tensor:
        """The degrees of freedom, beside a matrix."""
        return self.df[..., None, None]

    @property
    def mode(self) -> Tensor:
        factor = self._df - self._event_shape[-1] - 1
        return ops.where(factor > 0, factor, float("nan")) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        matrix = self.covariance_matrix
        diagonal = ops.diagonal(matrix, 0, -2, -1)
        product = ops.unsqueeze(diagonal, -1) * ops.unsqueeze(diagonal, -2)
        return self._df * (ops.square(matrix) + product)

    def rsample(
        self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None
    ) -> Tensor:
        shape = self._extended_shape(sample_shape)
        n = self._event_shape[-1]
        lower = arange(n, dtype=self.df.dtype, device=self.df.device)
        squares = Chi2(ops.unsqueeze(self.df, -1) - lower, validate_args=False)
        diagonal = ops.diag_embed(ops.sqrt(squares.rsample(sample_shape)))
        below = ops.tril(standard_normal(shape, self.df), -1)
        factor = ops.matmul(self._unbroadcasted_scale_tril, diagonal + below)
        return squared(factor)

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        nu, n, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        volume = linalg.slogdet(value)[1]
        whole = (*value.shape[:-2], *factor.shape[-2:])
        front = broadcast_shapes("log_prob", whole, tuple(factor.shape))
        left = solved(ops.expand(factor, front), ops.expand(value, front))
        # tr(V^-1 X) = tr(L^-1 X L^-T)
        both = solved(ops.expand(factor, front), ops.matrix_transpose(left))
        trace = ops.sum(ops.diagonal(both, 0, -2, -1), -1)
        norm = nu * (n / 2 * math.log(2) + log_diagonal(factor)) + ops.mvlgamma(nu / 2, n)
        return (nu - n - 1) / 2 * volume - trace / 2 - norm

    def entropy(self) -> Tensor:
        nu, n = self.df, self._event_shape[-1]
        volume = (n + 1) * (log_diagonal(self._unbroadcasted_scale_tril) + n / 2 * math.log(2))
        half = nu / 2
        slope = _mvdigamma(half, n)
        mixed = ops.mvlgamma(half, n) - (nu - n - 1) / 2 * slope + nu * n / 2
        return volume + mixed

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        n = self._event_shape[-1]
        return -self.precision_matrix / 2, (self.df - n - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return ops.mvlgamma(half, n) - half * linalg.slogdet(-x)[1]


def _mvdigamma(x: Tensor, n: int) -> Tensor:
    """The derivative of mvlgamma."""
    steps = arange(n, dtype=x.dtype, device=x.device) / 2
    return ops.sum(ops.digamma(ops.unsqueeze(x, -1) - steps), -1)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices M of size dim: density of M as det(M)^(c - 1).

    c: `concentration`; 1 is uniform over all correlation matrices, more of it close to the unit
    matrix. Lewandowski, Kurowicka, Joe: Generating random correlation matrices based on vines and
    extended onion method (2009).
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Operand = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ArgumentError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)
        # The squared length of row i without its last element: beta of (i, dim - 1 - i) / 2 and
        # the concentration beside the latter. Row 0 has none, whatever is drawn.
        marginal = ops.unsqueeze(self.concentration + 0.5 * (dim - 2), -1)
        place = arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        place = ops.cat([place[:1], place])
        self._beta = Beta(0.5 * place + 0.5, marginal - 0.5 * place)

    _formulas = Formulas(
        "concentration _beta",
    )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            share = ops.unsqueeze(self._beta.sample(sample_shape), -1)
            point = ops.tril(standard_normal(shape, self.concentration), -1)
            length = ops.sqrt(ops.sum(ops.square(point), -1, keepdim=True))
            # The first row has no part beside the diagonal.
            first = ops.reshape(arange(self.dim, device=self.concentration.device), (-1, 1)) == 0
            row = ops.where(first, 0.0, ops.sqrt(share) * (point / ops.where(first, 1.0, length)))
            rest = 1 - ops.sum(ops.square(row), -1)
            tiny = finfo(rest.dtype).tiny
            return row + ops.diag_embed(ops.sqrt(ops.clamp(rest, min=tiny)))

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        n = self.dim - 1
        concentration = self.concentration
        diagonal = ops.diagonal(value, 0, -2, -1)[..., 1:]
        order = arange(2, self.dim + 1, dtype=concentration.dtype, device=concentration.device)
        power = 2 * ops.unsqueeze(concentration - 1, -1) + self.dim - order
        density = ops.sum(power * ops.log(diagonal), -1)
        alpha = concentration + 0.5 * n
        norm = 0.5 * n * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, n) - n * ops.lgamma(alpha)
        return density - norm
