"""`wend demo`: its programs, its table, and where it finds PyTorch."""

import ast
import importlib.util
import math
import os
import sys
from pathlib import Path

import pytest

from wend._tools import cli, demo
from wend._tools.demo import comparison, runs

README = Path(__file__).resolve().parents[2] / "README.md"
has_torch = importlib.util.find_spec("torch") is not None


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_in(text):
    """The cells of the demo's table in a text: (header, rows)."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    start = next(i for i, line in enumerate(lines) if cells(line)[:2] == ["program", "run by"])
    header, _, *rows = map(cells, lines[start:])
    return header, [row for row in rows if len(row) == len(header)]


def seconds(text):
    number, unit = text.split()
    return float(number) / {"s": 1, "ms": 1000}[unit]


# -- the programs ----------------------------------------------------------------------


def test_the_table_has_all_programs():
    folder = next(iter(runs.PROGRAMS.values())).parent
    assert sorted(folder.glob("*.py")) == sorted(runs.PROGRAMS.values())


@pytest.mark.parametrize("name", runs.PROGRAMS)
def test_programs_are_short_and_know_nothing_of_wend(name):
    source = runs.PROGRAMS[name].read_text(encoding="utf-8")
    assert "wend" not in source.lower()
    imported = {
        alias.name.split(".")[0] if isinstance(node, ast.Import) else node.module.split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported - sys.stdlib_module_names == {"torch"}
    assert len(source.splitlines()) <= 90
    assert demo.title(runs.PROGRAMS[name])


def test_without_pytorch_its_rows_are_missing(capsys):
    assert cli.main(["demo", "--steps", "2", "--no-torch", "--program", "ragged"]) == 0
    printed = capsys.readouterr().out
    header, rows = table_in(printed)
    assert header == list(comparison.COLUMNS)
    ways = ("Wend, first run", "Wend, again")
    assert [tuple(row[:2]) for row in rows] == [("ragged", way) for way in ways]
    assert {row[4] for row in rows} == {""}, "no ratio without PyTorch"
    assert "losses of all 2 steps are equal" in printed
    assert "PyTorch" in printed.splitlines()[-3], "how to have PyTorch's rows"


@pytest.mark.skipif(not has_torch, reason="compares with PyTorch, which is not installed")
def test_losses_are_those_of_pytorch(capsys, monkeypatch):
    monkeypatch.setenv("WEND_TORCH_PYTHON", sys.executable)
    assert cli.main(["demo", "--steps", "3"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("losses of all 3 steps are equal") == 3
    _, rows = table_in(printed)
    ways = ["Wend,", "PyTorch", "Wend,"]
    assert [(row[0], row[1].split()[0]) for row in rows] == [
        (p, w) for p in runs.PROGRAMS for w in ways
    ]


def test_programs_can_be_chosen(capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(["demo", "--program", "tre"])
    assert error.value.code == 2 and "'tre'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["demo", "--steps", "1"])
    assert "--steps must be 2 or more" in capsys.readouterr().err


def test_a_program_that_fails_is_told(capsys, monkeypatch, tmp_path):
    script = tmp_path / "tree.py"
    script.write_text('"""A fault."""\nimport torch\ntorch.ones(2) + torch.ones(3)\n')
    monkeypatch.setattr(runs, "PROGRAMS", {"tree": script})
    monkeypatch.setattr(demo, "PROGRAMS", {"tree": script})
    assert cli.main(["demo", "--no-torch", "--program", "tree"]) == 1
    fault = capsys.readouterr().err
    assert "wend demo: tree, Wend, first run: exit status 1" in fault
    assert "(2,) and (3,)" in fault


# -- where PyTorch is ------------------------------------------------------------------


def test_a_named_python_without_pytorch_is_told(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("WEND_TORCH_PYTHON", str(tmp_path / "python"))
    assert cli.main(["demo"]) == 1
    assert f"WEND_TORCH_PYTHON={tmp_path}/python has no PyTorch" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="a script that stands for a Python")
def test_the_first_python_with_pytorch_is_taken(monkeypatch, tmp_path):
    monkeypatch.delenv("WEND_TORCH_PYTHON", raising=False)
    for name, answer in (("without", "exit 1"), ("with", "echo 9.9.0+cpu")):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\n{answer}\n")
        script.chmod(0o755)
    pythons = [str(tmp_path / "without"), str(tmp_path / "with")]
    monkeypatch.setattr(runs, "candidates", lambda: pythons)
    assert runs.python_with_torch() == (pythons[1], "9.9.0")
    monkeypatch.setattr(runs, "candidates", lambda: pythons[:1])
    assert runs.python_with_torch() == (None, "")


# -- the table -------------------------------------------------------------------------


def run_of(label, losses, steps, program="tree"):
    return runs.Timed(program, label, losses, steps, sum(steps) + 1)


def test_ratios_are_of_a_step_of_the_later_half():
    mine = run_of("Wend, first run", [0.5, 0.25], [2.0, 0.01])
    theirs = run_of("PyTorch 9", [0.5, 0.25], [0.1, 0.04])
    header, rows = table_in(comparison.table([mine, theirs]))
    assert header == list(comparison.COLUMNS)
    assert rows == [
        ["tree", "Wend, first run", "2.00 s", "10.0 ms", "4.0", "3.01 s", "0.250000"],
        ["tree", "PyTorch 9", "100.0 ms", "40.0 ms", "", "1.14 s", "0.250000"],
    ]


@pytest.mark.parametrize(("loss", "equal"), [(0.25, True), (0.25001, True), (0.26, False)])
def test_losses_that_part_are_told(loss, equal):
    mine = run_of("Wend, first run", [0.5, loss], [1.0, 1.0])
    theirs = run_of("PyTorch 9", [0.5, 0.25], [1.0, 1.0])
    verdict = comparison.verdict("tree", [mine, theirs])
    assert verdict.equal == equal
    if not equal:
        assert verdict.text == "losses part at step 1: 0.26 by Wend, first run, 0.25 by PyTorch 9"


def test_a_loss_that_is_no_number_parts_from_a_number_alone():
    mine = run_of("Wend, first run", [math.nan], [1.0])
    assert not comparison.verdict("tree", [mine, run_of("PyTorch 9", [0.5], [1.0])]).equal
    assert comparison.verdict("tree", [mine, run_of("PyTorch 9", [math.nan], [1.0])]).equal
