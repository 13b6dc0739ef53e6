"""Distributions over finitely many values: Bernoulli and Categorical."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from wend.base.dtypes import finfo
from wend.base.errors import ArgumentError
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.frontend.autograd import no_grad
from wend.frontend.creation import arange
from wend.frontend.distributions import constraints
from wend.frontend.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
)
from wend.frontend.random import bernoulli, multinomial

__all__ = ["Bernoulli", "Categorical"]


def _inside(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1, where logarithms are infinite."""
    eps = finfo(probs.dtype).eps
    return ops.clamp(probs, min=eps, max=1 - eps)


def _one_of(name: str, probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{name}: either probs or logits must be specified, but not both")


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
        _one_of("Bernoulli", probs, logits)
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
        inside = _inside(self.probs)
        return ops.log(inside) - ops.log1p(-inside)

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


class Categorical(Distribution):
    """i in 0 ... K - 1 with probability probs[..., i]; `logits` are unnormalised logarithms."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _one_of("Categorical", probs, logits)
        given = logits if probs is None else probs
        name = "logits" if probs is None else "probs"
        if given.dim() < 1:
            raise ArgumentError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self._param = logits - ops.logsumexp(logits, -1, keepdim=True)
        else:
            self._param = probs / ops.sum(probs, -1, keepdim=True)
        self.__dict__[name] = self._param
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """The integers 0 ... K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @cached_property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1 along the last dim."""
        return ops.softmax(self.logits, -1)

    @cached_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return ops.log(_inside(self.probs))

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter, K last."""
        return self._param.size()

    @property
    def mean(self) -> Tensor:
        """NaN: categories have no mean."""
        return ops.full(self._extended_shape(), float("nan"), dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        return ops.argmax(self.probs, -1)

    @property
    def variance(self) -> Tensor:
        """NaN: categories have no variance."""
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        count = 1
        for extent in sample_shape:
            count *= extent
        with no_grad():
            rows = ops.reshape(self.probs, (-1, self._num_events))
            drawn = ops.transpose(multinomial(rows, count, True), 0, 1)
            return ops.reshape(drawn, self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index = ops.unsqueeze(value.long(), -1)
        index, logits = ops.broadcast_tensors(index, self.logits)
        index = index[..., :1]
        return ops.squeeze(ops.gather(logits, -1, index), -1)

    def entropy(self) -> Tensor:
        floor = finfo(self.logits.dtype).min  # 0 * -inf would be NaN
        return -ops.sum(ops.clamp(self.logits, min=floor) * self.probs, -1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.reshape(arange(self._num_events), (-1, *(1 for _ in self._batch_shape)))
        return ops.expand(values, (-1, *self._batch_shape)) if expand else values

    def expand(self, batch_shape: Any, _instance: Any = None) -> Categorical:
        return self._expanded(("probs", "logits", "_param"), batch_shape, (self._num_events,))
