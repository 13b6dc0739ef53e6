"""The benchmark of devices: a row that fails or takes too long leaves a note in the table."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def device(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = pytest.importorskip("device")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "HERE", tmp_path)
    yield module
    for name in ("device", "bench"):
        sys.modules.pop(name, None)


def side(folder, code):
    """Let each side run this code."""
    (folder / "serve_device.py").write_text(code)


def test_the_last_line_of_a_side_is_its_answer(device, tmp_path):
    side(tmp_path, "print('noise'); print('{\"ms\": 2.5}')")
    assert device.ask("torch", "mlp", "cuda", tmp_path / "w", True, 60) == {"ms": 2.5}


def test_a_side_that_fails_is_noted_with_its_error(device, tmp_path):
    side(tmp_path, "import sys; print('later', file=sys.stderr); raise KeyError('what')")
    answer = device.ask("torch", "mlp", "cuda", tmp_path / "w", True, 60)
    assert answer == {"error": "KeyError: 'what'"}


def test_a_side_that_ends_without_a_word_is_noted(device, tmp_path):
    side(tmp_path, "import os; os._exit(7)")
    answer = device.ask("torch", "mlp", "cuda", tmp_path / "w", True, 60)
    assert answer == {"error": "crashed, with status 7"}


def test_a_side_that_takes_too_long_is_ended(device, tmp_path):
    side(tmp_path, "import time; time.sleep(60)")
    answer = device.ask("torch", "mlp", "cuda", tmp_path / "w", True, 1)
    assert answer == {"error": "more than 1 s"}


def test_rows_compare_sides(device):
    row = device.row_of(
        "mlp",
        {
            "wend": {"ms": 2.0, "losses": [1.0, 2.0], "launches": 3.0, "waits": 1.0},
            "host": {"ms": 4.0, "losses": [1.0, 2.0 + 2e-6]},
            "torch": {"ms": 5.0, "losses": [1.0, 2.0]},
            "compiled": {"error": "more than 40 s"},
        },
    )
    assert (row["row"], row["torch / wend"], row["launches"]) == ("W2 mlp", 2.5, 3.0)
    assert "compiled / wend" not in row
    assert row["losses agree to"] == pytest.approx(1e-6, rel=0.01)
    assert row["note"] == "compiled: more than 40 s"


def test_wrong_ops_are_named(device):
    answer = {"samples": 9, "ops": 4, "right": 3, "wrong": {"tanh": "2 of 3 values differ"}}
    note = device.row_of("ops", {"wend": answer})["note"]
    assert note == "3 of 4 ops right in 9 samples; not: tanh"


def test_all_rows_end_in_a_table_and_a_file(device, tmp_path, monkeypatch, capsys):
    side(tmp_path, "raise RuntimeError('no such device')")
    monkeypatch.setattr(device, "has_torch_cuda", lambda: False)
    monkeypatch.setattr(sys, "argv", ["device.py", "--device", "xpu", "--rows", "mlp", "branching"])
    device.main()
    shown = capsys.readouterr().out
    assert "W2 mlp" in shown and "W3 branching" in shown
    assert (tmp_path / "device-xpu.json").exists()
