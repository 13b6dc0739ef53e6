"""WEND_VERIFY=1 looks at whole training steps: whatever computes them, a fault in it is told."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.base import config
from wend._engine.base.errors import DefectError
from wend._engine.runtime.batching import deferred_backward, executor
from wend._engine.runtime.fibers import lane_backward
from wend._engine.runtime.verify import flushes
from wend.nn import functional as F


@pytest.fixture(autouse=True)
def looked_at():
    with own_trie(), config.override(verify=True):
        yield


@pytest.fixture
def counts(monkeypatch):
    """How often each kind of comparison was made."""
    made = {}

    def count(owner, name):
        real = getattr(owner, name)

        def counted(*args):
            made[name] = made.get(name, 0) + 1
            return real(*args)

        monkeypatch.setattr(owner, name, counted)

    count(flushes, "compare")
    count(executor, "check_gradients")
    count(flushes.Account, "pass_by")
    count(flushes.Account, "close")
    return made


def known(steps=8):
    """A step that comes back: one plan of forward, backward and updates, in donated memory."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = model(torch.randn(4, 5)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()


class Trees:
    """Trees that never come back."""

    def __init__(self):
        torch.manual_seed(0)
        self.rng = np.random.default_rng(0)
        self.leaf, self.join = nn.Embedding(7, 6), nn.Linear(12, 6)
        self.out = nn.Linear(6, 2)
        modules = (self.leaf, self.join, self.out)
        self.optimizer = torch.optim.Adam([p for m in modules for p in m.parameters()], lr=0.05)

    def tree(self, depth):
        if depth == 0 or self.rng.random() < 0.3:
            return int(self.rng.integers(0, 7))
        return self.tree(depth - 1), self.tree(depth - 1)

    def state(self, tree):
        if isinstance(tree, int):
            return self.leaf(torch.tensor([tree]))
        h = torch.tanh(self.join(torch.cat([self.state(tree[0]), self.state(tree[1])], 1)))
        return self.after(h)

    def after(self, h):
        return h

    def loss(self, tree):
        return F.cross_entropy(self.out(self.state(tree)), torch.tensor([1]))

    def losses(self, trees):
        return sum(self.loss(tree) for tree in trees)

    def train(self, steps=4):
        for _ in range(steps):
            loss = self.losses([self.tree(4) for _ in range(8)])
            self.optimizer.zero_grad()
            self.between(loss)
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def between(self, loss):
        pass


class ReadBefore(Trees):
    """The loss is read before the backward pass, which so comes by what a flush has left."""

    def between(self, loss):
        loss.item()


class Lanes(Trees):
    """Fibers that stop at each node of a tree."""

    def after(self, h):
        return h * 2 if h.sum().item() > 0 else h

    def losses(self, trees):
        return sum(torch.batched(self.loss)(trees))


@pytest.mark.usefixtures("groups_alone")
def test_ordinary_training_is_found_right_and_looked_at_everywhere(counts):
    known()
    assert counts.pop("compare") >= 8
    with own_trie(sealed=True):
        Trees().train()
    assert counts.pop("check_gradients") >= 3
    with own_trie(sealed=True):
        ReadBefore().train()
    assert counts.pop("pass_by") >= 3 and counts.pop("close") >= 3
    with own_trie():
        Lanes().train()
    assert counts.pop("pass_by") >= 20 and counts.pop("close") >= 2


def spoilt(array):
    """A copy that is a little off."""
    return np.asarray(array) + np.asarray(array).dtype.type(0.01)


def test_a_lost_update_is_told_with_the_line_of_the_step(monkeypatch):
    real, runs = flushes._plain["execute"], []

    def losing(batch, live):
        real(batch, live)
        runs.append(live)
        if len(runs) == 5:
            # The first parameter keeps the value that it had.
            new = next(i for i in live if batch.values[i].type.shape == (8, 5))
            old = next(
                v for v in batch.values if v.type.shape == (8, 5) and v.leaf and v is not new
            )
            batch.values[new].buffer = np.array(old.buffer)

    monkeypatch.setitem(flushes._plain, "execute", losing)
    with pytest.raises(DefectError, match="what was computed and the reference differ") as caught:
        known()
    # The flush is the one of `loss.item()`; the value was made by `optimizer.step()`.
    assert "test_flushes.py" in str(caught.value) and len(runs) == 5


