"""The sources, wheels and settings of a release: `scripts/wheels`, and the services that build."""

import importlib.machinery
import importlib.util
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "wheels"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script as a module, whose project is an empty folder."""
    loader = importlib.machinery.SourceFileLoader("wheels_script", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, loader.name, module)  # its dataclasses look there
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path / "project")
    module.ROOT.mkdir()
    return module


def archive(path, names):
    with tarfile.open(path, "w:gz") as file:
        for name in names:
            file.addfile(tarfile.TarInfo(f"wend_dl-1/{name}"), io.BytesIO())
    return path


def test_the_script_says_how_it_is_used():
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for flag in ("--sdist", "--pure", "--python", "--arm-root"):
        assert flag in done.stdout


def test_sources_without_a_file_are_refused_and_so_are_more_files(script, tmp_path):
    for name in ("a.py", "b/c.txt", "build/x", "m.so", ".venv/y", "src/wend_dl.egg-info/z"):
        (script.ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (script.ROOT / name).touch()
    assert script.kept_files() == {"a.py", "b/c.txt"}
    whole = ["a.py", "b/c.txt", "PKG-INFO", "setup.cfg", "src/wend_dl.egg-info/SOURCES.txt"]
    assert script.check_sdist(archive(tmp_path / "1.tar.gz", whole)).faults == []
    row = script.check_sdist(archive(tmp_path / "2.tar.gz", [*whole[1:], "m.so"]))
    assert row.faults == ["lacks a.py", "has m.so, which git does not keep"]


@pytest.mark.skipif(shutil.which("git") is None, reason="asks git")
def test_a_checkout_is_asked_for_the_files_that_git_keeps(script):
    subprocess.run(["git", "init", "-q", script.ROOT], check=True)
    (script.ROOT / ".gitignore").write_text("*.log\n")
    (script.ROOT / "x.log").touch()
    (script.ROOT / "x.py").touch()
    assert script.kept_files() == {".gitignore", "x.py"}


def test_a_wheel_for_all_systems_has_nothing_that_is_compiled(script, tmp_path):
    path = tmp_path / "wend_dl-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("wend/x.py", "")
    assert script.audit(tmp_path, path).faults == []
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("wend/x.so", f"at {script.ROOT}/x.c")
        file.writestr("wend/x.h", "")
        file.writestr("wend/__pycache__/x.pyc", "")
    assert script.audit(tmp_path, path).faults == [
        "wend/x.so has a path of this machine",
        "wend/x.h is of no use in an installation",
        "wend/__pycache__/x.pyc is of no use in an installation",
        "wend/x.so is compiled",
    ]


def test_a_compiled_module_comes_with_its_source(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "run", lambda *words, **_: "manylinux_2_17")
    path = tmp_path / "wend_dl-1-cp311-cp311-manylinux_2_17_other.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("wend/x.cpython-311.so", "")
    assert script.audit(tmp_path, path).faults == ["there is no wend/x.plain"]


def test_an_unknown_interpreter_is_told(script):
    with pytest.raises(SystemExit, match=r"there is no Python 2\.7"):
        script.interpreters(["2.7"])
    (python,) = script.interpreters([sys.executable])
    assert python.version == "{}.{}".format(*sys.version_info)


def test_all_services_build_the_same_versions(script):
    builds = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert builds == [f"cp{version.replace('.', '')}-*" for version in script.VERSIONS]
    page = (ROOT / "docs" / "howto" / "installing.md").read_text(encoding="utf-8")
    assert f"{script.VERSIONS[0]} to {script.VERSIONS[-1]}" in page
    assert PROJECT["project"]["requires-python"] == f">={script.VERSIONS[0]}"
    files = PROJECT["project"]["name"].replace("-", "_")
    assert f"{files}-" in WORKFLOW and f"{files}-*" in SCRIPT.read_text(encoding="utf-8")


def test_each_system_of_the_workflow_has_settings():
    systems = re.findall(r"name: (\w+)-\w+, machine", WORKFLOW)
    assert set(systems) == {"linux", "macos", "windows"}
    assert set(systems) <= PROJECT["tool"]["cibuildwheel"].keys()
    assert "python scripts/wheels --pure" in WORKFLOW


def test_the_manifest_takes_each_folder_of_the_project():
    """A folder that comes later is missed by the script too, which .ci/run runs."""
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    ignored = {"build", "dist", ".git", ".venv", ".hypothesis"}
    folders = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and path.name not in ignored and not path.name.endswith("_cache")
    }
    assert folders == set(re.findall(r"^graft (\S+)$", manifest, re.MULTILINE))
    assert "scripts/wheels --sdist" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
