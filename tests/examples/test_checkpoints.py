"""The digits example's checkpoints survive what goes wrong while they are written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os, sys
from pathlib import Path
sys.path.insert(0, {examples!r})
import torch, digits

path = Path({path!r})
digits.save({{"step": 1}}, path)
{fault}
try:
    digits.save({{"step": 2}}, path)
except OSError as error:
    print("failed:", error)
print(torch.load(path), sorted(p.name for p in path.parent.iterdir()))
"""
FULL = """
def full(state, file):
    file.write(b"half of a checkpoint")
    raise OSError(28, "No space left on device")
torch.save = full
"""
NO_REPLACE = """
def replace(source, target):
    raise OSError(5, "Input/output error")
os.replace = replace
"""


@pytest.mark.parametrize("fault", [FULL, NO_REPLACE])
def test_the_old_checkpoint_survives(tmp_path, fault):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    script = tmp_path / "program.py"
    script.write_text(
        PROGRAM.format(examples=str(ROOT / "examples"), path=str(folder / "a.pt"), fault=fault)
    )
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "wend", "run", str(script)],
        env={**os.environ, "PYTHONPATH": path.lstrip(os.pathsep)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "{'step': 1} ['a.pt']"
    assert done.stdout.startswith("failed: [Errno ")
