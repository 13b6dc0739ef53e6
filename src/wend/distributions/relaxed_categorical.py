"""Continuous relaxations of Bernoulli and categorical numbers, with gradients.

Maddison, Mnih, Teh: The concrete distribution (2017).
Jang, Gu, Poole: Categorical reparameterization with Gumbel-softmax (2017).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._frontend.random import rand
from wend.distributions import constraints
from wend.distributions._formulas import attribute, in_support
from wend.distributions.bernoulli import OfSuccess
from wend.distributions.categorical import Categorical, OfCategories
from wend.distributions.independent import TransformedDistribution
from wend.distributions.transforms import ExpTransform, SigmoidTransform
from wend.distributions.utils import broadcast_all, clamp_probs, probs_to_logits

__all__ = [
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


def _noise(shape: Sequence[int], like: Tensor) -> Tensor:
    """Uniform numbers, without 0 and 1."""
    return clamp_probs(rand(tuple(shape), dtype=like.dtype, device=like.device))


class LogitRelaxedBernoulli(OfSuccess):
    """The logit of a relaxed Bernoulli number; the lower the temperature, the closer to 0 or 1."""

    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Operand,
        probs: Operand | None = None,
        logits: Operand | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    param_shape = attribute("_param.shape", "The shape of the parameter.")

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _noise(self._extended_shape(sample_shape), self._param)
        logistic = ops.log(noise) - ops.log1p(-noise)
        return (logistic + probs_to_logits(self.probs, is_binary=True)) / self.temperature

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value * self.temperature
        (temperature,) = broadcast_all(self.temperature)
        return ops.log(temperature) + apart - 2 * ops.softplus(apart)


class ExpRelaxedCategorical(OfCategories):
    """The logarithms of RelaxedOneHotCategorical."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Operand,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _noise(self._extended_shape(sample_shape), self._param)
        scores = (self.logits - ops.log(-ops.log(noise))) / self.temperature
        return scores - ops.logsumexp(scores, -1, keepdim=True)

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        n = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        score = logits - value * self.temperature
        score = ops.sum(score - ops.logsumexp(score, -1, keepdim=True), -1)
        (temperature,) = broadcast_all(self.temperature)
        return score + (n - 1) * ops.log(temperature) + math.lgamma(n)


class _Relaxed(TransformedDistribution):
    """Base: a function of a relaxed distribution."""

    has_rsample = True
    temperature = attribute("base_dist.temperature", "The temperature.")
    logits = attribute("base_dist.logits", "The parameter as logits.")
    probs = attribute("base_dist.probs", "The parameter as probabilities.")


class RelaxedBernoulli(_Relaxed):
    """A number from 0 to 1; the lower the temperature, the closer to a Bernoulli number."""

    arg_constraints: ClassVar = OfSuccess.arg_constraints
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Operand,
        probs: Operand | None = None,
        logits: Operand | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class RelaxedOneHotCategorical(_Relaxed):
    """Positive numbers that sum to 1; the lower the temperature, the closer to a single 1."""

    arg_constraints: ClassVar = Categorical.arg_constraints
    support = constraints.simplex

    def __init__(
        self,
        temperature: Operand,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
