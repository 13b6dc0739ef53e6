"""The plugin that writes hashes of kernel texts, with which moves of code are compared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = """
import wend as torch

def test_sum():
    x = torch.arange(5.0)
    assert [(torch.tanh(x) * 3).sum().item() > 0 for _ in range(2)] == [True, True]
"""


def test_the_same_program_has_the_same_texts(tmp_path):
    llvm = pytest.importorskip("wend._engine.compiler.llvm_ir.jit")
    if llvm.obstacle() is not None:
        pytest.skip("no machine code can be made here")
    (tmp_path / "test_program.py").write_text(PROGRAM)
    texts = []
    for k in range(2):
        path = tmp_path / f"{k}.txt"
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
            "KERNEL_TEXTS": str(path),
            "WEND_COMPILE": "force",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "kernel_texts", "test_program.py"]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        texts.append(path.read_text())
    assert texts[0] == texts[1] and len(texts[0]) > 60
