"""Kullback-Leibler divergences between distributions: a table of pairs of classes, with rules.

Where p has values outside of q's support the divergence is infinite. Else a divergence
is the mean under p of log p - log q, in closed form: minus p's entropy, less the mean of log q.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend.distributions.bernoulli import Bernoulli, ContinuousBernoulli
from wend.distributions.binomial import Binomial, Geometric, Poisson
from wend.distributions.categorical import Categorical, OneHotCategorical
from wend.distributions.cauchy import Cauchy, Gumbel, Laplace, Uniform
from wend.distributions.dirichlet import Beta, Dirichlet
from wend.distributions.distribution import Distribution, ExponentialFamily
from wend.distributions.gamma import Exponential, Gamma, Pareto
from wend.distributions.independent import Independent, TransformedDistribution
from wend.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    distance,
    log_diagonal,
    solved,
)
from wend.distributions.normal import HalfNormal, Normal
from wend.distributions.utils import euler_constant, sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
#: Rules that were found before, by the classes of p and q.
_KL_MEMOIZE: dict[tuple[type, type], Rule | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Decorate the function that computes the divergence for these classes of p and q."""
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type):  # as PyTorch, which takes classes of any kind
            raise TypeError(f"Expected {name} to be a class, such as a Distribution's, not {cls}")

    def put(function: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return put


def _closest_rule(type_p: type, type_q: type) -> Rule | None:
    """The rule of the most derived pair of classes.

    Warns where the most derived class of p and that of q are in different pairs: the pair closest
    to p counts.
    """
    pairs = [
        (type_p.__mro__.index(p), type_q.__mro__.index(q), rule)
        for (p, q), rule in _KL_REGISTRY.items()
        if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not pairs:
        return None
    by_p = min(pairs, key=lambda pair: pair[:2])
    by_q = min(pairs, key=lambda pair: (pair[1], pair[0]))
    if by_p[2] is not by_q[2]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            "register_kl a rule for this pair",
            RuntimeWarning,
            stacklevel=3,
        )
    return by_p[2]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean under p of log p - log q, for each distribution of the batch.

    Raises NotImplementedError for pairs of classes without a rule.
    """
    key = type(p), type(q)
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _closest_rule(*key)
    rule = _KL_MEMOIZE[key]
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}; add one with register_kl"
        )
    return rule(p, q)


# -- the same family -------------------------------------------------------------------------------


def _weighted(weight: Tensor, logarithm: Tensor) -> Tensor:
    """weight * logarithm, 0 where the weight is."""
    return ops.where(weight == 0, 0.0, weight * logarithm)


@register_kl(ExponentialFamily, ExponentialFamily)
def _of_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"The cross KL-divergence between different exponential families ("
            f"{type(p).__name__} and {type(q).__name__}) cannot be computed using Bregman "
            "divergences"
        )
    return p._cross_entropy(q) - p._cross_entropy(p)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    # softplus(l) = -log(1 - probs): no probability is taken from 1.
    ones = _weighted(p.probs, ops.softplus(-q.logits) - ops.softplus(-p.logits))
    none = _weighted(1 - p.probs, ops.softplus(q.logits) - ops.softplus(p.logits))
    apart = ((q.probs == 0) & (p.probs > 0)) | ((q.probs == 1) & (p.probs < 1))
    return ops.where(apart, math.inf, ones + none)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    total = p.concentration1 + p.concentration0
    norms = q._log_normalizer(*q._natural_params) - p._log_normalizer(*p._natural_params)
    ones = (p.concentration1 - q.concentration1) * ops.digamma(p.concentration1)
    none = (p.concentration0 - q.concentration0) * ops.digamma(p.concentration0)
    totals = q.concentration1 + q.concentration0 - total
    return norms + ones + none + totals * ops.digamma(total)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool(ops.any(p.total_count < q.total_count)):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    logs = p.probs * (p.logits - q.logits) + ops.log1p(-p.probs) - ops.log1p(-q.probs)
    # More trials than q has: some counts are impossible.
    return ops.where(p.total_count > q.total_count, math.inf, p.total_count * logs)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = _weighted(p.probs, p.logits - q.logits)
    # Where q is 0 and p is not, no finite number will do; logits of 0 are clamped.
    terms = ops.where((q.probs == 0) & (p.probs > 0), math.inf, terms)
    return ops.sum(terms, -1)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak, Nielsen: A closed-form formula for the divergence between Cauchy distributions
    (2019)."""
    apart = ops.square(p.scale + q.scale) + ops.square(p.loc - q.loc)
    return ops.log(apart / (4 * p.scale * q.scale))


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    logs = p._log_norm() + ops.log1p(-p.probs) - q._log_norm() - ops.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + logs


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    norms = q._log_normalizer(q.concentration) - p._log_normalizer(p.concentration)
    total = ops.sum(p.concentration, -1, keepdim=True)
    means = ops.digamma(p.concentration) - ops.digamma(total)
    return norms + ops.sum((p.concentration - q.concentration) * means, -1)


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    scale = q.concentration * ops.log(p.rate / q.rate)
    norms = ops.lgamma(q.concentration) - ops.lgamma(p.concentration)
    shape = (p.concentration - q.concentration) * ops.digamma(p.concentration)
    return scale + norms + shape + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = ops.exp(-apart + ops.lgamma(1 + ratio))
    return apart - ops.log(ratio) + tail + euler_constant * (ratio - 1) - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, ops.abs(p.loc - q.loc)
    return ratio * ops.exp(-apart / p.scale) + apart / q.scale - ops.log(ratio) - 1


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = ops.square(p.scale / q.scale)
    apart = ops.square((p.loc - q.loc) / q.scale)
    return 0.5 * (ratio + apart - 1 - ops.log(ratio))


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    scale, ratio = p.scale / q.scale, q.alpha / p.alpha
    inside = q.alpha * ops.log(scale) - ops.log(ratio) + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, inside)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ops.log((q.high - q.low) / (p.high - p.low))
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)


