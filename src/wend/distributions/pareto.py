"""Powers of waiting times: Pareto, generalised Pareto and Weibull numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.random import rand
from wend.distributions import constraints
from wend.distributions.distribution import Distribution
from wend.distributions.gamma import Exponential
from wend.distributions.transformed_distribution import TransformedDistribution
from wend.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from wend.distributions.utils import broadcast_all, euler_constant

__all__ = ["GeneralizedPareto", "Pareto", "Weibull"]


class Pareto(TransformedDistribution):
    """Numbers above `scale` with density proportional to x^-(alpha + 1)."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        steps = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """Numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        alpha = ops.clamp(self.alpha, min=1)  # infinite below
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        alpha = ops.clamp(self.alpha, min=2)
        spread = ops.square(alpha - 1) * (alpha - 2)
        return ops.square(self.scale) * alpha / spread

    def entropy(self) -> Tensor:
        return ops.log(self.scale / self.alpha) + (1 + 1 / self.alpha)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._grown(batch_shape, _instance, scale=(), alpha=())
        made.transforms = [ExpTransform(), AffineTransform(loc=0, scale=made.scale)]
        return made


class Weibull(TransformedDistribution):
    """scale e^(1 / concentration) for an exponential e of rate 1."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = 1 / self.concentration
        base = Exponential(ops.fill_like(self.scale, 1), validate_args=validate_args)
        steps = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """The mean of (x / scale)^n."""
        return ops.exp(ops.lgamma(1 + n * self.concentration_reciprocal))

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        share = (self.concentration - 1) / self.concentration
        return self.scale * ops.pow(share, self.concentration_reciprocal)

    @property
    def variance(self) -> Tensor:
        return ops.square(self.scale) * (self._moment(2) - ops.square(self._moment(1)))

    def entropy(self) -> Tensor:
        power = self.concentration_reciprocal
        return euler_constant * (1 - power) + ops.log(self.scale * power) + 1

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("scale", "concentration", "concentration_reciprocal")
        made = self._grown(batch_shape, _instance, **dict.fromkeys(names, ()))
        made.transforms = [
            PowerTransform(exponent=made.concentration_reciprocal),
            AffineTransform(loc=0, scale=made.scale),
        ]
        return made


class GeneralizedPareto(Distribution):
    """Values above a high threshold `loc`: 1 - F(x) = (1 + concentration z)^(-1 / concentration).

    z = (x - loc) / scale; exponential where the concentration is 0, bounded where it is negative.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """Numbers from loc on, up to a bound where the concentration is negative."""
        bound = self.loc - self.scale / self._safe
        return constraints.interval(self.loc, ops.where(self.concentration < 0, bound, math.inf))

    @property
    def _none(self) -> Tensor:
        """Where the concentration is 0 up to rounding."""
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    @property
    def _safe(self) -> Tensor:
        """The concentration, 1 where it is 0."""
        return ops.where(self._none, 1.0, self.concentration)

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return self.icdf(rand(shape, dtype=self.loc.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z, power = self._z(value), self._safe
        curved = -(1 + 1 / power) * ops.log1p(power * z)
        return -ops.log(self.scale) + ops.where(self._none, -z, curved)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of being above `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z, power = self._z(value), self._safe
        return ops.where(self._none, -z, -ops.log1p(power * z) / power)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the cumulative function."""
        return ops.log(-ops.expm1(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return -ops.expm1(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        log_left, power = ops.log1p(-value), self._safe
        curved = ops.expm1(-power * log_left) / power
        return self.loc + self.scale * ops.where(self._none, -log_left, curved)

    @property
    def mean(self) -> Tensor:
        power = self.concentration
        inside = self.loc + self.scale / (1 - power)
        return ops.where(power < 1, inside, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        power = self.concentration
        spread = ops.square(self.scale) / (ops.square(1 - power) * (1 - 2 * power))
        return ops.where(power < 0.5, spread, math.inf)

    def entropy(self) -> Tensor:
        return ops.log(self.scale) + self.concentration + 1

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, loc=(), scale=(), concentration=())
