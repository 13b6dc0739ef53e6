"""Kullback-Leibler divergences, a rule for each pair of classes.

Where p has values outside of q's support the divergence is infinite. Else a divergence
is the mean under p of log p - log q, in closed form: minus p's entropy, less the mean of log q.
"""

from __future__ import annotations

import math
from typing import Any

from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend.distributions.bernoulli import Bernoulli, ContinuousBernoulli
from wend.distributions.binomial import Binomial, Geometric, Poisson
from wend.distributions.categorical import Categorical, OneHotCategorical
from wend.distributions.cauchy import Cauchy, Gumbel, Laplace
from wend.distributions.dirichlet import Beta, Dirichlet
from wend.distributions.distribution import ExponentialFamily
from wend.distributions.gamma import Exponential, Gamma
from wend.distributions.independent import Independent
from wend.distributions.kl import kl_divergence, register_kl
from wend.distributions.log_normal import HalfNormal
from wend.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    distance,
    log_diagonal,
    solved,
)
from wend.distributions.normal import Normal
from wend.distributions.pareto import Pareto
from wend.distributions.transformed_distribution import TransformedDistribution
from wend.distributions.uniform import Uniform
from wend.distributions.utils import euler_constant, sum_rightmost

__all__: list[str] = []

_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


def _infinite(p: Any, q: Any) -> Tensor:
    """Some values of p are outside of q's support."""
    shape = ops.broadcast_tensors(p.mean, q.mean)[0].shape
    return ops.full(tuple(shape), math.inf, dtype=p.mean.dtype)


def _weighted(weight: Tensor, logarithm: Tensor) -> Tensor:
    """weight * logarithm, 0 where the weight is."""
    return ops.where(weight == 0, 0.0, weight * logarithm)


# -- the same family -------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _family_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"The cross KL-divergence between different exponential families ("
            f"{type(p).__name__} and {type(q).__name__}) cannot be computed using Bregman "
            "divergences"
        )
    return p._cross_entropy(q) - p._cross_entropy(p)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    # softplus(l) = -log(1 - probs): no probability is taken from 1.
    ones = _weighted(p.probs, ops.softplus(-q.logits) - ops.softplus(-p.logits))
    none = _weighted(1 - p.probs, ops.softplus(q.logits) - ops.softplus(p.logits))
    apart = ((q.probs == 0) & (p.probs > 0)) | ((q.probs == 1) & (p.probs < 1))
    return ops.where(apart, math.inf, ones + none)


