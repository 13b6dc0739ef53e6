"""Look-ups with sparse gradients: recorded, batched and planned as any op, equal to PyTorch's."""

import threading

import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.base import config
from wend._engine.runtime.batching.signatures import BOOK
from wend._engine.runtime.flush_log import last_step
from wend.sparse import lookups

try:
    import torch
except ImportError:  # the comparisons are left out
    torch = None

WORDS, WIDTH = 9, 4


def table(t, seed=0):
    rng = np.random.default_rng(seed)
    return t.nn.Parameter(t.tensor(rng.normal(size=(WORDS, WIDTH))))


def parts_of(g):
    """(indices, values, dense form) of a gradient."""
    if not g.is_sparse:
        return None, None, g.detach().numpy().copy()
    g = g.detach()
    dense = g.to_dense().numpy()
    again = g.coalesce()
    by_hand = np.zeros(g.shape)
    np.add.at(by_hand, g._indices().numpy()[0], g._values().numpy())
    np.testing.assert_allclose(dense, by_hand, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(again.to_dense().numpy() != 0, dense != 0)
    return g._indices().numpy(), g._values().numpy(), dense


def scores(t, weight, words, cell, sparse=True):
    """A chain over single words."""
    h = t.zeros(1, WIDTH, dtype=t.float64)
    for k in range(len(words)):
        row = t.nn.functional.embedding(words[k : k + 1], weight, sparse=sparse)
        h = t.tanh(row @ cell + h * 0.5)
    return h.sum()


# -- the gradient -------------------------------------------------------------------------------


def test_rows_are_exactly_those_of_the_table():
    values = np.array([[-0.0, 0.0, np.inf], [np.nan, -np.inf, 5e-324], [1.0, -1.0, 0.1]])
    for dtype in (wend.float64, wend.float32, wend.float16, wend.bfloat16):
        weight = wend.nn.Parameter(wend.tensor(values).to(dtype))
        picked = wend.tensor([2, 0, 1, 0])
        found = wend.nn.functional.embedding(picked, weight, sparse=True)
        plain = wend.nn.functional.embedding(picked, weight.detach())
        assert found.dtype is dtype and found.requires_grad
        for a, b in ((found, plain), (wend.signbit(found), wend.signbit(plain))):
            np.testing.assert_array_equal(a.detach().float().numpy(), b.float().numpy())
        found.sum().backward()
        assert weight.grad.is_sparse and weight.grad.dtype is dtype
        assert weight.grad._indices().tolist() == [[2, 0, 1, 0]]


def test_the_latest_look_up_comes_first_and_look_ups_that_are_not_reached_are_left_out():
    for visit in range(4):
        weight = table(wend, visit)
        F = wend.nn.functional
        first = F.embedding(wend.tensor([3, 1]), weight, sparse=True)
        unused = F.embedding(wend.tensor([5]), weight, sparse=True)
        scalar = F.embedding(wend.tensor(7), weight, sparse=True)
        matrix = F.embedding(wend.tensor([[1, 2], [2, 4]]), weight, padding_idx=2, sparse=True)
        (first.sum() + 2 * scalar.sum() + (matrix * 3).sum()).backward()
        g = weight.grad
        assert g._indices().tolist() == [[1, 4, 7, 3, 1]]
        np.testing.assert_array_equal(g._values().numpy()[:, 0], [3, 3, 2, 1, 1])
        assert not g.is_coalesced()
        assert unused.requires_grad
        unused.sum().backward()
        assert weight.grad._indices().tolist() == [[1, 4, 7, 3, 1, 5]]


def test_graphs_that_are_kept_and_graphs_that_are_used_up():
    weight = table(wend)
    looked_up = wend.nn.functional.embedding(wend.tensor([1, 1]), weight, sparse=True)
    loss = (looked_up**2).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert weight.grad._nnz() == 4
    np.testing.assert_allclose(
        weight.grad.to_dense()[1].numpy(), 8 * weight[1].detach().numpy(), rtol=1e-12
    )
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_gradients_of_gradients_hooks_and_frozen_tables():
    weight = table(wend)
    F = wend.nn.functional
    cubes = F.embedding(wend.tensor([1, 2]), weight, sparse=True) ** 3
    (g,) = wend.autograd.grad(cubes.sum(), weight, create_graph=True)
    assert g.is_sparse and g.requires_grad
    seen = []
    handle = weight.register_hook(lambda g: seen.append(g) or g * 2)
    after = weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    F.embedding(wend.tensor([3]), weight, sparse=True).sum().backward()
    assert seen[0].is_sparse and seen[1].is_sparse
    assert weight.grad.to_dense()[3].tolist() == [2.0] * WIDTH
    handle.remove()
    after.remove()
    looked_up = F.embedding(wend.tensor([4]), weight, sparse=True)
    retained = looked_up * 1
    retained.retain_grad()
    weight.requires_grad_(False)
    weight.grad = None
    retained.sum().backward()
    assert weight.grad is None and retained.grad.tolist() == [[1.0] * WIDTH]


def test_indices_that_change_later_and_indices_that_are_computed():
    weight, numbers = table(wend), np.array([1, 2, 3])
    F = wend.nn.functional
    shared, own = wend.from_numpy(numbers), wend.tensor([4, 5])
    loss = F.embedding(shared, weight, sparse=True).sum()
    loss = loss + F.embedding(own, weight, sparse=True).sum()
    computed = wend.tensor([1.5, 2.5]).argmax() + wend.tensor([0, 1])
    loss = loss + F.embedding(computed, weight, sparse=True).sum()
    numbers[:] = 0
    own.fill_(0)
    loss.backward()
    assert weight.grad._indices().tolist() == [[1, 2, 4, 5, 1, 2, 3]]


def test_traces_and_fibers_have_their_look_ups_in_one_gradient():
    weight = table(wend)
    F = wend.nn.functional
    total = 0.0
    for k in range(5):
        looked_up = F.embedding(wend.tensor([k]), weight, sparse=True).sum()
        looked_up.item()
        total = total + looked_up
    total.backward()
    assert weight.grad._indices().tolist() == [[4, 3, 2, 1, 0]]
    weight.grad = None

    def score(k):
        h = F.embedding(wend.tensor([k]), weight, sparse=True).sum()
        if h.item() > 0:
            h = h * 2
        return h + F.embedding(wend.tensor([k + 1]), weight, sparse=True).sum()

    sum(wend.batched(score)(list(range(6)))).backward()
    wanted = np.zeros((WORDS, WIDTH))
    for k in range(6):
        wanted[k] += 2 if weight[k].sum().item() > 0 else 1
        wanted[k + 1] += 1
    assert weight.grad.is_sparse
    np.testing.assert_allclose(weight.grad.to_dense().numpy(), wanted)


def test_threads_lose_no_sparse_gradient():
    weight = table(wend)

    def run():
        for k in range(20):
            wend.nn.functional.embedding(wend.tensor([k % 3]), weight, sparse=True).sum().backward()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert weight.grad._nnz() == 80


def test_segments_of_look_ups_are_bounded():
    weight = table(wend)
    for k in range(50):
        wend.nn.functional.embedding(wend.tensor([k % WORDS]), weight, sparse=True).sum().item()
    assert len(lookups._open) <= 1


# -- who runs look-ups --------------------------------------------------------------------------


def test_look_ups_are_run_by_groups_and_the_core_walks_no_single_ones(monkeypatch):
    monkeypatch.setattr(BOOK, "pause", 0)  # other tests may have met only new structure lately
    rng = np.random.default_rng(1)
    weight, cell = table(wend), wend.tensor(rng.normal(size=(WIDTH, WIDTH)))
    with own_trie(), config.override(wait=False):
        for _ in range(3):
            weight.grad = None
            lists = [wend.tensor(rng.integers(0, WORDS, n)) for n in rng.integers(5, 20, 25)]
            loss = sum(scores(wend, weight, words, cell) for words in lists)
            loss.backward()
            ran = [name for flush in last_step() for name, reason in flush.asked if not reason]
            assert ran == ["groups"]
            found = weight.grad.to_dense().numpy()
            weight.grad = None
            sum(scores(wend, weight, words, cell, False) for words in lists).backward()
            np.testing.assert_allclose(found, weight.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_a_known_path_takes_its_backward_pass_in_one_step():
    weight, cell = table(wend), wend.eye(WIDTH, dtype=wend.float64)
    words = wend.tensor([1, 2, 3])
    with own_trie(), config.override(wait=True):
        for _ in range(5):
            weight.grad = None
            scores(wend, weight, words, cell).backward()
            found = weight.grad.to_dense().numpy()
        assert last_step()[-1].asked == (("ready plan", ""),)
        weight.grad = None
        scores(wend, weight, words, cell, False).backward()
        np.testing.assert_allclose(found, weight.grad.numpy(), rtol=1e-9, atol=1e-12)


# -- whole trainings ----------------------------------------------------------------------------


class Tagger:
    """A tagger in both directions, or a net over trees, with a look-up a word."""

    def __init__(self, t, kind, layer):
        self.t, self.kind, self.layer = t, kind, layer
        rng = np.random.default_rng(3)
        shapes = {"cell": (2 * WIDTH, WIDTH), "out": (WIDTH, 3)}
        self.p = {k: t.nn.Parameter(t.tensor(rng.normal(size=s))) for k, s in shapes.items()}
        start = t.tensor(rng.normal(size=(WORDS, WIDTH)))
        self.table = layer(t)(WORDS, WIDTH, sparse=True, _weight=start, padding_idx=1)

    def row(self, word):
        words = self.t.tensor([word])
        return self.table(words[None] if self.layer is bag else words)

    def join(self, left, right):
        return self.t.tanh(self.t.cat([left, right], 1) @ self.p["cell"])

    def state(self, tree):
        if isinstance(tree, int):
            return self.row(tree)
        return self.join(self.state(tree[0]), self.state(tree[1]))

    def loss(self, example, target):
        if self.kind == "tree":
            state = self.state(example)
        else:
            rows = [self.row(word) for word in flat(example)]
            state = rows[0]
            for row in rows[1:]:
                state = self.join(state, row)
            for row in rows[::-1]:
                state = self.join(state, row)
        scores = state @ self.p["out"]
        return self.t.nn.functional.cross_entropy(scores, self.t.tensor([target]))


def layer(t):
    return t.nn.Embedding


def bag(t):
    return lambda *args, **options: t.nn.EmbeddingBag(*args, mode="sum", **options)


def flat(tree):
    return [tree] if isinstance(tree, int) else flat(tree[0]) + flat(tree[1])


def random_tree(rng, n):
    if n == 1:
        return int(rng.integers(0, WORDS))
    k = int(rng.integers(1, n))
    return random_tree(rng, k), random_tree(rng, n - k)


def train(t, kind, make, optimizer, options, clip, steps=8):
    """Losses, gradients and parameters of a training; batches repeat from the fifth step on."""
    rng = np.random.default_rng(5)
    model = Tagger(t, kind, make)
    dense = t.optim.SGD(list(model.p.values()), lr=0.1)
    sparse = getattr(t.optim, optimizer)(model.table.parameters(), **options)
    batches = [
        [(random_tree(rng, int(n)), int(rng.integers(0, 3))) for n in rng.integers(2, 9, 6)]
        for _ in range(4)
    ]
    found = []
    for k in range(steps):
        dense.zero_grad()
        sparse.zero_grad()
        batch = batches[k % 4]
        losses = [model.loss(*example) for example in batch]
        sum(losses[:4]).backward()  # gradients of two passes add up
        sum(losses[4:]).backward()
        g = model.table.weight.grad
        assert g.is_sparse
        found.append(parts_of(g)[2])
        if clip:  # PyTorch cannot clip sparse gradients
            model.table.weight.grad = g.coalesce() * 0.5
            found.append(t.nn.utils.clip_grad_norm_(list(model.p.values()), 0.5).item())
        dense.step()
        sparse.step()
        found.append([loss.item() for loss in losses])
    return [*found, *[p.detach().numpy() for p in (*model.p.values(), model.table.weight)]]


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.parametrize("make", [layer, bag])
@pytest.mark.parametrize("kind", ["tree", "both directions"])
@pytest.mark.parametrize(
    ("optimizer", "options", "clip"),
    [
        ("SparseAdam", {"lr": 0.05, "eps": 1e-3}, True),
        ("SGD", {"lr": 0.1}, False),
        ("Adagrad", {"lr": 0.1, "eps": 1e-3}, False),
    ],
)
def test_whole_trainings_are_those_of_pytorch(kind, make, optimizer, options, clip):
    found = train(wend, kind, make, optimizer, options, clip)
    wanted = train(torch, kind, make, optimizer, options, clip)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
def test_tied_tables_get_dense_gradients():
    found = []
    for t in (wend, torch):
        weight = table(t)
        for k in range(3):
            rows = t.nn.functional.embedding(t.tensor([1, k]), weight, sparse=True)
            scores = t.tanh(rows) @ weight.T
            t.nn.functional.cross_entropy(scores, t.tensor([2, 3])).backward()
        assert not weight.grad.is_sparse
        found.append(weight.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)
