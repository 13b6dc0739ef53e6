"""Flushes of fibers run by groups of regions; their backward pass comes later, or in parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.runtime import flush
from wend._engine.runtime.batching import deferred_backward, executor, signatures
from wend._engine.runtime.compiled import argument_block
from wend._engine.runtime.fibers import fibers, lane_backward, lanes

Params = dict[str, "torch.Tensor"]


@pytest.fixture(params=["one trace", "a trace each"])
def by_groups(request, monkeypatch):
    """Counts the passes that ran by groups and those that needed nodes; a defect shows."""
    apart = request.param == "a trace each"
    run = fibers.run_together
    monkeypatch.setattr(fibers, "run_together", lambda *given, **_: run(*given, apart=apart))
    monkeypatch.setattr(lanes, "PASSED", 0)
    monkeypatch.setattr(signatures, "STRIKES", 1000)
    counts = {"groups": 0, "nodes": 0}

    def counted(name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(*args):
            counts[name] += 1
            return method(*args)

        return call

    again = counted("groups", executor.Execution.backward_again)
    monkeypatch.setattr(executor.Execution, "backward_again", again)
    monkeypatch.setattr(
        deferred_backward.DeferredBackward,
        "resolve",
        counted("nodes", deferred_backward.DeferredBackward.resolve),
    )
    monkeypatch.setattr(
        lane_backward.LaneBatchBackward,
        "push",
        counted("groups", lane_backward.LaneBatchBackward.push),
    )
    monkeypatch.setattr(
        lane_backward.LaneBatchBackward,
        "resolve",
        counted("nodes", lane_backward.LaneBatchBackward.resolve),
    )
    before = torch.autobatch(True)
    yield counts
    before.__exit__()


def parameters() -> Params:
    rng = np.random.default_rng(3)
    shapes = {"a": (4, 4), "b": (4,), "head": (3, 4)}
    made = {n: torch.tensor(rng.normal(size=shape) * 0.6) for n, shape in shapes.items()}
    return {n: p.requires_grad_() for n, p in made.items()}


def walk(p: Params, x: torch.Tensor) -> torch.Tensor:
    """Steps until the scores are sure; how many depends on the values."""
    linear = torch.nn.functional.linear
    for _ in range(6):
        x = x + torch.tanh(linear(x, p["a"], p["b"]))
        scores = linear(x, p["head"])
        if scores.softmax(1).max() > 0.8:
            break
    return torch.nn.functional.cross_entropy(scores, torch.tensor([1]))


def examples(n: int = 7) -> list[torch.Tensor]:
    rng = np.random.default_rng(5)
    return [torch.tensor(rng.normal(size=(1, 4)) * 0.7) for _ in range(n)]


def gradients(p: Params) -> dict[str, np.ndarray]:
    found = {n: t.grad.numpy().copy() for n, t in p.items()}
    for t in p.values():
        t.grad = None
    return found


def alone(use: Callable[[Params, list[torch.Tensor]], None]) -> dict[str, np.ndarray]:
    """What `use` gives with the calls made one after the other, nothing batched."""
    p = parameters()
    with torch.autobatch(False):
        use(p, torch.batched(lambda x: walk(p, x))(examples()))
    return gradients(p)


def together(use: Callable[[Params, list[torch.Tensor]], None]) -> dict[str, np.ndarray]:
    p = parameters()
    use(p, torch.batched(lambda x: walk(p, x))(examples()))
    return gradients(p)


def assert_same(use: Callable[[Params, list[torch.Tensor]], None]) -> None:
    found, expected = together(use), alone(use)
    for name, g in expected.items():
        np.testing.assert_allclose(found[name], g, rtol=1e-9, atol=1e-12, err_msg=name)


def test_the_backward_pass_of_fibers_runs_by_groups(by_groups):
    def use(p, losses):
        torch.stack(losses).mean().backward()

    for _ in range(3):
        assert_same(use)
    assert by_groups["groups"] > 0
    assert by_groups["nodes"] == 0


def test_a_loss_that_is_read_first(by_groups):
    def use(p, losses):
        loss = torch.stack(losses).mean()
        assert loss.item() > 0
        loss.backward()

    assert_same(use)
    assert by_groups["nodes"] == 0


def test_one_backward_pass_after_the_other(by_groups):
    def use(p, losses):
        for loss in losses:
            loss.backward()

    assert_same(use)


def test_halves(by_groups):
    def use(p, losses):
        torch.stack(losses[:4]).sum().backward()
        torch.stack(losses[4:]).sum().backward()

    assert_same(use)


def test_a_graph_that_is_kept(by_groups):
    def use(p, losses):
        loss = torch.stack(losses).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    assert_same(use)
    assert by_groups["nodes"] == 0


def test_a_second_pass_finds_the_graph_freed(by_groups):
    p = parameters()
    losses = torch.batched(lambda x: walk(p, x))(examples())
    torch.stack(losses).sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.stack(losses).sum().backward()


def test_hooks_and_higher_derivatives_need_nodes(by_groups):
    def hooked(p, losses):
        p["a"].register_hook(lambda g: 2 * g)
        torch.stack(losses).sum().backward()

    def twice(p, losses):
        found = torch.autograd.grad(torch.stack(losses).sum(), list(p.values()), create_graph=True)
        sum(g.square().sum() for g in found).backward()

    def some(p, losses):
        (g,) = torch.autograd.grad(torch.stack(losses).sum(), [p["b"]])
        for t in p.values():
            t.grad = torch.zeros_like(t)
        p["b"].grad = g

    for use in (hooked, twice, some):
        assert_same(use)
    assert by_groups["nodes"] > 0


def test_a_frozen_leaf_gets_nothing(by_groups):
    p = parameters()
    losses = torch.batched(lambda x: walk(p, x))(examples())
    p["head"].requires_grad_(False)
    torch.stack(losses).sum().backward()
    assert p["head"].grad is None
    assert p["a"].grad is not None


def test_what_is_written_later_does_not_matter(by_groups):
    data = np.linspace(-1, 1, 16).reshape(4, 1, 4)

    def run(on: bool) -> dict[str, np.ndarray]:
        p = parameters()
        shared = data.copy()
        xs = [torch.from_numpy(row) for row in shared]
        with torch.autobatch(on):
            losses = torch.batched(lambda x: walk(p, x))(xs)
        shared[:] = 7.0
        torch.stack(losses).sum().backward()
        return gradients(p)

    found, expected = run(True), run(False)
    for name, g in expected.items():
        np.testing.assert_allclose(found[name], g, rtol=1e-9, atol=1e-12)


def through_a_view(y, x):
    part = y[1:]
    return (part * part).mean() + y.sum()


def by_two_ways(y, x):
    return (x * x).sum() + (y * 2).sum() + (x * 3).sum()


def joined(y, x):
    y.sum().item()
    return torch.softmax(y, 0).square().sum() + (x * y).mean()


@pytest.mark.parametrize("rest", [through_a_view, by_two_ways, joined])
@pytest.mark.parametrize("shape", [(), (3, 1)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("each", [False, True])
def test_few_ops_off_the_trie(rest, shape, dtype, each):
    """Also if each is a flush: views of others, gradients of no dims, and of half types."""
    numbers = np.random.default_rng(0).normal(size=shape)

    def gradient():
        x = torch.tensor(numbers, dtype=dtype, requires_grad=True)
        y = x * torch.ones(3, 4, dtype=dtype)
        rest(y, x).backward()
        return x.grad.numpy()

    with torch.autobatch(False):
        expected = gradient()
    with own_trie(sealed=True), torch.autobatch(True), torch.eager() if each else nullcontext():
        found = gradient()
    tolerance = 1e-12 if dtype is torch.float64 else 0.03
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_a_loss_of_stacked_members_has_kernels(by_groups, monkeypatch):
    """That scores and targets are of as many rows is known from what the op asked."""
    hosts = []
    real = argument_block.BlockOwner.host
    monkeypatch.setattr(
        argument_block.BlockOwner,
        "host",
        lambda self, frame, op, *rest: (hosts.append(op.name), real(self, frame, op, *rest)),
    )

    def use(p, losses):
        torch.stack(losses).mean().backward()

    signatures.BOOK.clear()  # no template or path that others have made
    with config.override(compile=True, wait=True), own_trie():
        assert_same(use)
    assert not {"gather", "scatter_add"} & set(hosts)


def test_several_gradients_at_once(by_groups, monkeypatch):
    """A pass with an axis for its seeds needs nodes, of flushes that ran by groups too."""

    def jacobian() -> np.ndarray:
        x = torch.tensor(np.linspace(-1, 1, 4), requires_grad=True)
        y = torch.tanh(x * 2) * x
        y.tolist()
        (found,) = torch.autograd.grad(y * y, x, torch.eye(4).double(), is_grads_batched=True)
        return found.numpy()

    with torch.autobatch(False):
        expected = jacobian()
    for name in ("pause", "strikes"):  # whatever the tests before this one made of it
        monkeypatch.setattr(signatures.BOOK, name, 0)
    with own_trie(sealed=True):
        found = jacobian()
    assert by_groups["nodes"] == 2  # one of y, one of its square
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_gradient_of_zeros_that_reads_nothing_is_handed_on():
    """Op by op off the trie: what was overwritten keeps a gradient, as in PyTorch."""
    x = torch.ones(2, 3, requires_grad=True)
    with own_trie(sealed=True), torch.eager():
        y = x * 1.5
        y[None].zero_()
        (y + 1.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("fetch", [torch.Tensor.item, id])
def test_a_gradient_that_nobody_reads_keeps_no_flush_from_running_by_groups(fetch, monkeypatch):
    """Its step waits in the trace of the next flush, which only another executor could run."""
    monkeypatch.setattr(signatures, "STRIKES", 1000)
    ran = []
    real = executor.run_regions
    monkeypatch.setattr(flush, "run_regions", lambda *given: ran.append(real(*given)) or ran[-1])
    x = torch.tensor(np.linspace(-1, 1, 6), requires_grad=True)
    with own_trie(sealed=True), torch.autobatch(True):
        with torch.autobatch(False):
            loss = torch.tanh(x).sum()
            loss.item()
        loss.backward()  # a step, of a flush that did not run by groups
        x.grad = None
        ran.clear()
        for k in range(2):
            loss = (torch.sin(x) * torch.tanh(x * (k + 1.0))).square().sum()
            fetch(loss)
            loss.backward()
            expected, x.grad = x.grad, None
            (again,) = torch.autograd.grad(
                (torch.sin(x) * torch.tanh(x * (k + 1.0))).square().sum(), x
            )
            np.testing.assert_allclose(expected.numpy(), again.numpy())
    assert ran and not ran[0]


@pytest.mark.parametrize("seed", range(3))
def test_backward_passes_of_fibers_take_turns(seed, by_groups):
    """While one waits for its flush, others flush what they have: each gets its own gradients."""

    def train(n: int) -> list[float]:
        w = torch.tensor(np.linspace(-1, 1, 3 + n % 3), requires_grad=True)
        found = []
        for k in range(1 + (n + seed) % 4):
            loss = (torch.tanh(w * n) if (n + k) % 2 else torch.sin(w) + w).square().sum()
            if (n + seed) % 3 == 0:
                found.append(loss.item())
            loss.backward()
            w = (w - 0.1 * w.grad).detach().requires_grad_()
            found.append(float(w[0]))
        return found

    with torch.autobatch(False):
        expected = [train(n) for n in range(7)]
    with own_trie(sealed=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = torch.batched(train)(list(range(7)))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_a_gradient_is_no_memory_of_the_flush():
    """The gradient of a sum is that of its terms: another pass through the flush clears it."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with own_trie(sealed=True), torch.autobatch(True):
        y = x + torch.tensor([0.5, 0.25])
        y.tolist()
        z = y * y
        z.tolist()
        z.sum().backward(retain_graph=True)
        first, x.grad = x.grad, None
        (z * z).sum().backward()
        assert first.tolist() == [3.0, 4.5]
        assert x.grad.tolist() == [4 * 1.5**3, 4 * 2.25**3]
