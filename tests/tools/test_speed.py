"""The page 'How fast, honestly' has all measured figures, those first in which Wend is slower."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Parts of workloads, and variants that `totals.py` leaves out.
NO_WORKLOADS = {"common", "resnet", "random_programs_read", "random_programs_unread"}
#: Workloads of `device.py`, for which no card has been at hand.
NO_WORKLOADS |= {"cached_decoding", "mixture_of_experts"}


@pytest.fixture(scope="module")
def speed():
    spec = importlib.util.spec_from_file_location("make_speed", ROOT / "docs" / "make_speed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_figures(speed):
    page = speed.PAGE.read_text(encoding="utf-8")
    assert page == speed.page(speed.read()), "python docs/make_speed.py"


def test_all_workloads_examples_and_features_are_on_the_page(speed):
    figures = speed.read()
    names = {
        kind: {row[speed.NAMES[kind]] for row in found["rows"]} for kind, found in figures.items()
    }
    folder = ROOT / "benchmarks"
    workloads = {path.stem for path in (folder / "workloads").glob("*.py")} - NO_WORKLOADS
    assert names["totals"] == workloads
    assert names["examples"] == {"trees", "words", "parser", "grow", "digits"}
    text = (folder / "cliff_features.py").read_text(encoding="utf-8")
    assert len(names["cliffs"]) >= 131
    assert all(name in text or name.startswith("drawn") for name in names["cliffs"])
    page = speed.PAGE.read_text(encoding="utf-8")
    for name in set().union(*names.values()):
        assert f"| {name.replace('_', ' ')} |" in page


def test_rows_in_which_wend_is_slower_come_first(speed):
    figures = speed.read()
    top = speed.page(figures).split("\n## ")[1]
    assert top.startswith("Where Wend is slower")
    for kind, found in figures.items():
        for row in found["rows"]:
            name = row[speed.NAMES[kind]].replace("_", " ")
            near = min(speed.ratios(kind, row)) < speed.NEAR
            assert (f"| {name} | {'steady' if kind == 'cliffs' else 'cold'}" in top) == near, name
    assert "| digits |" in top and "| parser with a stack |" in top


def test_the_machine_is_named(speed):
    page = speed.PAGE.read_text(encoding="utf-8")
    for found in speed.read().values():
        assert found["machine"]["core"] == "compiled"
        assert f"Measured on {found['day']}: {found['machine']['processor']}" in page


def test_new_results_are_taken_over(speed, tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "BENCHMARKS", tmp_path)
    monkeypatch.setattr(speed, "FIGURES", tmp_path / "figures.json")
    monkeypatch.setattr(speed, "PAGE", tmp_path / "speed.md")
    (tmp_path / "results").mkdir()
    (tmp_path / "figures.json").write_text((ROOT / "benchmarks/figures.json").read_text())
    row = {"program": "trees", "torch s": 3.14159, "torch / cold": 0.5, "torch / warm": 0.62831}
    machine = dict.fromkeys("processor cores vectors python numpy torch core".split(), "any")
    found = {"machine": machine, "rows": [{**row, "torch MB": 3, "cold MB": 2, "more": 1}]}
    (tmp_path / "results" / "examples.json").write_text(json.dumps(found))
    assert speed.main(["--take", "examples", "Alone."]) == 0
    page = (tmp_path / "speed.md").read_text()
    assert "| trees | cold, warm | 0.50 | 0.63 |" in page and "PyTorch any. Alone." in page
    assert speed.main(["--take", "nothing", ""]) == 2
