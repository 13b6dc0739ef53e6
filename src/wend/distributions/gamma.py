"""Waiting times (gamma, exponential and chi-squared numbers), and their ratios and powers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._frontend.creation import tensor
from wend._frontend.random import _standard_gamma, rand
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, attribute, in_support
from wend.distributions.constraints import Constraint
from wend.distributions.distribution import Distribution, ExponentialFamily
from wend.distributions.independent import TransformedDistribution
from wend.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from wend.distributions.utils import broadcast_all, euler_constant, standard_normal

__all__ = [
    "Chi2",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "InverseGamma",
    "Pareto",
    "StudentT",
    "Weibull",
]


class Gamma(ExponentialFamily):
    """Positive numbers with density proportional to x^(concentration - 1) exp(-rate x)."""

    arg_constraints: ClassVar = dict.fromkeys(("concentration", "rate"), constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, concentration: Operand, rate: Operand, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    _formulas = Formulas(
        "concentration rate",
        mean=lambda concentration, rate: concentration / rate,
        mode=lambda concentration, rate: ops.clamp((concentration - 1) / rate, min=0),
        variance=lambda concentration, rate: concentration / ops.square(rate),
        cdf=lambda value, concentration, rate: ops.igamma(concentration, rate * value),
        _natural_params=lambda concentration, rate: (concentration - 1, -rate),
        _log_normalizer=lambda x, y: ops.lgamma(x + 1) - (x + 1) * ops.log(-y),
    )

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        samples = _standard_gamma(ops.expand(self.concentration, shape)) / self.rate
        return ops.clamp(samples, min=finfo(samples.dtype).tiny)

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        shape, rate = self.concentration, self.rate
        density = ops.xlogy(shape, rate) + ops.xlogy(shape - 1, value) - rate * value
        return density - ops.lgamma(shape)

    def entropy(self) -> Tensor:
        shape = self.concentration
        mixed = ops.lgamma(shape) + (1.0 - shape) * ops.digamma(shape)
        return shape - ops.log(self.rate) + mixed


class Chi2(Gamma):
    """The sum of the squares of `df` normal numbers."""

    arg_constraints: ClassVar = {"df": constraints.positive}

    def __init__(self, df: Operand, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The number of squares."""
        return self.concentration * 2


class Exponential(ExponentialFamily):
    """Positive numbers with density rate exp(-rate x)."""

    arg_constraints: ClassVar = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Operand, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    _formulas = Formulas(
        "rate",
        mean=lambda rate: 1 / rate,
        stddev=lambda rate: 1 / rate,
        mode=lambda rate: ops.zeros_like(rate),
        variance=lambda rate: 1 / ops.square(rate),
        rsample=lambda unit, rate: -ops.log1p(-unit) / rate,
        log_prob=lambda value, rate: ops.log(rate) - rate * value,
        cdf=lambda value, rate: -ops.expm1(-rate * value),
        icdf=lambda value, rate: -ops.log1p(-value) / rate,
        entropy=lambda rate: 1.0 - ops.log(rate),
        _natural_params=lambda rate: (-rate,),
        _log_normalizer=lambda x: -ops.log(-x),
    )


class InverseGamma(TransformedDistribution):
    """1 / x of gamma numbers x."""

    arg_constraints: ClassVar = Gamma.arg_constraints
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, concentration: Operand, rate: Operand, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(tensor(-1.0, dtype=base.rate.dtype))
        super().__init__(base, inverse, validate_args=validate_args)

    concentration = attribute("base_dist.concentration", "The shape of the gamma numbers.")
    rate = attribute("base_dist.rate", "The rate of the gamma numbers, which is the scale here.")
    _formulas = Formulas(
        mean=lambda concentration, rate: ops.where(
            concentration > 1, rate / (concentration - 1), math.inf
        ),
        mode=lambda concentration, rate: rate / (concentration + 1),
    )

    @property
    def variance(self) -> Tensor:
        shape = self.concentration
        spread = ops.square(self.rate) / (ops.square(shape - 1) * (shape - 2))
        return ops.where(shape > 2, spread, math.inf)

    def entropy(self) -> Tensor:
        shape = self.concentration
        mixed = ops.lgamma(shape) - (1 + shape) * ops.digamma(shape)
        return shape + ops.log(self.rate) + mixed


