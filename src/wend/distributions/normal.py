"""Normal numbers and functions of such: the absolute value, exponential, and shares by sticks."""

from __future__ import annotations

import math
from typing import ClassVar

from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, attribute, in_support
from wend.distributions.distribution import ExponentialFamily
from wend.distributions.independent import Folded, TransformedDistribution
from wend.distributions.transforms import AbsTransform, ExpTransform, StickBreakingTransform
from wend.distributions.utils import broadcast_all

__all__ = ["HalfNormal", "LogNormal", "LogisticNormal", "Normal"]


class Normal(ExponentialFamily):
    """The Gaussian with mean `loc` and standard deviation `scale`."""

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, loc: Operand, scale: Operand, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    _formulas = Formulas(
        "loc scale",
        mean=lambda loc: loc,
        mode=lambda loc: loc,
        stddev=lambda scale: scale,
        variance=lambda scale: ops.square(scale),
        rsample=lambda noise, loc, scale: loc + noise * scale,
        cdf=lambda value, loc, scale: 0.5 * (1 + ops.erf((value - loc) / (scale * math.sqrt(2)))),
        icdf=lambda value, loc, scale: loc + scale * ops.erfinv(2 * value - 1) * math.sqrt(2),
        entropy=lambda scale: 0.5 + 0.5 * math.log(2 * math.pi) + ops.log(scale),
        _natural_params=lambda loc, scale: (loc / (square := ops.square(scale)), -0.5 / square),
        _log_normalizer=lambda x, y: -0.25 * ops.square(x) / y + 0.5 * ops.log(-math.pi / y),
    )

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        distance = ops.square(value - self.loc) / (2 * ops.square(self.scale))
        return -distance - ops.log(self.scale) - 0.5 * math.log(2 * math.pi)


class HalfNormal(Folded):
    """|x| of normal numbers x around 0 with deviation `scale`."""

    __module__ = "wend.distributions.log_normal"

    def __init__(self, scale: Operand, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args)

    _formulas = Formulas(
        mean=lambda scale: scale * math.sqrt(2 / math.pi),
        variance=lambda scale: ops.square(scale) * (1 - 2 / math.pi),
    )


class LogNormal(TransformedDistribution):
    """exp(x) of normal numbers x with mean `loc` and deviation `scale`."""

    __module__ = "wend.distributions.log_normal"

    arg_constraints: ClassVar = Normal.arg_constraints
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Operand, scale: Operand, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc = attribute("base_dist.loc", "The mean of x.")
    scale = attribute("base_dist.scale", "The deviation of x.")
    _formulas = Formulas(
        mean=lambda loc, scale: ops.exp(loc + ops.square(scale) / 2),
        mode=lambda loc, scale: ops.exp(loc - ops.square(scale)),
        entropy=lambda base_dist, loc: base_dist.entropy() + loc,
    )

    @property
    def variance(self) -> Tensor:
        square = ops.square(self.scale)
        return ops.expm1(square) * ops.exp(2 * self.loc + square)


class LogisticNormal(TransformedDistribution):
    """n normal numbers, by sticks (StickBreakingTransform), as n + 1 shares that sum to 1."""

    __module__ = "wend.distributions.log_normal"

    arg_constraints: ClassVar = Normal.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Operand, scale: Operand, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand(Size([1]))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc = attribute("base_dist.base_dist.loc", "The means of the normal numbers.")
    scale = attribute("base_dist.base_dist.scale", "The deviations of the normal numbers.")
