"""Distributions: densities, moments, divergences and samples, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

ROWS = np.array([[0.2, 0.5, 0.3], [1.0, 2.0, 1.0]])
LOGITS = np.array([[0.2, -1.5, 0.3], [1.0, 2.0, -4.0]])


def made(module, name, *numbers, **named):
    values = [module.tensor(n) if isinstance(n, np.ndarray) else n for n in numbers]
    named = {k: module.tensor(v) if isinstance(v, np.ndarray) else v for k, v in named.items()}
    return getattr(module.distributions, name)(*values, **named)


CASES = [
    ("Categorical", (ROWS,), {}, np.array([1, 2])),
    ("Categorical", (), {"logits": LOGITS}, np.array([[1, 0], [0, 2], [2, 2]])),
    ("Categorical", (ROWS[0],), {}, np.array([0, 1, 2, 1])),
    ("Bernoulli", (ROWS[0],), {}, np.array([1.0, 0.0, 1.0])),
    ("Bernoulli", (), {"logits": LOGITS}, np.array([1.0, 0.0, 1.0])),
    ("Normal", (LOGITS, ROWS), {}, LOGITS[:1] + 0.5),
    ("Normal", (0.0, 2.0), {}, LOGITS.astype("float32")),
    ("Uniform", (LOGITS, LOGITS + 2), {}, LOGITS + 0.25),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "value"), CASES)
def test_densities_and_moments(name, args, kwargs, value):
    ours, theirs = made(wend, name, *args, **kwargs), made(torch, name, *args, **kwargs)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    pairs = [(ours.log_prob(wend.tensor(value)), theirs.log_prob(torch.tensor(value)))]
    pairs.append((ours.entropy(), theirs.entropy()))
    for fact in ("mean", "variance", "stddev", "mode"):
        pairs.append((getattr(ours, fact), getattr(theirs, fact)))
    if name in ("Normal", "Uniform"):
        pairs.append((ours.cdf(wend.tensor(value)), theirs.cdf(torch.tensor(value))))
    else:
        pairs.append((ours.enumerate_support(), theirs.enumerate_support()))
        pairs += [(ours.probs, theirs.probs), (ours.logits, theirs.logits)]
    for got, expected in pairs:
        assert str(got.dtype) == str(expected.dtype)
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6, atol=1e-7)
    wide = (4, *ours.batch_shape)
    assert ours.expand(wide).sample((2,)).shape == (2, *wide)
    assert str(ours).split("(")[0] == str(theirs).split("(")[0]


@pytest.mark.parametrize("name", ["Normal", "Uniform"])
def test_samples_carry_gradients(name):
    low = wend.tensor([0.5, 1.0], requires_grad=True)
    distribution = getattr(wend.distributions, name)(low, low + 3)
    distribution.rsample((7,)).sum().backward()
    assert low.grad.shape == (2,) and bool((low.grad != 0).all())
    assert not distribution.sample().requires_grad


def test_samples_have_the_moments():
    wend.manual_seed(0)
    for name, args, kwargs, _ in CASES:
        distribution = made(wend, name, *args, **kwargs)
        drawn = distribution.sample((4000,)).double()
        if name == "Categorical":
            for category in range(3):
                share = (drawn == category).double().mean(0)
                np.testing.assert_allclose(share, distribution.probs[..., category], atol=0.04)
        else:
            np.testing.assert_allclose(drawn.mean(0), distribution.mean, atol=0.12)
            np.testing.assert_allclose(drawn.var(0), distribution.variance, rtol=0.12, atol=0.02)


@pytest.mark.parametrize(
    ("name", "p", "q"),
    [
        ("Normal", (LOGITS, ROWS), (LOGITS[:1], ROWS + 1)),
        ("Bernoulli", (ROWS[0],), (np.array([0.5, 0.1, 0.9]),)),
        ("Categorical", (ROWS,), (np.array([0.5, 0.5, 0.0]),)),
        ("Uniform", (LOGITS, LOGITS + 1), (LOGITS - 1, LOGITS + np.arange(3))),
    ],
)
def test_divergences(name, p, q):
    got = wend.distributions.kl_divergence(made(wend, name, *p), made(wend, name, *q))
    expected = torch.distributions.kl_divergence(made(torch, name, *p), made(torch, name, *q))
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6, atol=1e-9)


def test_divergence_of_strangers_is_refused_until_registered():
    from wend.distributions import Normal, StudentT, kl_divergence, register_kl

    pair = Normal(0.0, 1.0), StudentT(2.0)
    with pytest.raises(NotImplementedError, match="p type Normal and q type StudentT"):
        kl_divergence(*pair)

    class Mine(Normal):
        """A class of the user's."""

    register_kl(Mine, StudentT)(lambda p, q: p.loc)
    assert kl_divergence(Mine(3.0, 1.0), pair[1]).item() == 3.0


