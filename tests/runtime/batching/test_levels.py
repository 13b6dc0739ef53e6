"""Off the trie: groups compute what single ops compute, gradients included."""

from __future__ import annotations

import random

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.core import _hot
from wend._engine.runtime import flush
from wend._engine.runtime.batching import levels
from wend._engine.runtime.numpy_executor.plan import ReferencePlan


@pytest.fixture(autouse=True)
def left_to_groups_of_ops(monkeypatch):
    """What is tested here is what runs where regions cannot."""
    monkeypatch.setattr(flush, "run_regions", lambda batch, live: "left to groups of ops")
    before = _hot.slot("backward_at_once")
    _hot.set_slot("backward_at_once", lambda trace, seeds: None)
    yield
    _hot.set_slot("backward_at_once", before)


def tree_loss(seed: int, parameters: dict[str, torch.Tensor]) -> torch.Tensor:
    rng = random.Random(seed)

    def build(words: int) -> torch.Tensor:
        if words == 1:
            i = rng.randrange(7)
            return parameters["words"][i : i + 1].tanh()
        k = rng.randint(1, words - 1)
        both = torch.cat([build(k), build(words - k)], dim=1)
        gates = both @ parameters["weight"] + parameters["bias"]
        return gates[:, :5].sigmoid() * gates[:, 5:].tanh()

    losses = [build(rng.randint(1, 12)).sum() for _ in range(8)]
    return torch.stack(losses).square().mean()


def run(seed: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    parameters = {
        "words": torch.tensor(draw.normal(size=(7, 5)), requires_grad=True),
        "weight": torch.tensor(draw.normal(size=(10, 10)) * 0.3, requires_grad=True),
        "bias": torch.tensor(draw.normal(size=10), requires_grad=True),
    }
    loss = tree_loss(seed, parameters)
    loss.backward()
    return [loss.detach().numpy().copy()] + [p.grad.numpy().copy() for p in parameters.values()]


@pytest.mark.parametrize("seed", range(4))
def test_groups_agree_with_single_ops(seed, monkeypatch):
    grouped_runs = []
    real = levels.GroupedPlan.run_group
    monkeypatch.setattr(
        levels.GroupedPlan,
        "run_group",
        lambda self, group, *rest: (grouped_runs.append(len(group)), real(self, group, *rest)),
    )
    with own_trie(sealed=True):
        grouped = run(seed)
    assert sum(grouped_runs) > 50, "work of the same structure must meet in groups"
    monkeypatch.setattr(flush, "GroupedPlan", ReferencePlan)
    with own_trie(sealed=True):
        single = run(seed)
    on_the_trie = run(seed)
    for a, b, c in zip(grouped, single, on_the_trie, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(a, c, rtol=1e-12, atol=1e-12)


def test_off_the_trie_nothing_is_kept():
    before = _hot.count("states")
    with own_trie(sealed=True):
        for seed in range(3):
            run(seed)
    assert _hot.count("states") == before


def test_an_error_in_a_group_names_its_line_and_spares_the_others():
    table = torch.arange(4.0)
    with own_trie(sealed=True):
        rows = [table[torch.tensor([i]) + 0] for i in (0, 1, 9, 2, 3)]  # the failing line
        sums = [row * 2.0 for row in rows]
        with pytest.raises(IndexError) as caught:
            sums[2].tolist()
        assert "test_levels.py" in str(caught.value)
        assert [s.tolist() for k, s in enumerate(sums) if k != 2] == [[0.0], [2.0], [4.0], [6.0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_half_scalars_are_half(dtype):
    """Operands of no dims, used several times: what their groups add up stays of their type."""
    with own_trie(sealed=True):
        x = torch.tensor(1.5).to(dtype).requires_grad_()
        y = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
        sum((y / (x * x + k)).mean() for k in range(1, 5)).backward()
        made = np.asarray(_hot.ensure(_hot.value_of(x.grad)))
    assert made.dtype == dtype.numpy
    expected = sum(-3.0 * 7 / 3 / (2.25 + k) ** 2 for k in range(1, 5))
    assert abs(float(made) - expected) < 0.01 * abs(expected)
