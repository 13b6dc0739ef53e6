"""ONNX's own suite for backends: each case at its own tolerance, with a list of known failures.

`python tests/onnx/test_backend_suite.py [KIND [PART OF A NAME]]` prints the figures and failures.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from backend_cases import check, suite  # noqa: E402

#: The least number of cases that must pass.
LEAST = {"node": 1869, "simple": 23, "pytorch-converted": 82, "pytorch-operator": 35}
#: Cases with random numbers, which no two programs draw alike: shapes and dtypes are compared.
RANDOM = ("test_bernoulli", "test_training_dropout")


def expected_failures():
    """{part of a name: reason}; a star at the end stands for any rest."""
    text = (Path(__file__).parent / "expected_failures.txt").read_text(encoding="utf-8")
    rows = [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]
    return dict(rows)


def reason_of(name, table):
    """The reason why a case may fail, or None."""
    for pattern, reason in table.items():
        if name == pattern or (pattern[-1] == "*" and name.startswith(pattern[:-1])):
            return reason
    return None


def failures(cases):
    """{name: error} of the cases that fail."""
    found = {}
    for case in cases:
        try:
            check(case, only_shapes=case.name.startswith(RANDOM))
        except Exception as error:
            found[case.name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return found


@pytest.mark.parametrize("kind", LEAST)
def test_suite(kind):
    cases, table = suite(kind), expected_failures()
    found = failures(cases)
    listed = {case.name for case in cases if reason_of(case.name, table)}
    assert {name: error for name, error in found.items() if name not in listed} == {}
    assert sorted(listed - found.keys()) == [], "listed as failures, and they pass"
    assert len(cases) - len(found) >= LEAST[kind]


def test_every_listed_failure_is_a_case():
    names = [case.name for kind in LEAST for case in suite(kind)]
    stale = [p for p in expected_failures() if not any(reason_of(n, {p: "x"}) for n in names)]
    assert stale == []


if __name__ == "__main__":
    for kind in sys.argv[1:2] or LEAST:
        cases = [case for case in suite(kind) if "".join(sys.argv[2:3]) in case.name]
        found = failures(cases)
        for name, error in found.items():
            print(name, error)
        print(f"{kind}: {len(cases) - len(found)} of {len(cases)}")
