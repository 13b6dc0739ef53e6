"""Writes to diagonals and to indexed places are loops, and no host steps."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.lower.index import MOST_PUTS
from wend._engine.runtime.flush_log import last_plans


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run, and checked; on a trie of their own."""
    with own_trie(), config.override(compile=True, wait=True, verify=True):
        yield


def on_the_host():
    """Return the reasons of the host steps of the last flush."""
    return set(last_plans()[-1].compiled.code.function.reasons.values())


SHAPES = [(3, 3), (3, 4), (5, 2), (1, 1), (0, 3), (2, 3, 4), (2, 37, 33)]


@pytest.mark.parametrize("dims", [(0, 1), (1, 0), (-1, -2)])
@pytest.mark.parametrize("offset", [0, 1, -2, 9])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_diagonals_and_their_gradients(shape, offset, dims):
    rng = np.random.default_rng(0)
    a = rng.normal(size=shape)
    v = rng.normal(size=np.diagonal(a, offset, *dims).shape)
    given, x = torch.tensor(v), torch.tensor(a, requires_grad=True)
    y = x.diagonal(offset, *dims) * given
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), scattered(np.zeros(shape), v, offset, dims))
    assert on_the_host() == set()
    np.testing.assert_array_equal(y.detach().numpy(), np.diagonal(a, offset, *dims) * v)
    whole = torch.diagonal_scatter(torch.tensor(a), given, offset, *dims) * 2
    np.testing.assert_array_equal(whole.numpy(), 2 * scattered(a.copy(), v, offset, dims))
    assert on_the_host() == set()


def scattered(a, v, offset, dims):
    """Write v to a diagonal of an array; return the array."""
    moved = np.moveaxis(a, dims, (-2, -1))
    for k in range(v.shape[-1]):
        moved[..., k - min(offset, 0), k + max(offset, 0)] = v[..., k]
    return a


def test_sizes_share_the_plan_of_a_diagonal():
    for n, m, offset in ((4, 4, 0), (6, 3, 0), (3, 7, 0), (1, 5, 0), (0, 4, 0)):
        a = np.arange(float(n * m)).reshape(n, m)
        y = torch.trace(torch.tensor(a) + 1) * 2
        assert y.item() == 2 * (np.trace(a) + min(n, m)), offset
    assert on_the_host() == set()


DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [1, 2.5, -3, True])
def test_scatter_of_a_single_element_a_row(dtype, value):
    pt = pytest.importorskip("torch")
    a = np.random.default_rng(1).normal(size=(4, 6))
    found = []
    for T in (torch, pt):
        x = T.tensor(a)
        place = x.argmax(1, keepdim=True)
        base = (x * 30).abs().to(getattr(T, dtype))
        found.append((base.scatter(1, place, value), base.scatter(1, place, base[:, :1])))
    for ours, theirs in zip(*found, strict=True):
        ours = ours.double().numpy()
        assert on_the_host() == set()
        np.testing.assert_array_equal(ours, theirs.double().numpy())


def test_one_hot():
    classes = np.array([[0, 2, 3], [1, 1, 0]])
    y = torch.nn.functional.one_hot(torch.tensor(classes), 4)
    np.testing.assert_array_equal(y.numpy(), np.eye(4, dtype=np.int64)[classes])
    assert on_the_host() == set()
    with pytest.raises(IndexError, match=r"index 4 is out of bounds"):
        torch.nn.functional.one_hot(torch.tensor([1, 4]), 4).numpy()


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax"])
def test_sums_of_scatter_reduce(reduce, include):
    """Other reductions, and sums without the operand, are steps of the reference."""
    pt = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    a, b, index = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.integers(0, 4, (5, 3))
    found = []
    for T in (torch, pt):
        x, y = (T.tensor(v, requires_grad=True) for v in (a, b))
        z = (x * 2).scatter_reduce(0, T.tensor(index), y * 3, reduce, include_self=include)
        z.sum().backward()
        found.append([v.numpy() for v in (z.detach(), x.grad, y.grad)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    with own_trie():
        x, y = torch.tensor(a), torch.tensor(b)
        (x * 2).scatter_reduce(0, torch.tensor(index), y, reduce, include_self=include).numpy()
        assert bool(on_the_host()) == (reduce != "sum" or not include)


def test_many_writes_are_left_to_the_reference():
    """A kernel goes through all of the tensor, and the reference writes one element a row."""

    def filled(n):
        place = torch.tensor(np.arange(4)).unsqueeze(1)
        y = torch.tensor(np.zeros((4, 40))) + place
        for k in range(n):
            y = y.scatter(1, place + k, 1.0 + k)
        return y

    for n in (3, 2 * MOST_PUTS):
        with own_trie():
            found = filled(n).numpy()
            hosts = len(on_the_host())
        assert (hosts > 0) == (n > MOST_PUTS)
        for i in range(4):
            np.testing.assert_array_equal(found[i, i : i + n], 1.0 + np.arange(n))
