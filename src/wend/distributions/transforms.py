"""Functions between regions, most with an inverse, and logarithms of Jacobian determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wend._engine.base.dtypes import finfo
from wend._engine.base.errors import ArgumentError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import broadcast_shapes
from wend._engine.ops.placing import full_beside
from wend._frontend import linalg
from wend._frontend.creation import arange, eye
from wend.distributions import constraints
from wend.distributions._formulas import attribute
from wend.distributions._transform import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    PlainTransform,
    ReshapeTransform,
    StackTransform,
    Transform,
    identity_transform,
)
from wend.distributions.constraints import Constraint
from wend.distributions.distribution import Distribution
from wend.distributions.utils import (
    broadcast_all,
    lazy_property,
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


# -- functions of numbers --------------------------------------------------------------------------


class ExpTransform(PlainTransform):
    """y = exp(x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    _call, _inverse = staticmethod(ops.exp), staticmethod(ops.log)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, for positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Operand, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        """The sign of the exponent."""
        return ops.sign(self.exponent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PowerTransform):
            return False
        return bool(ops.all(self.exponent == other.exponent))

    def _call(self, x: Tensor) -> Tensor:
        return ops.pow(x, self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.pow(y, 1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.log(ops.abs(self.exponent * y / x))

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return Size(broadcast_shapes("PowerTransform", shape, tuple(self.exponent.shape)))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.forward_shape(shape)


def _inside(share: Tensor) -> Tensor:
    """A share kept below 1 and above 0."""
    info = finfo(share.dtype)
    return ops.clamp(share, min=info.tiny, max=1.0 - info.eps)


class SigmoidTransform(PlainTransform):
    """y = 1 / (1 + exp(-x)), kept below 1 and above 0."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return _inside(ops.sigmoid(x))

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside(y)
        return ops.log(y) - ops.log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -ops.softplus(-x) - ops.softplus(x)


class SoftplusTransform(PlainTransform):
    """y = log(1 + exp(x))."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    _call = staticmethod(ops.softplus)
    _inverse = staticmethod(lambda y: ops.log(-ops.expm1(-y)) + y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -ops.softplus(-x)


class TanhTransform(PlainTransform):
    """y = tanh(x)."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    _call, _inverse = staticmethod(ops.tanh), staticmethod(ops.atanh)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2), without a difference of numbers near 1.
        return _log_slope_of_tanh(x)


def _log_slope_of_tanh(x: Tensor) -> Tensor:
    return 2.0 * (math.log(2.0) - x - ops.softplus(-2.0 * x))


class AbsTransform(PlainTransform):
    """y = |x|; the inverse gives the positive number."""

    domain = constraints.real
    codomain = constraints.positive

    _call, _inverse = staticmethod(ops.abs), staticmethod(lambda y: y)


class AffineTransform(Transform):
    """y = loc + scale * x, of the last event_dim dims together."""

    bijective = True

    def __init__(
        self, loc: Operand, scale: Operand, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    event_dim = attribute("_event_dim")

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:  # type: ignore[override]
        """Numbers, of the dims of an event."""
        if not self._event_dim:
            return constraints.real
        return constraints.independent(constraints.real, self._event_dim)

    codomain = domain

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _same(self.loc, other.loc) and _same(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, int | float):
            return (self.scale > 0) - (self.scale < 0)
        return ops.sign(self.scale)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, int | float):
            result = full_beside(x, tuple(x.shape), math.log(abs(self.scale)))
        else:
            result = ops.log(ops.abs(self.scale))
        result = sum_rightmost(
            ops.expand(result, tuple(x.shape)) if self._event_dim else result, self._event_dim
        )
        return ops.expand(result, tuple(x.shape[: x.dim() - self._event_dim]))

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        sizes = (getattr(v, "shape", ()) for v in (self.loc, self.scale))
        return Size(broadcast_shapes("AffineTransform", shape, *map(tuple, sizes)))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.forward_shape(shape)


def _same(a: Operand, b: Operand) -> bool:
    """Whether numbers or tensors are equal."""
    equal = a == b
    return bool(ops.all(equal)) if isinstance(equal, Tensor) else bool(equal)


class CumulativeDistributionTransform(Transform):
    """y = the cumulative function of a distribution of numbers."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    domain = attribute("distribution.support", "The support of the distribution.")

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


# -- functions of vectors and matrices -------------------------------------------------------------


class SoftmaxTransform(PlainTransform):
    """y = softmax(x) along the last dim; the inverse is the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    _call, _inverse = staticmethod(lambda x: ops.softmax(x, -1)), staticmethod(ops.log)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _least_rank(shape, 1)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.forward_shape(shape)


def _least_rank(shape: Sequence[int], least: int) -> None:
    if len(shape) < least:
        raise ArgumentError("Too few dimensions on input")


class StickBreakingTransform(PlainTransform):
    """n numbers to n + 1 positive numbers of sum 1: each takes a share of the rest.

    The share is the sigmoid of x less the logarithm of how many are still to come, so that 0 is
    mapped to equal numbers.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _log_left(count: int, like: Tensor) -> Tensor:
        """log(count), ..., log(1): how many are still to come."""
        return ops.log(arange(count, 0, -1, dtype=like.dtype, device=like.device))

    def _call(self, x: Tensor) -> Tensor:
        share = _inside(ops.sigmoid(x - self._log_left(x.shape[-1], x)))
        left = ops.cumprod(1 - share, -1)
        one = ops.fill_like(x[..., :1], 1.0)
        return ops.cat([share, one], -1) * ops.cat([one, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        left = ops.clamp(1 - ops.cumsum(taken, -1), min=finfo(y.dtype).tiny)
        return ops.log(taken) - ops.log(left) + self._log_left(taken.shape[-1], y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._log_left(x.shape[-1], x)
        return ops.sum(-x + ops.logsigmoid(x) + ops.log(y[..., :-1]), -1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _least_rank(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _least_rank(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor of an n x n correlation matrix.

    tanh(x) are partial correlations, row by row; row i shares out its unit length.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(ops.clamp(ops.tanh(x), min=-1 + eps, max=1 - eps), diag=-1)
        left = ops.cumprod(ops.sqrt(1 - ops.square(partial)), -1)
        unit = partial + eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        one = ops.fill_like(left[..., :1], 1.0)
        return unit * ops.cat([one, left[..., :-1]], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - ops.cumsum(ops.square(y), -1)
        one = ops.fill_like(left[..., :1], 1.0)
        before = tril_matrix_to_vec(ops.cat([one, left[..., :-1]], -1), diag=-1)
        partial = tril_matrix_to_vec(y, diag=-1) / ops.sqrt(before)
        return (ops.log1p(partial) - ops.log1p(-partial)) / 2

    def log_abs_det_jacobian(
        self, x: Tensor, y: Tensor, intermediates: Tensor | None = None
    ) -> Tensor:
        left = tril_matrix_to_vec(1 - ops.cumsum(ops.square(y), -1), diag=-2)
        of_lengths = 0.5 * ops.sum(ops.log(left), -1)
        return of_lengths + ops.sum(_log_slope_of_tanh(x), -1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _least_rank(shape, 1)
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ArgumentError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _least_rank(shape, 2)
        if shape[-2] != shape[-1]:
            raise ArgumentError("Input is not square")
        n = shape[-1]
        return Size((*shape[:-2], n * (n - 1) // 2))


class LowerCholeskyTransform(PlainTransform):
    """A matrix to a lower triangle whose diagonal is exp of the matrix's; the rest is dropped."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return _with_diagonal(x, ops.exp(ops.diagonal(x, 0, -2, -1)))

    def _inverse(self, y: Tensor) -> Tensor:
        return _with_diagonal(y, ops.log(ops.diagonal(y, 0, -2, -1)))


def _with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
    """The part of x below the diagonal, and another diagonal."""
    return ops.tril(x, -1) + ops.diag_embed(diagonal)


class PositiveDefiniteTransform(PlainTransform):
    """A matrix to L L^T of its lower triangle L, made as by LowerCholeskyTransform."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return ops.matmul(lower, ops.matrix_transpose(lower))

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))
