"""WEND_VERIFY=1: machine code beside the reference, and what counts as a difference."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.base.errors import DefectError
from wend._engine.runtime.compiled import plan as cpu


@pytest.fixture(autouse=True)
def verified():
    with own_trie(), config.override(compile=True, wait=True, verify=True):
        yield


def test_the_first_op_that_differs_is_named_with_its_line(monkeypatch):
    real = cpu.CompiledPlan.execute

    def wrong(plan, values, args):
        """What tanh makes, and what depends on it, is off by a little."""
        tanh = next(n for n in plan.reference.path.nodes if n.prim.name == "tanh").outputs[0]
        found = real(plan, values, args)
        return {i: a + 1e-3 if i in (tanh, plan.reference.wanted) else a for i, a in found.items()}

    monkeypatch.setattr(cpu.CompiledPlan, "execute", wrong)
    x = torch.tensor(np.linspace(-1, 1, 5))
    y = torch.tanh(x.exp())
    with pytest.raises(DefectError, match="tanh: machine code and the reference differ") as found:
        y.numpy()
    assert "test_plans.py" in str(found.value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_terms_that_cancel_leave_rounding_in_a_mean_as_well(dtype):
    """Which machine code adds up in another order."""
    numbers = np.random.default_rng(0).normal(size=33)
    x = torch.tensor([*numbers, *-numbers[::-1]]).to(dtype)
    for scale in (1.0, 1e-3, 1e3):
        assert abs((x * scale).mean().item()) <= 1e-2 * scale
        assert abs((x * scale).sum().item() / 7.0) <= 1.0 * scale


def test_a_mean_that_is_wrong_is_none_that_cancels(monkeypatch):
    real = cpu.CompiledPlan.execute
    monkeypatch.setattr(
        cpu.CompiledPlan,
        "execute",
        lambda plan, values, args: {i: a + 1e-3 for i, a in real(plan, values, args).items()},
    )
    with pytest.raises(DefectError, match="differ"):
        torch.tensor([1.0, -1.0, 0.5, -0.5]).exp().log().mean().item()


def test_later_ops_hand_on_the_rounding_of_terms_that_cancel(monkeypatch):
    real = cpu.CompiledPlan.execute
    off = 1e-16

    def rounded(plan, values, args):
        """All is off by the rounding of terms of size 1."""
        return {i: a + off for i, a in real(plan, values, args).items()}

    monkeypatch.setattr(cpu.CompiledPlan, "execute", rounded)
    a = torch.tensor([0.7, -0.3], dtype=torch.float64)
    for later in (
        lambda x: torch.where(a > 0, x, a * 1e-300),
        lambda x: torch.neg(x).unsqueeze(0),
        lambda x: x * 1e-3,
        lambda x: torch.cat([x, a * 0.0]),
        lambda x: (x * 2).relu(),
    ):
        off = 1e-16
        later((a + 1.0) - (a + 1.0)).numpy()
        off = 1e-7
        with pytest.raises(DefectError, match="differ"):
            later((a + 1.5) - (a + 1.5)).numpy()
