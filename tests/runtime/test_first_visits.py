"""The first visit of a path: composites through which no gradient flows are run as they are."""

import numpy as np
import pytest

import wend
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import graph
from wend._engine.runtime.flush_log import last_step

STEPS = 5


@pytest.fixture(autouse=True)
def _on_the_reference():
    with config.override(wait=False, verify=False), own_trie():
        yield


@pytest.fixture
def whole(monkeypatch):
    """What stayed whole, by name."""
    found = []

    def asked(state, ask=graph.stays_whole):
        if ask(state):
            found.append(state.prim.name)
            return True
        return False

    monkeypatch.setattr(graph, "stays_whole", asked)
    return found


def trained(optimizer, reads=True, **options):
    """Losses and parameters of some steps."""
    rng = np.random.default_rng(0)
    x, y, *weights = (
        wend.from_numpy(rng.normal(size=s).astype(np.float32))
        for s in ((4, 70), (4, 90), (70, 90), (90,), (90, 90))
    )
    weights = [w.requires_grad_() for w in weights]
    made = optimizer(weights, **options)
    seen = []
    for _ in range(STEPS):
        made.zero_grad()
        loss = F.mse_loss(wend.tanh(x @ weights[0] + weights[1]) @ weights[2], y)
        loss.backward()
        made.step()
        seen.append(loss.item() if reads else loss.detach())
    return [float(s) for s in seen], [w.detach().numpy().copy() for w in weights]


def alike(run, monkeypatch):
    """Run with composites expanded too: bit-equal where the reference computes both."""
    got = run()
    with monkeypatch.context() as patch, own_trie():
        patch.setattr(graph, "stays_whole", lambda state: False)
        want = run()
    assert got[0] == want[0]
    for a, b in zip(got[1], want[1], strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (wend.optim.Adam, {"lr": 0.01}),
        (wend.optim.AdamW, {"lr": 0.01, "amsgrad": True}),
        (wend.optim.SGD, {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
        (wend.optim.RMSprop, {"lr": 0.01}),
    ],
)
def test_steps_of_optimizers_are_the_same(optimizer, options, reads, whole, monkeypatch):
    with config.override(compile=False):
        alike(lambda: trained(optimizer, reads, **options), monkeypatch)
    assert whole


def test_only_the_first_visit_of_a_path_is_short(whole):
    trained(wend.optim.Adam, lr=0.01)
    assert whole.count("adam_step") == 2 * 3  # the first step, with zeros, and the second
    plan = last_step()[-1].plan
    assert plan.reference.path is not None and not plan.reference.path.short
    assert plan.reference.n_ops == len(plan.steps)


def test_what_is_reported_counts_each_op(whole):
    w = wend.ones(3, 5).requires_grad_()
    made = wend.optim.Adam([w], lr=0.5)
    (w * 7).sum().backward()
    made.step()
    assert "adam_step" in whole
    assert max(f.n_ops for f in last_step()) > 15


def test_inference_runs_composites_as_they_are(whole, monkeypatch):
    x = wend.from_numpy(np.random.default_rng(0).normal(size=(40, 300)).astype(np.float32))

    def run():
        with wend.no_grad():
            y = F.linear(x, x * 2, x[:, 0])
            return [float(y.sum())], [y.numpy().copy()]

    with config.override(compile=False):
        alike(run, monkeypatch)
    assert whole


def test_what_can_fail_is_expanded(whole):
    x = wend.ones(2, 3)
    with wend.no_grad(), pytest.raises(IndexError, match="out of"):
        F.nll_loss(x, wend.tensor([0, 7])).item()
    assert "nll_loss" not in whole
