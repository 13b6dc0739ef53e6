"""Some hundred changed files of each kind are refused, or run: see `files.py`."""

import random

import files
import files_changes
import pytest

SEED, EACH = 40, 300


@pytest.mark.parametrize("kind", files.KINDS)
def test_changed_files_are_refused_or_run(kind, tmp_path):
    if kind == "onnx":
        pytest.importorskip("onnx", reason="the package onnx is not installed")
    files.prepare(tmp_path, [kind])
    rows = files.run(tmp_path, SEED, 0, EACH, [kind], 1)
    faults = [row for row in rows if row["outcome"].startswith("BAD")]
    assert not faults, files.summary(faults)
    outcomes = [row["outcome"] for row in rows]
    assert len(outcomes) == EACH and outcomes.count("refused") > EACH // 3
    assert outcomes.count("ran") > EACH // 50


# -- the fuzzer itself ----------------------------------------------------------------------------


def test_a_file_of_a_number_is_always_the_same():
    valid = files_changes.closed(
        {"__metadata__": {"wend.program": '{"a": [1, "x", {"b": 2}]}'}}, b""
    )
    made = [files_changes.change("export", valid, random.Random("1 2")) for _ in range(2)]
    assert made[0] == made[1]
    others = {files_changes.change("export", valid, random.Random(k))[1] for k in range(50)}
    assert len(others) > 20


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        ("import ctypes; ctypes.string_at(0)", "BAD ends by -11"),
        ("raise KeyError('inside')", "BAD load"),
        ("import os; os.system('true')", "BAD executed"),
        ("bytearray(3 << 30)", "BAD load"),
    ],
)
def test_faults_are_seen(work, outcome, tmp_path, monkeypatch):
    """A reader with a fault, which the processes get by a module in front of theirs."""
    files.prepare(tmp_path, ["export"])
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Planted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'files_changes':\n"
        "            import wend\n"
        "            calls = []\n"
        "            real = wend.export.load\n"
        "            def load(file):\n"
        "                calls.append(1)\n"
        "                if len(calls) > 8:\n"
        f"                    {work}\n"
        "                return real(file)\n"
        "            wend.export.load = load\n"
        "sys.meta_path.insert(0, Planted())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    rows = files.run(tmp_path, SEED, 0, 4, ["export"], 1)
    assert outcome in {row["outcome"] for row in rows}