_SHORT: dict[type, Rule] = {
    Exponential: lambda p, q: (ratio := q.rate / p.rate) - ops.log(ratio) - 1,
    Geometric: lambda p, q: -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits,
    HalfNormal: lambda p, q: _normal(p.base_dist, q.base_dist),
    OneHotCategorical: lambda p, q: _categorical(p._categorical, q._categorical),
    Poisson: lambda p, q: ops.xlogy(p.rate, p.rate) - ops.xlogy(p.rate, q.rate) - (p.rate - q.rate),
}
for _p, _rule in _SHORT.items():
    register_kl(_p, _p)(_rule)


# -- Gaussians over vectors ------------------------------------------------------------------------

Gaussian = MultivariateNormal | LowRankMultivariateNormal


def _log_volume(p: Gaussian) -> Tensor:
    """The logarithm of the determinant of the covariance."""
    if isinstance(p, MultivariateNormal):
        return 2 * log_diagonal(p._unbroadcasted_scale_tril)
    return p.log_volume()


def _traced(q: Gaussian, roots: Tensor) -> Tensor:
    """The trace of q's inverse covariance times roots roots^T, whose leading dims broadcast."""
    if isinstance(q, MultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        front = ops.broadcast_tensors(factor[..., 0, 0], roots[..., 0, 0])[0].shape
        left = ops.expand(factor, (*front, *factor.shape[-2:]))
        right = ops.expand(roots, (*front, *roots.shape[-2:]))
        return ops.sum(ops.square(solved(left, right)), (-2, -1))
    # A distance per column.
    front = ops.broadcast_tensors(q.loc[..., 0], roots[..., 0, 0])[0].shape
    columns = ops.movedim(ops.expand(roots, (*front, *roots.shape[-2:])), -1, 0)
    return ops.sum(q.distance(columns), 0)


def _gaussian(p: Gaussian, q: Gaussian) -> Tensor:
    if tuple(p.event_shape) != tuple(q.event_shape):
        raise ValueError(
            f"KL-divergence between two {type(p).__name__} with different event shapes cannot be "
            "computed"
        )
    volumes = _log_volume(q) - _log_volume(p)
    if isinstance(p, MultivariateNormal):
        trace = _traced(q, p._unbroadcasted_scale_tril)
    else:
        diagonal = ops.diag_embed(ops.sqrt(p._unbroadcasted_cov_diag))
        trace = _traced(q, p._unbroadcasted_cov_factor) + _traced(q, diagonal)
    apart = q.loc - p.loc
    if isinstance(q, MultivariateNormal):
        length = distance(q._unbroadcasted_scale_tril, apart)
    else:
        length = q.distance(apart)
    return 0.5 * (volumes + trace + length - p.event_shape[0])


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_gaussian)


