"""Ordinary programs at ordinary sizes: cases in which all pairs of settings meet.

Each one is compared with PyTorch, and runs by machine code from its tenth step on. `run.py` runs
more of them; `shortcomings.py` lists what does not hold yet.
"""

from __future__ import annotations

from typing import Any

import pytest

from matrix.cases import CHOICES, FEW, MANY, Case, covered, every, parsed
from matrix.shortcomings import (
    AT_FIRST,
    FOR_EACH,
    SHORTCOMINGS,
    TOLERANCE,
    faults,
    listed,
    unlisted,
)
from wend._engine.core._select import is_compiled
from wend._engine.runtime.native.launcher import launcher

ALL = covered()
CASES = [case for case in ALL if case.is_quick]


@pytest.mark.skipif(
    not is_compiled(launcher), reason="the uncompiled core takes several times as long for the same"
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(programs: Any, case: Case) -> None:
    counts = programs.of(str(case))
    text = unlisted(case, counts)
    if text:
        pytest.fail(f"{text}\npython tests/matrix/run.py --case {case}", pytrace=False)
    if found := faults(counts):
        pytest.xfail("; ".join(f"{fault}: {listed(case)[fault]}" for fault in found))


def test_all_pairs_meet_that_are_not_too_large() -> None:
    names = list(CHOICES)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            met = {(getattr(c, first), getattr(c, second)) for c in ALL}
            may = {(getattr(c, first), getattr(c, second)) for c in every() if c.work <= FEW < MANY}
            assert met == may


def test_each_shortcoming_is_of_a_case() -> None:
    for reason, fault, patterns in SHORTCOMINGS:
        for pattern in patterns:
            assert any(listed(case).get(fault) == reason for case in CASES), pattern


GOOD = {"reference": 0, "planning": AT_FIRST + FOR_EACH, "planned": 1, "apart": TOLERANCE}


@pytest.mark.parametrize(
    ("fault", "counts"),
    [
        ("ended", {"ended": "took too long"}),
        ("reference", GOOD | {"reference": 1}),
        ("planning", GOOD | {"planning": AT_FIRST + FOR_EACH + 1}),
        ("numbers", GOOD | {"apart": 2 * TOLERANCE}),
        ("numbers", GOOD | {"apart": float("nan")}),
    ],
)
def test_faults_are_seen(fault: str, counts: dict[str, Any], monkeypatch: Any) -> None:
    case = parsed("lstm,sgd,24,16,64,fixed")
    monkeypatch.setattr("matrix.shortcomings.SHORTCOMINGS", [])
    assert faults(GOOD) == [] and faults(counts) == [fault]
    assert unlisted(case, GOOD) == "" and f"has the fault '{fault}'" in unlisted(case, counts)
    monkeypatch.setattr("matrix.shortcomings.SHORTCOMINGS", [("so", fault, ["lstm,*"])])
    assert unlisted(case, counts) == unlisted(case, GOOD) == ""
