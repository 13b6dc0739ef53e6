"""torch.distributions: a few distributions so far, and their divergences."""

from wend.distributions import constraints, kl
from wend.frontend.distributions.continuous import Normal, Uniform
from wend.frontend.distributions.discrete import Bernoulli, Categorical
from wend.frontend.distributions.distribution import Distribution, ExponentialFamily
from wend.frontend.distributions.gaussian import MultivariateNormal
from wend.frontend.distributions.kl import kl_divergence, register_kl

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "ExponentialFamily",
    "MultivariateNormal",
    "Normal",
    "Uniform",
    "constraints",
    "kl",
    "kl_divergence",
    "register_kl",
]
