"""Paths whose parts are linked run as one launch: results, memory, errors, the plan in the end."""

import random
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.base import config, defects
from wend._engine.compiler.llvm_ir import jit
from wend._engine.core import _hot
from wend._engine.runtime import tiers
from wend._engine.runtime.flush_log import last_plans
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.parts import links, parts
from wend.nn import functional as F

WIDTH, BATCH = 6, 3
pytestmark = pytest.mark.skipif(not parts.CUTS, reason="the uncompiled core cuts no flushes")


@pytest.fixture(autouse=True)
def _own_paths():
    with own_trie(), config.override(compile=True, wait=False, deterministic=False):
        yield


@pytest.fixture
def made(monkeypatch):
    """The frames of the links that a test makes. Only links ask for plans of whole paths."""
    advance = tiers.TieredPlan.advance

    def advance_parts(plan):
        path = plan.reference.path
        whole = any(state.is_step for state in path.states[1:-1]) and not path.states[0].is_step
        if plan.linked is not None or not whole:
            advance(plan)

    monkeypatch.setattr(parts, "comes_back", lambda state: False)
    monkeypatch.setattr(tiers.TieredPlan, "advance", advance_parts)
    frames = []
    real = links.link

    def link(*given):
        frames.append(real(*given))
        return frames[-1]

    monkeypatch.setattr(links, "link", link)
    return frames


class Net(nn.Module):
    """A recurrent net written as a loop, with a change of the state in each turn."""

    def __init__(self, change=None):
        super().__init__()
        self.input = nn.Linear(WIDTH, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 2)
        self.change = change
        rng = np.random.default_rng(0)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.tensor(rng.normal(size=tuple(p.shape)).astype("f") * 0.4))

    def forward(self, words):
        h = torch.zeros(words.shape[1], WIDTH)
        for t in range(words.shape[0]):
            h = torch.tanh(self.input(words[t]) + self.hidden(h))
            if self.change is not None:
                h = self.change(h)
        return self.head(h)


def sentences(rng, n, batch=BATCH):
    """So many words and their classes."""
    words = torch.tensor(rng.normal(size=(n, batch, WIDTH)).astype("f"))
    return words, torch.tensor(rng.integers(0, 2, batch))


def by_one_loss(net, optimizer, rng, draw):
    """A step of a sentence of a drawn length; the scores stay alive."""
    x, y = sentences(rng, draw.randint(3, 6))
    optimizer.zero_grad()
    scores = net(x)
    loss = F.cross_entropy(scores, y)
    loss.backward()
    optimizer.step()
    return loss.item(), scores.sum().item()


def by_sums(net, optimizer, rng, draw):
    """A step of the gradients of three sentences, which is read at the end."""
    optimizer.zero_grad()
    total = torch.zeros(())
    for _ in range(3):
        x, y = sentences(rng, draw.randint(3, 5))
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        total = total + loss.detach()
    optimizer.step()
    return (total.item(),)


def by_two_passes(net, optimizer, rng, draw):
    """A step with two backward passes through different states, and clipped gradients."""
    x, y = sentences(rng, draw.randint(3, 5))
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    (net(x.flip(0)).mean() * 0.5).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        for p in net.parameters():
            p.clamp_(-1, 1)
    return (net.head.weight.sum().item(),)


def of_sizes(net, optimizer, rng, draw):
    """A step of batches of many sizes."""
    x, y = sentences(rng, draw.randint(3, 4), draw.randint(1, 6))
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return (loss.item(),)


def by_frequencies(h):
    """A change with ops that Python computes."""
    return 0.7 * h + 0.5 * torch.fft.irfft(torch.fft.rfft(h) * 0.5, n=WIDTH)


def of_shared_uses(h):
    """A change whose gradients are sums, and views."""
    a = h * 0.5
    return torch.cat([a[:, :3] + a[:, 3:], (a.t() * 2).t()[:, 3:] - a[:, :3]], 1)


STEPS = {"loss": by_one_loss, "sums": by_sums, "passes": by_two_passes, "sizes": of_sizes}
CHANGES = {"none": None, "host steps": by_frequencies, "shared uses": of_shared_uses}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


