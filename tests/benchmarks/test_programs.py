"""Programs of a folder: copied anew for each run, changed as asked, measured from start to end."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
LAUNCH = """
import runpy, sys
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PROGRAM = """
import sys, torch
x = torch.ones(int(sys.argv[1]))
for _ in range(3):
    print("loss", (x * 2).sum().item())
open("once", "x").close()
assert torch.__spec__.name == "wend" and FAILS == 0, "told to fail"
"""
P = """
P = [
    {"name": "short", "repo": "owner+name", "cmds": [["main.py", "3"]], "metric": r"loss ([0-9.]+)",
     "files": {"deep/er.txt": "words"}, "edits": [("main.py", "FAILS", "0")]},
    {"name": "faulty", "repo": "owner+name", "cmds": [["main.py", "3"]],
     "edits": [("main.py", "FAILS", "1")]},
    {"name": "absent", "repo": "owner+other", "cmds": []},
]
"""


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "programs", raising=False)  # another folder's
    yield pytest.importorskip("programs")
    for name in ("programs", "bench"):
        sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "repos" / "owner+name").mkdir(parents=True)
    (tmp_path / "repos" / "owner+name" / "main.py").write_text(PROGRAM)
    (tmp_path / "repos" / "owner+name" / "data.bin").write_bytes(bytes(3_000_001))
    (tmp_path / "launch.py").write_text(LAUNCH)
    (tmp_path / "programs.py").write_text(P)
    return tmp_path


def test_a_program_runs_anew_each_time(programs, folder, tmp_path, capsys):
    short, faulty = programs.programs_of(folder, tmp_path / "work")
    assert "absent" in capsys.readouterr().out
    for _ in range(2):
        found = programs.run(short, "wend", tmp_path / "cache")
        assert not found.fault and found.metric == 6.0
        assert found.seconds > 0 and found.megabytes > 10 and found.reference_ops > 0
    assert (short.folder / "deep" / "er.txt").read_text() == "words"
    assert not (short.folder / "data.bin").exists()
    assert "told to fail" in programs.run(faulty, "wend", tmp_path / "cache").fault


def test_the_mean_is_of_the_rows_that_have_a_ratio(programs):
    rows = [{"torch / cold": 2.0}, {"torch / cold": 8.0}, {"fault": "x"}]
    assert programs.mean(rows, "torch / cold") == pytest.approx(4.0)


def test_the_last_error_is_named(programs):
    text = "Traceback\nValueError: first\nmodule.OtherError: last\ndone\n"
    assert programs.last_words(text, 1) == "module.OtherError: last"
    assert programs.last_words("", 3) == "ended with 3"
