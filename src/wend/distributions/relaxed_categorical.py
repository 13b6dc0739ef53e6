"""Continuous relaxations of Bernoulli and categorical numbers, with gradients.

Maddison, Mnih, Teh: The concrete distribution (2017).
Jang, Gu, Poole: Categorical reparameterization with Gumbel-softmax (2017).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.random import rand
from wend.distributions import constraints
from wend.distributions.categorical import Categorical
from wend.distributions.distribution import Distribution
from wend.distributions.transformed_distribution import TransformedDistribution
from wend.distributions.transforms import ExpTransform, SigmoidTransform
from wend.distributions.utils import (
    broadcast_all,
    check_one_given,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = [
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class LogitRelaxedBernoulli(Distribution):
    """The logit of a relaxed Bernoulli number; the lower the temperature, the closer to 0 or 1."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.real
    has_rsample = True
    _param: Tensor

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        check_one_given(type(self).__name__, probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        (self._param,) = broadcast_all(given)
        self.__dict__[name] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Any:
        """The probability of 1."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Any:
        """log(probs / (1 - probs))."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        noise = clamp_probs(rand(shape, dtype=self._param.dtype))
        logistic = ops.log(noise) - ops.log1p(-noise)
        return (logistic + probs_to_logits(self.probs, is_binary=True)) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value * self.temperature
        (temperature,) = broadcast_all(self.temperature)
        return ops.log(temperature) + apart - 2 * ops.softplus(apart)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, probs=(), logits=(), _param=())


class RelaxedBernoulli(TransformedDistribution):
    """A number from 0 to 1; the lower the temperature, the closer to a Bernoulli number."""

    arg_constraints: ClassVar[dict[str, Any]] = LogitRelaxedBernoulli.arg_constraints
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return self.base_dist.probs


class ExpRelaxedCategorical(Distribution):
    """The logarithms of RelaxedOneHotCategorical."""

    arg_constraints: ClassVar[dict[str, Any]] = Categorical.arg_constraints
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter, K last."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1 along the last dim."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        noise = clamp_probs(rand(shape, dtype=self._param.dtype))
        scores = (self.logits - ops.log(-ops.log(noise))) / self.temperature
        return scores - ops.logsumexp(scores, -1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        n = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        score = logits - value * self.temperature
        score = ops.sum(score - ops.logsumexp(score, -1, keepdim=True), -1)
        (temperature,) = broadcast_all(self.temperature)
        return score + (n - 1) * ops.log(temperature) + math.lgamma(n)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance)
        made._categorical = self._categorical.expand(batch_shape)
        return made


class RelaxedOneHotCategorical(TransformedDistribution):
    """Positive numbers that sum to 1; the lower the temperature, the closer to a single 1."""

    arg_constraints: ClassVar[dict[str, Any]] = Categorical.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1 along the last dim."""
        return self.base_dist.probs
