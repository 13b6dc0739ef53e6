"""The comparing itself: tables, ratios, and a side that fails."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def harness(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = pytest.importorskip("bench")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "HERE", tmp_path)
    yield module
    sys.modules.pop("bench", None)


def test_ratios_are_between_paired_passes(harness):
    found = harness.ratio([2.0, 6.0, 8.0], [1.0, 2.0, 8.0])
    assert found == {"ratio": 2.0, "low": 1.0, "high": 3.0}


def test_tables(harness):
    text = harness.table([{"a": 1.23456, "b": "x"}, {"a": None}], ["a", "b"])
    assert text.splitlines() == ["| a     | b |", "|-------|---|", "| 1.235 | x |", "|       |   |"]


def test_results_are_written_with_the_machine(harness, tmp_path):
    harness.publish("some", [{"a": 1}], ["a"])
    written = json.loads((tmp_path / "some.json").read_text())
    assert written["rows"] == [{"a": 1}]
    assert written["machine"]["cores"]
    assert written["machine"].keys() >= {"core", "vectors", "cache"}


def test_the_uncompiled_core_is_not_timed_in_silence(harness, monkeypatch):
    assert harness.conditions()["core"] in ("compiled", "uncompiled")
    monkeypatch.delenv("WEND_PURE", raising=False)
    harness.refuse_the_uncompiled_core("compiled")
    with pytest.raises(RuntimeError, match="build it"):
        harness.refuse_the_uncompiled_core("uncompiled")
    monkeypatch.setenv("WEND_PURE", "1")
    harness.refuse_the_uncompiled_core("uncompiled")


def test_a_side_answers_and_fails_with_its_own_words(harness, tmp_path):
    (tmp_path / "side.py").write_text(
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "from bench import serve\n"
        "print('not an answer')\n"
        "def answer(x):\n"
        "    print('noise')\n"
        "    return 1 / x\n"
        "serve(answer)\n"
    )
    side = harness.Side("torch", "side.py")
    try:
        with pytest.raises((RuntimeError, ValueError)):
            side.ask(x=4)  # what is printed before serve begins is no answer
    finally:
        side.close()
    text = (tmp_path / "side.py").read_text().replace("print('not an answer')\n", "")
    (tmp_path / "side.py").write_text(text)
    side = harness.Side("torch", "side.py")
    try:
        assert side.ask(x=4) == 0.25
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            side.ask(x=0)
        assert side.ask(x=2) == 0.5
    finally:
        side.close()
