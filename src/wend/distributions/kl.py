"""Kullback-Leibler divergences between distributions, by a table of pairs of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.distributions.bernoulli import Bernoulli
from wend.distributions.categorical import Categorical
from wend.distributions.distribution import Distribution
from wend.distributions.normal import Normal
from wend.distributions.uniform import Uniform

__all__ = ["kl_divergence", "register_kl"]

_TABLE: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Decorate the function that computes the divergence for these classes of p and q."""
    for given in (type_p, type_q):
        if not (isinstance(given, type) and issubclass(given, Distribution)):
            raise TypeError(f"register_kl: expected a subclass of Distribution, got {given!r}")

    def put(function: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
        _TABLE[type_p, type_q] = function
        return function

    return put


def _found(type_p: type, type_q: type) -> Callable[[Any, Any], Tensor] | None:
    """The rule of the most derived pair of classes."""
    for p in type_p.__mro__:
        for q in type_q.__mro__:
            if (p, q) in _TABLE:
                return _TABLE[p, q]
    return None


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean under p of log p - log q, for each distribution of the batch.

    Raises NotImplementedError for pairs of classes without a rule.
    """
    rule = _found(type(p), type(q))
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}; add one with register_kl"
        )
    return rule(p, q)


@register_kl(Normal, Normal)
def _normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = ops.square(p.scale / q.scale)
    distance = ops.square((p.loc - q.loc) / q.scale)
    return 0.5 * (ratio + distance - 1 - ops.log(ratio))


def _weighted(weight: Tensor, logarithm: Tensor) -> Tensor:
    """weight * logarithm, 0 where the weight is."""
    return ops.where(weight == 0, 0.0, weight * logarithm)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = _weighted(p.probs, ops.log(p.probs / q.probs))
    none, other = 1 - p.probs, 1 - q.probs
    return ones + _weighted(none, ops.log(none / other))


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = _weighted(p.probs, p.logits - q.logits)
    # Where q is 0 and p is not, no finite number will do; logits of 0 are clamped.
    terms = ops.where((q.probs == 0) & (p.probs > 0), float("inf"), terms)
    return ops.sum(terms, -1)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ops.log((q.high - q.low) / (p.high - p.low))
    return ops.where((q.low > p.low) | (q.high < p.high), float("inf"), result)
