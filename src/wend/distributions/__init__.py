"""torch.distributions: a few distributions so far, and divergences between them."""

from wend.distributions import constraints, kl
from wend.distributions.bernoulli import Bernoulli
from wend.distributions.categorical import Categorical
from wend.distributions.distribution import Distribution, ExponentialFamily
from wend.distributions.kl import kl_divergence, register_kl
from wend.distributions.multivariate_normal import MultivariateNormal
from wend.distributions.normal import Normal
from wend.distributions.uniform import Uniform

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
