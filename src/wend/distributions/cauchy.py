"""Distributions of a place and a width: uniform, Cauchy, Laplace, Gumbel, and von Mises angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import no_grad
from wend._frontend.random import rand, von_mises
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, in_support
from wend.distributions.constraints import Constraint
from wend.distributions.distribution import Distribution
from wend.distributions.independent import Folded, TransformedDistribution
from wend.distributions.transforms import AbsTransform, AffineTransform, ExpTransform
from wend.distributions.utils import broadcast_all, euler_constant, nan_like

__all__ = ["Cauchy", "Gumbel", "HalfCauchy", "Laplace", "Uniform", "VonMises"]

_PLACE_AND_WIDTH: dict[str, Any] = {"loc": constraints.real, "scale": constraints.positive}


class Uniform(Distribution):
    """Equally likely anywhere in [low, high)."""

    __module__ = "wend.distributions.uniform"

    has_rsample = True

    @property
    def arg_constraints(self) -> dict[str, Any]:  # type: ignore[override]
        """low < high."""
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    def __init__(self, low: Operand, high: Operand, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    def _check_parameters(self) -> None:
        if not bool(ops.all(self.low < self.high)):
            raise ValueError("Uniform is not defined when low >= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:  # type: ignore[override]
        """The interval between low and high."""
        return constraints.interval(self.low, self.high)

    _formulas = Formulas(
        "low high",
        mean=lambda low, high: (low + high) / 2,
        # no value is most likely
        mode=lambda high: nan_like(high),
        stddev=lambda low, high: (high - low) / 12**0.5,
        variance=lambda low, high: ops.square(high - low) / 12,
        rsample=lambda unit, low, high: low + unit * (high - low),
        cdf=lambda value, low, high: ops.clamp((value - low) / (high - low), min=0, max=1),
        icdf=lambda value, low, high: low + value * (high - low),
        entropy=lambda low, high: ops.log(high - low),
        log_prob=lambda value, low, high: ops.where(
            (value >= low) & (value < high), -ops.log(high - low), -math.inf
        ),
    )


class Cauchy(Distribution):
    """Density 1 / (pi scale (1 + z^2)) at z = (x - loc) / scale; without a mean."""

    arg_constraints: ClassVar = _PLACE_AND_WIDTH
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Operand, scale: Operand, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    _formulas = Formulas(
        "loc scale",
        mean=lambda loc: nan_like(loc),
        mode=lambda loc: loc,
        variance=lambda loc: ops.fill_like(loc, math.inf),
        rsample=lambda unit, loc, scale: loc + ops.tan(math.pi * (unit - 0.5)) * scale,
        cdf=lambda value, loc, scale: ops.atan((value - loc) / scale) / math.pi + 0.5,
        icdf=lambda value, loc, scale: ops.tan(math.pi * (value - 0.5)) * scale + loc,
        entropy=lambda scale: math.log(4 * math.pi) + ops.log(scale),
    )

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - ops.log(self.scale) - ops.log1p(ops.square(z))


class HalfCauchy(Folded):
    """|x| of Cauchy numbers x around 0."""

    def __init__(self, scale: Operand, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)

    _formulas = Formulas(
        mean=lambda scale: ops.fill_like(scale, math.inf),
        variance=lambda base_dist: base_dist.variance,
    )


class Laplace(Distribution):
    """Density exp(-|x - loc| / scale) / (2 scale)."""

    arg_constraints: ClassVar = _PLACE_AND_WIDTH
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Operand, scale: Operand, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    _formulas = Formulas(
        "loc scale",
        mean=lambda loc: loc,
        mode=lambda loc: loc,
        variance=lambda scale: 2 * ops.square(scale),
        stddev=lambda scale: 2**0.5 * scale,
        entropy=lambda scale: 1 + ops.log(2 * scale),
        log_prob=lambda value, loc, scale: -ops.log(2 * scale) - ops.abs(value - loc) / scale,
    )

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        unit = rand(
            tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype, device=self.loc.device
        )
        # In (-1, 1]: u - 1/2 never reaches 1/2.
        u = 1 - 2 * unit
        tail = ops.log1p(-ops.clamp(ops.abs(u), max=1 - finfo(u.dtype).eps / 2))
        return self.loc - self.scale * ops.sign(u) * tail

    @in_support
    def cdf(self, value: Tensor) -> Tensor:
        apart = value - self.loc
        return 0.5 - 0.5 * ops.sign(apart) * ops.expm1(-ops.abs(apart) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        apart = value - 0.5
        return self.loc - self.scale * ops.sign(apart) * ops.log1p(-2 * ops.abs(apart))


class Gumbel(TransformedDistribution):
    """loc - scale log(-log(u)) for a uniform u: the greatest of many numbers."""

    arg_constraints: ClassVar = _PLACE_AND_WIDTH
    support = constraints.real

    def __init__(self, loc: Operand, scale: Operand, validate_args: bool | None = None) -> None:
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

    _formulas = Formulas(
        "loc scale",
        mean=lambda loc, scale: loc + scale * euler_constant,
        mode=lambda loc: loc,
        stddev=lambda scale: math.pi / math.sqrt(6) * scale,
        variance=lambda stddev: ops.square(stddev),
        entropy=lambda scale: ops.log(scale) + (1 + euler_constant),
    )

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - value) / self.scale
        return y - ops.exp(y) - ops.log(self.scale)


class VonMises(Distribution):
    """Angles with density proportional to exp(concentration cos(x - loc))."""

    arg_constraints: ClassVar = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(
        self, loc: Operand, concentration: Operand, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    _formulas = Formulas(
        "loc concentration",
        # On the circle: the variance is 1 - the length of the mean of the points.
        mean=lambda loc: loc,
        mode=lambda loc: loc,
        variance=lambda concentration: 1 - ops.i1e(concentration) / ops.i0e(concentration),
    )

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        # cos(d) - 1 = -2 sin(d / 2)^2: i0e leaves exp(concentration) out.
        fall = 2 * self.concentration * ops.square(ops.sin((value - self.loc) / 2))
        return -fall - math.log(2 * math.pi) - ops.log(ops.i0e(self.concentration))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            angle = von_mises(ops.expand(self.concentration, shape)) + self.loc
            return (angle + math.pi) % (2 * math.pi) - math.pi
