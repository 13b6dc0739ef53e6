"""The map of cliffs: every feature runs, and the columns say what they claim."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

#: Two steps of each feature, and of some drawn programs: {name: losses, or the error}.
ALL = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch
import cliff_features as features
names = [(name,) for name in (*features.WHOLE, *features.WORDS, *features.AROUND)]
losses = {}
for program in [*names, *features.combinations(20)]:
    torch.manual_seed(0)
    features.DRAW.seed(0)
    try:
        step = features.step_of(program)
        losses["+".join(program)] = [step(), step()]
    except Exception as error:
        losses["+".join(program)] = repr(error)
print(json.dumps(losses))
"""


@pytest.fixture
def cliffs(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield pytest.importorskip("cliffs")
    for name in ("cliffs", "bench"):
        sys.modules.pop(name, None)


def test_every_feature_runs(tmp_path):
    script = tmp_path / "all.py"
    script.write_text(ALL)
    command = [sys.executable, "-m", "wend", "run", str(script), str(BENCHMARKS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr
    losses = json.loads(ended.stdout.splitlines()[-1])
    assert len(losses) > 120
    assert {name: error for name, error in losses.items() if isinstance(error, str)} == {}
    assert all(abs(loss) < 1e3 for pair in losses.values() for loss in pair)


def marks_of(times):
    marks = [5.0]
    for seconds in times:
        marks.append(marks[-1] + seconds)
    return marks


def test_the_steady_time_is_that_of_the_last_third(cliffs):
    assert cliffs.steady(marks_of([9.0] * 20 + [1.0] * 10)) == pytest.approx(1.0)


def test_steps_until_fast(cliffs):
    slow_and_fast = [5.0] * 20 + [1.0] * 80
    assert cliffs.until_fast(marks_of(slow_and_fast)) == 20
    assert cliffs.until_fast(marks_of([1.0] * 60)) == 0
    once_late = [1.0] * 40 + [9.0] + [1.0] * 59
    assert cliffs.until_fast(marks_of(once_late)) == 0


def test_the_mean_leaves_out_what_did_not_run(cliffs):
    rows = [{"steady": 2.0}, {"failures": "PyTorch: no"}, {"steady": 8.0}]
    assert cliffs.geometric_mean(rows, "steady") == pytest.approx(4.0)
