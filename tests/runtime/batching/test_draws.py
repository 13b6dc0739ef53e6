"""Draws and single members in groups: the numbers of single ops, and no new structure per draw."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.llvm_ir import jit
from wend._engine.runtime.batching import forward, signatures
from wend.nn import functional as F

WIDTH = 4


@pytest.fixture(autouse=True)
def _in_the_background():
    with config.override(compile=True, wait=False):
        yield


def weights():
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=(WIDTH, WIDTH)), requires_grad=True) for _ in range(2)]


def drawn(w, v, depth):
    """A tree whose leaves are draws of several kinds; numbers of nodes are dropped."""
    if depth == 0:
        return torch.randn(1, WIDTH, dtype=torch.float64) + torch.rand(1, WIDTH).double()
    left, right = drawn(w, v, depth - 1), drawn(w, v, max(0, depth - 2))
    return F.dropout(torch.tanh(left @ w + right @ v), 0.25 + 0.125 * depth)


def visit(depth):
    """The loss and the gradients of a tree."""
    w, v = weights()
    loss = drawn(w, v, depth).square().sum() + torch.randint(0, 9, (3,)).sum()
    loss.backward()
    return [loss.item(), w.grad.numpy(), v.grad.numpy()]


def test_draws_in_groups_are_those_of_single_ops():
    with own_trie(sealed=True):
        for k in range(5):
            for depth in (3, 4, 5):
                torch.manual_seed(k)
                found = visit(depth)
                torch.manual_seed(k)
                with torch.eager():
                    expected = visit(depth)
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
            jit.drain()


def test_draws_are_no_new_structure():
    with own_trie(sealed=True):
        for depth in (3, 4, 5):
            visit(depth)
        before = signatures.BOOK.n
        for depth in (5, 4, 3):
            visit(depth)
        assert signatures.BOOK.n == before


def test_single_members_run_on_addresses(monkeypatch):
    """Each op of the chain is a structure of its own, with a single member: no array is made."""
    left = []
    real = forward.Forward.run
    monkeypatch.setattr(
        forward.Forward, "run", lambda self, group: (left.append(group), real(self, group))[1]
    )

    def chain(n, twice):
        w, v = weights()
        x = torch.ones(n, WIDTH, dtype=torch.float64)
        h = torch.tanh(x @ w).softmax(1) @ v
        y = torch.sigmoid(h - h.mean()).sum() + (w * v).cumsum(0).max(0).values.sum()
        if twice:
            y.item()
            y.backward(retain_graph=True)
        y.backward()
        return [y.item(), w.grad.numpy(), v.grad.numpy()]

    with own_trie(sealed=True):
        for n in (1, 3, 3, 1, 5, 3, 1):
            for twice in (False, True):
                left.clear()
                found = chain(n, twice)
                with torch.autobatch(False):
                    expected = chain(n, twice)
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
                jit.drain()
    assert [group.node.prim.name for group in left] == []


def test_members_that_read_the_same_have_results_in_common():
    with own_trie(sealed=True):
        for _ in range(5):
            starts = [torch.full((2, WIDTH), 0.5, dtype=torch.float64) for _ in range(6)]
            w, v = weights()
            total = sum(torch.tanh(x @ w + k) @ v for k, x in enumerate(starts)).sum()
            total.backward()
            expected = sum(np.tanh(0.5 * w.detach().numpy().sum(0) + k) for k in range(6))
            np.testing.assert_allclose(
                v.grad.numpy(), np.repeat(2 * expected[:, None], WIDTH, 1), rtol=1e-9
            )
            jit.drain()
