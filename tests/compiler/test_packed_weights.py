"""Weights that stay packed between flushes: when they are packed, shared, and let go."""

import gc

import numpy as np
import pytest

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.runtime.batching import forward, slabs
from wend._engine.runtime.compiled import packed_weights


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Plans are compiled before their first run, and small operands packed like large ones."""
    monkeypatch.setattr(packed_weights, "SMALL", 0)
    with config.override(compile=True, wait=True), own_trie():
        yield


def normal(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def since(start):
    """How many operands have been packed, and how many more bytes are held, since `start`."""
    gc.collect()
    return packed_weights.COUNTS["packed"] - start["packed"], packed_weights.COUNTS[
        "bytes"
    ] - start["bytes"]


def linear(x, w):
    return F.linear(torch.from_numpy(x), w).numpy()


def test_a_weight_is_packed_when_it_is_used_again_and_kept():
    a, b = normal(5, 40), normal(70, 40, seed=1)
    w = torch.tensor(b)
    start = dict(packed_weights.COUNTS)
    made = [linear(a, w) for _ in range(2)]
    assert since(start)[0] == 1
    made += [linear(a, w) for _ in range(3)]
    assert since(start)[0] == 1
    for y in made:
        np.testing.assert_allclose(y, a @ b.T, rtol=1e-4, atol=1e-5)
    assert since(start)[1] >= b.nbytes
    del w
    assert since(start)[1] == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_numbers_of_rows_share_the_panels(dtype):
    b = normal(33, 20, seed=1, dtype=dtype)
    w = torch.tensor(b)
    start = dict(packed_weights.COUNTS)
    for rows in (1, 2, 3, 12, 13, 200, 1, 0):
        a = normal(rows, 20, seed=rows, dtype=dtype)
        np.testing.assert_allclose(linear(a, w), a @ b.T, rtol=1e-4, atol=1e-5)
    assert since(start)[0] == 1


def test_each_layout_has_panels_of_its_own():
    a, b = normal(6, 24), normal(24, 24, seed=1)
    x, w = torch.from_numpy(a), torch.tensor(b)
    start = dict(packed_weights.COUNTS)
    for _ in range(3):
        np.testing.assert_allclose((x @ w).numpy(), a @ b, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose((x @ w.T).numpy(), a @ b.T, rtol=1e-4, atol=1e-5)
    assert since(start)[0] == 2


@pytest.mark.parametrize("depth", [1, 3])
def test_a_weight_that_several_groups_read_is_packed_by_the_first(monkeypatch, depth):
    seen = []

    def family(run, group, entry, rows, most):
        made = slabs.Family(run, group, entry, rows, most)
        seen.append((rows, most, [v.packed for v in made.packable if v is not None]))
        return made

    monkeypatch.setattr(forward, "Family", family)
    a, b = normal(4, 24), normal(24, 24, seed=1) / 5
    expected = a
    for _ in range(depth):
        expected = np.tanh(expected @ b.T)
    with own_trie(sealed=True):
        for _ in range(5):
            seen.clear()
            start = dict(packed_weights.COUNTS)
            w = torch.tensor(b)
            rows = [torch.from_numpy(a[k : k + 1]) for k in range(4)]
            for _ in range(depth):
                rows = [F.linear(row, w).tanh() for row in rows]
            found = torch.cat(rows).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    # Rows from outside are a structure of their own.
    assert seen == [(4, 4, [None]), (8, 4, [1])][: 1 + (depth > 1)]
    assert since(start)[0] == (depth > 1)


def test_nothing_is_packed_while_training():
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 10))
    step = torch.optim.SGD(model.parameters(), lr=0.1)
    start = dict(packed_weights.COUNTS)
    for seed in range(4):
        x = torch.from_numpy(normal(7, 20, seed=seed)).clone()
        step.zero_grad()
        model(x).square().mean().backward()
        step.step()
    assert since(start) == (0, 0)


def test_an_update_between_uses_is_seen():
    a, b = normal(4, 16), normal(48, 16, seed=1)
    w = torch.tensor(b)
    for _ in range(3):
        for _ in range(3):
            np.testing.assert_allclose(linear(a, w), a @ b.T, rtol=1e-4, atol=1e-5)
        w.mul_(2)
        b = b * 2
        np.testing.assert_allclose(linear(a, w), a @ b.T, rtol=1e-4, atol=1e-5)
        w[3] = 1.0
        b[3] = 1.0


def test_memory_known_outside_is_read_as_it_is():
    a, b = normal(4, 16), normal(48, 16, seed=1)
    w = torch.from_numpy(b)  # `b` is that memory
    for k in range(6):
        np.testing.assert_allclose(linear(a, w), a @ b.T, rtol=1e-4, atol=1e-5)
        b[k] = k
    own = torch.tensor(b)
    for _ in range(3):
        linear(a, own)
    seen = own.numpy()
    for k in range(4):
        seen[k] = 10 + k
        np.testing.assert_allclose(linear(a, own), a @ seen.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (1, 1), (0, 0)])
def test_empty_and_single_weights(shape):
    w = torch.from_numpy(normal(*shape)).clone()
    a = normal(3, shape[1], seed=1)
    for _ in range(3):
        np.testing.assert_allclose(linear(a, w), a @ w.numpy().T, rtol=1e-5)


def test_a_batch_of_matrices_is_not_packed():
    a, b = normal(3, 4, 5), normal(3, 5, 6, seed=1)
    x, w = torch.from_numpy(a), torch.tensor(b)
    start = dict(packed_weights.COUNTS)
    for _ in range(3):
        np.testing.assert_allclose((x @ w).numpy(), a @ b, rtol=1e-4, atol=1e-5)
    assert since(start)[0] == 0
