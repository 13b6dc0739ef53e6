"""Transforms and constraints of distributions, against PyTorch, and inverses against themselves."""

import pickle

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

X = np.array([[0.3, -1.2, 0.7], [1.4, 0.2, -0.5]])
U = np.array([[0.3, 0.2, 0.7], [0.4, 0.25, 0.5]])


def of(module):
    """Transforms by name, each with the values that it is asked at."""
    d = module.distributions

    def t(x):
        return module.tensor(x, dtype=module.float64)

    scale = t([0.5, -2.0, 3.0])
    normal = d.Normal(t(0.5), t(2.0))
    return {
        "abs": (d.AbsTransform(), X),
        "affine": (d.AffineTransform(t(1.0), scale), X),
        "affine of numbers": (d.AffineTransform(1.0, -2), X),
        "affine of vectors": (d.AffineTransform(0.0, scale, event_dim=1), X),
        "cat": (d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=-1, lengths=[1, 2]), X),
        "cat of rows": (d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=0), X),
        "compose": (d.ComposeTransform([d.ExpTransform(), d.AffineTransform(t(2.0), scale)]), X),
        "compose of vectors": (
            d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.StickBreakingTransform()]),
            X,
        ),
        "empty": (d.identity_transform, X),
        "corr_cholesky": (d.CorrCholeskyTransform(), X),
        "cumulative": (d.CumulativeDistributionTransform(normal), X),
        "exp": (d.ExpTransform(), X),
        "inverse": (d.ExpTransform().inv, U),
        "independent": (d.IndependentTransform(d.TanhTransform(), 1), X),
        "lower_cholesky": (d.LowerCholeskyTransform(), X[:, :2]),
        "positive_definite": (d.PositiveDefiniteTransform(), X[:, :2]),
        "power": (d.PowerTransform(t(-1.5)), U),
        "power of numbers": (d.PowerTransform(t(2.0)), U),
        "reshape": (d.ReshapeTransform((3,), (1, 3)), X),
        "sigmoid": (d.SigmoidTransform(), X),
        "softplus": (d.SoftplusTransform(), X),
        "softmax": (d.SoftmaxTransform(), X),
        "stack": (d.StackTransform([d.ExpTransform(), d.SigmoidTransform()], dim=0), X),
        "stick breaking": (d.StickBreakingTransform(), X),
        "tanh": (d.TanhTransform(), X),
    }


NAMES = list(of(wend))
OURS, THEIRS = of(wend), of(torch)


def close(ours, theirs, **tolerance):
    got, expected = ours.detach().numpy(), theirs.detach().numpy()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, **{"rtol": 1e-9, "atol": 1e-12, **tolerance})


def attempt(function):
    """(result, error's class)."""
    try:
        return function(), None
    except (NotImplementedError, ValueError, AttributeError) as error:
        return None, type(error)


