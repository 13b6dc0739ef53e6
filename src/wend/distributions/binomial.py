"""Counts: binomial, negative binomial, geometric, multinomial and Poisson numbers."""

from __future__ import annotations

from typing import Any, ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import no_grad
from wend._frontend.creation import arange
from wend._frontend.random import binomial, poisson, rand
from wend.distributions import constraints
from wend.distributions.categorical import Categorical
from wend.distributions.distribution import Distribution, ExponentialFamily
from wend.distributions.gamma import Gamma
from wend.distributions.utils import (
    broadcast_all,
    check_one_given,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = ["Binomial", "Geometric", "Multinomial", "NegativeBinomial", "Poisson"]


class _OfTrials(Distribution):
    """Base: counts of trials, of a number and a probability of success."""

    total_count: Tensor
    _param: Tensor

    def __init__(
        self, total_count: Any, probs: Any, logits: Any, validate_args: bool | None
    ) -> None:
        check_one_given(type(self).__name__, probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        # The type is that of the probabilities, wherever a count of ints comes from.
        self._param, self.total_count = broadcast_all(given, total_count)
        self.total_count = ops.cast(self.total_count, self._param.dtype)
        self.__dict__[name] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Any:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Any:
        """log(probs / (1 - probs))."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("total_count", "probs", "logits", "_param")
        return self._expanded(batch_shape, _instance, **dict.fromkeys(names, ()))


class Binomial(_OfTrials):
    """How many of `total_count` trials succeed, each with probability probs = sigmoid(logits)."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """The integers from 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ops.minimum(ops.floor((self.total_count + 1) * self.probs), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(ops.expand(self.total_count, shape), ops.expand(self.probs, shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = ops.lgamma(n + 1) - ops.lgamma(value + 1) - ops.lgamma(n - value + 1)
        return value * logits - n * ops.softplus(logits) + ways

    def _count(self, op: str) -> int:
        """The number of trials, which must be the same for the whole batch."""
        most = int(ops.amax(self.total_count).item())
        if bool(ops.all(self.total_count == most)):
            return most
        raise NotImplementedError(f"Inhomogeneous total count not supported by `{op}`.")

    def entropy(self) -> Tensor:
        self._count("entropy")
        logs = self.log_prob(self.enumerate_support(False))
        return -ops.sum(ops.exp(logs) * logs, 0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = 1 + self._count("enumerate_support")
        values = arange(count, dtype=self._param.dtype)
        values = ops.reshape(values, (-1, *(1 for _ in self._batch_shape)))
        return ops.expand(values, (-1, *self._batch_shape)) if expand else values


class NegativeBinomial(_OfTrials):
    """How many trials succeed, with probability `probs`, before `total_count` failed."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * ops.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        found = ops.floor((self.total_count - 1) * ops.exp(self.logits))
        return ops.clamp(found, min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, ops.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        fails = n * ops.logsigmoid(-self.logits) + value * ops.logsigmoid(self.logits)
        ways = ops.lgamma(n + value) - ops.lgamma(1.0 + value) - ops.lgamma(n)
        # No failure is waited for, and no success counted: the logarithm of 1.
        return fails + ops.where(n + value == 0.0, 0.0, ways)


class Geometric(Distribution):
    """How many trials fail before the first success, which has probability `probs`."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _param: Tensor

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check_one_given("Geometric", probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        (self._param,) = broadcast_all(given)
        self.__dict__[name] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool(ops.all(self.probs > 0)):
            raise ArgumentError(
                f"Geometric: expected parameter probs of shape {tuple(self._param.shape)} to be "
                f"positive but found invalid values:\n{self._param}"
            )

    @lazy_property
    def probs(self) -> Any:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Any:
        """log(probs / (1 - probs))."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        with no_grad():
            unit = rand(shape, dtype=self.probs.dtype)
            unit = ops.clamp(unit, min=finfo(unit.dtype).tiny)
            return ops.floor(ops.log(unit) / ops.log1p(-self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        return ops.xlog1py(value, -probs) + ops.log(self.probs)

    def entropy(self) -> Tensor:
        of_one = ops.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return of_one / self.probs

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, probs=(), logits=(), _param=())


class Poisson(ExponentialFamily):
    """How many events happen, of which `rate` are expected."""

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return ops.floor(self.rate)

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return poisson(ops.expand(self.rate, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - ops.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (ops.log(self.rate),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return ops.exp(natural_params[0])

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, rate=())


class Multinomial(Distribution):
    """How often each of K categories comes in `total_count` draws."""

    arg_constraints: ClassVar[dict[str, Any]] = Categorical.arg_constraints
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        """Counts that sum to the number of draws."""
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1 along the last dim."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter, K last."""
        return self._categorical.param_shape

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            drawn = ops.movedim(drawn, 0, -1)
            counts = ops.full(self._extended_shape(sample_shape), 0.0, dtype=self._param.dtype)
            ones = ops.full(tuple(drawn.shape), 1.0, dtype=self._param.dtype)
            return ops.scatter_add(counts, -1, drawn, ones)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        ways = ops.lgamma(ops.sum(value, -1) + 1) - ops.sum(ops.lgamma(value + 1), -1)
        powers = ops.where((value == 0) & (logits == float("-inf")), 0.0, logits * value)
        return ways + ops.sum(powers, -1)

    def entropy(self) -> Tensor:
        n = self.total_count
        own = Binomial(n, probs=self.probs)
        count = ops.reshape(
            arange(1, n + 1, dtype=self._param.dtype), (-1, *(1 for _ in self._param.shape))
        )
        ways = ops.exp(own.log_prob(count)) * ops.lgamma(count + 1)
        total = ops.lgamma(ops.full((), n + 1.0, dtype=self._param.dtype))
        return n * self._categorical.entropy() - total + ops.sum(ways, (0, -1))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance)
        made._categorical = self._categorical.expand(batch_shape)
        return made
