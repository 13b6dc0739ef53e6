"""Distributions of a place and a width: Cauchy, Laplace, Gumbel, and von Mises on the circle."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import no_grad
from wend._frontend.random import rand, von_mises
from wend.distributions import constraints
from wend.distributions.distribution import Distribution
from wend.distributions.transformed_distribution import TransformedDistribution
from wend.distributions.transforms import AbsTransform, AffineTransform, ExpTransform
from wend.distributions.uniform import Uniform
from wend.distributions.utils import broadcast_all, euler_constant, nan_like

__all__ = ["Cauchy", "Gumbel", "HalfCauchy", "Laplace", "VonMises"]

_PLACE_AND_WIDTH: dict[str, Any] = {"loc": constraints.real, "scale": constraints.positive}


class Cauchy(Distribution):
    """Density 1 / (pi scale (1 + z^2)) at z = (x - loc) / scale; without a mean."""

    arg_constraints: ClassVar[dict[str, Any]] = _PLACE_AND_WIDTH
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return nan_like(self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ops.fill_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        unit = rand(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype)
        return self.loc + ops.tan(math.pi * (unit - 0.5)) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - ops.log(self.scale) - ops.log1p(ops.square(z))

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + ops.log(self.scale)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, loc=(), scale=())


class HalfCauchy(TransformedDistribution):
    """|x| of Cauchy numbers x around 0."""

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The width."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return ops.fill_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _folded_density(self.base_dist, value)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


def _folded_density(base: Any, value: Tensor) -> Tensor:
    """The density of |x| for x around 0: twice that of x, and nothing below 0."""
    return ops.where(value >= 0, base.log_prob(value) + math.log(2), -math.inf)


class Laplace(Distribution):
    """Density exp(-|x - loc| / scale) / (2 scale)."""

    arg_constraints: ClassVar[dict[str, Any]] = _PLACE_AND_WIDTH
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * ops.square(self.scale)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        unit = rand(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype)
        # In (-1, 1]: u - 1/2 never reaches 1/2.
        u = 1 - 2 * unit
        tail = ops.log1p(-ops.clamp(ops.abs(u), max=1 - finfo(u.dtype).eps / 2))
        return self.loc - self.scale * ops.sign(u) * tail

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -ops.log(2 * self.scale) - ops.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        apart = value - self.loc
        return 0.5 - 0.5 * ops.sign(apart) * ops.expm1(-ops.abs(apart) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        apart = value - 0.5
        return self.loc - self.scale * ops.sign(apart) * ops.log1p(-2 * ops.abs(apart))

    def entropy(self) -> Tensor:
        return 1 + ops.log(2 * self.scale)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, loc=(), scale=())


class Gumbel(TransformedDistribution):
    """loc - scale log(-log(u)) for a uniform u: the greatest of many numbers."""

    arg_constraints: ClassVar[dict[str, Any]] = _PLACE_AND_WIDTH
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = finfo(self.loc.dtype)
        low, high = ops.fill_like(self.loc, info.tiny), ops.fill_like(self.loc, 1 - info.eps)
        steps = [
            ExpTransform().inv,
            AffineTransform(0, -ops.fill_like(self.scale, 1)),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]
        base = Uniform(low, high, validate_args=validate_args)
        super().__init__(base, steps, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - ops.exp(y) - ops.log(self.scale)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return ops.square(self.stddev)

    def entropy(self) -> Tensor:
        return ops.log(self.scale) + (1 + euler_constant)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._grown(batch_shape, _instance, loc=(), scale=())


class VonMises(Distribution):
    """Angles with density proportional to exp(concentration cos(x - loc))."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    has_rsample = False
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # cos(d) - 1 = -2 sin(d / 2)^2: i0e leaves exp(concentration) out.
        fall = 2 * self.concentration * ops.square(ops.sin((value - self.loc) / 2))
        return -fall - math.log(2 * math.pi) - ops.log(ops.i0e(self.concentration))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            angle = von_mises(ops.expand(self.concentration, shape)) + self.loc
            return (angle + math.pi) % (2 * math.pi) - math.pi

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - the length of the mean of the points on the circle."""
        return 1 - ops.i1e(self.concentration) / ops.i0e(self.concentration)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, loc=(), concentration=())
