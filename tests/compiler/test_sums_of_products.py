"""Sums of products of one form: which are joined, and what they compute."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.ir.loops import CONTRACT, JOIN
from wend._engine.runtime.flush_log import last_plans


def steps_of_last_plan():
    return last_plans()[-1].compiled.code.steps


def kinds(steps):
    return [getattr(step, "ops", [step])[0].kind for step in steps]


def planned(run, visits=4):
    """Call `run` until its path has machine code; return its last results and its steps."""
    with own_trie(), config.override(compile=True, wait=True):
        for _ in range(visits):
            found = run()
            torch.synchronize()
        return found, steps_of_last_plan()


def gradient_of_an_unrolled_net(steps, batch, width, seed=0):
    """(gradient by Wend, the same in float64 by hand, kinds of the steps) of h = tanh(h W + x)."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(width, width)) / width**0.5
    x = rng.normal(size=(steps, batch, width))
    weight = torch.tensor(w, dtype=torch.float32, requires_grad=True)
    given = torch.tensor(x, dtype=torch.float32)

    def run():
        weight.grad = None
        h = torch.zeros(batch, width)
        for k in range(steps):
            h = torch.tanh(h @ weight + given[k])
        (h * h).sum().backward()
        return weight.grad

    found, made = planned(run)
    hidden = [np.zeros((batch, width))]
    for k in range(steps):
        hidden.append(np.tanh(hidden[-1] @ w + x[k]))
    wanted, g = np.zeros((width, width)), 2 * hidden[-1]
    for k in reversed(range(steps)):
        g = g * (1 - hidden[k + 1] ** 2)
        wanted += hidden[k].T @ g
        g = g @ w.T
    return found.numpy(), wanted, kinds(made)


@pytest.mark.parametrize(("steps", "batch"), [(2, 1), (5, 3), (24, 4), (40, 20)])
def test_the_gradient_of_an_unrolled_net_is_few_products(steps, batch):
    found, wanted, made = gradient_of_an_unrolled_net(steps, batch, 96)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * abs(wanted).max())
    joined = -(-steps * batch // 512)  # products of the gradient
    assert made.count(CONTRACT) <= 2 * steps - 1 + joined
    assert made.count(JOIN) == 2 * joined


def test_large_operands_are_not_copied():
    found, wanted, made = gradient_of_an_unrolled_net(6, 64, 16)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * abs(wanted).max())
    assert made.count(CONTRACT) >= 3 * 6 - 2


def test_few_products_of_matrices_that_do_not_come_back():
    """x @ a + y @ b: the matrices are larger than the result."""
    x, a, y, b = (torch.randn(4 if k % 2 == 0 else 64, 64) for k in range(4))
    found, made = planned(lambda: x @ a + y @ b)
    wanted = x.double() @ a.double() + y.double() @ b.double()
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4)
    assert kinds(made).count(CONTRACT) == 2


def test_joined_products_serve_other_sizes():
    """A plan is made at first sizes, and serves others, no rows among them."""
    weight = torch.randn(80, 80)

    def run(rows):
        total = None
        for k, n in enumerate(rows):
            x = torch.full((n, 80), 0.25 + k)
            y = torch.arange(n * 80.0).reshape(n, 80) / 100
            product = x.T @ y
            total = product if total is None else total + product
        return total + weight

    with own_trie(), config.override(compile=True, wait=True):
        for rows in ([2, 3, 4], [2, 3, 4], [4, 2, 3], [7, 50, 2], [300, 2, 900], [5, 4, 0]):
            found = run(rows).numpy()
            wanted = weight.double().numpy()
            for k, n in enumerate(rows):
                y = np.arange(n * 80.0).reshape(n, 80) / 100
                wanted = wanted + np.full((n, 80), 0.25 + k).T @ y
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
            torch.synchronize()


FORMS = (
    lambda x, y: x.T @ y,
    lambda x, y: (y.T @ x).T,
    lambda x, y: x.T.contiguous() @ y,
    lambda x, y: torch.einsum("km,kn->mn", x, y),
    lambda x, y: torch.tensordot(x.reshape(2, -1, 24), y.reshape(2, -1, 24), ([0, 1], [0, 1])),
    lambda x, y: x[0].unsqueeze(1) * y[0],
)


@pytest.mark.parametrize("seed", range(40))
def test_random_sums(seed):
    """Trees of additions over products of several forms; values inside that are wanted too."""
    rng = np.random.default_rng(seed)
    dtype = (torch.float32, torch.float64)[seed % 2]
    given = [
        torch.tensor(rng.normal(size=(2 * int(rng.integers(1, 4)), 24)), dtype=dtype)
        for _ in range(8)
    ]
    pairs = [(a, b) for a in range(8) for b in range(8) if given[a].shape == given[b].shape]
    drawn = [(int(rng.integers(len(FORMS))), pairs[rng.integers(len(pairs))]) for _ in range(9)]
    joins = [tuple(rng.integers(0, 99, 2)) for _ in range(8)]
    kept = set(rng.integers(0, 17, int(rng.integers(0, 3))).tolist())
    again = int(rng.integers(0, 12))

    def run(values):
        terms = [FORMS[form](values[a], values[b]) for form, (a, b) in drawn]
        made = [*terms]
        for i, j in joins:
            first = terms.pop(i % len(terms))
            second = terms.pop(j % len(terms))
            terms.append(first + second)
            made.append(terms[-1])
        if again < len(made):
            terms.append(terms[0] * made[again])
        return terms + [made[k] for k in sorted(kept)]

    found, _ = planned(lambda: run(given))
    wanted = run([x.double() for x in given])
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            mine.double().numpy(), theirs.numpy(), rtol=1e-4, atol=1e-4 * abs(theirs.numpy()).max()
        )
