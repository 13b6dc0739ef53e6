"""vmap of functions that ask for values: they run once per example, as fibers."""

import numpy as np
import pytest

import wend
from wend._engine.base.errors import ArgumentError, GraphError
from wend._engine.core import _hot
from wend.func import grad, hessian, jacfwd, jacrev, jvp, vmap

X = np.arange(-6.0, 6.0).reshape(4, 3)


def given():
    return wend.tensor(X)


def branchy(a):
    """The path depends on the value, the number of turns too."""
    if a.sum() < 0:
        return a * 2
    while float(a.sum()) < 20:
        a = a * 2 + 1
    return a


def loop(fn, *columns):
    return np.stack([fn(*row).detach().numpy() for row in zip(*columns)])


READS = {
    "item": lambda a: a * a.sum().item(),
    "bool": lambda a: a * (1 if a.sum() > 0 else 2),
    "float": lambda a: a * float(a[0]),
    "numpy": lambda a: a * wend.tensor(a.numpy()[::-1].copy()),
    "tolist": lambda a: a * a.tolist()[0],
    "a mask": lambda a: a[a > 0].sum(),
    "nonzero": lambda a: a.nonzero().sum(),
    "an own leaf": lambda a: a.clone().requires_grad_() * 2,
    "a backward": lambda a: gradient(a),
}


def gradient(a):
    x = a.clone().requires_grad_()
    (x * x).sum().backward()
    return x.grad


@pytest.mark.parametrize("name", READS)
def test_reading(name):
    fn = READS[name]
    np.testing.assert_allclose(vmap(fn)(given()).detach().numpy(), loop(fn, given()))
    assert wend.ones(2).sum().item() == 2  # nothing is left behind


@pytest.mark.smoke
def test_branches_and_loops():
    np.testing.assert_allclose(vmap(branchy)(given()).numpy(), loop(branchy, given()))


def test_dims_and_chunks():
    x = wend.tensor(X)
    got = vmap(branchy, in_dims=1, out_dims=-1, chunk_size=2)(x)
    np.testing.assert_allclose(got.numpy(), loop(branchy, x.T).T)
    w = wend.ones(3, dtype=wend.float64)
    got = vmap(lambda a, b: branchy(a) + b, (0, None))(x, w)
    np.testing.assert_allclose(got.numpy(), loop(branchy, x) + 1)


def test_structures():
    got = vmap(lambda d: {"sum": branchy(d["a"]).sum(), "both": (d["a"], d["a"])})({"a": given()})
    assert list(got) == ["sum", "both"]
    assert got["sum"].shape == (4,) and got["both"][1].shape == (4, 3)


def test_nested():
    def pair(a, b):
        return a * b if (a * b).sum() > 0 else a - b

    got = vmap(lambda a: vmap(lambda b: pair(a, b))(given()))(given())
    want = np.stack([loop(lambda b, a=a: pair(a, b), given()) for a in given()])
    np.testing.assert_allclose(got.numpy(), want)


def test_only_the_outer_value_is_read():
    def outer(a):
        return vmap(lambda b: b * a.sum().item())(given())

    np.testing.assert_allclose(vmap(outer)(given()).numpy(), loop(outer, given()))


DERIVATIVES = {
    "grad": grad(lambda a: branchy(a).pow(2).sum()),
    "jacrev": jacrev(branchy),
    "jacfwd": jacfwd(branchy),
    "hessian": hessian(lambda a: branchy(a).pow(3).sum()),
    "jvp": lambda a: jvp(branchy, (a,), (a,))[1],
    "grad of grad": grad(lambda a: grad(lambda b: branchy(b).pow(3).sum())(a).sum()),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    fn = DERIVATIVES[name]
    np.testing.assert_allclose(vmap(fn)(given()).numpy(), loop(fn, given()))


def test_gradient_of_a_mapped_function():
    w = wend.ones(3, dtype=wend.float64, requires_grad=True)
    vmap(lambda a: branchy(a * w).sum())(given()).sum().backward()
    got = w.grad.numpy().copy()
    w.grad = None
    sum(branchy(a * w).sum() for a in given()).backward()
    np.testing.assert_allclose(got, w.grad.numpy())


def test_examples_share_flushes():
    mapped = vmap(branchy)
    with wend.autobatch(True):
        mapped(given())
        before = _hot.count("flushes")
        mapped(given())
    assert _hot.count("flushes") - before <= 6


def test_a_function_known_to_read_begins_once():
    calls = []

    def fn(a):
        calls.append(1)
        return branchy(a)

    mapped = vmap(fn)
    mapped(given())
    assert len(calls) == 1 + 4
    mapped(given())
    assert len(calls) == 1 + 4 + 4


def test_random_numbers():
    def fn(a):
        drawn = wend.rand(2)
        return drawn if a.sum() > -100 else a

    with pytest.raises(GraphError, match="randomness='different'"):
        vmap(fn)(given())
    wend.manual_seed(0)
    mapped = vmap(fn, randomness="different")
    rows = mapped(given()).tolist()
    assert len({tuple(row) for row in rows}) == 4
    wend.manual_seed(0)
    assert mapped(given()).tolist() == rows  # what was begun in vain drew nothing
    same = vmap(fn, randomness="same")(given()).tolist()
    assert all(row == same[0] for row in same)


@pytest.mark.parametrize(
    ("fn", "out_dims", "message"),
    [
        (lambda a: float(a.sum()), 0, "must return tensors only"),
        (lambda a: a if a.sum() > 0 else (a, a), 0, "returned .* for one example"),
        (lambda a: a * a.sum().item(), None, "differs from example to example"),
        (lambda a: (branchy(a), a), (0, 0, 0), "do not fit"),
    ],
)
def test_bad_results(fn, out_dims, message):
    with pytest.raises(ArgumentError, match=message):
        vmap(fn, out_dims=out_dims)(given())


def test_results_that_are_the_same_for_all():
    w = wend.ones(2)
    got = vmap(lambda a: (branchy(a), w, w * (3 if a.sum() > -99 else 4)), out_dims=(0, None, None))
    _, same, equal = got(given())
    assert same is w and equal.tolist() == [3.0, 3.0]


def test_without_examples():
    with pytest.raises(ArgumentError, match="without examples"):
        vmap(branchy)(wend.ones(0, 3))


def test_errors_name_the_example():
    def fn(a):
        if a.sum() > 10:
            raise ValueError("too much")
        return a

    with pytest.raises(ValueError, match="too much") as found:
        vmap(fn)(given())
    assert found.value.example_index == 3