@register_kl(Beta, Beta)
def _beta_beta(p: Beta, q: Beta) -> Tensor:
    total = p.concentration1 + p.concentration0
    norms = q._log_normalizer(*q._natural_params) - p._log_normalizer(*p._natural_params)
    ones = (p.concentration1 - q.concentration1) * ops.digamma(p.concentration1)
    none = (p.concentration0 - q.concentration0) * ops.digamma(p.concentration0)
    others = q.concentration1 + q.concentration0 - total
    return norms + ones + none + others * ops.digamma(total)


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool(ops.any(p.total_count < q.total_count)):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    logs = p.probs * (p.logits - q.logits) + ops.log1p(-p.probs) - ops.log1p(-q.probs)
    # More trials than q has: some counts are impossible.
    return ops.where(p.total_count > q.total_count, math.inf, p.total_count * logs)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = _weighted(p.probs, p.logits - q.logits)
    # Where q is 0 and p is not, no finite number will do; logits of 0 are clamped.
    terms = ops.where((q.probs == 0) & (p.probs > 0), math.inf, terms)
    return ops.sum(terms, -1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_continuous(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    logs = p._log_norm() + ops.log1p(-p.probs) - q._log_norm() - ops.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + logs


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    norms = q._log_normalizer(q.concentration) - p._log_normalizer(p.concentration)
    total = ops.sum(p.concentration, -1, keepdim=True)
    means = ops.digamma(p.concentration) - ops.digamma(total)
    return norms + ops.sum((p.concentration - q.concentration) * means, -1)


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ops.log(ratio) - 1


@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    scale = q.concentration * ops.log(p.rate / q.rate)
    norms = ops.lgamma(q.concentration) - ops.lgamma(p.concentration)
    shape = (p.concentration - q.concentration) * ops.digamma(p.concentration)
    return scale + norms + shape + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = ops.exp(-apart + ops.lgamma(1 + ratio))
    return apart - ops.log(ratio) + tail + euler_constant * (ratio - 1) - 1


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_half(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, ops.abs(p.loc - q.loc)
    return ratio * ops.exp(-apart / p.scale) + apart / q.scale - ops.log(ratio) - 1


@register_kl(Normal, Normal)
def _normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = ops.square(p.scale / q.scale)
    apart = ops.square((p.loc - q.loc) / q.scale)
    return 0.5 * (ratio + apart - 1 - ops.log(ratio))


@register_kl(OneHotCategorical, OneHotCategorical)
def _hot_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    scale, ratio = p.scale / q.scale, q.alpha / p.alpha
    found = q.alpha * ops.log(scale) - ops.log(ratio) + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, found)


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    logs = ops.xlogy(p.rate, p.rate) - ops.xlogy(p.rate, q.rate)
    return logs - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ops.log((q.high - q.low) / (p.high - p.low))
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak, Nielsen: A closed-form formula for the divergence between Cauchy distributions
    (2019)."""
    apart = ops.square(p.scale + q.scale) + ops.square(p.loc - q.loc)
    return ops.log(apart / (4 * p.scale * q.scale))


# -- Gaussians over vectors ------------------------------------------------------------------------


def _of_gaussians(volumes: Tensor, trace: Tensor, apart: Tensor, n: int) -> Tensor:
    """volumes: log det of q's covariance by p's   trace: of q's inverse times p's covariance."""
    return 0.5 * (volumes + trace + apart - n)


def _check_events(p: Any, q: Any) -> None:
    if tuple(p.event_shape) != tuple(q.event_shape):
        raise ValueError(
            f"KL-divergence between two {type(p).__name__} with different event shapes cannot be "
            "computed"
        )


def _traced(factor: Tensor, roots: Tensor) -> Tensor:
    """The trace of (factor factor^T)^-1 roots roots^T, whose leading dims broadcast."""
    front = ops.broadcast_tensors(factor[..., 0, 0], roots[..., 0, 0])[0].shape
    left = ops.expand(factor, (*front, *factor.shape[-2:]))
    right = ops.expand(roots, (*front, *roots.shape[-2:]))
    return ops.sum(ops.square(solved(left, right)), (-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
def _full_full(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q)
    own, others = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    volumes = 2 * (log_diagonal(others) - log_diagonal(own))
    apart = distance(others, q.loc - p.loc)
    return _of_gaussians(volumes, _traced(others, own), apart, p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_low(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_events(p, q)
    own = p._unbroadcasted_scale_tril
    volumes = q.log_volume() - 2 * log_diagonal(own)
    return _of_gaussians(volumes, _low_traced(q, own), q.distance(q.loc - p.loc), p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_full(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q)
    others = q._unbroadcasted_scale_tril
    volumes = 2 * log_diagonal(others) - p.log_volume()
    trace = _traced(others, p._unbroadcasted_cov_factor) + _traced(others, _root_diagonal(p))
    return _of_gaussians(volumes, trace, distance(others, q.loc - p.loc), p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_low(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_events(p, q)
    volumes = q.log_volume() - p.log_volume()
    trace = _low_traced(q, p._unbroadcasted_cov_factor) + _low_traced(q, _root_diagonal(p))
    return _of_gaussians(volumes, trace, q.distance(q.loc - p.loc), p.event_shape[0])


def _root_diagonal(p: LowRankMultivariateNormal) -> Tensor:
    return ops.diag_embed(ops.sqrt(p._unbroadcasted_cov_diag))


def _low_traced(q: LowRankMultivariateNormal, roots: Tensor) -> Tensor:
    """The trace of q's inverse covariance times roots roots^T: a distance per column."""
    front = ops.broadcast_tensors(q.loc[..., 0], roots[..., 0, 0])[0].shape
    columns = ops.movedim(ops.expand(roots, (*front, *roots.shape[-2:])), -1, 0)
    return ops.sum(q.distance(columns), 0)


# -- distributions made of distributions -----------------------------------------------------------


@register_kl(TransformedDistribution, TransformedDistribution)
def _same_transforms(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or tuple(p.event_shape) != tuple(q.event_shape):
        raise NotImplementedError(
            "KL divergences of transformed distributions need equal transforms and event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL divergences of Independent distributions need equal reinterpreted_batch_ndims"
        )
    result = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(result, p.reinterpreted_batch_ndims)


# -- pairs of families -----------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * ops.log(q.rate) - q.rate)


def _moments(p: Any) -> tuple[Tensor, Tensor]:
    """The mean, and the mean of the square."""
    return p.mean, p.variance + ops.square(p.mean)


def _to_normal(p: Any, q: Normal) -> Tensor:
    mean, square = _moments(p)
    apart = square - 2 * mean * q.loc + ops.square(q.loc)
    scaled = apart / (2 * ops.square(q.scale))
    return -p.entropy() + ops.log(q.scale) + _HALF_LOG_2_PI + scaled


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return -p.entropy() - ops.log(q.rate) + q.rate * p.mean


def _to_gamma(p: Any, q: Gamma, mean_of_log: Tensor) -> Tensor:
    norm = ops.lgamma(q.concentration) - q.concentration * ops.log(q.rate)
    return -p.entropy() + norm - (q.concentration - 1) * mean_of_log + q.rate * p.mean


def _to_gumbel(p: Any, q: Gumbel, mean_of_exp: Tensor) -> Tensor:
    """mean_of_exp: the mean of exp(-x / q.scale)."""
    apart = (p.mean - q.loc) / q.scale
    return -p.entropy() + ops.log(q.scale) + apart + mean_of_exp * ops.exp(q.loc / q.scale)


def _mean_of_log(p: Any) -> Tensor:
    """The mean of log x."""
    if isinstance(p, Beta):
        total = p.concentration1 + p.concentration0
        return ops.digamma(p.concentration1) - ops.digamma(total)
    if isinstance(p, Exponential):
        return -euler_constant - ops.log(p.rate)
    if isinstance(p, Gamma):
        return ops.digamma(p.concentration) - ops.log(p.rate)
    return ops.log(p.scale) + 1 / p.alpha


for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):
    register_kl(_p, Normal)(_to_normal)


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    return _to_exponential(p, q)


for _p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_p, Exponential)(_to_exponential)


def _some_to_gamma(p: Any, q: Gamma) -> Tensor:
    return _to_gamma(p, q, _mean_of_log(p))


for _p in (Beta, Exponential, Pareto):
    register_kl(_p, Gamma)(_some_to_gamma)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._log_norm()


def _inside(p: Any, low: Any, high: Any, q: Uniform, found: Tensor) -> Tensor:
    """`found`, infinite where q does not reach from low to high."""
    return ops.where((q.low > low) | (q.high < high), math.inf, found)


def _unit_to_uniform(p: Any, q: Uniform) -> Tensor:
    found = -p.entropy() + ops.log(q.high - q.low)
    return _inside(p, 0, 1, q, found)


for _p in (Beta, ContinuousBernoulli):
    register_kl(_p, Uniform)(_unit_to_uniform)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, p.rate * q.scale / (p.rate * q.scale + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    mean_of_exp = ops.exp(-p.concentration * ops.log1p(1 / (p.rate * q.scale)))
    return _to_gumbel(p, q, mean_of_exp)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    return _to_gumbel(p, q, ops.exp(-p.loc / q.scale + 0.5 * ops.square(ratio)))


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    ends = ops.exp(-p.low / q.scale) - ops.exp(-p.high / q.scale)
    return _to_gumbel(p, q, q.scale * ends / (p.high - p.low))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    z = (p.loc - q.loc) / p.scale
    bell = math.sqrt(2 / math.pi) * p.scale * ops.exp(-0.5 * ops.square(z))
    apart = bell + (p.loc - q.loc) * ops.erf(math.sqrt(0.5) * z)
    return -p.entropy() + ops.log(2 * q.scale) + apart / q.scale


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    width = p.high - p.low
    log_low = (ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low) - width) / width
    left, right = 1 - p.high, 1 - p.low
    log_high = (ops.xlogy(right, right) - ops.xlogy(left, left) - width) / width
    norm = q._log_normalizer(*q._natural_params)
    powers = (q.concentration1 - 1) * log_low + (q.concentration0 - 1) * log_high
    return ops.where((p.high > 1) | (p.low < 0), math.inf, norm - ops.log(width) - powers)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    logs = p.mean * q.logits + ops.log1p(-q.probs) + q._log_norm()
    return ops.where((p.high > 1) | (p.low < 0), math.inf, -p.entropy() - logs)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return ops.where(p.low < 0, math.inf, _to_exponential(p, q))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    width = p.high - p.low
    mean_of_log = (ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low) - width) / width
    return ops.where(p.low < 0, math.inf, _to_gamma(p, q, mean_of_log))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    width = p.high - p.low
    mean_of_log = (ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low) - width) / width
    logs = ops.log(q.alpha) + q.alpha * ops.log(q.scale) - (q.alpha + 1) * mean_of_log
    return ops.where(p.low < q.scale, math.inf, -ops.log(width) - logs)


@register_kl(Exponential, Pareto)
def _exponential_pareto(p: Exponential, q: Pareto) -> Tensor:
    return _infinite(p, q)


#: For each class of p, classes of q that lack some of its values.
_OUTSIDE: dict[Any, tuple[Any, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _p, _others in _OUTSIDE.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
