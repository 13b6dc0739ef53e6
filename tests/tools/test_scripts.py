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
@pytest.mark.parametrize(
    "name", [".ci/run", ".ci/libraries", "scripts/demo", "scripts/smoke", "scripts/test"]
)
def test_scripts_are_read_by_bash(name):
    subprocess.run(["bash", "-n", ROOT / name], check=True)


#: Stands for Python, the one that is named and that of the environment: it notes what it is to do.
STUB = """#!/usr/bin/env bash
case "$1 $2 $3" in
"-VV  ") echo "Python 3.99" ;;
"-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python; echo environment >>calls ;;
"-m pip "*) case "$*" in *" -e .") echo compile ;; *) echo "packages" ;; esac >>calls ;;
"- "*) cat >/dev/null; echo "packages for a $2" >>calls ;;
esac
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="the scripts are for bash")
def test_what_is_there_is_not_installed_again(tmp_path):
    """The demo's environment becomes that of the tests by packages alone: nothing is compiled."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "environment", tmp_path / "scripts")
    (tmp_path / "src" / "wend").mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py"):
        (tmp_path / name).touch()
    stub = tmp_path / "stub"
    stub.write_text(STUB)
    stub.chmod(0o755)
    calls = tmp_path / "calls"
    switches = dict.fromkeys(("WEND_PURE", "WEND_VENV"), "")

    def set_up(needs, **more):
        calls.write_text("")
        subprocess.run(
            ["bash", "-c", f"needs={needs}; source scripts/environment; echo ready in $venv"],
            cwd=tmp_path,
            env={**os.environ, **switches, "PYTHON": str(stub), **more},
            capture_output=True,
            check=True,
        )
        return calls.read_text().splitlines()

    packages = ["packages for a user", "packages"]
    assert set_up("user") == ["environment", *packages, "compile"]
    assert set_up("user") == []
    assert set_up("test") == ["packages for a test", "packages"]
    assert set_up("test") == set_up("user") == set_up("user", WEND_PURE="1") == []
    (tmp_path / "setup.py").write_text("# changed\n")
    assert set_up("user") == [*packages, "compile"]
    (tmp_path / ".venv" / "wend-installed").unlink()
    assert set_up("test") == ["packages for a test", "packages", "compile"]
    assert set_up("test") == []
