"""Functions of normal numbers: their absolute value, exponential, and shares by sticks."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend.distributions import constraints
from wend.distributions.normal import Normal
from wend.distributions.transformed_distribution import TransformedDistribution
from wend.distributions.transforms import AbsTransform, ExpTransform, StickBreakingTransform

__all__ = ["HalfNormal", "LogNormal", "LogisticNormal"]


class HalfNormal(TransformedDistribution):
    """|x| of normal numbers x around 0 with deviation `scale`."""

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The deviation of x."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return ops.square(self.scale) * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class LogNormal(TransformedDistribution):
    """exp(x) of normal numbers x with mean `loc` and deviation `scale`."""

    arg_constraints: ClassVar[dict[str, Any]] = Normal.arg_constraints
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of x."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The deviation of x."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return ops.exp(self.loc + ops.square(self.scale) / 2)

    @property
    def mode(self) -> Tensor:
        return ops.exp(self.loc - ops.square(self.scale))

    @property
    def variance(self) -> Tensor:
        square = ops.square(self.scale)
        return ops.expm1(square) * ops.exp(2 * self.loc + square)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """n normal numbers, by sticks (StickBreakingTransform), as n + 1 shares that sum to 1."""

    arg_constraints: ClassVar[dict[str, Any]] = Normal.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand(Size([1]))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The deviations of the normal numbers."""
        return self.base_dist.base_dist.scale
