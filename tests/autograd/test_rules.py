"""The design's rules about gradients, each by a program that breaks without it."""

import gc
import resource
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import wend as torch
from wend.core import _hot
from wend.runtime import plans
from wend.transforms import walk


def leaf(*numbers):
    return torch.tensor(list(numbers), requires_grad=True)


# -- rule: identity -------------------------------------------------------------------------


@pytest.mark.parametrize("read", [False, True])
def test_operands_are_told_apart_by_their_gradient(read):
    """One value under three identities: a leaf, another leaf, a constant."""
    for _ in range(3):
        p = leaf(3.0)
        if read:
            p.tolist()
        q = p.detach().requires_grad_()
        c = p.detach()
        y = p * 2 + q * 3 + c * 5 + p * q * c
        y.sum().backward()
        assert p.grad.tolist() == [2 + 9.0]
        assert q.grad.tolist() == [3 + 9.0]
        assert c.grad is None
        assert not c.requires_grad


def test_nothing_is_merged_before_differentiation():
    for _ in range(2):
        s = leaf(3.0)
        (s - s.detach()).backward()
        assert s.grad.tolist() == [1.0]
        t = leaf(3.0)
        (t * t.detach() - t.detach() * t.detach()).backward()
        assert t.grad.tolist() == [3.0]


# -- rule: backward across flushes ------------------------------------------------------------


def branches(x, w, choices):
    """A chain of steps of two kinds, each chosen after reading a value."""
    h = x
    for choice in choices:
        assert bool((h == h).all())  # a flush
        h = (h * w).tanh() if choice else h + w.sin()
    return h.sum()


def expected(x, w, choices):
    """The gradients of `branches`, by hand."""
    values = [x]
    for choice in choices:
        h = values[-1]
        values.append(np.tanh(h * w) if choice else h + np.sin(w))
    g, gw = np.ones_like(x), np.zeros_like(w)
    for choice, h, y in zip(reversed(choices), reversed(values[:-1]), reversed(values[1:])):
        if choice:
            d = g * (1 - y * y)
            g, gw = d * w, gw + d * h
        else:
            gw = gw + g * np.cos(w)
    return g, gw


def test_branches_are_keyed_once_per_segment(monkeypatch):
    """T data-dependent branches have T segments of two kinds, not 2^T backward passes."""
    made = []
    real = walk.segment_step
    monkeypatch.setattr(walk, "segment_step", lambda *a: made.append(a) or real(*a))
    rng = np.random.default_rng(0)
    length, runs = 12, 40
    plans_before = states_before = None
    for run in range(runs):
        choices = rng.integers(0, 2, size=length).astype(bool).tolist()
        xs, ws = rng.normal(size=3), rng.normal(size=3)
        x, w = torch.tensor(xs, requires_grad=True), torch.tensor(ws, requires_grad=True)
        branches(x, w, choices).backward()
        gx, gw = expected(xs, ws, choices)
        np.testing.assert_allclose(x.grad.numpy(), gx, rtol=1e-9)
        np.testing.assert_allclose(w.grad.numpy(), gw, rtol=1e-9)
        if run == runs // 2:
            plans_before, states_before = plans.COUNTS["plans"], _hot.count("states")
    assert len(made) <= 12
    assert plans.COUNTS["plans"] - plans_before <= 4
    assert _hot.count("states") - states_before <= 20


def test_a_known_backward_runs_no_rule_and_makes_no_graph(monkeypatch):
    def work(k):
        x, w = leaf(1.0, 2.0 + k), leaf(3.0, 0.5)
        h = (x * w).exp()
        h.tolist()
        (h * x).sum().backward()
        return x.grad.tolist()

    for k in range(4):
        work(k)

    def forbidden(*args):
        raise AssertionError("built anew")

    monkeypatch.setattr(walk, "segment_step", forbidden)
    monkeypatch.setattr(walk, "Differentiator", forbidden)
    monkeypatch.setattr("wend.core.graph.PathGraph.__init__", forbidden)
    work(4)


def test_hooks_split_the_step_and_are_called_every_time():
    calls = []
    for k in range(5):
        x = leaf(2.0)
        h = x * 3
        h.register_hook(lambda g, k=k: calls.append(k))
        (h * h).sum().backward()
        assert x.grad.tolist() == [36.0]
    assert calls == [0, 1, 2, 3, 4]


