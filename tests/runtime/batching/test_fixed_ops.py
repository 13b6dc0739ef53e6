"""Ops on parameters alone that a program repeats in each call: one op of the flush."""

import numpy as np
import pytest

import wend
from wend._engine.runtime.batching.noted import NOTED, Noted, forget

torch = pytest.importorskip("torch")

WORDS, WIDTH, CALLS = 7, 6, 40


def trained(t, calls, form):
    """Gradients and losses of a net whose calls transform its parameters anew."""
    rng = np.random.default_rng(0)
    w, v, b = (
        t.tensor(rng.normal(size=size).astype(np.float32), requires_grad=True)
        for size in ((WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,))
    )
    xs = [t.tensor(rng.normal(size=(1, WIDTH)).astype(np.float32)) for _ in range(calls)]

    def net(x):
        for _ in range(3):
            x = form(t, x, w, v, b)
        return x

    return [net(x) for x in xs], [w, v, b]


def transposed(t, x, w, v, b):
    return t.tanh(x @ w.t() + b) @ v.t()


def scaled(t, x, w, v, b):
    return t.tanh(x @ (w * 0.5).t() + b) @ (v + 0.0).t()


def joined(t, x, w, v, b):
    both = t.cat([w, v], dim=0)
    a, c = (x @ both.t() + t.cat([b, -b])).chunk(2, dim=1)
    return t.tanh(a) * t.sigmoid(c)


def softened(t, x, w, v, b):
    return t.tanh(x @ w.softmax(dim=1).t() + b * t.exp(b)) @ v.t().contiguous()


FORMS = (transposed, scaled, joined, softened)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("calls", [CALLS, 3 * CALLS])
def test_gradients_are_those_of_pytorch(form, calls):
    found = []
    for t in (wend, torch):
        outs, parameters = trained(t, calls, form)
        t.cat(outs).square().mean().backward()
        found.append([p.grad.numpy() for p in parameters])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_later_passes_go_through_for_each_loss(form):
    """Each loss may start a pass of its own, although the losses share what was merged."""
    found = []
    for t in (wend, torch):
        outs, parameters = trained(t, CALLS, form)
        losses = [t.cat(outs[:25]).square().mean(), t.cat(outs[25:]).square().mean()]
        values = [loss.item() for loss in losses]
        for loss in losses:
            loss.backward()
        found.append([*values, *(p.grad.numpy() for p in parameters)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=1e-6)


def test_results_that_are_kept_are_apart():
    """A write into one result of equal ops shows in no other."""
    found = []
    for t in (wend, torch):
        outs, (w, _, _) = trained(t, CALLS, transposed)
        with t.no_grad():
            halves = [w * 0.5 for _ in range(100)]
            total = t.cat(outs).sum() + sum(h.sum() for h in halves)
        total = total.item()
        halves[0].add_(1.0)
        found.append([total, halves[0].numpy(), halves[1].numpy(), w.detach().numpy()])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=1e-6)


def test_draws_differ():
    """Random ops on a parameter are drawn for each call."""
    outs, (w, _, _) = trained(wend, CALLS, transposed)
    draws = [wend.dropout(w, 0.5, True) for _ in range(100)]
    total = (wend.cat(outs).sum() + sum(d.sum() for d in draws)).item()
    assert np.isfinite(total)
    assert len({d.detach().numpy().tobytes() for d in draws}) > 90


def test_groups_are_as_large_as_with_a_function():
    counts: list[int] = []
    for form in (
        transposed,
        lambda t, x, w, v, b: t.nn.functional.linear(t.tanh(t.nn.functional.linear(x, w, b)), v),
    ):
        forget()
        outs, _ = trained(wend, 2 * CALLS, form)
        wend.cat(outs).square().mean().backward()
        counts.append(max(len(Noted(*noted).groups()) for noted in NOTED if callable(noted[2])))
    assert counts[0] <= 1.5 * counts[1] + 4
