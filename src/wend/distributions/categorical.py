"""Distributions over finitely many categories, as an index or as a vector with a single 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend._frontend.autograd.backward import no_grad
from wend._frontend.creation import arange, eye
from wend._frontend.random import multinomial
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, attribute, in_support
from wend.distributions.constraints import Constraint
from wend.distributions.distribution import Distribution
from wend.distributions.utils import (
    check_one_given,
    enumerated,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = ["Categorical", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(Distribution):
    """i in 0 ... K - 1 with probability probs[..., i]; `logits` are unnormalised logarithms."""

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        check_one_given("Categorical", probs, logits)
        name, value = ("logits", logits) if probs is None else ("probs", probs)
        if value.dim() < 1:
            raise ArgumentError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self._param = logits - ops.logsumexp(logits, -1, keepdim=True)
        else:
            self._param = probs / ops.sum(probs, -1, keepdim=True)
        self.__dict__[name] = self._param
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:  # type: ignore[override]
        """The integers 0 ... K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1 along the last dim."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    _formulas = Formulas(
        "probs logits _param",
        # Categories have no mean.
        mean=lambda self: full_beside(self.probs, self._extended_shape(), math.nan),
        variance=lambda mean: mean,
        mode=lambda probs: ops.argmax(probs, -1),
    )
    param_shape = attribute("_param.shape", "The shape of the parameter, K last.")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            rows = ops.reshape(self.probs, (-1, self._num_events))
            indices = ops.transpose(multinomial(rows, math.prod(sample_shape), True), 0, 1)
            return ops.reshape(indices, self._extended_shape(sample_shape))

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        index = ops.unsqueeze(value.long(), -1)
        index, logits = ops.broadcast_tensors(index, self.logits)
        index = index[..., :1]
        return ops.squeeze(ops.gather(logits, -1, index), -1)

    def entropy(self) -> Tensor:
        floor = finfo(self.logits.dtype).min  # 0 * -inf would be NaN
        return -ops.sum(ops.clamp(self.logits, min=floor) * self.probs, -1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return enumerated(
            arange(self._num_events, device=self._param.device), self._batch_shape, expand
        )


class OfCategories(Distribution):
    """Base: a distribution of vectors that has the parameters of a Categorical."""

    arg_constraints: ClassVar = Categorical.arg_constraints

    def __init__(
        self, probs: Tensor | None, logits: Tensor | None, validate_args: bool | None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    _formulas = Formulas(
        "_categorical",
    )
    _param = attribute("_categorical._param")
    probs = attribute("_categorical.probs", "The probabilities, which sum to 1 along the last dim.")
    logits = attribute("_categorical.logits", "The logarithms of the probabilities.")
    param_shape = attribute("_categorical.param_shape", "The shape of the parameter, K last.")


class OneHotCategorical(OfCategories):
    """A vector with 1 in place i, drawn as by Categorical, and 0 elsewhere."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)

    _formulas = Formulas(
        mean=lambda probs: probs,
        mode=lambda self: self._vector(self._categorical.mode),
        variance=lambda probs: probs * (1 - probs),
        entropy=lambda _categorical: _categorical.entropy(),
        log_prob=lambda value, _categorical: _categorical.log_prob(ops.argmax(value, -1)),
    )

    def _vector(self, index: Tensor) -> Tensor:
        hot = ops.one_hot(index, self._categorical._num_events)
        return ops.cast(hot, self._param.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._vector(self._categorical.sample(sample_shape))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = ops.reshape(values, (n, *(1 for _ in self._batch_shape), n))
        return ops.expand(values, (n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples have the gradients of the probabilities.

    Bengio, Leonard, Courville: Estimating or propagating gradients through stochastic neurons for
    conditional computation (2013).
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())
