"""Shares of a whole: Dirichlet vectors, and beta and Kumaraswamy numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._frontend.random import _sample_dirichlet
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, in_support
from wend.distributions.cauchy import Uniform
from wend.distributions.distribution import ExponentialFamily
from wend.distributions.independent import TransformedDistribution
from wend.distributions.transforms import AffineTransform, PowerTransform
from wend.distributions.utils import broadcast_all, euler_constant

__all__ = ["Beta", "Dirichlet", "Kumaraswamy"]


class Dirichlet(ExponentialFamily):
    """Positive numbers that sum to 1: density proportional to prod x_i^(concentration_i - 1)."""

    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ArgumentError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    _formulas = Formulas(
        "concentration",
        _total=lambda concentration: ops.sum(concentration, -1, keepdim=True),
        mean=lambda concentration, _total: concentration / _total,
        variance=lambda concentration, _total: (
            concentration * (_total - concentration) / (ops.square(_total) * (_total + 1))
        ),
        _natural_params=lambda concentration: (concentration,),
        _log_normalizer=lambda x: ops.sum(ops.lgamma(x), -1) - ops.lgamma(ops.sum(x, -1)),
    )

    @property
    def mode(self) -> Tensor:
        above = ops.clamp(self.concentration - 1, min=0.0)
        inside = above / ops.sum(above, -1, keepdim=True)
        # All below 1: the density has no bound in the corners.
        corner = ops.one_hot(ops.argmax(inside, -1), self.concentration.shape[-1])
        outside = ops.all(self.concentration < 1, -1, keepdim=True)
        return ops.where(outside, ops.cast(corner, inside.dtype), inside)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return _sample_dirichlet(ops.expand(self.concentration, shape))

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        powers = ops.sum(ops.xlogy(self.concentration - 1.0, value), -1)
        return powers - self._log_normalizer(self.concentration)

    def entropy(self) -> Tensor:
        count = self.concentration.shape[-1]
        total = ops.sum(self.concentration, -1)
        inner = ops.sum((self.concentration - 1.0) * ops.digamma(self.concentration), -1)
        outer = (count - total) * ops.digamma(total)
        return self._log_normalizer(self.concentration) - outer - inner


class Beta(ExponentialFamily):
    """Numbers from 0 to 1: density proportional to x^(a - 1) (1 - x)^(b - 1).

    a: concentration1   b: concentration0
    """

    arg_constraints: ClassVar = dict.fromkeys(
        ("concentration1", "concentration0"), constraints.positive
    )
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Operand, concentration0: Operand, validate_args: bool | None = None
    ) -> None:
        both = ops.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    _formulas = Formulas(
        "_dirichlet",
        mean=lambda concentration1, concentration0: (
            concentration1 / (concentration1 + concentration0)
        ),
        mode=lambda _dirichlet: _dirichlet.mode[..., 0],
        entropy=lambda _dirichlet: _dirichlet.entropy(),
        log_prob=lambda value, _dirichlet: _dirichlet.log_prob(ops.stack([value, 1.0 - value], -1)),
        _natural_params=lambda concentration1, concentration0: (concentration1, concentration0),
        _log_normalizer=lambda x, y: ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y),
    )

    @property
    def concentration1(self) -> Tensor:
        """1 more than the power of x."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """1 more than the power of 1 - x."""
        return self._dirichlet.concentration[..., 1]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (ops.square(total) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]


class Kumaraswamy(TransformedDistribution):
    """Numbers from 0 to 1 whose cumulative function is 1 - (1 - x^concentration1)^concentration0.

    Kumaraswamy: A generalized probability density function for double-bounded random processes
    (1980).
    """

    arg_constraints: ClassVar = Beta.arg_constraints
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Operand, concentration0: Operand, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            ops.zeros_like(self.concentration0),
            ops.fill_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        steps = [
            PowerTransform(1 / self.concentration0),
            AffineTransform(1.0, -1.0),
            PowerTransform(1 / self.concentration1),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    _formulas = Formulas(
        "concentration1 concentration0",
        mean=lambda self: self._moment(1),
        variance=lambda self: self._moment(2) - ops.square(self.mean),
    )

    def _moment(self, n: int) -> Tensor:
        """The mean of x^n."""
        a, b = self.concentration1, self.concentration0
        first = 1 + n / a
        return b * ops.exp(ops.lgamma(first) + ops.lgamma(b) - ops.lgamma(first + b))

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inside = ops.pow((a - 1) / (a * b - 1), 1 / a)
        return ops.where((a < 1) | (b < 1), float("nan"), inside)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = ops.digamma(b + 1) + euler_constant
        return 1 - 1 / b + (1 - 1 / a) * harmonic - ops.log(a) - ops.log(b)
