"""In which order groups of regions run off the trie: few groups, and the same results."""

from __future__ import annotations

import random

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.runtime.batching import forward as execution
from wend._engine.runtime.batching import signatures

WIDTH = 5


@pytest.fixture
def forwards(monkeypatch):
    """The flushes that ran by groups, of a process that knows no structure yet."""
    torch.synchronize()
    ran: list[execution.Forward] = []
    real = execution.Forward.forward

    def watched(flush):
        real(flush)
        ran.append(flush)

    monkeypatch.setattr(execution.Forward, "forward", watched)
    signatures.BOOK.clear()
    monkeypatch.setattr(signatures, "STRIKES", 1000)
    return ran


def strings(n: int) -> list[str]:
    """n strings that fall into step if each "b" waits until there is one in all of them.

    The mean "b" is less deep than the mean "a": in the order of mean depth no "b" waits.
    """
    return ["a" * (1 + k) + "baaaa" * 8 + "a" * 40 for k in range(n)]


def gradients(found: list[str], weights: dict[str, torch.Tensor]) -> list[np.ndarray]:
    """The loss of strings of cells, and its gradients."""
    total = []
    for k, letters in enumerate(found):
        x = torch.full((1, WIDTH), 0.1 * (k + 1), dtype=torch.float64)
        for letter in letters:
            x = x @ weights[letter]
            x = x.tanh() if letter == "a" else x.sigmoid() - 0.5
        total.append(x)
    loss = torch.cat(total).square().sum()
    for weight in weights.values():
        weight.grad = None
    loss.backward()
    return [loss.detach().numpy().copy(), *(w.grad.numpy().copy() for w in weights.values())]


def cells() -> dict[str, torch.Tensor]:
    draw = np.random.default_rng(2)
    return {
        letter: torch.tensor(draw.normal(size=(WIDTH, WIDTH)) * 0.6, requires_grad=True)
        for letter in "ab"
    }


def test_an_order_is_learned_that_takes_fewer_groups(forwards):
    weights = cells()
    with own_trie(sealed=True):
        for n in (5, 8, 7, 6):
            found = gradients(strings(n), weights)
    taken = [group.count for group in forwards[-2].groups]
    assert taken.count(6) == 1 + 8 + 8 * 4 + 40
    with own_trie(sealed=True), torch.autobatch(False):
        expected = gradients(strings(6), weights)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_nothing_is_learned_where_no_order_takes_fewer_groups(forwards):
    weights = cells()
    with own_trie(sealed=True):
        for seed in range(20):
            rng = random.Random(seed)
            gradients(["ab" * rng.randint(1, 9) for _ in range(5)], weights)
    assert forwards
    ranks = {node.rank for flush in forwards for node in flush.sorter.nodes}
    assert ranks == {-1}
