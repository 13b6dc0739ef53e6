"""Every distribution against PyTorch: densities, moments, gradients, divergences, samples' shapes.

Samples themselves are compared with SciPy in test_distribution_samples.py.
"""

import math
import warnings

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def pytorch_checks_too():
    """PyTorch's compiler turns the checks of its distributions off when it is imported."""
    torch.distributions.Distribution.set_default_validate_args(True)


POSITIVE = np.array([0.3, 1.0, 2.5])
OTHER = np.array([[1.7], [0.6]])
REAL = np.array([-1.2, 0.0, 0.7])
PROBS = np.array([0.2, 0.5, 0.93])
ROWS = np.array([[0.2, 0.5, 0.3], [0.25, 0.5, 0.25]])
ROOT = np.array([[[1.0, 0.0], [0.5, 2.0]], [[0.7, 0.0], [-0.2, 0.4]]])
MATRIX = ROOT @ np.swapaxes(ROOT, -1, -2)
POINTS = np.array([[0.5, -1.0]])

#: name: arguments of each case, and whether PyTorch's value is not to be compared for some facts.
CASES = {
    "Bernoulli": [{"probs": PROBS}, {"logits": REAL}],
    "Beta": [(POSITIVE, OTHER)],
    "Binomial": [(7, PROBS), ({"total_count": 5, "logits": REAL})],
    "Categorical": [(ROWS,), {"logits": np.log(ROWS) + 1}],
    "Cauchy": [(REAL, OTHER)],
    "Chi2": [(POSITIVE,)],
    "ContinuousBernoulli": [(PROBS,), {"logits": REAL}],
    "Dirichlet": [(ROWS * 7,), (np.array([0.3, 0.4]),)],
    "Exponential": [(POSITIVE,)],
    "FisherSnedecor": [(POSITIVE * 3, OTHER * 4)],
    "Gamma": [(POSITIVE, OTHER)],
    # PyTorch takes no float64 here.
    "GeneralizedPareto": [
        tuple(np.float32(v) for v in (REAL, OTHER + 1, np.array([-0.4, 0.0, 0.3])))
    ],
    "Geometric": [(PROBS,), {"logits": REAL}],
    "Gumbel": [(REAL, OTHER)],
    "HalfCauchy": [(POSITIVE,)],
    "HalfNormal": [(POSITIVE,)],
    "InverseGamma": [(POSITIVE + 1, OTHER)],
    "Kumaraswamy": [(POSITIVE, OTHER)],
    "Laplace": [(REAL, OTHER)],
    "LKJCholesky": [(3, POSITIVE)],
    "LogNormal": [(REAL, OTHER / 2)],
    "LogisticNormal": [(REAL, OTHER)],
    "LowRankMultivariateNormal": [(POINTS, ROOT[:, :, :1], POSITIVE[:2])],
    "Multinomial": [(4, ROWS), {"total_count": 3, "logits": np.log(ROWS)}],
    "MultivariateNormal": [
        (POINTS, MATRIX),
        {"loc": POINTS, "precision_matrix": MATRIX},
        {"loc": POINTS[0], "scale_tril": ROOT},
    ],
    "NegativeBinomial": [(POSITIVE * 3, PROBS), {"total_count": 4, "logits": REAL}],
    "Normal": [(REAL, OTHER)],
    "OneHotCategorical": [(ROWS,), {"logits": np.log(ROWS)}],
    "OneHotCategoricalStraightThrough": [(ROWS,)],
    "Pareto": [(POSITIVE, OTHER + 2)],
    "Poisson": [(POSITIVE * 3,)],
    "RelaxedBernoulli": [(np.array(0.7), PROBS), (np.array(0.7), None, REAL)],
    "RelaxedOneHotCategorical": [(np.array(0.7), ROWS), (np.array(0.7), None, np.log(ROWS))],
    "StudentT": [(POSITIVE * 2, REAL, OTHER)],
    "Uniform": [(REAL, OTHER + 3)],
    "VonMises": [(REAL, POSITIVE)],
    "Weibull": [(POSITIVE, OTHER + 0.5)],
    "Wishart": [(np.array([3.0, 4.5]), MATRIX), {"df": np.array(3.5), "scale_tril": ROOT}],
}
FACTS = ("mean", "mode", "variance", "stddev")
#: PyTorch's value is NaN where the mode is known.
WITHOUT = {"Kumaraswamy": ("mode",)}
TABLE = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]


