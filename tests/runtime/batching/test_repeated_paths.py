"""Long paths that come back: run by groups if their groups are large, planned otherwise."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.runtime.batching import group_choice
from wend._engine.runtime.batching.group_choice import ENOUGH, LONG, SHARE
from wend._engine.runtime.flush_log import last_step

WIDTH = 6


def calls(weight, inputs):
    """One call for each input: the ops of all calls can run together."""
    total = 0.0
    for x in inputs:
        total = total + torch.tanh(x @ weight).sum()
    return total


def chain(weight, inputs):
    """Each op needs the one before: no two ops can run together."""
    x = inputs[0]
    for _ in range(LONG):
        x = torch.tanh(x @ weight)
    return x.sum()


def by_hand(weight, inputs):
    return sum(np.tanh(x @ weight).sum() for x in inputs)


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    return rng.normal(size=(WIDTH, WIDTH)), list(rng.normal(size=(LONG, 1, WIDTH)))


def runs(function, numbers, visits, backward=False):
    """(result, gradient, names of the executors that ran the last visit)"""
    weight = torch.tensor(numbers[0], requires_grad=backward)
    inputs = [torch.tensor(x) for x in numbers[1]]
    with own_trie(), config.override(wait=False):
        for _ in range(visits):
            result = function(weight, inputs)
            if backward:
                weight.grad = None
                result.backward()
            found = result.item()
        ran = [name for flush in last_step() for name, reason in flush.asked if not reason]
    return found, weight.grad, ran


def test_a_data_set_that_comes_back_is_run_by_groups(numbers):
    found, _, ran = runs(calls, numbers, visits=4)
    np.testing.assert_allclose(found, by_hand(*numbers))
    assert ran == ["groups"]


def test_gradients_are_those_of_the_first_visit(numbers):
    first = runs(calls, numbers, visits=1, backward=True)
    last = runs(calls, numbers, visits=5, backward=True)
    np.testing.assert_allclose(first[0], last[0], rtol=1e-12)
    np.testing.assert_allclose(first[1].numpy(), last[1].numpy(), rtol=1e-10, atol=1e-12)


def test_a_chain_that_comes_back_is_planned(numbers, monkeypatch):
    monkeypatch.setattr(group_choice, "FORGOTTEN", 0.0)  # plans of other tests hold up none here
    found, _, ran = runs(chain, numbers, visits=2)
    first, _, _ = runs(chain, numbers, visits=1)
    np.testing.assert_allclose(found, first)
    assert ran == ["NumPy"]


def test_a_path_keeps_how_large_its_groups_were(numbers):
    weight, inputs = torch.tensor(numbers[0]), [torch.tensor(x) for x in numbers[1]]
    with own_trie():
        total = calls(weight, inputs)
        state = _hot.current_trace().state
        total.item()
        assert state.plans[SHARE] > 0.5


def sentences(weight, words):
    """Ragged lists, one recurrent step a word, as a cached loader gives them."""
    ends = []
    for k in range(5):
        h = torch.zeros(1, WIDTH, dtype=torch.float64)
        for word in words[9 * k : 11 * k + 12].unbind(0):
            h = torch.tanh(h @ weight + word[None])
        ends.append(h)
    return torch.cat(ends).sum()


def test_leaves_and_views_do_not_hide_large_groups(numbers):
    weight, words = torch.tensor(numbers[0]), torch.tensor(np.concatenate(numbers[1]))
    with own_trie():
        total = sentences(weight, words)
        trace = _hot.current_trace()
        state, n_ops = trace.state, len(trace.states)
        total.item()
        assert n_ops >= LONG
        assert state.plans[SHARE] > ENOUGH


def chains(k, weight, inputs):
    """One of several chains, each a path of its own."""
    x = inputs[0]
    for _ in range(k):
        x = torch.sigmoid(x)
    return chain(weight, [x])


def test_one_of_the_long_paths_that_come_back_begins_to_be_planned_at_a_time(numbers, monkeypatch):
    """The others go on by groups: a visit that begins takes far longer."""
    monkeypatch.setattr(group_choice, "_in_making", None)
    weight = torch.tensor(numbers[0], requires_grad=True)
    inputs = [torch.tensor(x) for x in numbers[1]]
    results, ran = {}, []
    with own_trie(), config.override(compile=True, wait=False):
        for _ in range(3):
            for k in range(4):
                weight.grad = None
                chains(k, weight, inputs).backward()
                ran += [
                    name for flush in last_step()[:1] for name, reason in flush.asked if not reason
                ]
                found = weight.grad.numpy()
                np.testing.assert_allclose(found, results.setdefault(k, found), rtol=1e-9)
    assert "plan" not in ran[:4]
    assert ran[4:8].count("plan") <= 1
