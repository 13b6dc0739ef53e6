"""torch.distributions: probability distributions, transforms, and divergences between them.

Each class is also found at PyTorch's address, `wend.distributions.beta.Beta`, whichever module
holds the code.
"""

import sys

from wend.distributions import (
    _divergences,  # noqa: F401 - fills the table of divergences
    constraints,
    kl,
)
from wend.distributions.bernoulli import Bernoulli, ContinuousBernoulli
from wend.distributions.binomial import Binomial, Geometric, Multinomial, NegativeBinomial, Poisson
from wend.distributions.categorical import (
    Categorical,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from wend.distributions.cauchy import Cauchy, Gumbel, HalfCauchy, Laplace, VonMises
from wend.distributions.constraint_registry import biject_to, transform_to
from wend.distributions.dirichlet import Beta, Dirichlet, Kumaraswamy
from wend.distributions.distribution import Distribution, ExponentialFamily
from wend.distributions.gamma import Chi2, Exponential, Gamma, InverseGamma
from wend.distributions.independent import Independent, MixtureSameFamily
from wend.distributions.kl import kl_divergence, register_kl
from wend.distributions.log_normal import HalfNormal, LogisticNormal, LogNormal
from wend.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from wend.distributions.normal import Normal
from wend.distributions.pareto import GeneralizedPareto, Pareto, Weibull
from wend.distributions.relaxed_categorical import RelaxedBernoulli, RelaxedOneHotCategorical
from wend.distributions.studentT import FisherSnedecor, StudentT
from wend.distributions.transformed_distribution import TransformedDistribution
from wend.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from wend.distributions.uniform import Uniform
from wend.distributions.wishart import LKJCholesky, Wishart

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "identity_transform",
    "kl",
    "kl_divergence",
    "register_kl",
    "transform_to",
]

#: PyTorch's addresses of classes, and the modules that hold the code here.
_ADDRESSES = {
    "beta": "dirichlet",
    "chi2": "gamma",
    "continuous_bernoulli": "bernoulli",
    "exp_family": "distribution",
    "exponential": "gamma",
    "fishersnedecor": "studentT",
    "generalized_pareto": "pareto",
    "geometric": "binomial",
    "gumbel": "cauchy",
    "half_cauchy": "cauchy",
    "half_normal": "log_normal",
    "inverse_gamma": "gamma",
    "kumaraswamy": "dirichlet",
    "laplace": "cauchy",
    "lkj_cholesky": "wishart",
    "logistic_normal": "log_normal",
    "lowrank_multivariate_normal": "multivariate_normal",
    "mixture_same_family": "independent",
    "multinomial": "binomial",
    "negative_binomial": "binomial",
    "one_hot_categorical": "categorical",
    "poisson": "binomial",
    "relaxed_bernoulli": "relaxed_categorical",
    "von_mises": "cauchy",
    "weibull": "pareto",
}
for _address, _holder in _ADDRESSES.items():
    _module = sys.modules[f"{__name__}.{_holder}"]
    sys.modules[f"{__name__}.{_address}"] = globals()[_address] = _module