def trained(step, change=None, optimizer="sgd", steps=60):
    """What is read in each step, and the parameters in the end."""
    net, rng, draw = Net(change), np.random.default_rng(1), random.Random(2)
    by = OPTIMIZERS[optimizer](net.parameters())
    read = []
    for _ in range(steps):
        read += step(net, by, rng, draw)
        jit.drain()
    return [np.array(read), *(p.detach().numpy().copy() for p in net.parameters())]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", STEPS)
def test_training_in_links_is_that_of_single_ops(step, change, optimizer, made):
    found = trained(STEPS[step], CHANGES[change], optimizer)
    assert made
    with torch.eager():
        expected = trained(STEPS[step], CHANGES[change], optimizer)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=5e-4, atol=5e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_gradients_from_several_parts_are_added_in_their_own_type(dtype, made):
    def train():
        rng = np.random.default_rng(0)
        weight = nn.Parameter(torch.tensor(rng.normal(size=(WIDTH, WIDTH)) * 0.3).to(dtype))
        optimizer, read = torch.optim.SGD([weight], lr=0.05), []
        for _ in range(40):
            x = torch.tensor(rng.normal(size=(BATCH, WIDTH))).to(dtype)
            optimizer.zero_grad()
            first = x @ weight
            h = torch.zeros(BATCH, WIDTH, dtype=dtype)
            for _ in range(5):
                h = h * 0.5
                h = torch.tanh(h @ weight)
                h = h + first
                h = h * 0.75
            loss = h.float().square().mean()
            loss.backward()
            optimizer.step()
            read.append(loss.item())
            jit.drain()
        return read

    found = train()
    sums = [part for frame in made for part in frame.linked if part.kind == 1]
    assert sums and all((part.dtype is None) is (dtype is torch.float64) for part in sums)
    with torch.eager():
        expected = train()
    np.testing.assert_allclose(found, expected, rtol=2e-2 if dtype is torch.bfloat16 else 1e-5)


