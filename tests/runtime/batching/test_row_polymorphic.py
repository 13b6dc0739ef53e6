"""Frames that serve many numbers of rows: what groups of all sizes compute, and their number."""

from __future__ import annotations

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.runtime.batching import signatures
from wend._engine.runtime.compiled import plan as cpu

SIZES = (3, 9, 5, 40, 2, 17, 70, 4, 12, 33, 8)


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Machine code from the first run, and regions whatever is new."""
    monkeypatch.setattr(signatures, "STRIKES", 1000)
    with config.override(verify=False, compile=True, wait=True), torch.autobatch(True):
        yield


def run(n: int, weight: torch.Tensor, bias: torch.Tensor) -> list[np.ndarray]:
    """Two levels of n cells, and of as many as are left in pairs: loss, gradients, their truth."""
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n, 1, 6)).astype(np.float32)
    weight.grad = bias.grad = None
    with own_trie(sealed=True):
        inputs = [torch.tensor(row, requires_grad=True) for row in rows]
        cells = [torch.tanh(x @ weight + bias) for x in inputs]
        pairs = [torch.tanh((a + b) @ weight) for a, b in zip(cells[::2], cells[1::2])]
        torch.cat(pairs).square().sum().backward()
    w, b, x = weight.detach().numpy(), bias.detach().numpy(), rows[:, 0]
    y = np.tanh(x @ w + b)
    even = y[: n // 2 * 2]
    both = even[::2] + even[1::2]
    z = np.tanh(both @ w)
    g = 2 * z * (1 - z * z)
    back = np.zeros_like(y)
    back[: n // 2 * 2] = np.repeat(g @ w.T, 2, axis=0)
    back *= 1 - y * y
    found = [weight.grad, bias.grad, torch.cat([i.grad for i in inputs if i.grad is not None])]
    want = [x.T @ back + both.T @ g, back.sum(0), (back @ w.T)[: n // 2 * 2]]
    return [*(a.numpy() for a in found), *want]


def test_any_number_of_rows(monkeypatch):
    made = []
    begin = cpu.BoundPlan.__init__
    monkeypatch.setattr(
        cpu.BoundPlan, "__init__", lambda self, *rest: (made.append(self), begin(self, *rest))[1]
    )
    torch.manual_seed(0)
    weight, bias = torch.nn.Parameter(torch.randn(6, 6)), torch.nn.Parameter(torch.randn(6))
    for n in SIZES:
        *found, w, b, x = run(n, weight, bias)
        for have, want in zip(found, (w, b, x), strict=True):
            assert np.linalg.norm(have - want) <= 1e-5 * np.linalg.norm(want)
    first = len(made)
    for n in range(2, 60):
        run(n, weight, bias)
    # What is made for a new number of rows is words, not frames.
    assert len(made) - first < 58


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_found_natively_is_what_is_found_slowly(monkeypatch, threads):
    """`Bound.fit`: words for other sizes, also where kernels are cut or panels laid otherwise."""
    asked = []
    fitted = cpu.CompiledPlan.fitted

    def asking(plan, types, args):
        found = fitted(plan, types, args)
        last, plan.last = plan.last, None
        asked.append((last is not None, found, fitted(plan, types, args)))
        plan.last = last
        return found

    monkeypatch.setattr(cpu.CompiledPlan, "fitted", asking)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        weight, bias = torch.nn.Parameter(torch.randn(6, 6)), torch.nn.Parameter(torch.randn(6))
        for n in (*SIZES, 700, 701, 900, 5):
            run(n, weight, bias)
    finally:
        torch.set_num_threads(before)
    assert sum(known for known, _, _ in asked) > len(SIZES)
    for _, (home, found), (other, expected) in asked:
        assert home is other and (found is None) == (expected is None)
        if found is not None:
            assert found[0].__self__ is expected[0].__self__
            assert found[3:5] == expected[3:5]
            for have, want in zip(found[5], expected[5], strict=True):
                np.testing.assert_array_equal(have, want)


def test_one_frame_serves_all_positions_and_numbers_of_rows(monkeypatch):
    """Where slices begin moves words; those of a fitted frame are written with all others."""
    served = {}
    fitted = cpu.CompiledPlan.fitted

    def asking(plan, types, args):
        home, words = fitted(plan, types, args)
        if plan.moving.moves:
            served.setdefault(id(plan), (plan, []))[1].append((home, words is None))
        return home, words

    monkeypatch.setattr(cpu.CompiledPlan, "fitted", asking)
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(6, 8))
    w = weight.detach().numpy()
    for n, at in ((3, 0), (9, 5), (5, 2), (4, 1), (2, 3), (9, 4), (7, 5), (3, 0)):
        rows = np.random.default_rng(n).normal(size=(n, 2, 6)).astype(np.float32)
        weight.grad = None
        with own_trie(sealed=True):
            cells = [torch.tanh(torch.tensor(x) @ weight) for x in rows]
            parts = [torch.tanh(y[:, at : at + 3] * 2) for y in cells]
            torch.cat(parts).square().sum().backward()
        y = np.tanh(rows @ w)
        z = np.tanh(y[..., at : at + 3] * 2)
        g = np.zeros_like(y)
        g[..., at : at + 3] = 4 * z * (1 - z * z)
        want = np.einsum("nri,nrj->ij", rows, g * (1 - y * y))
        have = weight.grad.numpy()
        assert np.linalg.norm(have - want) <= 1e-5 * np.linalg.norm(want)
    assert served
    for plan, found in served.values():
        assert not any(alone for _, alone in found)
        assert len({id(home) for home, _ in found}) <= len(plan.skeletons)
