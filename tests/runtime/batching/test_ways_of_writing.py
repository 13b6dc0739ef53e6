"""One model written in several ways makes the same groups, and the same numbers as PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.runtime.batching import forward as execution
from wend._engine.runtime.batching import signatures

WIDTH, CALLS = 4, 12


@pytest.fixture
def n_groups(monkeypatch):
    """The number of groups of each flush that ran by groups."""
    torch.synchronize()
    found: list[int] = []
    real = execution.Forward.forward

    def watched(flush):
        real(flush)
        found.append(len(flush.groups))

    monkeypatch.setattr(execution.Forward, "forward", watched)
    signatures.BOOK.clear()
    monkeypatch.setattr(signatures, "STRIKES", 1000)
    return found


def numbers(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape) * 0.5


def trained(module, function, arrays):
    """(loss, gradients) of a sum over calls."""
    parameters = [module.tensor(a, requires_grad=True) for a in arrays]
    inputs = [module.tensor(numbers(1, WIDTH) + k) for k in range(CALLS)]
    loss = module.cat([function(module, x, *parameters) for x in inputs]).square().sum()
    loss.backward()
    return [loss.item(), *[p.grad.numpy() for p in parameters]]


def check(n_groups, functions, arrays, most):
    """Each function gives PyTorch's numbers, in at most so many groups more than the first."""
    reference = pytest.importorskip("torch")
    taken = []
    for function in functions:
        expected = trained(reference, function, arrays)
        with own_trie(sealed=True):
            found = trained(torch, function, arrays)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        taken.append(n_groups[-1])
    assert max(taken) <= taken[0] + most, taken


def test_a_parameter_may_be_transposed_in_each_call(n_groups):
    """The transpose is a step of its own each time: one more group for each weight."""

    def layers(module, x, w, v):
        h = module.tanh(module.nn.functional.linear(x, w))
        return module.tanh(module.nn.functional.linear(h, v))

    def by_hand(module, x, w, v):
        return module.tanh(module.tanh(x @ w.t()) @ v.t())

    def transposed_once(module, x, w, v):
        turned = v.t()
        return module.tanh(module.tanh(x @ w.t()) @ turned) + turned.sum() * 0

    check(n_groups, [layers, by_hand], [numbers(WIDTH, WIDTH), numbers(WIDTH + 1, WIDTH)], 2)
    check(n_groups, [transposed_once], [numbers(WIDTH, WIDTH), numbers(WIDTH + 1, WIDTH)], 0)


def test_a_view_of_a_parameter_is_read_by_several_ops(n_groups):
    """Products, and an op that reads a part of the view."""

    def shared(module, x, w):
        turned = w.t()
        h = module.tanh(x * 2)
        return (h @ turned) + module.sigmoid(h @ turned) + turned[:1] * h.sum()

    check(n_groups, [shared], [numbers(WIDTH, WIDTH)], 0)


def test_elements_of_a_vector_are_addresses(n_groups):
    """The word numbers of a sentence, one by one: the lookups of all words are a group."""
    reference = pytest.importorskip("torch")
    words = np.arange(CALLS) * 3 % 7

    def trained_on(module, split):
        weight = module.tensor(numbers(7, WIDTH), requires_grad=True)
        found = [
            module.tanh(module.nn.functional.embedding(k, weight)).reshape(1, WIDTH)
            for k in split(module.from_numpy(words))
        ]
        loss = module.cat(found).square().sum()
        loss.backward()
        return [loss.item(), weight.grad.numpy()]

    for split in (list, lambda t: t.split(1), lambda t: t.unbind(0)):
        with own_trie(sealed=True):
            found = trained_on(torch, split)
        for a, b in zip(found, trained_on(reference, split), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)
        assert n_groups[-1] <= 6


def test_gradients_of_elements_of_a_vector(n_groups):
    reference = pytest.importorskip("torch")

    def trained_on(module):
        weight = module.tensor(numbers(CALLS), requires_grad=True)
        scaled = module.tanh(weight * 2)
        loss = sum(
            module.exp(scaled[k]) * weight[k] + scaled[k : k + 2].square().sum()
            for k in range(CALLS)
        )
        loss.backward()
        return [loss.item(), weight.grad.numpy()]

    with own_trie(sealed=True):
        found = trained_on(torch)
    for a, b in zip(found, trained_on(reference), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