# -- distributions made of distributions -----------------------------------------------------------


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or tuple(p.event_shape) != tuple(q.event_shape):
        raise NotImplementedError(
            "KL divergences of transformed distributions need equal transforms and event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL divergences of Independent distributions need equal reinterpreted_batch_ndims"
        )
    result = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(result, p.reinterpreted_batch_ndims)


# -- pairs of families: minus p's entropy, less the mean of the logarithm of q's density -----------


def _mean_of_log(p: Any) -> Tensor:
    """The mean of log x."""
    if isinstance(p, Beta):
        total = p.concentration1 + p.concentration0
        return ops.digamma(p.concentration1) - ops.digamma(total)
    if isinstance(p, Exponential):
        return -euler_constant - ops.log(p.rate)
    if isinstance(p, Gamma):
        return ops.digamma(p.concentration) - ops.log(p.rate)
    if isinstance(p, Pareto):
        return ops.log(p.scale) + 1 / p.alpha
    return _between(p.low, p.high, p.high - p.low)


def _between(low: Tensor, high: Tensor, width: Tensor) -> Tensor:
    """The mean of log x between two places."""
    return (ops.xlogy(high, high) - ops.xlogy(low, low) - width) / width


def _mean_of_exp(p: Any, scale: Tensor) -> Tensor:
    """The mean of exp(-x / scale)."""
    if isinstance(p, Exponential):
        return p.rate * scale / (p.rate * scale + 1)
    if isinstance(p, Gamma):
        return ops.exp(-p.concentration * ops.log1p(1 / (p.rate * scale)))
    if isinstance(p, Normal):
        return ops.exp(-p.loc / scale + 0.5 * ops.square(p.scale / scale))
    ends = ops.exp(-p.low / scale) - ops.exp(-p.high / scale)
    return scale * ends / (p.high - p.low)


def _to_normal(p: Distribution, q: Normal) -> Tensor:
    mean = p.mean
    square = p.variance + ops.square(mean)  # the mean of x^2
    apart = square - 2 * mean * q.loc + ops.square(q.loc)
    scaled = apart / (2 * ops.square(q.scale))
    return -p.entropy() + ops.log(q.scale) + 0.5 * math.log(2 * math.pi) + scaled


def _to_exponential(p: Distribution, q: Exponential) -> Tensor:
    return -p.entropy() - ops.log(q.rate) + q.rate * p.mean


def _to_gamma(p: Distribution, q: Gamma) -> Tensor:
    norm = ops.lgamma(q.concentration) - q.concentration * ops.log(q.rate)
    return -p.entropy() + norm - (q.concentration - 1) * _mean_of_log(p) + q.rate * p.mean


def _to_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    apart, tail = (p.mean - q.loc) / q.scale, _mean_of_exp(p, q.scale)
    return -p.entropy() + ops.log(q.scale) + apart + tail * ops.exp(q.loc / q.scale)


