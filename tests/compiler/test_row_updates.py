"""Rows of a leaf change in place: index_add, index_copy and index_put by a kernel of their own."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.core._select import is_compiled
from wend._engine.runtime.native.launcher import launcher

ROWS, WIDTH, PICKED = 50, 19, 12


@pytest.fixture(autouse=True)
def _machine_code():
    with own_trie(), config.override(compile=True, wait=True, deterministic=False, verify=False):
        yield


def index_of(rng, kind, dtype=np.int64):
    """Rows that may come twice, and for index_put from the end; to be copied, each once."""
    if kind in ("index_copy", "put"):
        index = rng.permutation(ROWS)[:PICKED]
    else:
        index = rng.integers(0, ROWS, PICKED)
    if kind in ("put", "put and add"):
        index = np.where(rng.random(PICKED) < 0.5, index - ROWS, index)
    return index.astype(dtype)


def change(kind, x, index, source):
    if kind == "index_add":
        x.index_add_(0, index, source)
    elif kind == "index_copy":
        x.index_copy_(0, index, source)
    else:
        x.index_put_((index,), source, accumulate=kind == "put and add")


def by_hand(kind, x, index, source):
    y = x.copy()
    if kind in ("index_copy", "put"):
        y[index] = source
    else:
        np.add.at(y, index, source)
    return y


KINDS = ["index_add", "index_copy", "put", "put and add"]


def place(x):
    return _hot.value_of(x).buffer.__array_interface__["data"][0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(ROWS, WIDTH), (ROWS,), (ROWS, 2, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_rows_change_in_the_memory_of_the_leaf(kind, shape, dtype):
    rng = np.random.default_rng(1)
    expected = (rng.normal(size=shape) * 9).astype(dtype)
    x = torch.tensor(expected)
    for _ in range(4):
        index = index_of(rng, kind, np.int32 if kind == "index_add" else np.int64)
        source = (rng.normal(size=(PICKED, *shape[1:])) * 9).astype(dtype)
        change(kind, x, torch.tensor(index), torch.tensor(source))
        expected = by_hand(kind, expected, index, source)
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6, atol=1e-5)
        assert torch.debug.explain().flushes[-1].tier.startswith("machine code")
        x = x.clone()  # what NumPy may see is not written over
    torch.synchronize()
    start = place(x)
    change(kind, x, torch.tensor(index), torch.tensor(source))
    torch.synchronize()
    assert place(x) == start or not is_compiled(launcher)  # which counts no references


@pytest.mark.parametrize("kind", KINDS)
def test_others_who_have_the_leaf_keep_its_values(kind):
    rng = np.random.default_rng(2)
    for visit in range(4):
        before = rng.normal(size=(ROWS, WIDTH))
        x = torch.tensor(before)
        kept, parameter = x.clone(), torch.nn.Parameter(torch.tensor(before))
        doubled = parameter * 2  # its gradient does not need the parameter, its value does
        squared = (parameter**2).sum()  # the gradient needs the parameter as it was
        index = index_of(rng, kind)
        source = rng.normal(size=(PICKED, WIDTH))
        change(kind, x, torch.tensor(index), torch.tensor(source))
        with torch.no_grad():
            fresh = parameter.detach().clone()
            change(kind, fresh, torch.tensor(index), torch.tensor(source))
        squared.backward()
        wanted = by_hand(kind, before, index, source)
        np.testing.assert_allclose(x.numpy(), wanted, err_msg=str(visit))
        np.testing.assert_allclose(fresh.numpy(), wanted)
        np.testing.assert_array_equal(kept.numpy(), before)
        np.testing.assert_allclose(doubled.detach().numpy(), 2 * before)
        np.testing.assert_allclose(parameter.grad.numpy(), 2 * before)


def test_a_flush_that_fails_changes_no_row():
    before = np.arange(12.0).reshape(4, 3)
    x, other = torch.tensor(before), torch.tensor(before)
    for bad in (4, -1):
        index = torch.tensor([bad - 1]) + 1  # not known when the line is recorded
        other.index_add_(0, torch.tensor([1]), torch.ones(1, 3, dtype=torch.float64))
        x.index_add_(0, index, torch.ones(1, 3, dtype=torch.float64))
        with pytest.raises(IndexError, match="out of bounds"):
            x.sum().item()
        np.testing.assert_array_equal(x.numpy(), before)
    x.index_add_(0, torch.tensor([3]), torch.ones(1, 3, dtype=torch.float64))
    assert x[3].tolist() == [10.0, 11.0, 12.0]


def test_gradients_flow_to_the_leaf_and_to_the_rows():
    rng = np.random.default_rng(3)
    for _ in range(4):
        x = torch.tensor(rng.normal(size=(5, 3))).requires_grad_()
        rows = torch.tensor(rng.normal(size=(2, 3))).requires_grad_()
        x.index_add(0, torch.tensor([1, 1]), rows).square().sum().backward()
        y = x.detach().numpy().copy()
        y[1] += rows.detach().numpy().sum(0)
        np.testing.assert_allclose(x.grad.numpy(), 2 * y)
        np.testing.assert_allclose(rows.grad.numpy(), 2 * y[[1, 1]])


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)], ids=str)
def test_no_rows_and_empty_rows(shape):
    x = torch.ones(4, shape[1], dtype=torch.float64)
    for _ in range(4):
        index = torch.tensor(list(range(shape[0])), dtype=torch.int64)
        y = x.index_add(0, index, torch.ones(*shape, dtype=torch.float64))
        np.testing.assert_array_equal(y.numpy(), x.numpy())
