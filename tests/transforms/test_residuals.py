"""What is saved for a backward pass: the cheapest cut, and the same gradients as without it."""

import random
from itertools import combinations

import numpy as np
import pytest

import wend as torch
import wend.nn.functional as F
from wend._engine.transforms import residuals
from wend._engine.transforms.cuts import nearest_cut


def follows_from(kept, follows, wanted):
    """Whether all wanted values are kept or can be computed from kept ones."""
    stack = list(wanted)
    while stack:
        v = stack.pop()
        if v not in kept:
            if v not in follows:
                return False
            stack.extend(follows[v])
    return True


def cheapest(costs, follows, wanted):
    """By trying all choices."""
    choices = (set(kept) for size in range(len(costs) + 1) for kept in combinations(costs, size))
    fits = [kept for kept in choices if follows_from(kept, follows, wanted)]
    return min(sum(costs[v] for v in kept) for kept in fits)


def test_cuts_are_the_cheapest():
    rng = random.Random(0)
    for _ in range(60):
        n = rng.randrange(1, 9)
        costs = {v: rng.randrange(1, 6) for v in range(n)}
        follows = {
            v: rng.sample(range(v), rng.randrange(1, min(v, 3) + 1))
            for v in range(1, n)
            if rng.random() < 0.7
        }
        wanted = {v for v in costs if rng.random() < 0.4} or {n - 1}
        found = nearest_cut(costs, follows, wanted)
        assert follows_from(found, follows, wanted)
        assert sum(costs[v] for v in found) == cheapest(costs, follows, wanted)


def test_of_equal_cuts_the_nearest_is_taken():
    assert nearest_cut({0: 3, 1: 3, 2: 3}, {1: [0], 2: [1]}, {2}) == {2}


@pytest.fixture
def always(monkeypatch):
    """Small segments choose as well."""
    monkeypatch.setattr(residuals, "WORTH_BYTES", 0)


def tensors():
    rng = np.random.default_rng(0)
    shapes = [(6, 5), (5, 8), (8,), (8, 4)]
    return [torch.tensor(rng.normal(size=s), requires_grad=True) for s in shapes]


def network(x, w, b, v, flush=True):
    hidden = F.gelu(x @ w + b)
    normed = F.layer_norm(hidden, (8,))
    weights = torch.softmax(normed @ normed.t(), 1)
    out = torch.tanh(weights @ normed @ v).exp() * x.sum()
    if flush:
        torch.synchronize()
    return out


def gradients(create, flush):
    leaves = tensors()
    out = network(*leaves, flush=flush)
    found = torch.autograd.grad(out.square().sum(), leaves, create_graph=create)
    if create:
        if flush:
            torch.synchronize()
        found += torch.autograd.grad(sum(g.square().sum() for g in found), leaves)
    return [g.detach().numpy() for g in found]


@pytest.mark.parametrize("create", [False, True], ids=["first", "second"])
def test_gradients_are_the_same(always, create):
    again, pending = gradients(create, True), gradients(create, False)
    for a, b in zip(again, pending, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def saved_arrays(tensor):
    """Bytes of the arrays that the segment of a result has saved."""
    arrays = {id(array): array for _, array in tensor.value.segment.saved.values()}
    return sum(array.nbytes for array in arrays.values())


def test_less_is_saved(always, own_trie):
    x = torch.ones(64, 64, requires_grad=True)
    y = torch.tanh(F.gelu(torch.exp(x).sin() * 2).cos() + 1)
    torch.synchronize()
    assert saved_arrays(y) == x.numel() * 4
    y.sum().backward()
    assert x.grad.isfinite().all()


def test_gelu_saves_its_operand_alone(own_trie):
    x = torch.ones(64, 64, requires_grad=True)
    y = F.gelu(x * 2)
    torch.synchronize()
    assert saved_arrays(y) == x.numel() * 4


def test_a_graph_may_be_passed_twice(always):
    leaves = tensors()
    loss = network(*leaves).sum()
    loss.backward(retain_graph=True)
    first = [leaf.grad.numpy().copy() for leaf in leaves]
    loss.backward()
    for leaf, g in zip(leaves, first, strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), 2 * g, rtol=1e-9)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_dropout_is_the_same_again(always):
    x = torch.ones(50, 40, requires_grad=True)
    torch.manual_seed(3)
    y = torch.tanh(F.dropout(torch.exp(x * 0.1), 0.4)) * x
    torch.synchronize()
    (g,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    z = torch.exp(x.detach() * 0.1)
    kept = (y.detach() != 0).double() / 0.6
    t = torch.tanh(z * kept)
    expected = t + (1 - t * t) * kept * z * 0.1
    np.testing.assert_allclose(g.numpy(), expected.numpy(), rtol=1e-4)


def test_small_segments_save_what_is_read():
    x = torch.ones(8, 8, requires_grad=True)
    y = torch.tanh(torch.exp(x))
    torch.synchronize()
    assert saved_arrays(y) > x.numel() * 4


def test_a_budget_makes_large_products_again(always):
    x, w = torch.ones(20, 100), torch.ones(100, 700, requires_grad=True)
    v = torch.ones(700, 30, requires_grad=True)
    torch.set_memory_budget(1000)
    try:
        y = torch.tanh(torch.relu(x.exp() @ w * 0.001) @ v * 0.001)
        torch.synchronize()
    finally:
        torch.set_memory_budget(None)
    widths = [type_.shape[-1] for type_, array in y.value.segment.saved.values()]
    assert 20 * 700 * 4 not in [array.nbytes for _, array in y.value.segment.saved.values()]
    assert 30 in widths
    y.sum().backward()
    z = torch.tanh(torch.relu(x.exp() @ w * 0.001) @ v * 0.001)
    expected = torch.autograd.grad(z.sum(), [w, v])
    for leaf, g in zip([w, v], expected, strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), g.numpy(), rtol=1e-4)
