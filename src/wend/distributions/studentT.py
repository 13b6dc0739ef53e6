"""Distributions of test statistics: Student's t and Fisher and Snedecor's F."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend.distributions import constraints
from wend.distributions.distribution import Distribution
from wend.distributions.gamma import Chi2, Gamma
from wend.distributions.utils import broadcast_all, standard_normal

__all__ = ["FisherSnedecor", "StudentT"]


class StudentT(Distribution):
    """loc + scale z / sqrt(c / df) for a normal z and c of the chi-squared distribution of df."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df > 1, self.loc, float("nan"))

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = ops.square(self.scale) * self.df / (self.df - 2)
        result = ops.where(self.df > 2, finite, float("inf"))
        return ops.where(self.df > 1, result, float("nan"))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = standard_normal(self._extended_shape(sample_shape), self.df)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * noise * ops.rsqrt(squares / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y, half = (value - self.loc) / self.scale, 0.5 * (self.df + 1.0)
        norm = ops.log(self.scale) + 0.5 * ops.log(self.df) + 0.5 * math.log(math.pi)
        norm = norm + ops.lgamma(0.5 * self.df) - ops.lgamma(half)
        return -half * ops.log1p(ops.square(y) / self.df) - norm

    def entropy(self) -> Tensor:
        half, own = 0.5 * (self.df + 1), 0.5 * self.df
        log_beta = ops.lgamma(own) + math.lgamma(0.5) - ops.lgamma(half)
        mixed = half * (ops.digamma(half) - ops.digamma(own))
        return ops.log(self.scale) + mixed + 0.5 * ops.log(self.df) + log_beta

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, df=(), loc=(), scale=())
        made._chi2 = self._chi2.expand(batch_shape)
        return made


class FisherSnedecor(Distribution):
    """(a / df1) / (b / df2) for a and b of the chi-squared distributions of df1 and df2."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "df1": constraints.positive,
        "df2": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), float("nan"))

    @property
    def mode(self) -> Tensor:
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 > 2, found, float("nan"))

    @property
    def variance(self) -> Tensor:
        upper = 2 * ops.square(self.df2) * (self.df1 + self.df2 - 2)
        lower = self.df1 * ops.square(self.df2 - 2) * (self.df2 - 4)
        return ops.where(self.df2 > 4, upper / lower, float("nan"))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        upper = self._gamma1.rsample(sample_shape)
        ratio = upper / self._gamma2.rsample(sample_shape)
        return ops.clamp(ratio, min=finfo(ratio.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = ops.lgamma(a + b) - ops.lgamma(a) - ops.lgamma(b)
        powers = a * ops.log(ratio) + (a - 1) * ops.log(value)
        return norm + powers - (a + b) * ops.log1p(ratio * value)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, df1=(), df2=())
        made._gamma1 = self._gamma1.expand(batch_shape)
        made._gamma2 = self._gamma2.expand(batch_shape)
        return made
