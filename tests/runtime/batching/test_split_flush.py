"""Long flushes that begin with, or contain, a few ops which regions cannot run."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.base import config
from wend._engine.runtime import flush
from wend._engine.runtime.batching import group_choice, split_flush


@pytest.fixture
def outcomes(monkeypatch):
    """Whether flushes that regions do not run as a whole were run in two parts."""
    found = []
    real = flush.run_in_parts

    def watched(batch, live):
        reason = real(batch, live)
        found.append(not reason)
        return reason

    monkeypatch.setattr(flush, "run_in_parts", watched)
    return found


def fresh_model(words, change):
    """Loss and gradients of a model made in the same flush as its first pass; change: see below."""
    torch.manual_seed(3)
    table, cell, late = nn.Embedding(11, 6), nn.Linear(12, 6), nn.Linear(6, 2)
    data = torch.from_numpy(np.arange(12, dtype=np.float32).reshape(2, 6) / 10)
    sums = []
    for sentence in words:
        state = data[:1]
        for word in sentence:
            state = torch.tanh(cell(torch.cat([state, table(torch.tensor([word]))], 1)))
        sums.append(late(state))
    change(data, sums)
    loss = torch.cat(sums).pow(2).sum() + data.sum()
    loss.backward()
    parameters = [*table.parameters(), *cell.parameters(), *late.parameters()]
    return [x.detach().numpy().copy() for x in (loss, data, *(p.grad for p in parameters))]


def unchanged(data, sums):
    pass


def overwritten(data, sums):
    data.mul_(3)  # what has read it must not see that


def overwritten_first(data, sums):
    """An update in place that the first part makes; nothing of the rest reads the old value."""
    sums[0].new_zeros(1).add_(1)


CHANGES = [unchanged, overwritten]


def lengths_of(seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 11, int(n)).tolist() for n in rng.integers(5, 20, 12)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("sealed", [False, True], ids=["on the trie", "off the trie"])
def test_what_is_made_in_its_first_flush_is_right(change, sealed, outcomes):
    words = lengths_of(1)
    with own_trie(sealed=sealed):
        found = fresh_model(words, change)
    if change is unchanged:
        assert True in outcomes, "it must have been run in two parts"
    with own_trie(sealed=sealed), torch.autobatch(False):
        expected = fresh_model(words, change)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_second_pass_through_parts_finds_the_graph_freed(outcomes):
    with own_trie(sealed=True):
        cell = nn.Linear(4, 4)
        state = torch.ones(1, 4)
        for _ in range(group_choice.LONG):
            state = torch.tanh(cell(state))
        loss = state.sum()
        loss.backward()
        assert True in outcomes
        with pytest.raises(RuntimeError):
            loss.backward()


def test_users_functions_are_not_moved(monkeypatch):
    """They may do things: these happen in the order in which they were written."""

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    seen = []
    real = split_flush.first_part

    def watched(batch, live=None):
        seen.append(real(batch, live))
        return seen[-1]

    monkeypatch.setattr(split_flush, "first_part", watched)
    with own_trie(sealed=True):
        x = torch.ones(3, requires_grad=True)
        y = Same.apply(x * 2)
        for _ in range(group_choice.LONG):
            y = torch.tanh(y)
        y.sum().backward()
        assert x.grad is not None
    assert not any(seen)


def test_what_regions_could_not_run_is_told_by_the_flush_that_it_concerns(
    outcomes, monkeypatch, planted_failure
):
    """The second part runs op by op where regions fail; the next flush does not speak of it."""

    def broken(batch, live, whole_state=None):
        batch.fault = ArithmeticError("broken")
        return "broken"

    monkeypatch.setattr(split_flush, "run_regions", broken)
    with config.override(wait=False), own_trie(sealed=True):
        with pytest.warns(RuntimeWarning, match="broken.*a defect"):
            fresh_model(lengths_of(1), unchanged)
        assert True in outcomes, "it must have been run in two parts"
        assert planted_failure.count() == 1


@pytest.mark.parametrize("place", ["the split", "the first part", "the rest"])
@pytest.mark.parametrize("behind", [False, True])
def test_a_failure_in_a_part_changes_no_result(place, behind, planted_failure, monkeypatch):
    """The first part may have overwritten its inputs when something fails."""
    words = lengths_of(1)
    with own_trie(), torch.autobatch(False):
        expected = fresh_model(words, overwritten_first)
    owner, name = {
        "the split": (flush, "run_in_parts"),
        "the first part": (split_flush, "run_grouped"),
        "the rest": (split_flush, "run_regions"),
    }[place]
    real, calls = getattr(owner, name), []

    def planted(batch, live, *more):
        calls.append(1)
        if not behind:
            raise ArithmeticError("planted")
        real(batch, live, *more)
        raise ArithmeticError("planted behind")

    monkeypatch.setattr(owner, name, planted)
    with own_trie(), pytest.warns(RuntimeWarning, match="planted"):
        found = fresh_model(words, overwritten_first)
    assert calls and planted_failure.count() > 0
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_updates_by_hand_stay_a_part_of_their_own_when_the_data_comes_back(outcomes):
    """An update in place waits for the next step's flush, and that must not end the groups."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=(6, 6))
    inputs = torch.tensor(rng.normal(size=(group_choice.LONG, 1, 6)))
    found = {}
    for batched in (True, False):
        weight = torch.tensor(start, requires_grad=True)
        with own_trie(), config.override(autobatch=batched):
            for _ in range(6):
                outcomes.clear()
                sum([torch.tanh(x @ weight).sum() for x in inputs]).backward()
                with torch.no_grad():
                    weight -= 1e-3 * weight.grad
                    weight.grad = None
            assert (True in outcomes) == batched, "the last step must have been run in two parts"
        found[batched] = weight.detach().numpy()
    np.testing.assert_allclose(found[True], found[False], rtol=1e-10)