def _to_continuous(p: Distribution, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._log_norm()


def _to_uniform(p: Distribution, q: Uniform) -> Tensor:
    return -p.entropy() + ops.log(q.high - q.low)


def _normal_to_laplace(p: Normal, q: Laplace) -> Tensor:
    z = (p.loc - q.loc) / p.scale
    bell = math.sqrt(2 / math.pi) * p.scale * ops.exp(-0.5 * ops.square(z))
    apart = bell + (p.loc - q.loc) * ops.erf(math.sqrt(0.5) * z)
    return -p.entropy() + ops.log(2 * q.scale) + apart / q.scale


def _uniform_to_beta(p: Uniform, q: Beta) -> Tensor:
    width = p.high - p.low
    log_low, log_high = _mean_of_log(p), _between(1 - p.high, 1 - p.low, width)
    norm = q._log_normalizer(*q._natural_params)
    powers = (q.concentration1 - 1) * log_low + (q.concentration0 - 1) * log_high
    return norm - ops.log(width) - powers


def _uniform_to_pareto(p: Uniform, q: Pareto) -> Tensor:
    logs = ops.log(q.alpha) + q.alpha * ops.log(q.scale) - (q.alpha + 1) * _mean_of_log(p)
    return -p.entropy() - logs


def _bernoulli_to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * ops.log(q.rate) - q.rate)


_UNIT = (Beta, ContinuousBernoulli)
#: Classes of p, a class of q, and the rule: all of p's values are values of q.
_CLOSED: tuple[tuple[tuple[type, ...], type, Rule], ...] = (
    ((*_UNIT, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform), Normal, _to_normal),
    ((*_UNIT, Gamma, Pareto), Exponential, _to_exponential),
    ((Beta, Exponential, Pareto), Gamma, _to_gamma),
    ((Exponential, Gamma, Normal, Uniform), Gumbel, _to_gumbel),
    ((Beta,), ContinuousBernoulli, _to_continuous),
    ((Normal,), Laplace, _normal_to_laplace),
    ((Bernoulli,), Poisson, _bernoulli_to_poisson),
)
#: As above, with the condition by which some values of p are not values of q.
_BOUNDED: tuple[tuple[tuple[type, ...], type, Rule, Rule], ...] = (
    (_UNIT, Uniform, _to_uniform, lambda p, q: (q.low > 0) | (q.high < 1)),
    ((Uniform,), ContinuousBernoulli, _to_continuous, lambda p, q: (p.high > 1) | (p.low < 0)),
    ((Uniform,), Beta, _uniform_to_beta, lambda p, q: (p.high > 1) | (p.low < 0)),
    ((Uniform,), Exponential, _to_exponential, lambda p, q: p.low < 0),
    ((Uniform,), Gamma, _to_gamma, lambda p, q: p.low < 0),
    ((Uniform,), Pareto, _uniform_to_pareto, lambda p, q: p.low < q.scale),
)
#: For each class of p, classes of q that lack some of its values.
_OUTSIDE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (*_UNIT, Pareto, Uniform),
    Gamma: (*_UNIT, Pareto, Uniform),
    Gumbel: (*_UNIT, Exponential, Gamma, Pareto, Uniform),
    Laplace: (*_UNIT, Exponential, Gamma, Pareto, Uniform),
    Normal: (*_UNIT, Exponential, Gamma, Pareto, Uniform),
    Pareto: (*_UNIT, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite_where(outside: Rule, rule: Rule) -> Rule:
    return lambda p, q: ops.where(outside(p, q), math.inf, rule(p, q))


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    shape = ops.broadcast_tensors(p.mean, q.mean)[0].shape
    return full_beside(p.mean, tuple(shape), math.inf)


for _ps, _q, _rule in _CLOSED:
    for _p in _ps:
        register_kl(_p, _q)(_rule)
for _ps, _q, _rule, _outside in _BOUNDED:
    for _p in _ps:
        register_kl(_p, _q)(_infinite_where(_outside, _rule))
for _p, _qs in _OUTSIDE.items():
    for _q in _qs:
        register_kl(_p, _q)(_infinite)
