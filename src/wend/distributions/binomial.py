"""Counts: binomial, negative binomial, geometric, multinomial and Poisson numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from wend._engine.base.dtypes import finfo
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend._frontend.autograd.backward import no_grad
from wend._frontend.creation import arange
from wend._frontend.random import binomial, poisson, rand
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, attribute, in_support
from wend.distributions.bernoulli import OfSuccess
from wend.distributions.categorical import OfCategories
from wend.distributions.constraints import Constraint
from wend.distributions.distribution import ExponentialFamily
from wend.distributions.gamma import Gamma
from wend.distributions.utils import broadcast_all, enumerated, lazy_property

__all__ = ["Binomial", "Geometric", "Multinomial", "NegativeBinomial", "Poisson"]


class Binomial(OfSuccess):
    """How many of `total_count` trials succeed, each with probability probs = sigmoid(logits)."""

    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative_integer,
        **OfSuccess.arg_constraints,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Operand = 1,
        probs: Operand | None = None,
        logits: Operand | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args, total_count)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:  # type: ignore[override]
        """The integers from 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    param_shape = attribute("_param.shape", "The shape of the parameter.")
    _formulas = Formulas(
        mean=lambda total_count, probs: total_count * probs,
        mode=lambda total_count, probs: ops.minimum(
            ops.floor((total_count + 1) * probs), total_count
        ),
        variance=lambda total_count, probs: total_count * probs * (1 - probs),
        sample=lambda total_count, probs: binomial(total_count, probs),
    )

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
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
        return enumerated(
            arange(count, dtype=self._param.dtype, device=self._param.device),
            self._batch_shape,
            expand,
        )


class NegativeBinomial(OfSuccess):
    """How many trials succeed, with probability `probs`, before `total_count` failed."""

    arg_constraints: ClassVar = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Operand,
        probs: Operand | None = None,
        logits: Operand | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args, total_count)

    param_shape = attribute("_param.shape", "The shape of the parameter.")
    _formulas = Formulas(
        mean=lambda total_count, logits: total_count * ops.exp(logits),
        mode=lambda total_count, logits: ops.clamp(
            ops.floor((total_count - 1) * ops.exp(logits)), min=0.0
        ),
        variance=lambda mean, logits: mean / ops.sigmoid(-logits),
    )

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, ops.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return poisson(self._gamma.sample(sample_shape))

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        fails = n * ops.logsigmoid(-self.logits) + value * ops.logsigmoid(self.logits)
        ways = ops.lgamma(n + value) - ops.lgamma(1.0 + value) - ops.lgamma(n)
        # No failure is waited for, and no success counted: the logarithm of 1.
        return fails + ops.where(n + value == 0.0, 0.0, ways)


class Geometric(OfSuccess):
    """How many trials fail before the first success, which has probability `probs`."""

    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Operand | None = None,
        logits: Operand | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None and not bool(ops.all(self.probs > 0)):
            raise ArgumentError(
                f"Geometric: expected parameter probs of shape {tuple(self._param.shape)} to be "
                f"positive but found invalid values:\n{self._param}"
            )

    _formulas = Formulas(
        mean=lambda probs: 1.0 / probs - 1.0,
        mode=lambda probs: ops.zeros_like(probs),
        variance=lambda probs: (1.0 / probs - 1.0) / probs,
    )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        with no_grad():
            unit = rand(shape, dtype=self.probs.dtype, device=self.probs.device)
            unit = ops.clamp(unit, min=finfo(unit.dtype).tiny)
            return ops.floor(ops.log(unit) / ops.log1p(-self.probs))

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(value, self.probs)
        return ops.xlog1py(value, -probs) + ops.log(self.probs)

    def entropy(self) -> Tensor:
        of_one = ops.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return of_one / self.probs


class Poisson(ExponentialFamily):
    """How many events happen, of which `rate` are expected."""

    arg_constraints: ClassVar = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Operand, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    _formulas = Formulas(
        "rate",
        mean=lambda rate: rate,
        variance=lambda rate: rate,
        mode=lambda rate: ops.floor(rate),
        sample=lambda rate: poisson(rate),
        _natural_params=lambda rate: (ops.log(rate),),
        _log_normalizer=ops.exp,
    )

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - ops.lgamma(value + 1)


class Multinomial(OfCategories):
    """How often each of K categories comes in `total_count` draws."""

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:  # type: ignore[override]
        """Counts that sum to the number of draws."""
        return constraints.multinomial(self.total_count)

    _formulas = Formulas(
        mean=lambda probs, total_count: probs * total_count,
        variance=lambda probs, total_count: total_count * probs * (1 - probs),
    )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            categories = self._categorical.sample((self.total_count, *sample_shape))
            categories = ops.movedim(categories, 0, -1)
            counts = full_beside(self._param, self._extended_shape(sample_shape), 0.0)
            ones = full_beside(self._param, tuple(categories.shape), 1.0)
            return ops.scatter_add(counts, -1, categories, ones)

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        ways = ops.lgamma(ops.sum(value, -1) + 1) - ops.sum(ops.lgamma(value + 1), -1)
        powers = ops.where((value == 0) & (logits == float("-inf")), 0.0, logits * value)
        return ways + ops.sum(powers, -1)

    def entropy(self) -> Tensor:
        n = self.total_count
        own = Binomial(n, probs=self.probs)
        count = enumerated(
            arange(1, n + 1, dtype=self._param.dtype, device=self._param.device),
            self._param.shape,
            False,
        )
        ways = ops.exp(own.log_prob(count)) * ops.lgamma(count + 1)
        total = ops.lgamma(full_beside(self._param, (), n + 1.0))
        return n * self._categorical.entropy() - total + ops.sum(ways, (0, -1))