# -- a last part: writes in place that nothing reads -----------------------------------------------


def remembered(words, change):
    """Loss, gradient, memory of states and numbers of writes; change: called before each write."""
    torch.manual_seed(5)
    cell, data = nn.Linear(6, 6), torch.from_numpy(np.arange(12, dtype=np.float32).reshape(2, 6))
    memory, writes = torch.zeros(11, 6), torch.zeros(11)
    torch.synchronize()  # what the model begins with is no part of the flush
    sums = []
    for sentence in words:
        state = data[:1] / 10
        for word in sentence:
            state = torch.tanh(cell(state * 0.9 + 0.1))
            change(memory, sums, word)
            memory.index_copy_(0, torch.tensor([word]), state.detach() * 2)
            writes.index_add_(0, torch.tensor([word]), torch.ones(1))
        sums.append(state)
    loss = torch.cat(sums).pow(2).sum()
    loss.backward()
    found = loss, memory, writes, cell.weight.grad, cell.bias.grad
    return [x.detach().numpy().copy() for x in found]


def unread(memory, sums, word):
    pass


def read(memory, sums, word):
    """The rest reads what has been written: then there is no last part."""
    sums.append(memory[word : word + 1] * 1)


@pytest.mark.parametrize("sealed", [False, True], ids=["on the trie", "off the trie"])
@pytest.mark.parametrize("change", [unread, read], ids=lambda f: f.__name__)
def test_writes_that_nothing_reads_are_a_last_part(change, sealed, outcomes, monkeypatch):
    chosen = []
    real = split_flush.last_part

    def watched(states):
        chosen.append(real(states))
        return chosen[-1]

    monkeypatch.setattr(split_flush, "last_part", watched)
    words = lengths_of(2)
    with own_trie(sealed=sealed):
        found = remembered(words, change)
    assert any(chosen) == (True in outcomes) == (change is unread)
    with own_trie(sealed=sealed), torch.autobatch(False):
        expected = remembered(words, change)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("where", ["rest", "last"])
def test_an_error_beside_a_last_part_leaves_the_writes_before_it(where):
    def written():
        memory, state, table = torch.zeros(4, 2), torch.ones(1, 2), torch.ones(3, 2)
        for k in range(group_choice.LONG):
            state = torch.tanh(state + 0.5)
            if k % 20 == 0:
                memory.index_copy_(0, torch.tensor([k // 20 % 4]), state * 0 + k)
            if k == 90:
                bad = torch.tensor([3]) + 4  # its value is not known yet
                if where == "rest":
                    state = state + nn.functional.embedding(bad, table)
                else:
                    memory.index_copy_(0, bad, state)
        with pytest.raises(IndexError):
            torch.synchronize()
        return memory.numpy().copy()

    with own_trie(sealed=True):
        found = written()
    with own_trie(sealed=True), torch.autobatch(False):
        np.testing.assert_array_equal(found, written())


@pytest.mark.parametrize("place", ["run_rest", "run_writes"])
@pytest.mark.parametrize("behind", [False, True])
def test_a_failure_beside_a_last_part_changes_no_result(
    place, behind, planted_failure, monkeypatch
):
    words = lengths_of(2)
    with own_trie(sealed=True), torch.autobatch(False):
        expected = remembered(words, unread)
    real, calls = getattr(split_flush, place), []

    def planted(*arguments):
        calls.append(1)
        if behind:
            real(*arguments)
        raise ArithmeticError("planted")

    monkeypatch.setattr(split_flush, place, planted)
    with own_trie(sealed=True), pytest.warns(RuntimeWarning, match="planted"):
        found = remembered(words, unread)
    assert calls and planted_failure.count() > 0
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
