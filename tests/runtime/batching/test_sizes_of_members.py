"""A stack of members compares sizes that a single member does not: each outcome has a template."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config

PROGRAMS = {
    "mul": (lambda x, y: x * y.sum(0), lambda x, y: x * y.sum(0)),
    "columns": (lambda x, y: x.amax(0) + y, lambda x, y: x.max(0) + y),
    "expand": (
        lambda x, y: x.sum(1, keepdim=True).expand(x.shape) * y,
        lambda x, y: np.broadcast_to(x.sum(1, keepdims=True), x.shape) * y,
    ),
}
ROWS = [(1, 3), (3, 1), (2, 1, 4), (1, 2, 1)]


def data(rows, n=4):
    rng = np.random.default_rng(rows)
    return rng.normal(size=(n, rows, 2)), rng.normal(size=(n, rows, 2))


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("order", ROWS, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_of_members_of_other_sizes(name, order, wait):
    program, by_hand = PROGRAMS[name]
    with own_trie(sealed=True), config.override(compile=True, wait=wait):
        for rows in order * 3:
            xs, ys = data(rows)
            a, b = torch.tensor(xs, requires_grad=True), torch.tensor(ys)
            found = torch.stack([program(x, y) for x, y in zip(a, b, strict=True)])
            expected = np.stack([by_hand(x, y) for x, y in zip(xs, ys, strict=True)])
            np.testing.assert_allclose(found.detach().numpy(), expected)
            found.sum().backward()
            with torch.autobatch(False):
                c = torch.tensor(xs, requires_grad=True)
                torch.stack([program(x, y) for x, y in zip(c, b, strict=True)]).sum().backward()
                slope = c.grad.numpy()
            np.testing.assert_allclose(a.grad.numpy(), slope)


@pytest.mark.parametrize("order", ROWS, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_lanes_of_other_sizes(name, order):
    pytest.importorskip("greenlet")
    program, by_hand = PROGRAMS[name]

    def turn(x, y):
        z = program(x, y)
        return z * 2.0 if z.sum() > 0 else z * 3.0

    with own_trie(), config.override(weigh=False):
        for rows in order * 4:
            xs, ys = data(rows)
            found = torch.batched(turn)(list(torch.tensor(xs)), list(torch.tensor(ys)))
            for z, x, y in zip(found, xs, ys, strict=True):
                expected = by_hand(x, y)
                np.testing.assert_allclose(z.numpy(), expected * (2 if expected.sum() > 0 else 3))
