"""Off the trie: composites and gradient rules as single nodes, and steps that are made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.core.body import Body, Total
from wend._engine.core.graph import path_at


@pytest.fixture(params=["on the trie", "off the trie"])
def sealed(request: Any) -> Iterator[bool]:
    """A trie of the test's own, open to new structure or closed to it."""
    off = request.param == "off the trie"
    with own_trie(sealed=off):
        yield off


def numbers(*shape: int) -> Any:
    """The same numbers in each call."""
    return torch.tensor(np.random.default_rng(1).normal(size=shape), requires_grad=True)


PROGRAMS = {
    "cell": lambda x: torch.lstm_cell(
        x[:, :4], (x[:, :3], x[:, 2:5]), *[numbers(12, n) for n in (4, 3)], *[numbers(12)] * 2
    ),
    "numbers among the operands": lambda x: F.cosine_similarity(x, x.flip(0), eps=1e-3),
    "sizes among the operands": lambda x: F.avg_pool1d(x[None], 3, stride=2),
    "one value used many times": lambda x: sum(F.silu(x * k) for k in range(1, 6)),
}


def flat(y: Any) -> Any:
    """One number of all results."""
    parts = y if isinstance(y, tuple) else (y,)
    return sum((p * p).sum() for p in parts)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_gradients_of_first_and_second_order(sealed: bool, name: str) -> None:
    def both() -> list[Any]:
        x = numbers(4, 6)
        (g,) = torch.autograd.grad(flat(PROGRAMS[name](x)), x, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), x)
        y = numbers(4, 6)
        flat(PROGRAMS[name](y)).backward()
        return [t.detach().numpy().copy() for t in (g, h, y.grad)]

    found = [both() for _ in range(3)]  # new, seen once, known
    with torch.eager():
        expected = both()
    for run in found:
        for a, b in zip(run, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("groups_alone")
def test_fewer_nodes_where_structure_does_not_come_back(sealed: bool) -> None:
    x = numbers(4, 6)
    total = flat(PROGRAMS["one value used many times"](x))
    total.backward(retain_graph=True)  # without, it runs at once where structure does not come back
    trace = _hot.current_trace()
    path = path_at(trace.states, trace.values, trace.args)
    kinds = [type(node.prim) for node in path.nodes]
    assert any(issubclass(kind, Body) for kind in kinds) is sealed
    assert (Total in kinds) is sealed
    assert x.grad.shape == (4, 6)


def test_a_backward_pass_over_a_flush(sealed: bool) -> None:
    for _ in range(3):
        x = numbers(4, 6)
        h, c = PROGRAMS["cell"](x)
        h.tolist()
        (h * c).sum().backward()
        y = numbers(4, 6)
        with torch.eager():
            u, v = PROGRAMS["cell"](y)
            (u * v).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("own_trie")
def test_the_step_of_a_new_path_is_made_again() -> None:
    trace = _hot.current_trace()
    x = numbers(3, 5)
    grads = []
    for _ in range(3):
        x.grad = None
        flat(F.silu(x)).backward()
        states = trace.states
        with config.override(compile=False, wait=False):  # machine code has no use for nodes
            grads.append(x.grad.tolist())
        (step,) = [state.step for state in states if state.is_step]
        assert (step.nodes is None) is (len(grads) == 1)
    assert grads[0] == grads[1] == grads[2]
