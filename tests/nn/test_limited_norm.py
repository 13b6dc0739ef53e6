"""Look-ups in tables of limited norm, several a flush: PyTorch's rows, tables and gradients."""

import numpy as np
import pytest

import wend
from tries import own_trie
from wend import nn
from wend._engine.runtime import flush
from wend._engine.runtime.batching import group_choice, signatures

torch = pytest.importorskip("torch")
WORDS, WIDTH = 30, 4


def unchanged(t, weight, k):
    pass


def scaled(t, weight, k):
    """A write between look-ups: rows may be too long again."""
    if k % 3 == 0:
        with t.no_grad():
            weight.mul_(1.5)


def written(t, weight, k):
    """A write through a view."""
    with t.no_grad():
        weight[k % WORDS] += 1.0


def detached(t, weight, k):
    """A write through a tensor that shares the memory."""
    weight.detach()[k % WORDS].mul_(2.0)


CHANGES = [unchanged, scaled, written, detached]


def looked_up(t, change, sparse, norms, order=2.0, count=12):
    """All rows, the gradient and the table, after look-ups one after the other."""
    rng = np.random.default_rng(0)
    weight = t.nn.Parameter(t.tensor(rng.normal(size=(WORDS, WIDTH))))
    rows = []
    for k in range(count):
        words = t.tensor(rng.integers(0, WORDS, (2, 3) if k % 4 == 3 else (2,)))
        change(t, weight, k)
        found = t.nn.functional.embedding(
            words, weight, 3, norms[k % len(norms)], order, sparse=sparse
        )
        rows.append(found.reshape(-1, WIDTH) * (k + 1.0))
    rows = t.tanh(t.cat(rows))
    rows.sum().backward()
    grad = weight.grad.to_dense() if sparse else weight.grad
    return [x.detach().numpy().copy() for x in (rows, grad, weight)]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("norms", "order"), [((1.0,), 2.0), ((1.0, 0.8), 2.0), ((0.9,), 1.0), ((0.5,), np.inf)]
)
def test_rows_gradients_and_table(change, norms, order, sparse):
    found = looked_up(wend, change, sparse, norms, order)
    wanted = looked_up(torch, change, sparse, norms, order)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_look_ups_in_graphs_of_functions():
    """Rules of users' functions look up, too, and may be taken back."""
    weight = wend.tensor(np.random.default_rng(0).normal(size=(WORDS, WIDTH)))
    one = weight.clone()
    words = wend.tensor([[1, 2], [3, 1]])
    nn.functional.embedding(words, one, max_norm=0.5)
    single = wend.func.vmap(lambda w: nn.functional.embedding(w, weight * 1, max_norm=0.5).sum())
    rows = wend.func.vmap(lambda w: nn.functional.embedding(w, one).sum())(words)
    np.testing.assert_allclose(single(words).numpy(), rows.numpy(), rtol=1e-6)


def read_words():
    """Train on batches of sentences of drawn lengths, a look-up a word."""
    rng = np.random.default_rng(0)
    table, cell = nn.Embedding(WORDS, WIDTH, max_norm=1.0), nn.Linear(WIDTH, WIDTH)
    wend.synchronize()
    for _ in range(4):
        states = []
        for _ in range(12):
            state = wend.zeros(1, WIDTH)
            for word in rng.integers(0, WORDS, int(rng.integers(4, 9))):
                state = wend.tanh(cell(state) + table(wend.tensor([word])))
            states.append(state)
        wend.cat(states).sum().backward()
        wend.synchronize()


def test_look_ups_a_word_at_a_time_run_by_groups(monkeypatch):
    """They need not wait for one another, and the writes to the table come last."""
    reasons = []
    real = flush.run_in_parts

    def watched(batch, live):
        reasons.append(real(batch, live))
        return reasons[-1]

    monkeypatch.setattr(flush, "run_in_parts", watched)
    monkeypatch.setattr(signatures, "STRIKES", 1000)  # whatever the tests before have left
    monkeypatch.setattr(signatures.BOOK, "pause", 0)
    monkeypatch.setattr(signatures.BOOK, "strikes", 0)
    with own_trie():
        read_words()
    assert reasons[-1:] == [""]
    assert group_choice.LONG < 12 * 4 * 8
