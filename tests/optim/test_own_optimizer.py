"""An optimizer of one's own: the two files that CONTRIBUTING shows."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import wend as torch
from wend._engine.core.primitive import REGISTRY, ops

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def lion():
    """The class, from the blocks of the page."""
    blocks = re.findall(r"^```python\n# (\S*lion)\.py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert [path for path, _ in blocks] == ["ops/composites/lion", "optim/lion"]
    for path, text in blocks:
        module = sys.modules[f"page.{path}"] = types.ModuleType(f"page.{path}")
        exec(text, vars(module))
    yield module.Lion
    del REGISTRY["lion_step"]
    delattr(type(ops), "lion_step") if hasattr(type(ops), "lion_step") else vars(ops).pop(
        "lion_step"
    )


def by_hand(w, x, steps, lr=0.01, beta1=0.9, beta2=0.99, decay=0.1):
    mean = np.zeros_like(w)
    for _ in range(steps):
        g = 2 * (w - x)
        w = w - lr * (np.sign(beta1 * mean + (1 - beta1) * g) + decay * w)
        mean = beta2 * mean + (1 - beta2) * g
    return w


def test_runs_are_those_of_the_method_written_out(lion):
    rng = np.random.default_rng(0)
    start, x = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    w = torch.tensor(start, requires_grad=True)
    optimizer = lion([w], lr=0.01, weight_decay=0.1)
    for _ in range(12):
        optimizer.zero_grad()
        (w - torch.tensor(x)).square().sum().backward()
        optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), by_hand(start, x, 12), rtol=1e-12)


def test_state_is_saved_and_bad_settings_are_refused(lion):
    w = torch.ones(2, requires_grad=True)
    optimizer = lion([w], lr=0.5)
    w.sum().backward()
    optimizer.step()
    again = lion([torch.ones(2, requires_grad=True)])
    again.load_state_dict(optimizer.state_dict())
    (state,) = again.state_dict()["state"].values()
    assert state["exp_avg"].tolist() == pytest.approx([0.01, 0.01]) and state["step"] == 1
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        lion([w], lr=-1)
