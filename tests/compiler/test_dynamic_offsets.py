"""Positions among a plan's sizes: other ones need no other binding."""

import numpy as np
import pytest

import wend as torch
from wend._engine.base import config
from wend._engine.core import step_log
from wend._engine.runtime.compiled.plan import MOST_SHOWN
from wend._engine.runtime.flush_log import last_plans

RNG = np.random.default_rng(0)
ROWS, WEIGHT = RNG.normal(size=(60, 8)), RNG.normal(size=(8, 8))
KINDS = RNG.integers(0, 60, 60)
POSITIONS = [3, 7, 12, 40, 0]


@pytest.fixture(autouse=True)
def at_once(own_trie):
    """Plans are compiled before their first run."""
    step_log.ROWS.clear()
    with config.override(compile=True, wait=True):
        yield


def select(m, x, w, kinds, k):
    return m.tanh(x[k] @ w)


def a_part(m, x, w, kinds, k):
    return m.tanh(x[k : k + 4] @ w) * x[k + 2 : k + 6]


def from_behind(m, x, w, kinds, k):
    return m.exp(x[-k - 1]) + x[k, 3]


def columns(m, x, w, kinds, k):
    return x[:, k % 5 : k % 5 + 3].sum(0) * w[k % 3, 2:5]


def looked_up(m, x, w, kinds, k):
    return x[kinds[k : k + 9]] * 2


def plans():
    """Compiled plans that ran, latest last."""
    return [plan.compiled for plan in last_plans() if getattr(plan, "compiled", None)]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("program", [select, a_part, from_behind, columns, looked_up])
def test_other_positions_need_no_other_binding(program, gradient):
    for k in POSITIONS:
        x = torch.tensor(ROWS, requires_grad=gradient)
        w, kinds = torch.tensor(WEIGHT), torch.tensor(KINDS)
        torch.synchronize()
        found = program(torch, x, w, kinds, k)
        if gradient:
            found.square().sum().backward()
        np.testing.assert_allclose(
            found.detach().numpy(), program(np, ROWS, WEIGHT, KINDS, k), rtol=1e-6, atol=1e-9
        )
        if gradient:
            y = torch.tensor(ROWS, requires_grad=True)
            with config.override(compile=False, wait=False):
                program(torch, y, w, kinds, k).square().sum().backward()
                expected = y.grad.numpy()
            np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6, atol=1e-9)
    assert plans() and max(len(p.bound) for p in plans()) == 1


def test_positions_are_found_among_many():
    """Each begin goes with an end of its own, in a path of a hundred of them."""
    for k in POSITIONS:
        x = torch.tensor(ROWS)
        torch.synchronize()
        found = torch.stack(
            [x[n % 40 + k % 9 : n % 40 + k % 9 + 1 + n % 7].sum() for n in range(50)]
        )
        expected = [ROWS[n % 40 + k % 9 : n % 40 + k % 9 + 1 + n % 7].sum() for n in range(50)]
        np.testing.assert_allclose(found.numpy(), expected)
    assert plans() and max(len(p.bound) for p in plans()) == 1


def test_an_extent_that_tells_the_position_is_a_size():
    x = torch.tensor(ROWS)
    for k in POSITIONS[1:4]:
        np.testing.assert_allclose((x[:k] * 2).numpy(), ROWS[:k] * 2)
        np.testing.assert_allclose((x[k::2] * 2).numpy(), ROWS[k::2] * 2)
    assert max(len(p.bound) for p in plans()) > 1


def test_a_view_that_is_handed_out_is_at_its_own_place():
    x = torch.tensor(ROWS)
    for k in POSITIONS:
        y = x * 1
        part, total = y[k], y.sum()
        np.testing.assert_allclose(total.item(), ROWS.sum())
        np.testing.assert_allclose(part.numpy(), ROWS[k])


def test_writes_to_single_elements_are_machine_code():
    q = torch.tensor(ROWS)
    expected = ROWS.copy()
    for k in POSITIONS:
        torch.synchronize()
        q[k, -2] = q[k].sum()
        expected[k, -2] = expected[k].sum()
        q[k] = q[-k - 1] * 2
        expected[k] = expected[-k - 1] * 2
        np.testing.assert_allclose(q.numpy().copy(), expected)
    assert len(plans()) >= len(POSITIONS) - 1 and len(plans()[-1].bound) == 1


def test_a_large_leaf_is_written_to_in_place():
    """A kernel would copy all of it; the reference need not."""
    q = torch.zeros(300, 200)
    for k in POSITIONS:
        torch.synchronize()
        q[k] = torch.ones(200) * k
        assert q[k].sum().item() == 200 * k
    assert set(plans()[-1].bound.values()) == {None}


def test_an_element_by_itself_needs_no_other_binding():
    x = torch.tensor(ROWS)
    for k in POSITIONS:
        assert x[k, 3].item() == ROWS[k, 3]
        y = (x * 2)[k]
        assert y[1].item() == 2 * ROWS[k, 1]
    for plan in plans():
        assert len(plan.bound) + len(plan.homes) == 1


def test_a_plan_without_kernels_is_bound_to_few_positions():
    x = torch.tensor(ROWS)
    torch.synchronize()
    for k in range(50):
        row = x[k]
        np.testing.assert_array_equal(row.numpy(), ROWS[k])
    found = plans()
    assert found and all(len(plan.bound) <= MOST_SHOWN for plan in found if not plan.kernels)