# -- ratios: statistics of tests -------------------------------------------------------------------


class StudentT(Distribution):
    """loc + scale z / sqrt(c / df) for a normal z and c of the chi-squared distribution of df."""

    __module__ = "wend.distributions.studentT"

    arg_constraints: ClassVar = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: Operand,
        loc: Operand = 0.0,
        scale: Operand = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    _formulas = Formulas(
        "df loc scale _chi2",
        mean=lambda df, loc: ops.where(df > 1, loc, math.nan),
        mode=lambda loc: loc,
    )

    @property
    def variance(self) -> Tensor:
        finite = ops.square(self.scale) * self.df / (self.df - 2)
        result = ops.where(self.df > 2, finite, math.inf)
        return ops.where(self.df > 1, result, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = standard_normal(self._extended_shape(sample_shape), self.df)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * noise * ops.rsqrt(squares / self.df)

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        y, half = (value - self.loc) / self.scale, 0.5 * (self.df + 1.0)
        norm = ops.log(self.scale) + 0.5 * ops.log(self.df) + 0.5 * math.log(math.pi)
        norm = norm + ops.lgamma(0.5 * self.df) - ops.lgamma(half)
        return -half * ops.log1p(ops.square(y) / self.df) - norm

    def entropy(self) -> Tensor:
        half, own = 0.5 * (self.df + 1), 0.5 * self.df
        log_beta = ops.lgamma(own) + math.lgamma(0.5) - ops.lgamma(half)
        mixed = half * (ops.digamma(half) - ops.digamma(own))
        return ops.log(self.scale) + mixed + 0.5 * ops.log(self.df) + log_beta


class FisherSnedecor(Distribution):
    """(a / df1) / (b / df2) for a and b of the chi-squared distributions of df1 and df2."""

    __module__ = "wend.distributions.studentT"

    arg_constraints: ClassVar = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Operand, df2: Operand, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    _formulas = Formulas(
        "df1 df2 _gamma1 _gamma2",
        mean=lambda df2: ops.where(df2 > 2, df2 / (df2 - 2), math.nan),
        mode=lambda df1, df2: ops.where(df1 > 2, (df1 - 2) / df1 * df2 / (df2 + 2), math.nan),
    )

    @property
    def variance(self) -> Tensor:
        upper = 2 * ops.square(self.df2) * (self.df1 + self.df2 - 2)
        lower = self.df1 * ops.square(self.df2 - 2) * (self.df2 - 4)
        return ops.where(self.df2 > 4, upper / lower, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        upper = self._gamma1.rsample(sample_shape)
        ratio = upper / self._gamma2.rsample(sample_shape)
        return ops.clamp(ratio, min=finfo(ratio.dtype).tiny)

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = ops.lgamma(a + b) - ops.lgamma(a) - ops.lgamma(b)
        powers = a * ops.log(ratio) + (a - 1) * ops.log(value)
        return norm + powers - (a + b) * ops.log1p(ratio * value)


# -- powers ----------------------------------------------------------------------------------------


class Pareto(TransformedDistribution):
    """Numbers above `scale` with density proportional to x^-(alpha + 1)."""

    __module__ = "wend.distributions.pareto"

    arg_constraints: ClassVar = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Operand, alpha: Operand, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        return [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        copy = self._expanded(batch_shape, _instance, ("scale", "alpha"))
        copy.transforms = copy._steps()
        return copy

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:  # type: ignore[override]
        """Numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    _formulas = Formulas(
        mode=lambda scale: scale,
        entropy=lambda scale, alpha: ops.log(scale / alpha) + (1 + 1 / alpha),
    )

    @property
    def mean(self) -> Tensor:
        alpha = ops.clamp(self.alpha, min=1)  # infinite below
        return alpha * self.scale / (alpha - 1)

    @property
    def variance(self) -> Tensor:
        alpha = ops.clamp(self.alpha, min=2)
        spread = ops.square(alpha - 1) * (alpha - 2)
        return ops.square(self.scale) * alpha / spread


class Weibull(TransformedDistribution):
    """scale e^(1 / concentration) for an exponential e of rate 1."""

    __module__ = "wend.distributions.pareto"

    arg_constraints: ClassVar = dict.fromkeys(("scale", "concentration"), constraints.positive)
    support = constraints.positive

    def __init__(
        self, scale: Operand, concentration: Operand, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal: Tensor = 1 / self.concentration
        base = Exponential(ops.fill_like(self.scale, 1), validate_args=validate_args)
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        power = PowerTransform(exponent=self.concentration_reciprocal)
        return [power, AffineTransform(loc=0, scale=self.scale)]

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        names = ("scale", "concentration", "concentration_reciprocal")
        copy = self._expanded(batch_shape, _instance, names)
        copy.transforms = copy._steps()
        return copy

    def _moment(self, n: int) -> Tensor:
        """The mean of (x / scale)^n."""
        return ops.exp(ops.lgamma(1 + n * self.concentration_reciprocal))

    _formulas = Formulas(
        mean=lambda self: self.scale * self._moment(1),
        variance=lambda self: (
            ops.square(self.scale) * (self._moment(2) - ops.square(self._moment(1)))
        ),
    )

    @property
    def mode(self) -> Tensor:
        share = (self.concentration - 1) / self.concentration
        return self.scale * ops.pow(share, self.concentration_reciprocal)

    def entropy(self) -> Tensor:
        power = self.concentration_reciprocal
        return euler_constant * (1 - power) + ops.log(self.scale * power) + 1


class GeneralizedPareto(Distribution):
    """Values above a high threshold `loc`: 1 - F(x) = (1 + concentration z)^(-1 / concentration).

    z = (x - loc) / scale; exponential where the concentration is 0, bounded where it is negative.
    """

    __module__ = "wend.distributions.pareto"

    arg_constraints: ClassVar = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self,
        loc: Operand,
        scale: Operand,
        concentration: Operand,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:  # type: ignore[override]
        """Numbers from loc on, up to a bound where the concentration is negative."""
        bound = self.loc - self.scale / self._safe
        return constraints.interval(self.loc, ops.where(self.concentration < 0, bound, math.inf))

    _formulas = Formulas(
        "loc scale concentration",
        mode=lambda loc: loc,
        entropy=lambda scale, concentration: ops.log(scale) + concentration + 1,
    )

    @property
    def _none(self) -> Tensor:
        """Where the concentration is 0 up to rounding."""
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    @property
    def _safe(self) -> Tensor:
        """The concentration, 1 where it is 0."""
        return ops.where(self._none, 1.0, self.concentration)

    @property
    def mean(self) -> Tensor:
        power = self.concentration
        inside = self.loc + self.scale / (1 - power)
        return ops.where(power < 1, inside, math.inf)

    @property
    def variance(self) -> Tensor:
        power = self.concentration
        spread = ops.square(self.scale) / (ops.square(1 - power) * (1 - 2 * power))
        return ops.where(power < 0.5, spread, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return self.icdf(rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        z, power = (value - self.loc) / self.scale, self._safe
        curved = -(1 + 1 / power) * ops.log1p(power * z)
        return -ops.log(self.scale) + ops.where(self._none, -z, curved)

    @in_support
    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of being above `value`."""
        z, power = (value - self.loc) / self.scale, self._safe
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