def test_paths_without_gradients(made):
    net, rng = Net(), np.random.default_rng(1)
    found, expected = [], []
    for k in range(40):
        x, _ = sentences(rng, 3 + k % 3)
        with torch.no_grad():
            found.append(net(x).numpy().copy())
            with torch.eager():
                expected.append(net(x).numpy().copy())
        jit.drain()
    assert made
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_results_of_host_steps_in_other_shapes(made):
    """A result may show an array that a host step has made, with other dims."""

    def step(rng):
        h = torch.zeros(BATCH, WIDTH)
        for _ in range(5):
            x = torch.tensor(rng.normal(size=(BATCH, WIDTH)).astype("f"))
            h = torch.sort(h * 0.5 + x, dim=1).values
            h = h.reshape(WIDTH, BATCH)
            h = h.reshape(BATCH, WIDTH)
        return h.reshape(-1), torch.sort(h, dim=0).values.reshape(2, -1)

    found, expected = [], []
    with torch.no_grad():
        for k in range(30):
            found.append([y.numpy().copy() for y in step(np.random.default_rng(k))])
            with torch.eager():
                expected.append([y.numpy().copy() for y in step(np.random.default_rng(k))])
            jit.drain()
    assert made
    for row, other in zip(found, expected, strict=True):
        for a, b in zip(row, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def linked_step(made, n=5):
    """A function that trains a net by paths that have been linked."""
    net, rng = Net(), np.random.default_rng(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(batch=BATCH):
        x, y = sentences(rng, n, batch)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(60):
        step().item()
        jit.drain()
    assert made
    return net, step


def test_a_second_pass_through_a_link_is_refused(made):
    _, step = linked_step(made)
    with pytest.raises(RuntimeError, match=r"second time|freed"):
        step().backward()


def test_parameters_that_others_hold_are_not_overwritten(made):
    net, step = linked_step(made)
    weight = net.input.weight
    before = weight.detach().numpy().copy()
    kept = weight.detach().clone()
    shared = weight.detach().numpy()
    step().item()
    np.testing.assert_array_equal(kept.numpy(), before)
    np.testing.assert_array_equal(shared, weight.detach().numpy())
    assert not np.array_equal(before, weight.detach().numpy())


def test_results_of_a_link_are_let_go(made):
    _, step = linked_step(made)
    loss = step()
    array = weakref.ref(_hot.ensure(loss.value))
    del loss
    step().item()
    assert array() is None


def test_an_error_in_a_link_has_the_line_of_the_op(made):
    table, rng = nn.Parameter(torch.ones(4, WIDTH)), np.random.default_rng(0)
    net = Net()

    def step(most):
        words = torch.tensor(rng.integers(0, most, (4, BATCH)))
        table.grad = None
        net.zero_grad()
        h = torch.zeros(BATCH, WIDTH)
        for t in range(4):
            row = F.embedding(words[t], table)  # here
            h = torch.tanh(net.input(row) + net.hidden(h))
        loss = net.head(h).sum()
        loss.backward()
        return loss.item()

    for _ in range(40):
        step(4)
        jit.drain()
    assert made
    with pytest.raises(IndexError) as caught:
        step(400)
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    line = next(k for k, text in enumerate(lines, 1) if text.endswith("# here"))
    assert f"test_links.py:{line}" in str(caught.value)
    step(4)
    assert not defects.UNTOLD


def test_links_are_made_anew_for_other_numbers_of_threads(made):
    _, step = linked_step(made)
    before, n = len(made), torch.get_num_threads()
    torch.set_num_threads(2 if n == 1 else 1)
    try:
        step().item()
        assert len(made) > before
    finally:
        torch.set_num_threads(n)


def test_a_frame_in_use_is_left_to_its_thread(made):
    _, step = linked_step(made)
    frame = next(part.frame for part in made[-1].linked if part.frame is not None)
    frame.busy = True
    try:
        assert np.isfinite(step().item())
    finally:
        frame.busy = False
    assert not any(part.frame.busy for part in made[-1].linked if part.frame is not None)


def test_threads_share_the_parts_of_links(made):
    """Two threads train nets of their own by the same paths."""
    linked_step(made)
    losses = {}

    def train(name):
        net, rng, draw = Net(), np.random.default_rng(3), random.Random(4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses[name] = [by_one_loss(net, optimizer, rng, draw) for _ in range(30)]

    threads = [threading.Thread(target=train, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_a_path_gets_a_plan_of_its_own_in_the_end(made, monkeypatch):
    monkeypatch.setattr(parts, "LINKED", 1e-3)
    _, step = linked_step(made)
    for _ in range(200):
        step().item()
        jit.drain()
        if any(getattr(p, "compiled", None) is not None and p.n_ops > 60 for p in last_plans()):
            return
    raise AssertionError("no plan of the whole path")


def test_a_report_tells_of_links(made):
    _, step = linked_step(made)
    step()
    text = str(torch.debug.explain())
    assert "machine code of its parts, linked for 1 set of sizes" in text
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    zeros = next(k for k, line in enumerate(lines, 1) if "h = torch.zeros(words" in line)
    assert f"full: {__file__}:{zeros} in Net.forward" in text  # __init__ makes zeros, too


def test_links_that_do_not_pay_are_not_tried(monkeypatch):
    """A path that hardly comes back stays with parts."""
    state = _hot.State(None, None)
    state.plans = {parts.ENDS: (False, (10, 20))}
    state.born = _hot.count("flushes") - 1000
    state.passed = 2
    assert not parts.is_worth_linking(state)
    state.plans[parts.SPENT] = 1.0
    assert parts.is_worth_linking(state)
    state.plans[parts.LINKS] = 3
    assert not parts.is_worth_linking(state)


def test_a_link_counts_its_visits(made):
    _, step = linked_step(made)
    plan = next(p for p in last_plans()[::-1] if getattr(p, "linked", None) is not None)
    native = plan.linked.native_plan
    left = native.left
    assert left > 0 and native is plan.native_plan
    runs = launcher.runs()
    step().item()
    assert native.left == left - 1 and launcher.runs() > runs