def made(module, name, case, grad=False):
    """(the distribution, the tensors that it is made of)."""
    tensors = []

    def convert(value):
        if not isinstance(value, np.ndarray):
            return value
        tensors.append(module.tensor(value, requires_grad=grad))
        return tensors[-1]

    args, kwargs = ((), case) if isinstance(case, dict) else (case, {})
    args = [convert(v) for v in args]
    kwargs = {k: convert(v) for k, v in kwargs.items()}
    return getattr(module.distributions, name)(*args, **kwargs), tensors


def both(name, index, grad=False):
    case = CASES[name][index]
    ours, theirs = made(wend, name, case, grad), made(torch, name, case, grad)
    return (*ours, *theirs)


def close(ours, theirs, rtol=1e-6, atol=1e-8):
    got, expected = ours.detach().numpy(), theirs.detach().numpy()
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    single = 1e-5 if got.dtype == np.float32 else 0
    np.testing.assert_allclose(got, expected, rtol=max(rtol, single), atol=max(atol, single))


def asked(function):
    """The result; None where a distribution has none."""
    try:
        return function()
    except (NotImplementedError, AttributeError):
        return None


def drawn(theirs):
    torch.manual_seed(3)
    return theirs.sample((2,))


@pytest.mark.parametrize(("name", "index"), TABLE)
def test_facts(name, index):
    ours, _, theirs, _ = both(name, index)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    for fact in ("has_rsample", "has_enumerate_support"):
        assert getattr(ours, fact) == getattr(theirs, fact)
    for fact in FACTS:
        if fact in WITHOUT.get(name, ()):
            continue
        got, expected = (asked(lambda d=d: getattr(d, fact)) for d in (ours, theirs))  # noqa: B023
        assert (got is None) == (expected is None), fact
        if got is not None:
            close(got, expected)
    for method in ("entropy", "perplexity", "enumerate_support"):
        got, expected = (asked(getattr(d, method)) for d in (ours, theirs))
        assert (got is None) == (expected is None), method
        if got is not None:
            close(got, expected)
    assert set(ours.arg_constraints) == set(theirs.arg_constraints)
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.support.is_discrete == theirs.support.is_discrete
    assert repr(ours).split("(")[0] == repr(theirs).split("(")[0]


@pytest.mark.parametrize(("name", "index"), TABLE)
def test_densities_with_gradients(name, index):
    ours, own, theirs, others = both(name, index, grad=True)
    value = drawn(theirs)
    continuous = not theirs.support.is_discrete
    points = wend.tensor(value.numpy()), value.clone()
    for point in points if continuous else ():
        point.requires_grad_()
    results = [d.log_prob(x) for d, x in zip((ours, theirs), points, strict=True)]
    close(*results)
    weights = np.cos(np.arange(value.numpy().size))[: results[1].numel()].reshape(results[1].shape)
    for module, result in zip((wend, torch), results, strict=True):
        (result * module.tensor(weights)).sum().backward()
    for a, b in zip(own, others, strict=True):
        if b.grad is not None and not (name == "Wishart" or "Multivariate" in name):
            close(a.grad, b.grad, rtol=1e-5)
        elif b.grad is not None:
            close(lower(wend, a, a.grad), lower(torch, b, b.grad), rtol=1e-5)
    if points[1].grad is not None:
        if name == "Wishart":
            points = [symmetric(x.grad) for x in points]
            close(*points, rtol=1e-5)
        else:
            close(points[0].grad, points[1].grad, rtol=1e-5)


def symmetric(x):
    return x + x.mT


def lower(module, x, slope):
    """What counts of a slope by a symmetric matrix or a triangle; by others, all."""
    if x.dim() != 3 or x.shape[-1] != x.shape[-2]:
        return slope
    return module.tril(symmetric(slope) if bool((x != module.tril(x)).any()) else slope)


@pytest.mark.parametrize(("name", "index"), TABLE)
def test_cumulative_functions(name, index):
    ours, _, theirs, _ = both(name, index)
    value = drawn(theirs)
    expected = asked(lambda: theirs.cdf(value))
    got = asked(lambda: ours.cdf(wend.tensor(value.numpy())))
    assert (got is None) == (expected is None)
    if got is not None:
        close(got, expected)
    if len(theirs.event_shape):
        return
    share = np.broadcast_to(np.array(0.3), value.shape).copy()
    expected = asked(lambda: theirs.icdf(torch.tensor(share)))
    got = asked(lambda: ours.icdf(wend.tensor(share)))
    assert (got is None) == (expected is None)
    if got is not None:
        close(got, expected)
        close(ours.cdf(got), torch.tensor(share))


