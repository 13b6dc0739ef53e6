"""A graph grows along a trace, however many backward passes are recorded before it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wend
from wend._engine.core import _hot
from wend._engine.core.graph import path_at
from wend._engine.transforms.differentiate import entries_met

# No random program has closed the trie to new structure.
pytestmark = pytest.mark.usefixtures("own_trie")


def step(weight: Any, size: int) -> Any:
    """Record a training step that reads nothing; returns its loss."""
    x = wend.full((size, 4), 0.5)
    loss = wend.tanh(x @ weight).mean()
    loss.backward()
    with wend.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
    return loss


def train(n: int, read: frozenset[int] = frozenset(), turn: int = -1) -> tuple[list[float], Any]:
    """n steps; the losses read after those in `read`, another program from step `turn` on."""
    weight = wend.linspace(-1.0, 1.0, 16).reshape(4, 4).detach().requires_grad_()
    losses = []
    for k in range(n):
        if k == turn:
            (weight.sum() * weight.prod()).backward()
        loss = step(weight, 1 + k % 3)
        if k in read:
            losses.append(loss.item())
    return losses, weight.detach().numpy().copy()


def test_graphs_of_one_trace_share_their_lists() -> None:
    weight = wend.linspace(-2.0, 1.0, 16).reshape(4, 4).detach().requires_grad_()
    trace = _hot.current_trace()
    found = []
    for k in range(30):
        step(weight, 1 + k % 3)
        found.append(path_at(trace.states, trace.values, trace.args))
    assert len({id(path.nodes) for path in found}) == 1
    assert [path.complete for path in found] == [False] * (len(found) - 1) + [True]
    assert sum(len(path.caches) for path in found[:-1]) == 0
    assert [p.n_nodes for p in found] == sorted({p.n_nodes for p in found})
    # What a pass looks at is its own part of the trace, not all that came before.
    loss = wend.tanh(wend.full((2, 4), 0.5) @ weight).mean()
    loss.backward()
    path = path_at(trace.states[:-1], trace.values, trace.args)
    assert len(entries_met(path, (loss.value.index,))) == 1
    _hot.synchronize()


def test_a_trace_that_ends_where_another_went_on() -> None:
    _, whole = train(12)
    for stop in (3, 7, 8):
        losses, weight = train(12, frozenset({stop}))
        np.testing.assert_allclose(weight, whole, rtol=1e-6)
        with wend.eager():
            expected, _ = train(12, frozenset({stop}))
        np.testing.assert_allclose(losses, expected, rtol=1e-6)


def test_the_graph_of_a_shorter_trace_ends_where_the_trace_ends() -> None:
    train(8)
    weight = wend.linspace(-1.0, 1.0, 16).reshape(4, 4).detach().requires_grad_()
    for k in range(4):
        step(weight, 1 + k % 3)
    loss = wend.tanh(wend.full((2, 4), 0.5) @ weight).mean()  # as far as a backward pass has come
    trace = _hot.current_trace()
    path = path_at(trace.states, trace.values, trace.args)
    last = trace.states[-1]
    assert path.complete
    assert path.n_states == len(path.node_of_state) == len(trace.states)
    assert max(path.producer.values()) < len(path.nodes) == path.n_nodes
    assert len(path.types) == last.first + last.n_out
    assert all(i < len(path.types) for i, _ in path.leaves)
    assert set(path.roles) <= {i for i, _ in path.leaves}
    assert all(-i <= path.inner for i in path.shapes)
    assert loss.item() < 1


def test_a_trace_that_leaves_a_longer_one_gets_a_graph_of_its_own() -> None:
    train(10)
    for turn in (2, 5, 9):
        _, found = train(10, turn=turn)
        with wend.eager():
            _, expected = train(10, turn=turn)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_second_pass_in_the_middle_of_what_was_longer() -> None:
    def program(again: bool) -> Any:
        x = wend.linspace(0.1, 1.0, 5).detach().requires_grad_()
        y = (x * x).sum()
        (first,) = wend.autograd.grad(y, x, retain_graph=True)
        z = wend.tanh(first) * x
        if again:
            (second,) = wend.autograd.grad(y * 2.0, x)
            z = z + second
        z.sum().backward()
        return x.grad.numpy().copy(), z.detach().numpy().copy()

    for again in (False, True, False, True):
        found = program(again)
        with wend.eager():
            expected = program(again)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