def test_sizes_are_no_part_of_the_key(monkeypatch):
    made = []
    real = walk.segment_step
    monkeypatch.setattr(walk, "segment_step", lambda *a: made.append(a) or real(*a))
    for n in range(2, 12):
        x = torch.ones(n, 3, requires_grad=True)
        h = (x * 2).exp()
        h.sum().item()
        h.mean().backward()
        assert x.grad.shape == (n, 3)
        np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2) / (3 * n), rtol=1e-6)
    assert len(made) <= 2


def test_requires_grad_is_looked_at_again():
    for _ in range(3):
        for frozen in (False, True, False):
            x, w = leaf(2.0), leaf(5.0)
            y = (x * w).sum()
            w.requires_grad_(not frozen)
            y.backward()
            assert x.grad.tolist() == [5.0]
            assert (w.grad is None) if frozen else (w.grad.tolist() == [2.0])


# -- memory -----------------------------------------------------------------------------------


def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.slow
def test_a_chain_of_many_segments_is_freed_without_recursion():
    x = leaf(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        h = x
        for _ in range(30_000):
            h = h + 1
            h.tolist()
    start = time.perf_counter()
    del h
    gc.collect()
    assert time.perf_counter() - start < 5


def test_a_long_pending_chain_is_freed_without_recursion():
    x = leaf(1.0)
    h = x
    for _ in range(100_000):
        h = h * 1.0
    h.backward()
    assert x.grad.tolist() == [1.0]
    del h, x
    gc.collect()


def test_a_graph_that_nobody_holds_is_not_kept():
    x = torch.ones(50_000, requires_grad=True)
    for _ in range(3):
        (x * 2).exp().sum().item()
    before = megabytes()
    for _ in range(300):
        ((x * 2).exp() * x).sum().item()
    assert megabytes() - before < 10


# -- the warning about summed losses ------------------------------------------------------------


def train(steps, summed):
    w = leaf(2.0)
    total = 0
    for k in range(steps):
        w.grad = None
        loss = (w * float(k)).sum() ** 2
        loss.backward()
        total = summed(total, loss)  # the sum
        with torch.no_grad():
            w -= w.grad * 1e-6
        loss.item()
    return total


def test_summing_losses_warns_once_with_the_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(150, lambda total, loss: total + loss)
        train(150, lambda total, loss: total + loss)
    texts = [w for w in caught if "earlier backward passes" in str(w.message)]
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    mine = [i for i, text in enumerate(lines, 1) if "lambda total, loss: total + loss" in text]
    assert [w.lineno for w in texts] == mine[: len(texts)]
    assert 1 <= len(texts) <= 2  # once for each of the two lines
    assert texts[0].filename == __file__


@pytest.mark.parametrize(
    "summed",
    [
        lambda total, loss: total + loss.item(),
        lambda total, loss: total + loss.detach(),
        lambda total, loss: loss,
    ],
)
def test_right_ways_to_sum_do_not_warn(summed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(120, summed)


def test_long_histories_without_backward_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, w = leaf(1.0), leaf(1.0)
        h = x
        for _ in range(120):
            h = h * 1.01
            h.tolist()
            (w * w).sum().backward()  # of something else
        h.backward()


def test_gradient_accumulation_and_truncated_backpropagation_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w = leaf(0.5)
        state = torch.zeros(1)
        for _ in range(120):
            state = (state.detach() * w + 1).tanh()
            (state * state).sum().backward()
            state.tolist()
        assert w.grad.isfinite().all()


def test_retained_graphs_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w = leaf(0.5)
        h = w * 1
        for _ in range(70):
            h = h * 1.01
            h.sum().backward(retain_graph=True)
            h.tolist()


# -- threads --------------------------------------------------------------------------------


def test_backward_through_another_threads_graph():
    x = leaf(1.0, 2.0)
    made = []

    def forward():
        made.append((x * x).exp())

    for _ in range(3):
        thread = threading.Thread(target=forward)
        h = x * 3
        thread.start()
        thread.join()
        y = (made.pop() * h).sum()
        (g,) = torch.autograd.grad(y, x)
        v = np.array([1.0, 2.0])
        e = np.exp(v * v)
        np.testing.assert_allclose(g.numpy(), 3 * e + 3 * v * 2 * v * e, rtol=1e-5)


def test_threads_have_switches_of_their_own():
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_backward_in_several_threads():
    w = leaf(2.0)
    failed = []

    def work(k):
        try:
            for i in range(50):
                x = torch.tensor([float(k + i)])
                (g,) = torch.autograd.grad((w * w * x).sum(), w)
                np.testing.assert_allclose(g.numpy(), [4.0 * (k + i)], rtol=1e-4)
        except Exception as error:  # shown by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
