# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.distributions import bernoulli as bernoulli
from wend.distributions import binomial as binomial
from wend.distributions import categorical as categorical
from wend.distributions import cauchy as cauchy
from wend.distributions import constraint_registry as constraint_registry
from wend.distributions import constraints as constraints
from wend.distributions import dirichlet as dirichlet
from wend.distributions import distribution as distribution
from wend.distributions import gamma as gamma
from wend.distributions import independent as independent
from wend.distributions import kl as kl
from wend.distributions import multivariate_normal as multivariate_normal
from wend.distributions import normal as normal
from wend.distributions import relaxed_categorical as relaxed_categorical
from wend.distributions import transforms as transforms
from wend.distributions import utils as utils
from wend.distributions import wishart as wishart
from wend.distributions.bernoulli import Bernoulli as Bernoulli
from wend.distributions.bernoulli import ContinuousBernoulli as ContinuousBernoulli
from wend.distributions.binomial import Binomial as Binomial
from wend.distributions.binomial import Geometric as Geometric
from wend.distributions.binomial import Multinomial as Multinomial
from wend.distributions.binomial import NegativeBinomial as NegativeBinomial
from wend.distributions.binomial import Poisson as Poisson
from wend.distributions.categorical import Categorical as Categorical
from wend.distributions.categorical import OneHotCategorical as OneHotCategorical
from wend.distributions.categorical import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from wend.distributions.cauchy import Cauchy as Cauchy
from wend.distributions.cauchy import Gumbel as Gumbel
from wend.distributions.cauchy import HalfCauchy as HalfCauchy
from wend.distributions.cauchy import Laplace as Laplace
from wend.distributions.cauchy import Uniform as Uniform
from wend.distributions.cauchy import VonMises as VonMises
from wend.distributions.constraint_registry import biject_to as biject_to
from wend.distributions.constraint_registry import transform_to as transform_to
from wend.distributions.dirichlet import Beta as Beta
from wend.distributions.dirichlet import Dirichlet as Dirichlet
from wend.distributions.dirichlet import Kumaraswamy as Kumaraswamy
from wend.distributions.distribution import Distribution as Distribution
from wend.distributions.distribution import ExponentialFamily as ExponentialFamily
from wend.distributions.gamma import Chi2 as Chi2
from wend.distributions.gamma import Exponential as Exponential
from wend.distributions.gamma import FisherSnedecor as FisherSnedecor
from wend.distributions.gamma import Gamma as Gamma
from wend.distributions.gamma import GeneralizedPareto as GeneralizedPareto
from wend.distributions.gamma import InverseGamma as InverseGamma
from wend.distributions.gamma import Pareto as Pareto
from wend.distributions.gamma import StudentT as StudentT
from wend.distributions.gamma import Weibull as Weibull
from wend.distributions.independent import Independent as Independent
from wend.distributions.independent import MixtureSameFamily as MixtureSameFamily
from wend.distributions.independent import TransformedDistribution as TransformedDistribution
from wend.distributions.kl import kl_divergence as kl_divergence
from wend.distributions.kl import register_kl as register_kl
from wend.distributions.multivariate_normal import LowRankMultivariateNormal as LowRankMultivariateNormal
from wend.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
from wend.distributions.normal import HalfNormal as HalfNormal
from wend.distributions.normal import LogNormal as LogNormal
from wend.distributions.normal import LogisticNormal as LogisticNormal
from wend.distributions.normal import Normal as Normal
from wend.distributions.relaxed_categorical import RelaxedBernoulli as RelaxedBernoulli
from wend.distributions.relaxed_categorical import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from wend.distributions.transforms import AbsTransform as AbsTransform
from wend.distributions.transforms import AffineTransform as AffineTransform
from wend.distributions.transforms import CatTransform as CatTransform
from wend.distributions.transforms import ComposeTransform as ComposeTransform
from wend.distributions.transforms import CorrCholeskyTransform as CorrCholeskyTransform
from wend.distributions.transforms import CumulativeDistributionTransform as CumulativeDistributionTransform
from wend.distributions.transforms import ExpTransform as ExpTransform
from wend.distributions.transforms import IndependentTransform as IndependentTransform
from wend.distributions.transforms import LowerCholeskyTransform as LowerCholeskyTransform
from wend.distributions.transforms import PositiveDefiniteTransform as PositiveDefiniteTransform
from wend.distributions.transforms import PowerTransform as PowerTransform
from wend.distributions.transforms import ReshapeTransform as ReshapeTransform
from wend.distributions.transforms import SigmoidTransform as SigmoidTransform
from wend.distributions.transforms import SoftmaxTransform as SoftmaxTransform
from wend.distributions.transforms import SoftplusTransform as SoftplusTransform
from wend.distributions.transforms import StackTransform as StackTransform
from wend.distributions.transforms import StickBreakingTransform as StickBreakingTransform
from wend.distributions.transforms import TanhTransform as TanhTransform
from wend.distributions.transforms import Transform as Transform
from wend.distributions.transforms import identity_transform as identity_transform
from wend.distributions.wishart import LKJCholesky as LKJCholesky
from wend.distributions.wishart import Wishart as Wishart
from wend.distributions import bernoulli as _bernoulli
from wend.distributions import binomial as _binomial
from wend.distributions import binomial as _binomial
from wend.distributions import binomial as _binomial
from wend.distributions import binomial as _binomial
from wend.distributions import categorical as _categorical
from wend.distributions import cauchy as _cauchy
from wend.distributions import cauchy as _cauchy
from wend.distributions import cauchy as _cauchy
from wend.distributions import cauchy as _cauchy
from wend.distributions import cauchy as _cauchy
from wend.distributions import dirichlet as _dirichlet
from wend.distributions import dirichlet as _dirichlet
from wend.distributions import distribution as _distribution
from wend.distributions import gamma as _gamma
from wend.distributions import gamma as _gamma
from wend.distributions import gamma as _gamma
from wend.distributions import gamma as _gamma
from wend.distributions import gamma as _gamma
from wend.distributions import gamma as _gamma
from wend.distributions import gamma as _gamma
from wend.distributions import gamma as _gamma
from wend.distributions import independent as _independent
from wend.distributions import independent as _independent
from wend.distributions import multivariate_normal as _multivariate_normal
from wend.distributions import normal as _normal
from wend.distributions import normal as _normal
from wend.distributions import normal as _normal
from wend.distributions import relaxed_categorical as _relaxed_categorical
from wend.distributions import wishart as _wishart
continuous_bernoulli = _bernoulli
geometric = _binomial
multinomial = _binomial
negative_binomial = _binomial
poisson = _binomial
one_hot_categorical = _categorical
gumbel = _cauchy
half_cauchy = _cauchy
laplace = _cauchy
uniform = _cauchy
von_mises = _cauchy
beta = _dirichlet
kumaraswamy = _dirichlet
exp_family = _distribution
chi2 = _gamma
exponential = _gamma
fishersnedecor = _gamma
generalized_pareto = _gamma
inverse_gamma = _gamma
pareto = _gamma
studentT = _gamma
weibull = _gamma
mixture_same_family = _independent
transformed_distribution = _independent
lowrank_multivariate_normal = _multivariate_normal
half_normal = _normal
log_normal = _normal
logistic_normal = _normal
relaxed_bernoulli = _relaxed_categorical
lkj_cholesky = _wishart
