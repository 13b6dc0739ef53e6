"""From when on one side stays ahead of the other."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def totals(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield pytest.importorskip("totals")
    for name in ("totals", "bench"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        ([3.0, 4.0, 5.0], [1.0, 4.5, 9.0], 4.5),
        ([3.0, 4.0, 10.0], [4.0, 5.0, 9.0], None),
        ([1.0, 6.0, 7.0], [2.0, 5.0, 8.0], 8.0),
        ([1.0], [1.0], 1.0),
    ],
)
def test_ahead_for_good(totals, mine, theirs, found):
    assert totals.ahead_after(mine, theirs) == found


def test_geometric_mean(totals):
    assert totals.mean([{"x": 2.0}, {"x": 8.0}], "x") == pytest.approx(4.0)