@pytest.mark.parametrize("name", NAMES)
def test_values_inverses_and_determinants(name):
    results = []
    for module, (transform, values) in ((wend, OURS[name]), (torch, THEIRS[name])):
        x = module.tensor(values, requires_grad=True)
        y = transform(x)
        back = transform.inv(y)
        slope, _ = attempt(lambda: transform.log_abs_det_jacobian(x, y))  # noqa: B023
        again, _ = attempt(lambda: transform.inv.log_abs_det_jacobian(y, x))  # noqa: B023
        total = (y * module.tensor(np.cos(np.arange(y.numel())).reshape(y.shape))).sum()
        total = total + (0 if slope is None else slope.sum())
        total.backward()
        results.append((y, back, slope, again, x.grad))
    for got, expected in zip(*results, strict=True):
        assert (got is None) == (expected is None)
        if got is not None:
            close(got, expected, atol=1e-9)
    transform, values = OURS[name]
    if transform.bijective:
        np.testing.assert_allclose(results[0][1].detach(), values, rtol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_facts(name):
    (ours, values), (theirs, _) = OURS[name], THEIRS[name]
    assert ours.bijective == theirs.bijective
    for side in ("domain", "codomain"):
        got, expected = getattr(ours, side), getattr(theirs, side)
        assert attempt(lambda: got.event_dim) == attempt(lambda: expected.event_dim)  # noqa: B023
        if got.event_dim <= 2:
            assert type(got).__name__ == type(expected).__name__
    out = theirs(torch.tensor(values)).shape
    for direction, shape in (("forward", values.shape), ("inverse", out)):
        got, expected = (
            attempt(lambda t=t: tuple(getattr(t, f"{direction}_shape")(shape)))  # noqa: B023
            for t in (ours, theirs)
        )
        assert got == expected
    got, expected = (attempt(lambda t=t: t.sign) for t in (ours, theirs))
    assert got[1] == expected[1]
    if not got[1]:
        np.testing.assert_array_equal(np.asarray(got[0]), np.asarray(expected[0]))
    assert repr(ours).split("(")[0] == repr(theirs).split("(")[0]
    assert ours.inv.inv is ours
    assert (ours == ours.inv) == (theirs == theirs.inv)


@pytest.mark.parametrize("name", NAMES)
def test_caches_keep_the_last_pair(name):
    transform, values = OURS[name]
    cached = transform.with_cache()
    assert cached.with_cache() is cached
    x = wend.tensor(values)
    y = cached(x)
    assert cached(x) is y
    assert cached.inv(y) is x
    assert wend.allclose(transform(x), y)  # a loop and NumPy differ in the last bit
    copy = pickle.loads(pickle.dumps(transform))
    assert wend.allclose(copy(x), y)


def test_equality():
    d = wend.distributions
    assert d.ExpTransform() == d.ExpTransform()
    assert d.ExpTransform() != d.TanhTransform()
    assert d.AffineTransform(1.0, wend.ones(2)) == d.AffineTransform(1, wend.ones(2))
    assert d.AffineTransform(1.0, 2.0) != d.AffineTransform(1.0, 3.0)
    assert d.PowerTransform(2.0) == d.PowerTransform(2.0)
    assert d.ComposeTransform([d.ExpTransform()]) == d.ComposeTransform([d.ExpTransform()])
    assert d.ExpTransform().inv == d.ExpTransform().inv


def test_refusals():
    d = wend.distributions
    with pytest.raises(ValueError, match="cache_size"):
        d.ExpTransform(cache_size=2)
    with pytest.raises(ValueError, match="different numbers of elements"):
        d.ReshapeTransform((2,), (3,))
    with pytest.raises(ValueError, match="Too few dimensions"):
        d.IndependentTransform(d.ExpTransform(), 2)(wend.ones(3))
    with pytest.raises(ValueError, match="lower-diagonal"):
        d.CorrCholeskyTransform().forward_shape((4,))
    with pytest.raises(ValueError, match="not 2 long"):
        d.StackTransform([d.ExpTransform(), d.TanhTransform()])(wend.ones(3))


# -- constraints -----------------------------------------------------------------------------------

TRIANGLE = np.array([[1.0, 0.0], [0.6, 0.8]])


def regions(module):
    """Constraints by name, each with values of which some are inside."""
    c = module.distributions.constraints
    numbers = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan])
    rows = np.array([[0.5, 0.5], [0.0, 1.0], [1.0, 1.0], [-1.0, 2.0]])
    squares = np.stack([TRIANGLE, TRIANGLE.T, TRIANGLE @ TRIANGLE.T, np.eye(2), -np.eye(2)])
    named = {
        name: (getattr(c, name), numbers)
        for name in ("boolean", "nonnegative", "nonnegative_integer", "positive",
                     "positive_integer", "real", "unit_interval")
    }  # fmt: skip
    named |= {name: (getattr(c, name), rows) for name in ("one_hot", "real_vector", "simplex")}
    named |= {
        name: (getattr(c, name), squares)
        for name in ("corr_cholesky", "lower_cholesky", "lower_triangular", "square", "symmetric")
    }
    # PyTorch does not look at eigenvalues where any matrix is not symmetric.
    named |= {
        name: (getattr(c, name), squares[2:])
        for name in ("positive_definite", "positive_semidefinite")
    }
    bound = module.tensor([0.0, 0.5, 1.0, 0.0, 0.5, 1.0], dtype=module.float64)
    return named | {
        "greater_than": (c.greater_than(bound), numbers),
        "greater_than_eq": (c.greater_than_eq(0.5), numbers),
        "less_than": (c.less_than(bound), numbers),
        "interval": (c.interval(bound - 1, bound), numbers),
        "half_open_interval": (c.half_open_interval(0.0, 1.0), numbers),
        "integer_interval": (c.integer_interval(0, 1), numbers),
        "multinomial": (c.multinomial(1), rows),
        "independent": (c.independent(c.positive, 1), rows),
        "cat": (c.cat([c.real, c.positive], -1), rows),
        "cat of vectors": (c.cat([c.simplex, c.real_vector], 0, [2, 2]), rows),
        "stack": (c.stack([c.positive, c.unit_interval], -1), rows),
        "mixture": (c.MixtureSameFamilyConstraint(c.positive), numbers),
        "mixture of vectors": (c.MixtureSameFamilyConstraint(c.simplex), rows),
    }


