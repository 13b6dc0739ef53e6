"""Hands are drawn by a seed, and each choice comes as often as the others."""

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def hands(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield pytest.importorskip("hands")
    for name in ("hands", "bench", "written", "written.hand"):
        sys.modules.pop(name, None)


def test_a_seed_draws_the_same_hands(hands):
    assert hands.draw(1, "tree_lstm", 5) == hands.draw(1, "tree_lstm", 5)
    assert hands.draw(1, "tree_lstm", 5) != hands.draw(2, "tree_lstm", 5)
    assert hands.draw(1, "tree_lstm", 5) != hands.draw(1, "early_exit", 5)


@pytest.mark.parametrize("count", [1, 4, 11])
def test_choices_come_equally_often(hands, count):
    drawn = [asdict(hand) for hand in hands.draw(3, "tree_lstm", count)]
    assert len(drawn) == count
    for name, options in hands.CHOICES.items():
        times = Counter(hand[name] for hand in drawn)
        assert set(times) <= set(options)
        assert max(times.values()) - min(times[option] for option in options) <= 1


def test_losses_are_compared(hands):
    hand = hands.draw(0, "tree_lstm", 1)[0]
    hands.check(hand, [1.0, 2.0], [1.00001, 2.0])
    with pytest.raises(RuntimeError, match="losses differ"):
        hands.check(hand, [1.0, 2.1], [1.0, 2.0])


def test_the_spread_of_hands(hands):
    row = {"workload": "x", "torch / wend": 4.0, "longest": 1.0, "cold": 2.0, "warm": 3.0}
    rows = [row | {"wend ms": 2.0, "memory": 0.5}, row | {"wend ms": 3.0, "memory": 0.7}]
    (found,) = hands.spread(rows)
    assert found["worst / best hand"] == 1.5
    assert found["most memory"] == 0.7
