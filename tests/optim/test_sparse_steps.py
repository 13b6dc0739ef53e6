"""Steps by sparse gradients: PyTorch's numbers, and a cost that does not grow with the table."""

import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.core._select import is_compiled
from wend._engine.runtime.native.launcher import launcher

try:
    import torch
except ImportError:  # the comparisons are left out
    torch = None

WORDS, WIDTH, CLASSES = 40, 6, 3
needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")


class Net:
    """Two tables and a layer: a sentence is looked up in both, one word at a time or at once."""

    def __init__(self, t, singly, tied=False, **settings):
        rng = np.random.default_rng(0)
        self.t, self.singly, self.tied = t, singly, tied
        draw = lambda *shape: t.tensor(rng.normal(size=shape))  # noqa: E731
        self.tables = [
            t.nn.Embedding(WORDS, WIDTH, sparse=True, _weight=draw(WORDS, WIDTH), **settings)
            for _ in range(2)
        ]
        self.head = t.nn.Parameter(draw(WIDTH, CLASSES))

    def loss(self, words, target):
        t = self.t
        if self.singly:
            parts = [table(words[k : k + 1]) for k in range(len(words)) for table in self.tables]
            rows = t.cat(parts)
        else:
            rows = t.cat([self.tables[0](words), self.tables[1](words), self.tables[0](words[:2])])
        state = t.tanh(rows).mean(0, keepdim=True)
        if self.tied:  # the table is a layer as well, with a dense gradient
            state = state + t.tanh(state @ self.tables[0].weight.T) @ self.tables[0].weight * 0.1
        return t.nn.functional.cross_entropy(state @ self.head, target)


STEPS = {
    "SGD": ("SGD", {"lr": 0.3}),
    "maximize": ("SGD", {"lr": 0.03, "maximize": True}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.01, "eps": 1e-6}),
    "SparseAdam": ("SparseAdam", {"lr": 0.05, "eps": 1e-4}),
}


def train(t, name, singly, passes=1, hook=False, tied=False, steps=9, **settings):
    """Losses and gradients of a training, and the parameters and states in the end."""
    rng = np.random.default_rng(1)
    net = Net(t, singly, tied, **settings)
    weights = [table.weight for table in net.tables]
    kind, options = STEPS[name]
    if tied:
        optimizers = [t.optim.SGD([*weights, net.head], lr=0.1)]
    else:
        optimizers = [getattr(t.optim, kind)(weights, **options), t.optim.SGD([net.head], lr=0.1)]
    found = []
    if hook:
        weights[0].register_hook(lambda g: g * 0.5)
        weights[1].register_post_accumulate_grad_hook(lambda p: found.append(dense(p.grad)))
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        for k in range(passes):
            words = t.tensor(rng.integers(0, WORDS, int(rng.integers(2, 7))))
            loss = net.loss(words, t.tensor([int(rng.integers(0, CLASSES))]))
            loss.backward(retain_graph=k == 1)
            if k == 1:
                loss.backward()
            found.append(loss.item())
        found += [dense(weight.grad) for weight in weights]
        for optimizer in optimizers:
            optimizer.step()
    states = [optimizers[0].state[w] for w in weights]
    found += [dense(v) for s in states for v in s.values() if hasattr(v, "dim") and v.dim() == 2]
    return [*found, *[p.detach().numpy().copy() for p in (*weights, net.head)]]


def dense(g):
    g = g.detach()
    return (g.to_dense() if g.is_sparse else g).numpy()


def compare(*args, **options):
    with own_trie():
        found = train(wend, *args, **options)
    wanted = train(torch, *args, **options)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@needs_torch
@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("forced", [False, True])
def test_whole_trainings(name, singly, forced):
    with config.override(wait=forced):
        compare(name, singly)


@needs_torch
@pytest.mark.parametrize("name", STEPS)
def test_several_passes_a_kept_graph_and_hooks(name):
    compare(name, True, passes=3, hook=True)


@needs_torch
@pytest.mark.parametrize("settings", [{"padding_idx": 3}, {"max_norm": 1.0}], ids=str)
@pytest.mark.parametrize("singly", [False, True])
def test_settings_of_tables(settings, singly):
    compare("SparseAdam", singly, **settings)


@needs_torch
@pytest.mark.parametrize("singly", [False, True])
def test_tied_tables_have_dense_gradients(singly):
    compare("SGD", singly, tied=True, passes=2)


@needs_torch
@pytest.mark.parametrize("order", ["dense first", "sparse first", "in turns"])
def test_dense_and_sparse_gradients_of_several_flushes(order):
    """Values that are read between make segments of their own: the pass comes to each in turn."""
    results = []
    for t in (wend, torch):
        rng = np.random.default_rng(2)
        weight = t.nn.Parameter(t.tensor(rng.normal(size=(WORDS, WIDTH))))
        optimizer = t.optim.SGD([weight], lr=0.05)
        for _ in range(6):
            optimizer.zero_grad()
            h = t.tensor(rng.normal(size=(2, WIDTH)))
            kinds = {"dense first": "dds", "sparse first": "ssd", "in turns": "dsdsd"}[order]
            for kind in kinds:
                if kind == "d":
                    h = t.tanh(h @ weight.T) @ weight * 0.1
                else:
                    words = t.tensor(rng.integers(0, WORDS, 2))
                    h = h + t.nn.functional.embedding(words, weight, sparse=True)
                h.sum().item()
            h.square().sum().backward()
            assert not weight.grad.is_sparse
            optimizer.step()
        results.append(weight.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-9, atol=1e-11)


@pytest.mark.skipif(not is_compiled(launcher), reason="the uncompiled core counts no references")
@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
@pytest.mark.parametrize("computed", [False, True])
def test_steps_leave_other_rows_where_they_are(name, computed):
    """The table and the state keep their memory: only the rows with gradients are written."""
    kind, options = STEPS[name]
    with own_trie(), config.override(compile=True, wait=True, verify=False):
        table = wend.nn.Embedding(300, 4, sparse=True)
        optimizer = getattr(wend.optim, kind)(table.parameters(), **options)
        rng = np.random.default_rng(0)
        kept = 0
        for k in range(20):
            optimizer.zero_grad()
            words = wend.tensor(rng.permutation(300)[:10])
            if computed:
                words = words + 0
            table(words).square().sum().backward()
            before = places(table.weight, optimizer)
            optimizer.step()
            wend.synchronize()
            kept += k > 3 and before == places(table.weight, optimizer)
    assert kept == 16


def places(weight, optimizer):
    state = optimizer.state[weight].values() if weight in optimizer.state else ()
    arrays = [_hot.ensure(_hot.value_of(x)) for x in (weight, *state) if hasattr(x, "dim")]
    return [a.__array_interface__["data"][0] for a in arrays if a.ndim == 2]
