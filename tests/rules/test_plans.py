"""Rule: plans and live values. A plan serves any subset of what it computes; few are kept."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from disabling import plans_made, slot_replaced

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.runtime import flush

OUTPUTS = 12


def outputs_kept_at_random(turns: int, seed: int = 3) -> None:
    """A path with a dozen results, of which another choice is held in each turn."""
    rng = random.Random(seed)
    x = torch.ones(4)
    torch.synchronize()
    for _ in range(turns):
        made = [x * float(k) for k in range(OUTPUTS)]
        kept = {k: y for k, y in enumerate(made) if rng.random() < 0.5}
        del made
        torch.synchronize()
        for k, y in kept.items():
            assert y.tolist() == [float(k)] * 4


# -- no plan explosion ----------------------------------------------------------------------


def exact_plan(batch, live):
    """`find_plan` without the rule: a plan serves what it was made for, and each is kept."""
    table = batch.state.plans
    if table is None:
        table = batch.state.plans = {}
    key = tuple(live)
    if key not in table:
        table[key] = flush.make_plan(flush.path_of(batch), batch, frozenset(live))
    return table[key]


def test_outputs_kept_at_random_do_not_make_plans_explode(monkeypatch):
    """Disabled: each set of live values gets its own plan."""
    with own_trie():
        assert plans_made(lambda: outputs_kept_at_random(300)) <= 8
    monkeypatch.setattr(flush, "find_plan", exact_plan)
    with own_trie():
        assert plans_made(lambda: outputs_kept_at_random(300)) >= 250


def test_a_state_keeps_a_handful_of_plans(monkeypatch):
    """Disabled: the number of plans a state may keep, and with it the union of all of them."""
    with own_trie():
        assert plans_made(lambda: outputs_kept_at_random(300)) <= 8
    monkeypatch.setattr(flush, "MAX_PLANS", 1 << 30)
    with own_trie():
        assert plans_made(lambda: outputs_kept_at_random(300)) >= 30


# -- the surplus ----------------------------------------------------------------------------


def bytes_left(numbers: int) -> int:
    """Memory in use after a plan for twelve results has served one of them."""
    x = torch.ones(numbers)
    torch.synchronize()

    def turn(keep: int) -> list[object]:
        made = [x * float(k) for k in range(OUTPUTS)][:keep]
        torch.synchronize()
        return list(made)

    turn(OUTPUTS)
    tracemalloc.start()
    try:
        kept = turn(1)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == 1
    return used


def test_the_surplus_is_freed_at_once():
    """Disabled: the results of a flush, wanted or not, outlive it."""
    numbers = 100_000
    with own_trie():
        assert bytes_left(numbers) < 2 * 4 * numbers
    held = []
    real = _hot.slot("execute")

    def hoard(batch, live):
        real(batch, live)
        held.append(batch.values)

    with slot_replaced("execute", hoard), own_trie():
        assert bytes_left(numbers) > (OUTPUTS - 1) * 4 * numbers


# -- which values are held is no part of the path ---------------------------------------------


@pytest.mark.parametrize("keep", range(0, OUTPUTS, 5))
def test_what_is_held_does_not_change_the_path(keep):
    with own_trie():
        outputs_kept_at_random(3)
        before = _hot.count("states")
        outputs_kept_at_random(20, seed=keep)
        assert _hot.count("states") == before


# -- a plan that computes more is found natively ---------------------------------------------


def test_a_path_that_kept_one_value_more_at_first_is_not_slow_for_ever():
    """The launcher runs a visit by itself only if the plan is known for exactly its values."""
    x = torch.ones(4, 8)

    def once():
        return (x * 2).sum().item()

    # Without machine code, which would run with no search for the plan.
    with own_trie(), config.override(compile=False):
        for _ in range(2):
            y = x * 2
            y.sum().item()
        del y
        once()
        hits = flush.COUNTS["hits"]
        for _ in range(5):
            once()
        assert flush.COUNTS["hits"] == hits + 5
