"""The example that deploys: sessions and ONNX models compute what the programs compute."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "deploy.py"


def test_saved_opened_and_trained_on(tmp_path):
    pytest.importorskip("onnx")
    options = ["--epochs", "1", "--limit", "40"]
    done = subprocess.run(
        [sys.executable, "-m", "wend", "run", str(EXAMPLE), str(tmp_path), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"image.wend", "image.onnx", "words.wend", "words.onnx"}
    first, last = done.stdout.split("trains on: loss ")[1].split("\n")[0].split(" -> ")
    assert float(last) < float(first)
