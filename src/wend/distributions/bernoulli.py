"""The Bernoulli distribution."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.distributions import constraints
from wend.distributions._probabilities import check_one_given, inside
from wend.distributions.distribution import (
    ExponentialFamily,
    broadcast_all,
)
from wend.frontend.autograd.backward import no_grad
from wend.frontend.creation import arange
from wend.frontend.random import bernoulli

__all__ = ["Bernoulli"]


class Bernoulli(ExponentialFamily):
    """1 with probability `probs` = sigmoid(`logits`), else 0."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check_one_given("Bernoulli", probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        (self._param,) = broadcast_all(given)
        self.__dict__[name] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @cached_property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return ops.sigmoid(self.logits)

    @cached_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))."""
        kept = inside(self.probs)
        return ops.log(kept) - ops.log1p(-kept)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likely = ops.cast(self.probs >= 0.5, self.probs.dtype)
        return ops.where(self.probs == 0.5, float("nan"), likely)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return bernoulli(ops.expand(self.probs, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -ops.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return ops.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.reshape(
            arange(2, dtype=self._param.dtype), (-1, *(1 for _ in self._batch_shape))
        )
        return ops.expand(values, (-1, *self._batch_shape)) if expand else values

    def expand(self, batch_shape: Any, _instance: Any = None) -> Bernoulli:
        return self._expanded(("probs", "logits", "_param"), batch_shape)