@pytest.mark.parametrize(("name", "index"), TABLE)
def test_expanded_and_drawn(name, index):
    ours, own, theirs, others = both(name, index, grad=True)
    wide = (4, *theirs.batch_shape)
    grown, expected = ours.expand(wide), theirs.expand(wide)
    assert type(grown) is type(ours)
    assert tuple(grown.batch_shape) == wide
    value = drawn(expected)
    close(grown.log_prob(wend.tensor(value.numpy())), expected.log_prob(value))
    drawn_here = grown.sample((2,))
    assert drawn_here.shape == value.shape
    assert str(drawn_here.dtype) == str(value.dtype)
    assert not drawn_here.requires_grad
    assert bool(ours.support.check(drawn_here).all())
    if not theirs.has_rsample:
        return
    sample, reference = ours.rsample((5,)), theirs.rsample((5,))
    # Weights, since the sums of some samples are constant.
    for module, x in ((wend, sample), (torch, reference)):
        if name == "Wishart" and module is torch:
            return  # PyTorch's repair of singular samples fails in backward
        (x * module.tensor(np.arange(x.numel(), dtype=float).reshape(x.shape))).sum().backward()
    for a, b in zip(own, others, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            assert bool(wend.isfinite(a.grad).all())
            assert bool((a.grad != 0).any())


# -- divergences -----------------------------------------------------------------------------------

OTHER_3 = np.array([1.7, 0.6, 1.1])
P = {
    "Bernoulli": (np.array([0.2, 0.0, 1.0]),),
    "Beta": (POSITIVE, OTHER_3),
    "Binomial": (5, PROBS),
    "Categorical": (ROWS,),
    "Cauchy": (REAL, OTHER_3),
    "ContinuousBernoulli": (PROBS,),
    "Dirichlet": (ROWS * 7,),
    "Exponential": (POSITIVE,),
    "Gamma": (POSITIVE, OTHER_3),
    "Geometric": (PROBS,),
    "Gumbel": (REAL, OTHER_3),
    "HalfNormal": (POSITIVE,),
    "Laplace": (REAL, OTHER_3),
    "LowRankMultivariateNormal": (POINTS, ROOT[:, :, :1], POSITIVE[:2]),
    "MultivariateNormal": (POINTS, MATRIX),
    "Normal": (REAL, OTHER_3),
    "OneHotCategorical": (ROWS,),
    "Pareto": (POSITIVE, OTHER_3 + 2),
    "Poisson": (POSITIVE,),
    "Uniform": (np.array([0.1, -1.0, 0.3]), np.array([0.9, 1.0, 1.5])),
}
Q = {
    **P,
    "Bernoulli": (np.array([0.3, 0.0, 0.5]),),
    "Binomial": (3, PROBS[::-1].copy()),
    "Categorical": (np.array([0.5, 0.5, 0.0]),),
    "OneHotCategorical": (ROWS[::-1].copy(),),
    "LowRankMultivariateNormal": (POINTS + 1, ROOT[:, :, 1:], POSITIVE[1:]),
    "MultivariateNormal": (POINTS - 1, MATRIX[::-1].copy()),
    "Pareto": (POSITIVE / 4, OTHER_3 + 1),
    "Uniform": (np.array([-2.0, -0.5, 0.2]), np.array([2.0, 1.5, 2.0])),
}
for _name in ("Beta", "Gamma", "Gumbel", "Laplace", "Normal", "Cauchy"):
    Q[_name] = tuple(v + 0.4 for v in P[_name])
PAIRS = sorted(
    (p.__name__, q.__name__)
    for p, q in torch.distributions.kl._KL_REGISTRY
    if p.__name__ in P and q.__name__ in P
)


def test_every_pair_is_there():
    def names(module):
        return {(p.__name__, q.__name__) for p, q in module.distributions.kl._KL_REGISTRY}

    assert names(torch) <= names(wend)
    others = names(torch) - set(PAIRS)
    made_of_others = {"ExponentialFamily", "Independent", "TransformedDistribution"}
    assert others == {(n, n) for n in made_of_others}


@pytest.mark.parametrize("first", sorted(P))
def test_divergences(first):
    for second in [q for p, q in PAIRS if p == first]:
        outcomes = []
        for module in (wend, torch):
            p, own = made(module, first, P[first], grad=True)
            q, others = made(module, second, Q[second], grad=True)
            found = module.distributions.kl_divergence(p, q)
            finite = module.where(module.isfinite(found), found, 0.0)
            if finite.requires_grad:
                finite.sum().backward()
            outcomes.append((found, [x.grad for x in own + others]))
        (got, slopes), (expected, references) = outcomes
        shape = np.broadcast_shapes(got.shape, expected.shape)
        got, expected = got.expand(shape), expected.expand(shape)
        np.testing.assert_allclose(
            got.detach(), expected.detach(), rtol=1e-6, atol=1e-8, err_msg=second
        )
        for a, b in zip(slopes, references, strict=True):
            if a is not None and b is not None and torch.isfinite(b).all():
                if a.dim() == 3 and a.shape[-1] == a.shape[-2]:
                    a, b = symmetric(a), symmetric(b)
                np.testing.assert_allclose(
                    a.detach(), b.detach(), rtol=1e-5, atol=1e-7, err_msg=second
                )


def test_divergences_of_made_distributions():
    for module in (wend, torch):
        d = module.distributions
        p = d.Normal(module.tensor(REAL), module.tensor(POSITIVE))
        q = d.Normal(module.tensor(REAL + 1), module.tensor(POSITIVE + 1))
        plain = d.kl_divergence(p, q)
        inner = d.kl_divergence(d.Independent(p, 1), d.Independent(q, 1))
        np.testing.assert_allclose(inner, plain.sum(), rtol=1e-12)
        logs = d.kl_divergence(
            d.TransformedDistribution(p, [d.ExpTransform()]),
            d.TransformedDistribution(q, [d.ExpTransform()]),
        )
        np.testing.assert_allclose(logs, plain, rtol=1e-12)
        with pytest.raises(NotImplementedError):
            d.kl_divergence(d.Independent(p, 1), d.Independent(q, 0))
        with pytest.raises(NotImplementedError):
            d.kl_divergence(p, d.VonMises(0.0, 1.0))


@pytest.mark.parametrize("name", ["Bernoulli", "Beta", "ContinuousBernoulli", "Dirichlet",
                                  "Exponential", "Gamma", "Normal", "Wishart"])  # fmt: skip
def test_exponential_families_by_their_normalizers(name):
    family = wend.distributions.ExponentialFamily
    general = wend.distributions.kl._KL_REGISTRY[family, family]
    p, q = (made(wend, name, CASES[name][0])[0] for _ in range(2))
    np.testing.assert_allclose(general(p, q), 0, atol=1e-7)
    if name in ("Beta", "ContinuousBernoulli", "Dirichlet"):
        return  # a carrier without a mean in closed form; another series near 1/2
    slopes = []
    for entropy in (family.entropy, type(p).entropy):
        p, own = made(wend, name, CASES[name][0], grad=True)
        found = entropy(p)
        found.sum().backward()
        slopes.append((found.detach(), own[-1].grad))
    for got, expected in zip(*slopes, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


# -- distributions of distributions ----------------------------------------------------------------


def test_mixtures():
    outcomes = []
    for module in (wend, torch):
        d = module.distributions
        weights = d.Categorical(module.tensor([0.2, 0.5, 0.3], dtype=module.float64))
        parts = d.Normal(module.tensor(REAL), module.tensor(POSITIVE))
        mixed = d.MixtureSameFamily(weights, parts)
        x = module.tensor([0.5, -2.0], dtype=module.float64)
        planes = d.Independent(
            d.Normal(module.tensor(np.stack([REAL, REAL + 1], 1)), module.tensor(1.5)), 1
        )
        flat = d.MixtureSameFamily(weights, planes)
        point = module.tensor(POINTS)
        outcomes.append(
            [mixed.mean, mixed.variance, mixed.log_prob(x), mixed.cdf(x), flat.mean,
             flat.variance, flat.log_prob(point), mixed.expand((2,)).log_prob(x)]
        )  # fmt: skip
        assert tuple(mixed.sample((7,)).shape) == (7,)
        assert tuple(flat.sample((7,)).shape) == (7, 2)
        assert tuple(flat.expand((4,)).sample((7,)).shape) == (7, 4, 2)
        assert not mixed.has_rsample
        with pytest.raises(ValueError, match="does not equal"):
            d.MixtureSameFamily(weights, d.Normal(module.zeros(2), module.ones(2)))
        with pytest.raises(ValueError, match="Categorical"):
            d.MixtureSameFamily(parts, parts)
    for ours, theirs in zip(*outcomes, strict=True):
        close(ours, theirs)


def test_transformed_and_independent():
    outcomes = []
    for module in (wend, torch):
        d = module.distributions
        base = d.Normal(module.tensor(REAL), module.tensor(POSITIVE))
        steps = [d.AffineTransform(1.0, -2.0), d.SigmoidTransform()]
        logit = d.TransformedDistribution(base, steps)
        x = module.tensor(PROBS)
        whole = d.Independent(logit, 1)
        stick = d.TransformedDistribution(d.Independent(base, 1), d.StickBreakingTransform())
        shares = module.tensor([0.1, 0.2, 0.3, 0.4], dtype=module.float64)
        outcomes.append(
            [logit.log_prob(x), logit.cdf(x), logit.icdf(x), whole.log_prob(x),
             stick.log_prob(shares), logit.expand((2, 3)).log_prob(x)]
        )  # fmt: skip
        assert tuple(whole.event_shape) == (3,) and tuple(stick.event_shape) == (4,)
        assert whole.support.event_dim == 1 and whole.has_rsample
        assert whole.rsample((2,)).shape == (2, 3)
        with pytest.raises(ValueError, match="transforms must be"):
            d.TransformedDistribution(base, "exp")
        with pytest.raises(ValueError, match="reinterpreted_batch_ndims"):
            d.Independent(base, 2)
    for ours, theirs in zip(*outcomes, strict=True):
        close(ours, theirs)


BAD = [
    ("Gamma", (-1.0, 1.0)),
    ("Beta", (1.0, 0.0)),
    ("Poisson", (-1.0,)),
    ("Geometric", (0.0,)),
    ("Uniform", (1.0, 1.0)),
    ("Binomial", (-1, 0.5)),
    ("StudentT", (0.0,)),
    ("Dirichlet", (np.array([1.0, -1.0]),)),
    ("Dirichlet", (np.array(1.0),)),
    ("LKJCholesky", (1,)),
    ("Wishart", (0.5, MATRIX)),
    ("MultivariateNormal", (POINTS, -MATRIX)),
    ("MultivariateNormal", (POINTS,)),
    ("LowRankMultivariateNormal", (POINTS, ROOT, POSITIVE)),
    ("Bernoulli", (0.5, 0.5)),
    ("Normal", ("a", 1.0)),
]


@pytest.mark.parametrize(("name", "case"), BAD)
def test_parameters_are_checked(name, case):
    for module in (wend, torch):
        with pytest.raises(ValueError, match=r"."):
            made(module, name, case)


@pytest.mark.parametrize(("name", "value"), [
    ("Gamma", -1.0), ("Beta", 1.5), ("Poisson", 0.5), ("Binomial", 99.0), ("Pareto", 0.1),
    ("Exponential", -0.1), ("LogNormal", 0.0), ("HalfNormal", -1.0), ("Weibull", -1.0),
])  # fmt: skip
def test_values_are_checked(name, value):
    for module in (wend, torch):
        distribution, _ = made(module, name, CASES[name][0])
        with pytest.raises(ValueError, match="support"):
            distribution.log_prob(module.tensor(value, dtype=module.float64))


def test_subclasses_fill_their_own_instances():
    class Shifted(wend.distributions.Normal):
        """A class as programs derive them."""

        def __init__(self, loc, scale, note):
            self.note = note
            super().__init__(loc, scale)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Shifted, _instance)
            new.note = self.note
            return super().expand(batch_shape, _instance=new)

    class Further(Shifted):
        """A class without a way to expand."""

        def __init__(self):
            super().__init__(0.0, 1.0, "b")

    grown = Shifted(0.0, wend.ones(3), "a").expand((2, 3))
    assert (type(grown), grown.note, tuple(grown.scale.shape)) == (Shifted, "a", (2, 3))
    with pytest.raises(NotImplementedError, match=r"custom \.expand"):
        Further().expand((2,))


def test_ambiguous_divergences_are_told():
    d = wend.distributions

    class A(d.Normal):
        """One side."""

    for pair in ((A, d.Normal), (d.Normal, A)):
        d.register_kl(*pair)(lambda p, q: p.loc)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="Ambiguous"):
            d.kl_divergence(A(0.0, 1.0), A(0.0, 1.0))
    for pair in ((A, d.Normal), (d.Normal, A)):
        del d.kl._KL_REGISTRY[pair]
    d.kl._KL_MEMOIZE.clear()


def test_addresses():
    import importlib
    import pkgutil

    for found in pkgutil.iter_modules(torch.distributions.__path__):
        theirs = importlib.import_module(f"torch.distributions.{found.name}")
        ours = importlib.import_module(f"wend.distributions.{found.name}")
        assert not [n for n in getattr(theirs, "__all__", ()) if not hasattr(ours, n)]
    assert not [n for n in torch.distributions.__all__ if not hasattr(wend.distributions, n)]
    assert math.isclose(wend.distributions.utils.euler_constant, np.euler_gamma)
