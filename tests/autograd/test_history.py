"""Histories: a graph is freed with its last tensor; a chain that grows without end is warned of."""

import resource
import warnings
from pathlib import Path

import pytest

import wend as torch


def leaf(*numbers):
    return torch.tensor(list(numbers), requires_grad=True)


def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_a_graph_that_nobody_holds_is_not_kept():
    x = torch.ones(50_000, requires_grad=True)
    for _ in range(100):  # the compiler's libraries are loaded meanwhile
        ((x * 2).exp() * x).sum().item()
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
