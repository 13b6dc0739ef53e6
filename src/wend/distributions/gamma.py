"""Waiting times: gamma, chi-squared, exponential and inverse gamma numbers."""

from __future__ import annotations

from typing import Any, ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import tensor
from wend._frontend.random import _standard_gamma, rand
from wend.distributions import constraints
from wend.distributions.distribution import ExponentialFamily
from wend.distributions.transformed_distribution import TransformedDistribution
from wend.distributions.transforms import PowerTransform
from wend.distributions.utils import broadcast_all

__all__ = ["Chi2", "Exponential", "Gamma", "InverseGamma"]


class Gamma(ExponentialFamily):
    """Positive numbers with density proportional to x^(concentration - 1) exp(-rate x)."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ops.clamp((self.concentration - 1) / self.rate, min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / ops.square(self.rate)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = _standard_gamma(ops.expand(self.concentration, shape)) / self.rate
        return ops.clamp(drawn, min=finfo(drawn.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        shape, rate = self.concentration, self.rate
        density = ops.xlogy(shape, rate) + ops.xlogy(shape - 1, value) - rate * value
        return density - ops.lgamma(shape)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        shape = self.concentration
        mixed = ops.lgamma(shape) + (1.0 - shape) * ops.digamma(shape)
        return shape - ops.log(self.rate) + mixed

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return ops.lgamma(x + 1) - (x + 1) * ops.log(-y)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, concentration=(), rate=())


class Chi2(Gamma):
    """The sum of the squares of `df` normal numbers."""

    arg_constraints: ClassVar[dict[str, Any]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The number of squares."""
        return self.concentration * 2


class Exponential(ExponentialFamily):
    """Positive numbers with density rate exp(-rate x)."""

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        return 1 / ops.square(self.rate)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        unit = rand(tuple(self._extended_shape(sample_shape)), dtype=self.rate.dtype)
        return -ops.log1p(-unit) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.log(self.rate) - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -ops.expm1(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -ops.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - ops.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -ops.log(-natural_params[0])

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, rate=())


class InverseGamma(TransformedDistribution):
    """1 / x of gamma numbers x."""

    arg_constraints: ClassVar[dict[str, Any]] = Gamma.arg_constraints
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(tensor(-1.0, dtype=base.rate.dtype))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma numbers."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma numbers, which is the scale here."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        mean = self.rate / (self.concentration - 1)
        return ops.where(self.concentration > 1, mean, float("inf"))

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        shape = self.concentration
        spread = ops.square(self.rate) / (ops.square(shape - 1) * (shape - 2))
        return ops.where(shape > 2, spread, float("inf"))

    def entropy(self) -> Tensor:
        shape = self.concentration
        mixed = ops.lgamma(shape) - (1 + shape) * ops.digamma(shape)
        return shape + ops.log(self.rate) + mixed
