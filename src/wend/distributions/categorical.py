"""The categorical distribution."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from wend.base.dtypes import finfo
from wend.base.errors import ArgumentError
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.distributions import constraints
from wend.distributions._probabilities import check_one_given, inside
from wend.distributions.distribution import (
    Distribution,
)
from wend.frontend.autograd.backward import no_grad
from wend.frontend.creation import arange
from wend.frontend.random import multinomial

__all__ = ["Categorical"]


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
        check_one_given("Categorical", probs, logits)
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
        return ops.log(inside(self.probs))

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
