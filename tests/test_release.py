"""A release is told alike in all places, and the files for contributors are well-formed."""

import json
import re
import shutil
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest

from wend._tools import cli
from wend.version import __version__

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
COMMANDS = ("setup", "smoke", "test", "lint", "docs")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def releases():
    """(version, date) of each release in the changelog, the latest first."""
    found = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", read("CHANGELOG.md"), re.MULTILINE)
    return [(version, date.fromisoformat(day)) for version, day in found]


def test_versions_are_numbers():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", __version__)


def test_the_changelog_has_a_heading_for_what_comes_and_one_for_each_release():
    headings = re.findall(r"^## (.*)$", read("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert len(releases()) == len(headings) - 1
    days = [day for _, day in releases()]
    assert days == sorted(days, reverse=True)
    kinds = set(re.findall(r"^### (.*)$", read("CHANGELOG.md"), re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_version_changelog_and_citation_agree():
    version, day = releases()[0]
    if ".dev" not in __version__:
        assert version == __version__
    citation = dict(re.findall(r"^([\w-]+): (.+)$", read("CITATION.cff"), re.MULTILINE))
    assert (citation["version"], citation["date-released"]) == (version, day.isoformat())
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert citation["license"] == project["license"]
    assert citation["abstract"] == project["description"]


def test_the_version_stands_in_one_place_of_the_sources():
    project = tomllib.loads(read("pyproject.toml"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "wend.version.__version__"
    }
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.py"), ROOT / "setup.py"]
    holds = [p.name for p in files if f'"{__version__}' in p.read_text(encoding="utf-8")]
    assert holds == ["version.py"]


def test_the_command_tells_the_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"wend {__version__}\n"


def test_supported_versions_are_those_of_the_project():
    minor = ".".join(__version__.split(".")[:2])
    assert f"| {minor} | yes |" in read("SECURITY.md")
    lowest = tomllib.loads(read("pyproject.toml"))["project"]["requires-python"].lstrip(">=")
    assert f"| Python | {lowest} and newer" in read("docs/versions.md")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_of_issues_are_forms(path):
    yaml = pytest.importorskip("yaml")
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem == "config":
        assert set(form) <= {"blank_issues_enabled", "contact_links"}
        return
    assert set(form) == {"name", "description", "labels", "body"}
    ids = [part["id"] for part in form["body"]]
    assert len(set(ids)) == len(ids) > 1
    for part in form["body"]:
        assert part["type"] in ("input", "textarea", "dropdown", "checkboxes")
        assert part["attributes"]["label"]
    assert any("wend env" in str(part) or "wend compat" in str(part) for part in form["body"])


def test_commands_of_contributors():
    makefile, page = read("Makefile"), read("CONTRIBUTING.md")
    assert re.findall(r"^(\w+):.*## ", makefile, re.MULTILINE) == ["help", *COMMANDS]
    for command in COMMANDS:
        assert f"make {command}" in page
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    for command in COMMANDS:  # shown, not run
        done = subprocess.run(
            ["make", "-n", command], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for script in re.findall(r"scripts/\w+", done.stdout):
            assert (ROOT / script).exists()
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in shown.splitlines()] == ["help", *COMMANDS]


def test_commits_are_checked_by_the_tools_of_the_environment():
    """Hooks run what `make lint` and `make smoke` run, and fetch nothing."""
    yaml = pytest.importorskip("yaml")
    (repo,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert repo["repo"] == "local"
    entries = [hook["entry"] for hook in repo["hooks"]]
    assert all(hook["language"] == "system" for hook in repo["hooks"])
    for tool in ("ruff format", "ruff check", "mypy", "bash scripts/smoke"):
        assert any(entry.startswith(tool) for entry in entries)
        assert tool in read("Makefile")


def test_containers_are_set_up_as_contributors_are():
    container = json.loads(read(".devcontainer/devcontainer.json"))
    image = re.search(r"^FROM (\S+)$", read("Dockerfile"), re.MULTILINE)[1]
    assert container["image"] == image and container["postCreateCommand"] == "make setup"
    assert "RUN make setup" in read("Dockerfile")
    python = tuple(map(int, re.search(r"python:(\d+)\.(\d+)", image).groups()))
    assert python >= (3, 11)
