"""The uniform distribution."""

from __future__ import annotations

from typing import Any

from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.random import rand
from wend.distributions import constraints
from wend.distributions.distribution import Distribution
from wend.distributions.utils import broadcast_all, nan_like

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Equally likely anywhere in [low, high)."""

    has_rsample = True
    low: Tensor
    high: Tensor

    @property
    def arg_constraints(self) -> dict[str, Any]:  # type: ignore[override]
        """low < high."""
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    def _check_parameters(self) -> None:
        if not bool(ops.all(self.low < self.high)):
            raise ValueError("Uniform is not defined when low >= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """The interval between low and high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: no value is most likely."""
        return nan_like(self.high)

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return ops.square(self.high - self.low) / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        unit = rand(tuple(self._extended_shape(sample_shape)), dtype=self.low.dtype)
        return self.low + unit * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = (value >= self.low) & (value < self.high)
        width = ops.log(self.high - self.low)
        return ops.where(inside, -width, float("-inf"))

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.clamp((value - self.low) / (self.high - self.low), min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        return ops.log(self.high - self.low)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, low=(), high=())