REGIONS = regions(wend), regions(torch)


@pytest.mark.parametrize("name", list(REGIONS[0]))
def test_constraints(name):
    (ours, values), (theirs, _) = REGIONS[0][name], REGIONS[1][name]
    got, expected = ours.check(wend.tensor(values)), theirs.check(torch.tensor(values))
    np.testing.assert_array_equal(got.numpy(), expected.numpy())
    assert (ours.event_dim, ours.is_discrete) == (theirs.event_dim, theirs.is_discrete)
    if name != "multinomial":  # shown with its bound
        assert repr(ours).split("tensor")[0] == repr(theirs).split("tensor")[0]


@pytest.mark.parametrize("name", list(REGIONS[0]))
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries(registry, name):
    found = []
    for module, table in zip((wend, torch), REGIONS, strict=True):
        lookup = getattr(module.distributions, registry)
        found.append(attempt(lambda: lookup(table[name][0])))  # noqa: B023
    (ours, failed), (theirs, reason) = found
    assert failed == reason
    if failed or (registry, name) == ("biject_to", "cat of vectors"):
        return  # sticks make rows longer, which then do not fit beside others
    shape = theirs.inverse_shape(REGIONS[1][name][1].shape)
    x = np.random.default_rng(0).normal(size=tuple(shape))
    if name == "corr_cholesky":
        x = x[:, :1]
    close(ours(wend.tensor(x)), theirs(torch.tensor(x)))
    y = ours(wend.tensor(x))
    if name not in ("cat of vectors",):
        assert bool(REGIONS[0][name][0].check(y).all())
    np.testing.assert_allclose(ours(ours.inv(y)), y, rtol=1e-9)


def test_own_constraints_join_the_registry():
    d = wend.distributions

    class Negative(d.constraints.Constraint):
        """Numbers below 0."""

    d.transform_to.register(Negative, lambda c: d.AffineTransform(0.0, -1.0))
    assert d.transform_to(Negative())(wend.ones(1)).item() == -1.0
    with pytest.raises(TypeError, match="Expected constraint"):
        d.transform_to.register(3, None)(lambda c: c)
    with pytest.raises(NotImplementedError, match="Negative"):
        d.biject_to(Negative())


def test_dependent_constraints():
    c = wend.distributions.constraints
    assert c.is_dependent(c.dependent)
    assert c.is_dependent(wend.distributions.Uniform.support)
    assert wend.distributions.Uniform.support.event_dim == 0
    assert c.dependent(event_dim=2).event_dim == 2
    with pytest.raises(NotImplementedError, match="is_discrete"):
        _ = c.dependent.is_discrete
    with pytest.raises(ValueError, match="dependent"):
        c.dependent.check(wend.ones(1))


def test_utilities():
    for module in (wend, torch):
        u = module.distributions.utils
        vec = module.tensor(np.arange(6.0))
        for diag in (0, -1, -2):
            mat = u.vec_to_tril_matrix(vec, diag)
            assert bool((u.tril_matrix_to_vec(mat, diag) == vec).all())
        wide = u.vec_to_tril_matrix(module.tensor(np.arange(8.0)), 1)
        np.testing.assert_array_equal(wide, [[0, 1, 0], [2, 3, 4], [5, 6, 7]])
        with pytest.raises(ValueError, match="triangular"):
            u.vec_to_tril_matrix(module.tensor(np.arange(5.0)))
        a, b = u.broadcast_all(module.tensor(X), 2)
        assert a.shape == b.shape and a.dtype == b.dtype
        with pytest.raises(ValueError, match="Input arguments"):
            u.broadcast_all("x", 2)

        class Counted:
            """A class with a property that is computed once."""

            calls = 0

            @u.lazy_property
            def value(self):
                """Three."""
                self.calls += 1
                return 3

        counted = Counted()
        assert (counted.value, counted.value, counted.calls) == (3, 3, 1)
        assert isinstance(Counted.value, u.lazy_property) and isinstance(Counted.value, property)
