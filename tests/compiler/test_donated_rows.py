"""Rows are stored at once: they take the memory of a leaf only if nothing reads it later."""

import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config


@pytest.mark.parametrize("shape", [(), (1,), (3, 1)])
def test_a_parameter_is_not_overwritten_by_its_own_loss(shape):
    with own_trie(), config.override(compile=True, wait=True):
        v = torch.full(shape, 1.5, dtype=torch.float64).requires_grad_()
        optimizer = torch.optim.SGD([v], lr=0.1)
        found = []
        for _ in range(3):
            loss = (v * v).sum()
            loss.backward()
            optimizer.step()
            found.append(v.flatten()[0].item())
    # The gradients add up: 3.0, 3.0 + 2.4, 5.4 + 1.32.
    assert found == pytest.approx([1.2, 0.66, -0.012])
    assert loss.item() == pytest.approx(0.66**2 * v.numel())
