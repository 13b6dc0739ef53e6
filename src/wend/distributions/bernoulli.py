"""Distributions of a success: Bernoulli, and its continuous relative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._frontend.creation import arange
from wend._frontend.random import bernoulli, rand
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, attribute, in_support
from wend.distributions.distribution import Distribution, ExponentialFamily
from wend.distributions.utils import (
    broadcast_all,
    check_one_given,
    clamp_probs,
    enumerated,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = ["Bernoulli", "ContinuousBernoulli"]


class OfSuccess(Distribution):
    """Base: a distribution with the parameter `probs` or `logits`, or with a number of trials too.

    The probability of a success is probs = sigmoid(logits).
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    total_count: Tensor
    _param: Tensor
    _formulas = Formulas(
        "total_count probs logits _param",
    )

    def __init__(
        self,
        probs: Any,
        logits: Any,
        validate_args: bool | None,
        total_count: Operand | None = None,
    ) -> None:
        check_one_given(type(self).__name__, probs, logits)
        name, value = ("logits", logits) if probs is None else ("probs", probs)
        if total_count is None:
            (self._param,) = broadcast_all(value)
        else:
            # The type is that of the probabilities, wherever a count of ints comes from.
            self._param, count = broadcast_all(value, total_count)
            self.total_count = ops.cast(count, self._param.dtype)
        self.__dict__[name] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of a success, which is 1."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))."""
        return probs_to_logits(self.probs, is_binary=True)


def _log_likelihood(logits: Tensor, value: Tensor) -> Tensor:
    """value * log(probs) + (1 - value) * log(1 - probs)."""
    logits, value = broadcast_all(logits, value)
    return -ops.binary_cross_entropy_with_logits(logits, value, reduction="none")


class Bernoulli(OfSuccess, ExponentialFamily):
    """1 with probability `probs` = sigmoid(`logits`), else 0."""

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self,
        probs: Operand | None = None,
        logits: Operand | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)

    param_shape = attribute("_param.shape", "The shape of the parameter.")
    _formulas = Formulas(
        mean=lambda probs: probs,
        variance=lambda probs: probs * (1 - probs),
        sample=lambda probs: bernoulli(probs),
        log_prob=lambda value, logits: _log_likelihood(logits, value),
        entropy=lambda logits, probs: ops.binary_cross_entropy_with_logits(
            logits, probs, reduction="none"
        ),
        _natural_params=lambda logits: (logits,),
        _log_normalizer=ops.softplus,
    )
    _mean_carrier_measure = 0

    @property
    def mode(self) -> Tensor:
        likely = ops.cast(self.probs >= 0.5, self.probs.dtype)
        return ops.where(self.probs == 0.5, float("nan"), likely)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return enumerated(
            arange(2, dtype=self._param.dtype, device=self._param.device), self._batch_shape, expand
        )


class ContinuousBernoulli(OfSuccess, ExponentialFamily):
    """Numbers from 0 to 1 with density C probs^x (1 - probs)^(1 - x).

    lims: probabilities between these are close to 1/2, where a Taylor series is used
    Loaiza-Ganem, Cunningham: The continuous Bernoulli (2019).
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Operand | None = None,
        logits: Operand | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        super().__init__(probs, logits, validate_args)
        if probs is not None:
            self._param = clamp_probs(self.probs)
            self.__dict__["probs"] = self._param

    param_shape = attribute("_param.shape", "The shape of the parameter.")
    _formulas = Formulas(
        log_prob=lambda self, value: _log_likelihood(self.logits, value) + self._log_norm(),
        _natural_params=lambda logits: (logits,),
    )
    _mean_carrier_measure = 0

    def _outside_unstable_region(self) -> Tensor:
        low, high = self._lims
        return (self.probs <= low) | (self.probs > high)

    def _cut_probs(self) -> Tensor:
        """The probabilities, without those near 1/2."""
        return ops.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _chosen(self, exact: Tensor, near_half: Tensor) -> Tensor:
        return ops.where(self._outside_unstable_region(), exact, near_half)

    def _log_norm(self) -> Tensor:
        cut = self._cut_probs()
        ratio = ops.abs(ops.log1p(-cut) - ops.log(cut)) / ops.abs(1 - 2 * cut)
        square = ops.square(self.probs - 0.5)
        return self._chosen(
            ops.log(ratio), math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square
        )

    @property
    def mean(self) -> Tensor:
        cut, x = self._cut_probs(), self.probs - 0.5
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (ops.log1p(-cut) - ops.log(cut))
        return self._chosen(exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * ops.square(x)) * x)

    @property
    def variance(self) -> Tensor:
        cut, square = self._cut_probs(), ops.square(self.probs - 0.5)
        exact = cut * (cut - 1.0) / ops.square(1.0 - 2.0 * cut)
        exact = exact + 1.0 / ops.square(ops.log1p(-cut) - ops.log(cut))
        return self._chosen(exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return self.icdf(rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    @in_support
    def cdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        powers = ops.pow(cut, value) * ops.pow(1.0 - cut, 1.0 - value)
        inside = self._chosen((powers + cut - 1.0) / (2.0 * cut - 1.0), value)
        return ops.where(value <= 0.0, 0.0, ops.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        log_none = ops.log1p(-cut)
        exact = ops.log1p(-cut + value * (2.0 * cut - 1.0)) - log_none
        return self._chosen(exact / (ops.log(cut) - log_none), value)

    def entropy(self) -> Tensor:
        none = ops.log1p(-self.probs)
        return self.mean * (none - ops.log(self.probs)) - self._log_norm() - none

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        low, high = self._lims
        outside = (x <= low - 0.5) | (x > high - 0.5)
        cut = ops.where(outside, x, low - 0.5)
        exact = ops.log(ops.abs(ops.expm1(cut))) - ops.log(ops.abs(cut))
        taylor = 0.5 * x + ops.square(x) / 24.0 - ops.square(ops.square(x)) / 2880.0
        return ops.where(outside, exact, taylor)
