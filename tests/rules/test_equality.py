"""Rule: equality is derived, never observed. That two dims happen to be equal is no structure.

With it goes what no size and no number may do: be part of a key.
"""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import pytest
from disabling import fresh_patterns, on_the_reference, plans_made, states_made

import wend as torch
from tries import own_trie
from wend._engine.core import primitive
from wend._engine.core.symbolic import DIM, EQ, Guards

# -- extents that happen to be equal --------------------------------------------------------


def activity(n: int) -> None:
    """A layer 6 -> 5 on n rows: n may be 6, or 5, by chance."""
    x, w = torch.ones(n, 6), torch.ones(6, 5)
    y = ((x @ w).tanh().sum(dim=1) * 2.0).sum().item()
    assert y == pytest.approx(n * 5 * 2 * np.tanh(6.0), rel=1e-5)


def lengths() -> None:
    for n in (5, 6, 7, 8, 30, 6, 256):
        activity(n)


@pytest.fixture
def observing(monkeypatch):
    """Switch the rule off: every equality that a call's extents show becomes a guard."""
    real = primitive.make_program

    def observed(prim, types, outs, guards):
        dims = [((DIM, i, a), n) for i, t in enumerate(types) for a, n in enumerate(t.shape)]
        for (a, n), (b, m) in combinations(dims, 2):
            guards.add(EQ, a, b, n == m)
        return real(prim, types, outs, guards)

    def switch() -> None:
        for module in [m for name, m in sys.modules.items() if name.startswith("wend.")]:
            if vars(module).get("make_program") is real:
                monkeypatch.setattr(module, "make_program", observed)

    return switch


def test_extents_that_happen_to_be_equal_are_no_structure(observing):
    """Disabled: what the rule asked of the extents is joined by what they show by chance.

    A batch of 6 rows at width 6 is then another path, with another plan, than one of 9.
    """
    with fresh_patterns():
        activity(9)
        assert states_made(lengths) == 0
        assert plans_made(lengths) == 0
    observing()
    with fresh_patterns():
        activity(9)
        assert states_made(lengths) > 5
    with fresh_patterns():
        activity(9)
        assert plans_made(lengths) >= 2


# -- what the rule asked is kept ------------------------------------------------------------


@pytest.fixture
def trusting(monkeypatch):
    """Switch the check off: what was equal when a rule first ran is taken to be so for ever."""

    def switch() -> None:
        monkeypatch.setattr(Guards, "add", lambda self, op, a, b, outcome: None)

    return switch


def total(n: int, m: int) -> float:
    return (torch.ones(n) + torch.ones(m)).sum().item()


def test_unlike_leaves_that_once_agreed_are_not_fused(trusting, planted_failure):
    """Disabled: the pattern of a call keeps no guards.

    Two leaves that agreed once are then taken for equal: no error at the user's line.
    """
    with fresh_patterns():
        assert total(4, 4) == 8.0
        with pytest.raises(RuntimeError, match=r"add: shapes .* do not broadcast"):
            torch.ones(4) + torch.ones(5)  # while recording
        assert total(5, 5) == 10.0
    trusting()
    with on_the_reference(), fresh_patterns():
        assert total(4, 4) == 8.0
        wrong = torch.ones(4) + torch.ones(5)
        assert wrong.shape == (4,)
        with pytest.raises(RuntimeError, match="could not be broadcast together"):
            wrong.tolist()


def rows(n: int) -> tuple[int, ...]:
    y = torch.ones(1, 3) + torch.ones(n, 3)
    assert float(y.sum()) == 6.0 * n
    return tuple(y.shape)


def test_extent_one_is_a_pattern_of_its_own(trusting):
    """Disabled: the pattern of a call keeps no guards; then 1 row is like any number of rows."""
    sizes = (1, 4, 3, 1, 0, 2)
    with fresh_patterns():
        assert [rows(n) for n in sizes] == [(n, 3) for n in sizes]
    trusting()
    with on_the_reference(), fresh_patterns():
        assert [rows(n) for n in sizes] == [(1, 3)] * len(sizes)


# -- sizes and numbers are no keys ----------------------------------------------------------


def schedule() -> None:
    """A learning rate that is another one in each step."""
    p = torch.zeros(3)
    for rate in np.linspace(0.1, 1.0, 50):
        p.sub_(torch.ones(3) * float(rate))
        torch.synchronize()


def test_a_learning_rate_schedule_does_not_grow_the_trie():
    """Disabled by hand: a number that is structure selects an op, as the dim of a sum does."""
    with own_trie():
        schedule()
        assert states_made(schedule) == 0

    def keyed() -> None:
        p = torch.zeros((1,) * 6)
        for step in range(50):
            # which dims are summed is structure: it stands for the rate in the key
            dims = tuple(d for d in range(6) if step >> d & 1)
            p.sub_(torch.ones((1,) * 6).sum(dim=dims, keepdim=True))
            torch.synchronize()

    with own_trie():
        assert states_made(keyed) > 50


def test_category_and_sign_of_zero_are_told_apart():
    x = torch.ones(2)
    for _ in range(3):
        assert (x / 0.0).tolist() == [np.inf, np.inf]
        assert (x / -0.0).tolist() == [-np.inf, -np.inf]
        assert (torch.ones(2, dtype=torch.int64) * True).dtype is torch.int64
        assert (torch.ones(2, dtype=torch.int64) * 1.0).dtype is torch.float32
