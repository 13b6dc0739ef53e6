"""`autograd.grad` for values of the last steps does not go through all that was computed before."""

import numpy as np
import pytest

import wend
from wend._engine.transforms import reach

STEPS = 12


def solve(t, steps):
    """Steps of a solver whose correction is a gradient, each with results that are read."""
    w = t.tensor([0.5, -0.3], requires_grad=True)
    y = t.tensor([1.0, 2.0], requires_grad=True) * 1.0
    kept = []
    for _ in range(steps):
        kept.append(y)
        f = (y * w).sin()
        (g,) = t.autograd.grad(f.sum(), y, create_graph=True)
        y = y + 0.1 * f + 0.01 * f * g
        assert np.isfinite(float(y.sum().detach()))
    return w, y, kept


def test_regions_asked_do_not_grow_with_the_steps(monkeypatch):
    asked = []
    look = reach.Reach._look
    monkeypatch.setattr(reach.Reach, "_look", lambda *given: (asked.append(1), look(*given))[1])
    counts = []
    for steps in (STEPS, 2 * STEPS):
        asked.clear()
        solve(wend, steps)
        counts.append(len(asked))
    assert 0 < counts[1] <= 2.5 * counts[0]


@pytest.mark.parametrize(
    "goals", [[-1], [0], [3, -2], [-1, 0], ["w"], ["w", -1]], ids=lambda goals: str(goals)
)
def test_gradients_of_earlier_values_and_leaves(goals):
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, wend):
        w, y, kept = solve(t, STEPS)
        inputs = [w if goal == "w" else kept[goal] for goal in goals]
        found.append([g.detach().numpy() for g in t.autograd.grad((y * y).sum(), inputs)])
    for mine, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_a_value_that_does_not_lead_there_has_no_gradient():
    _, y, kept = solve(wend, 3)
    later = kept[-1] * 2
    assert float(later.sum().detach()) == pytest.approx(2 * float(kept[-1].sum().detach()))
    assert wend.autograd.grad(kept[1].sum(), later, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match=r"unused|not have been used"):
        wend.autograd.grad(y.sum(), later)