def test_refusals():
    d = wend.distributions
    with pytest.raises(ValueError, match="parameter scale"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="parameter probs"):
        d.Categorical(wend.tensor([0.5, float("nan")]))
    with pytest.raises(ValueError, match="not both"):
        d.Categorical(wend.ones(2), wend.ones(2))
    with pytest.raises(ValueError, match="within the support"):
        d.Categorical(wend.ones(2)).log_prob(wend.tensor(2))
    with pytest.raises(ValueError, match="within the support"):
        d.Bernoulli(0.5).log_prob(wend.tensor(0.5))
    with pytest.raises(ValueError, match="low >= high"):
        d.Uniform(1.0, 1.0)
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0


def test_policy_gradient():
    logits = wend.zeros(4, requires_grad=True)
    chosen = wend.distributions.Categorical(logits=logits)
    (-chosen.log_prob(wend.tensor(2))).backward()
    np.testing.assert_allclose(logits.grad, [0.25, 0.25, -0.75, 0.25])


ROOT = np.array([[[1.0, 0.0], [0.5, 2.0]], [[0.7, 0.0], [-0.2, 0.4]]])
MEANS = np.array([[0.5, -1.0]])


@pytest.mark.parametrize("form", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_gaussian_vectors(form):
    matrix = ROOT if form == "scale_tril" else ROOT @ np.swapaxes(ROOT, -1, -2)
    outcomes = []
    for module in (wend, torch):
        loc, shape = module.tensor(MEANS, requires_grad=True), module.tensor(matrix)
        shape.requires_grad_()
        d = module.distributions.MultivariateNormal(loc, **{form: shape})
        density = d.log_prob(module.tensor([[0.1, 0.2], [1.0, 3.0]], dtype=module.float64))
        (density.sum() + d.entropy().sum()).backward()
        facts = [d.mean, d.variance, d.scale_tril, d.covariance_matrix, d.precision_matrix]
        outcomes.append([density, d.entropy(), *facts, loc.grad, shape.grad])
        assert tuple(d.batch_shape) == (2,) and tuple(d.event_shape) == (2,)
        assert tuple(d.expand((3, 2)).rsample((4,)).shape) == (4, 3, 2, 2)
    for ours, theirs in zip(*outcomes, strict=True):
        got, expected = ours.detach().numpy(), theirs.detach().numpy()
        if ours is outcomes[0][-1] and form == "scale_tril":
            expected = np.tril(expected)
            got = np.tril(got)
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


def test_gaussian_vectors_are_checked():
    normal = wend.distributions.MultivariateNormal
    with pytest.raises(ValueError, match="exactly one of"):
        normal(wend.zeros(2))
    with pytest.raises(ValueError, match="does not fit"):
        normal(wend.zeros(2), wend.eye(3))
    with pytest.raises(ValueError, match="covariance_matrix"):
        normal(wend.zeros(2), -wend.eye(2))
    with pytest.raises(ValueError, match="scale_tril"):
        normal(wend.zeros(2), scale_tril=wend.ones(2, 2))
    drawn = normal(wend.zeros(2), wend.tensor([[2.0, 0.9], [0.9, 1.0]])).sample((4000,))
    np.testing.assert_allclose(drawn.T.cov(), [[2.0, 0.9], [0.9, 1.0]], atol=0.15)
