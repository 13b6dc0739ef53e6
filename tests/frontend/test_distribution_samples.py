"""Samples against SciPy's cumulative functions, and gradients of samples against quantiles.

SciPy's densities are a second reference, without PyTorch.
"""

import math

import numpy as np
import pytest
from scipy import special, stats

import wend
from wend._engine.core.primitive import ops

N = 4000
D = wend.distributions


def f64(x):
    return wend.tensor(x, dtype=wend.float64)


CONTINUOUS = [
    ("Beta", (0.4, 2.0), stats.beta(0.4, 2.0)),
    ("Cauchy", (1.0, 2.0), stats.cauchy(1.0, 2.0)),
    ("Chi2", (3.0,), stats.chi2(3.0)),
    ("Exponential", (2.0,), stats.expon(scale=0.5)),
    ("FisherSnedecor", (3.0, 7.0), stats.f(3.0, 7.0)),
    ("Gamma", (0.3, 2.0), stats.gamma(0.3, scale=0.5)),
    ("Gamma", (20.0, 2.0), stats.gamma(20.0, scale=0.5)),
    ("GeneralizedPareto", (1.0, 2.0, 0.3), stats.genpareto(0.3, 1.0, 2.0)),
    ("GeneralizedPareto", (1.0, 2.0, -0.3), stats.genpareto(-0.3, 1.0, 2.0)),
    ("Gumbel", (1.0, 2.0), stats.gumbel_r(1.0, 2.0)),
    ("HalfCauchy", (2.0,), stats.halfcauchy(scale=2.0)),
    ("HalfNormal", (2.0,), stats.halfnorm(scale=2.0)),
    ("InverseGamma", (3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
    ("Laplace", (1.0, 2.0), stats.laplace(1.0, 2.0)),
    ("LogNormal", (1.0, 0.5), stats.lognorm(0.5, scale=math.e)),
    ("Normal", (1.0, 2.0), stats.norm(1.0, 2.0)),
    ("Pareto", (1.5, 3.0), stats.pareto(3.0, scale=1.5)),
    ("StudentT", (4.0, 1.0, 2.0), stats.t(4.0, 1.0, 2.0)),
    ("Uniform", (-1.0, 2.0), stats.uniform(-1.0, 3.0)),
    ("VonMises", (0.5, 3.0), stats.vonmises(3.0, 0.5)),
    ("VonMises", (0.0, 1e-6), stats.uniform(-math.pi, 2 * math.pi)),
    ("VonMises", (0.0, 1e9), stats.norm(0.0, 1e9**-0.5)),
    ("Weibull", (2.0, 1.5), stats.weibull_min(1.5, scale=2.0)),
]
DISCRETE = [
    ("Bernoulli", (0.3,), stats.bernoulli(0.3)),
    ("Binomial", (12, 0.3), stats.binom(12, 0.3)),
    ("Binomial", (90, 0.8), stats.binom(90, 0.8)),
    ("Geometric", (0.3,), stats.geom(0.3, loc=-1)),
    ("NegativeBinomial", (5.0, 0.4), stats.nbinom(5.0, 0.6)),
    ("Poisson", (3.5,), stats.poisson(3.5)),
    ("Poisson", (40.0,), stats.poisson(40.0)),
]


def made(name, args):
    return getattr(D, name)(*[f64(v) for v in args])


@pytest.mark.parametrize(("name", "args", "reference"), CONTINUOUS)
def test_continuous_samples(name, args, reference):
    wend.manual_seed(1)
    found = made(name, args)
    x = found.sample((N,)).numpy()
    if name == "VonMises" and args[1] < 100:
        angles = np.linspace(-math.pi, math.pi, 400)
        start = reference.cdf(-math.pi)
        assert stats.kstest(x, lambda v: reference.cdf(v) - start).pvalue > 1e-3
        assert x.min() >= angles[0] and x.max() <= angles[-1]
    else:
        assert stats.kstest(x, reference.cdf).pvalue > 1e-3
    points = x[:20] if args[-1] != 1e9 else x[:0]
    tolerance = {"rtol": 1e-6} if args[-1] == 1e-6 else {"rtol": 1e-9}
    np.testing.assert_allclose(
        found.log_prob(f64(points)), reference.logpdf(points), atol=1e-9, **tolerance
    )
    if name not in ("Beta", "FisherSnedecor", "StudentT", "VonMises"):
        np.testing.assert_allclose(found.cdf(f64(points)), reference.cdf(points), rtol=1e-9)


@pytest.mark.parametrize(("name", "args", "reference"), DISCRETE)
def test_discrete_samples(name, args, reference):
    wend.manual_seed(2)
    found = made(name, args)
    x = found.sample((N,)).numpy()
    least, most = int(x.min()), int(x.max())
    values = np.arange(least, most + 1)
    chance = reference.pmf(values)
    seen = np.array([(x == v).mean() for v in values])
    assert np.abs(seen - chance).max() < 5 * np.sqrt(0.25 / N)
    assert abs(x.mean() - reference.mean()) < 5 * reference.std() / math.sqrt(N)
    np.testing.assert_allclose(found.log_prob(f64(values)), reference.logpmf(values), rtol=1e-9)


def test_vectors_and_matrices():
    wend.manual_seed(3)
    shares = np.array([0.4, 2.0, 3.0])
    x = D.Dirichlet(f64(shares)).sample((N,)).numpy()
    for i, a in enumerate(shares):
        assert stats.kstest(x[:, i], stats.beta(a, shares.sum() - a).cdf).pvalue > 1e-3
    tiny = D.Dirichlet(wend.full((4,), 1e-3)).sample((100,))
    assert bool(((tiny.sum(-1) - 1).abs() < 1e-5).all())

    counts = D.Multinomial(9, f64([0.2, 0.5, 0.3])).sample((N,)).numpy()
    assert (counts.sum(1) == 9).all()
    np.testing.assert_allclose(counts.mean(0), [1.8, 4.5, 2.7], atol=0.12)

    factor = D.LKJCholesky(3, f64(2.0)).sample((N,))
    matrices = (factor @ factor.mT).numpy()
    spread = stats.beta(2.5, 2.5)  # of a correlation, moved from (-1, 1) to (0, 1)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert stats.kstest((matrices[:, i, j] + 1) / 2, spread.cdf).pvalue > 1e-3

    shape = np.array([[2.0, 0.6], [0.6, 1.0]])
    drawn = D.Wishart(f64(5.0), f64(shape)).sample((N,)).numpy()
    np.testing.assert_allclose(drawn.mean(0), 5 * shape, rtol=0.08)
    assert stats.kstest(drawn[:, 0, 0] / 2, stats.chi2(5).cdf).pvalue > 1e-3

    low = D.LowRankMultivariateNormal(f64([1.0, -1.0]), f64([[1.0], [0.5]]), f64([0.5, 1.0]))
    np.testing.assert_allclose(np.cov(low.sample((N,)).numpy().T), low.covariance_matrix, atol=0.15)


def test_functions_that_draw():
    wend.manual_seed(4)
    assert abs(wend.binomial(wend.full((N,), 9.0), wend.tensor(0.2)).mean().item() - 1.8) < 0.1
    assert wend.isnan(wend.binomial(f64([-1.0]), f64([0.5]))).item()
    assert abs(wend._standard_gamma(wend.full((N,), 3.0)).mean().item() - 3) < 0.15
    rows = wend._sample_dirichlet(wend.ones(5, 3))
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=1e-6)
    assert wend.poisson(f64([0.0, 1e3])).shape == (2,)
    generator = wend.Generator().manual_seed(5)
    first = wend._standard_gamma(wend.ones(3), generator=generator)
    again = wend._standard_gamma(wend.ones(3), generator=generator.manual_seed(5))
    assert first.tolist() == again.tolist()


# -- gradients of samples --------------------------------------------------------------------------


@pytest.mark.parametrize("a", [0.002, 0.1, 0.9, 1.0, 3.0, 11.9, 12.1, 80.0, 1e4])
def test_slopes_of_gamma_numbers(a):
    """Against the difference of quantiles at the same probability."""
    share = np.array([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6])
    z = special.gammaincinv(a, share)
    share, z = share[z > 1e-280], z[z > 1e-280]
    got = ops.gamma_slope(wend.full(z.shape, a, dtype=wend.float64), f64(z)).numpy()
    h = 1e-3 * min(a, math.sqrt(a))
    below = z < a
    ends = [
        np.where(below, special.gammainc(a + k * h, z), -special.gammaincc(a + k * h, z))
        for k in (-2, -1, 1, 2)
    ]
    change = (8 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12 * h)
    density = np.exp((a - 1) * np.log(z) - z - special.gammaln(a))
    np.testing.assert_allclose(got, -change / density, rtol=2e-7)


@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 7.0, 400.0])
@pytest.mark.parametrize("b", [0.05, 1.0, 3.0, 900.0])
def test_slopes_of_beta_numbers(a, b):
    x = special.betaincinv(a, b, np.array([1e-4, 0.01, 0.2, 0.5, 0.8, 0.99]))
    x = x[(x > 1e-250) & (x < 1 - 1e-12)]
    whole = wend.full(x.shape, a, dtype=wend.float64)
    got = ops.dirichlet_slope(f64(x), whole, whole + b).numpy() * (1 - x)
    h = 1e-3 * min(a, math.sqrt(a))
    below = x < a / (a + b)
    ends = [
        np.where(below, special.betainc(a + k * h, b, x), -special.betaincc(a + k * h, b, x))
        for k in (-2, -1, 1, 2)
    ]
    change = (8 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12 * h)
    density = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b))
    np.testing.assert_allclose(got, -change / density, rtol=1e-6)