@pytest.mark.usefixtures("groups_alone")
def test_a_wrong_gradient_of_a_pass_that_runs_with_its_flush(monkeypatch, planted_failure):
    real = executor.Execution.backward

    def wrong(self, seeds):
        found = real(self, seeds)
        return [(i, spoilt(g) if k == 0 else g) for k, (i, g) in enumerate(found)]

    monkeypatch.setattr(executor.Execution, "backward", wrong)
    with pytest.raises(DefectError, match="a gradient and the reference's differ"):
        Trees().train()


@pytest.mark.usefixtures("groups_alone")
def test_a_lost_gradient_of_a_pass_that_runs_with_its_flush(monkeypatch, planted_failure):
    real = executor.Execution.backward
    monkeypatch.setattr(executor.Execution, "backward", lambda self, seeds: real(self, seeds)[1:])
    with pytest.raises(DefectError, match="none was given"):
        Trees().train()


@pytest.mark.usefixtures("groups_alone")
@pytest.mark.parametrize("program", [ReadBefore, Lanes])
def test_a_wrong_gradient_of_parameters_that_was_put_off(monkeypatch, program):
    real = deferred_backward.run_tail
    monkeypatch.setattr(
        deferred_backward, "run_tail", lambda *args: [spoilt(g) for g in real(*args)]
    )
    with pytest.raises(DefectError, match="a gradient and the reference's differ"):
        program().train()


def test_a_wrong_gradient_between_lanes(monkeypatch):
    done = []

    def wrong(self, owner, segment, seeds):
        if len(done) == 3:
            for k in self.marks:
                seed = self.seed(k)
                seed[...] = seed * 1.5
        done.append(self)
        return super(lane_backward.LaneBatchBackward, self).pass_on(owner, segment, seeds)

    monkeypatch.setattr(lane_backward.LaneBatchBackward, "pass_on", wrong, raising=False)
    with pytest.raises(DefectError, match="a gradient and the reference's differ"):
        Lanes().train()


def test_a_wrong_value_of_a_lane(monkeypatch):
    real = flushes._plain["execute_many"]

    def wrong(batches, lives):
        real(batches, lives)
        for batch, live in zip(batches, lives, strict=True):
            for i in live:
                batch.values[i].buffer = spoilt(batch.values[i].buffer)

    monkeypatch.setitem(flushes._plain, "execute_many", wrong)
    with pytest.raises(DefectError, match="what was computed and the reference differ"):
        Lanes().train()


def test_users_functions_are_not_called_twice():
    calls = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append("backward")
            return g * 2

    x = torch.ones(3, requires_grad=True)
    Double.apply(x.exp()).sum().backward()
    x.grad.sum().item()
    assert calls == ["forward", "backward"]


def test_what_is_widened_keeps_the_rounding_of_what_it_was_made_from():
    """Sums of float32 in another order differ by more than a float64 that they are cast to has."""
    with config.override(compile=True, wait=True):
        x = torch.tensor(np.random.default_rng(0).normal(size=(37, 211)).astype(np.float32))
        for _ in range(4):
            y = ((x * x).mean().double() + (x.exp() * x).sum().double()) / 3
            assert y.dtype is torch.float64 and 0 < y.item() < 1e5


def test_numbers_of_a_wide_type_alone_are_held_to_its_precision(monkeypatch):
    real = flushes._plain["execute"]

    def wrong(batch, live):
        real(batch, live)
        for i in live:
            batch.values[i].buffer = batch.values[i].buffer * (1 + 1e-6)

    # Undone before verification ends, which has what is plain run again.
    with monkeypatch.context() as patch, pytest.raises(DefectError, match="differ"):
        patch.setitem(flushes._plain, "execute", wrong)
        torch.tensor([1.0, 2.0], dtype=torch.float64).exp().sum().item()
