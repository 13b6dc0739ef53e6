# ruff: noqa: F403
"""torch.distributions: probability distributions, transforms, and divergences between them.

Each class is also found at PyTorch's address, `wend.distributions.beta.Beta`, whichever module
holds the code.
"""

import sys

from wend.distributions import constraints as constraints
from wend.distributions import kl as kl
from wend.distributions.bernoulli import *
from wend.distributions.binomial import *
from wend.distributions.categorical import *
from wend.distributions.cauchy import *
from wend.distributions.constraint_registry import biject_to as biject_to
from wend.distributions.constraint_registry import transform_to as transform_to
from wend.distributions.dirichlet import *
from wend.distributions.distribution import *
from wend.distributions.gamma import *
from wend.distributions.independent import *
from wend.distributions.kl import *
from wend.distributions.multivariate_normal import *
from wend.distributions.normal import *
from wend.distributions.relaxed_categorical import RelaxedBernoulli as RelaxedBernoulli
from wend.distributions.relaxed_categorical import (
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from wend.distributions.transforms import *
from wend.distributions.wishart import *

__all__ = [
    name
    for name, value in globals().items()
    if name[0] != "_" and (value in (constraints, kl) or not isinstance(value, type(sys)))
]
__all__.sort()

#: The modules that hold the code, and PyTorch's addresses of classes there.
_ADDRESSES = {
    "bernoulli": "continuous_bernoulli",
    "binomial": "geometric multinomial negative_binomial poisson",
    "categorical": "one_hot_categorical",
    "cauchy": "gumbel half_cauchy laplace uniform von_mises",
    "dirichlet": "beta kumaraswamy",
    "distribution": "exp_family",
    "gamma": "chi2 exponential fishersnedecor generalized_pareto inverse_gamma pareto studentT "
    "weibull",
    "independent": "mixture_same_family transformed_distribution",
    "multivariate_normal": "lowrank_multivariate_normal",
    "normal": "half_normal log_normal logistic_normal",
    "relaxed_categorical": "relaxed_bernoulli",
    "wishart": "lkj_cholesky",
}
for _holder, _addresses in _ADDRESSES.items():
    _module = sys.modules[f"{__name__}.{_holder}"]
    for _address in _addresses.split():
        sys.modules[f"{__name__}.{_address}"] = globals()[_address] = _module
