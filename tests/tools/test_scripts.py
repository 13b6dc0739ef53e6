"""The scripts that set Wend up on a fresh machine."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("bash") is None, reason="the scripts are for bash")
def test_an_install_is_decided_by_files_that_exist():
    done = subprocess.run(
        ["bash", "-c", "source scripts/environment && build_inputs"],
        cwd=ROOT,
        env={**os.environ, "WEND_VENV": "unused"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = done.stdout.split()
    assert [name for name in found if not (ROOT / name).is_file()] == []
    sources = ROOT / "src" / "wend"
    compiled = {path.with_suffix(".py") for path in sources.rglob("*.pxd")}
    wanted = {*compiled, *sources.rglob("*.pxd"), *sources.rglob("*.h"), ROOT / "setup.py"}
    assert {ROOT / name for name in found} == {*wanted, ROOT / "pyproject.toml"}
