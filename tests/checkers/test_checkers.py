"""Type checkers on programs of users: no false alarm, each planted mistake seen, all names known.

mypy and pyright run once each, over all files; pyright is in the extra `lint`.
"""

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import wend

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
MISTAKES = HERE / "mistakes.py"
MARKED = {
    number: line.partition("# mistake: ")[2]
    for number, line in enumerate(MISTAKES.read_text(encoding="utf-8").splitlines(), 1)
    if "# mistake: " in line
}
_MYPY = re.compile(r"(.+?):(\d+): error: (.*)")

Reports = dict[str, dict[int, list[str]]]


def absent(name):
    """Why a checker cannot be asked here, or None."""
    if importlib.util.find_spec(name) is None:
        return f"{name} is not installed: pip install -e '.[lint]'"
    return None


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Two programs that name all public names."""
    folder = tmp_path_factory.mktemp("names")
    for kind in ("by_attributes", "by_imports"):
        command = [sys.executable, str(HERE / "public_names.py"), kind]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        (folder / f"{kind}.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def reports(request, names, tmp_path_factory):
    """{file: {line: messages}} of a checker about all files."""
    if reason := absent(request.param):
        pytest.skip(reason)
    files = [*PROGRAMS, MISTAKES, *sorted(names.glob("*.py"))]
    work = tmp_path_factory.mktemp(request.param)
    return {"mypy": ask_mypy, "pyright": ask_pyright}[request.param](files, work)


def ask_mypy(files, work) -> Reports:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    command += ["--hide-error-context", "--no-pretty", f"--cache-dir={work / 'cache'}"]
    command += [f"--python-executable={sys.executable}"]
    run = subprocess.run(
        [*command, *map(str, files)], capture_output=True, text=True, env=environment(), cwd=work
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    lines = [match for line in run.stdout.splitlines() if (match := _MYPY.match(line))]
    return gathered((work / m[1], int(m[2]), m[3]) for m in lines)


def ask_pyright(files, work) -> Reports:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(
        [*command, *map(str, files)],
        capture_output=True,
        text=True,
        env={**environment(), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        cwd=work,
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = json.loads(run.stdout)
    assert found["summary"]["filesAnalyzed"] == len(files)
    return gathered(
        (Path(d["file"]), d["range"]["start"]["line"] + 1, d["message"])
        for d in found["generalDiagnostics"]
        if d["severity"] == "error"
    )


def environment():
    """The checkers read the Wend that is imported here, installed or not."""
    source = str(Path(wend.__file__).resolve().parents[1])
    if "site-packages" in source:
        return dict(os.environ)
    return {**os.environ, "MYPYPATH": source, "PYTHONPATH": source}


def gathered(diagnostics) -> Reports:
    reports: Reports = defaultdict(lambda: defaultdict(list))
    for file, line, message in diagnostics:
        reports[file.name][line].append(message)
    return reports


def test_programs_have_no_false_alarms(reports):
    assert len(PROGRAMS) >= 20
    assert {p.name: dict(reports[p.name]) for p in PROGRAMS if reports[p.name]} == {}


def test_planted_mistakes_are_seen(reports):
    assert len(MARKED) >= 20
    assert dict.fromkeys(reports["mistakes.py"]).keys() == MARKED.keys(), {
        line: MARKED.get(line, messages)
        for line, messages in [*reports["mistakes.py"].items(), *MARKED.items()]
        if (line in MARKED) != (line in reports["mistakes.py"])
    }


@pytest.mark.parametrize("program", ["by_attributes.py", "by_imports.py"])
def test_all_public_names_are_known(reports, names, program):
    lines = (names / program).read_text(encoding="utf-8").splitlines()
    assert len(lines) > 1000
    assert {lines[n - 1]: messages for n, messages in reports[program].items()} == {}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_programs_run(program, capsys):
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out