@pytest.mark.parametrize(("name", "args", "mean"), [
    ("Gamma", (2.5, 1.5), lambda a, b: a / b),
    ("Beta", (2.0, 0.7), lambda a, b: a / (a + b)),
    ("FisherSnedecor", (6.0, 9.0), lambda a, b: b / (b - 2)),
    ("InverseGamma", (4.0, 2.0), lambda a, b: b / (a - 1)),
])  # fmt: skip
def test_slopes_of_means(name, args, mean):
    """The mean of the slopes of samples is the slope of the mean."""
    wend.manual_seed(6)
    own = [f64(v).requires_grad_() for v in args]
    getattr(D, name)(*own).rsample((20_000,)).mean().backward()
    expected = [v.detach().clone().requires_grad_() for v in own]
    exact = mean(*expected)
    exact.backward()
    for got, slope in zip(own, expected, strict=True):
        reference = 0.0 if slope.grad is None else slope.grad.item()
        assert abs(got.grad.item() - reference) < 0.05


def test_slopes_of_dirichlet_and_wishart_means():
    wend.manual_seed(7)
    shares = f64([0.5, 2.0, 1.0]).requires_grad_()
    D.Dirichlet(shares).rsample((20_000,)).mean(0)[1].backward()
    total = 3.5
    np.testing.assert_allclose(
        shares.grad, [-2 / total**2, 1 / total - 2 / total**2, -2 / total**2], atol=0.02
    )
    df = f64(4.5).requires_grad_()
    D.Wishart(df, f64([[2.0, 0.6], [0.6, 1.0]])).rsample((20_000,)).mean(0)[0, 0].backward()
    assert abs(df.grad.item() - 2) < 0.1


def test_slopes_of_slopes_are_refused():
    a = f64([2.0, 3.0]).requires_grad_()
    drawn = D.Gamma(a, f64([1.0, 2.0])).rsample()
    (slope,) = wend.autograd.grad(drawn.sum(), a, create_graph=True)
    with pytest.raises(NotImplementedError, match="_standard_gamma_grad"):
        wend.autograd.grad(slope.sum(), a)[0].sum().item()


def test_slopes_where_there_are_none():
    slope = ops.gamma_slope(f64([1.0, -1.0, 1.0]), f64([1.0, 1.0, -1.0])).tolist()
    assert slope[0] > 0 and all(math.isnan(v) for v in slope[1:])
    ends = ops.dirichlet_slope(f64([0.0, 1.0]), f64(1.0), f64(2.0)).tolist()
    assert math.isnan(ends[0]) and ends[1] == 0
    assert wend._standard_gamma_grad(wend.ones(2), wend.ones(2)).dtype is wend.float32
    assert wend._dirichlet_grad(wend.ones(2) / 2, wend.ones(2), wend.ones(2) * 2).shape == (2,)
