"""The scripts that set Wend up on a fresh machine."""

import ast
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


@pytest.mark.skipif(shutil.which("bash") is None, reason="the scripts are for bash")
def test_smoke_reads_all_files_with_smoke_tests_and_no_others():
    """The command asks `grep`, this test the parsed files: no way to mark a test is overlooked."""
    text = (ROOT / "scripts" / "smoke").read_text(encoding="utf-8")
    ask = next(line for line in text.splitlines() if "mapfile" in line).replace("mapfile -t", "")
    done = subprocess.run(
        ["bash", "-c", ask.split("< <(")[1].rstrip(")")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    marked = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        source = path.read_text(encoding="utf-8")
        if "smoke" in source and any(
            isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.smoke"
            for node in ast.walk(ast.parse(source))
        ):
            marked.add(path.relative_to(ROOT).as_posix())
    assert set(done.stdout.split()) == marked
    assert len(marked) > 15


def test_commits_and_ci_run_the_same_smoke_tests():
    for name in (".pre-commit-config.yaml", ".ci/run", "CONTRIBUTING.md"):
        assert "bash scripts/smoke" in (ROOT / name).read_text(encoding="utf-8"), name


@pytest.mark.skipif(shutil.which("bash") is None, reason="the scripts are for bash")
@pytest.mark.parametrize("name", [".ci/run", ".ci/libraries", "scripts/smoke", "scripts/test"])
def test_scripts_are_read_by_bash(name):
    subprocess.run(["bash", "-n", ROOT / name], check=True)
