"""What is installed has a name of its own, which all texts use; what is imported is `wend`."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME, EXTRAS = PROJECT["name"], PROJECT["optional-dependencies"]
#: A distribution with extras, or behind `pip install`: the name, and the extras if there are any.
WITH_EXTRAS = re.compile(r"(?<![\w./-])(wend[\w-]*)\[([a-z][a-z0-9, ]*)\]")
INSTALLED = re.compile(r"pip install (?:-\S+ )*['\"]?(wend[\w-]*)(?![\w/.-])()")

ENDINGS = {".py", ".md", ".toml", ".yml", ".txt", ""}


def requirements(text):
    """(name, extras) of each requirement of Wend in a text."""
    for match in (*WITH_EXTRAS.finditer(text), *INSTALLED.finditer(text)):
        yield match[1], [extra.strip() for extra in match[2].split(",") if extra.strip()]


def texts():
    """Files that people read: pages, programs, scripts without an ending."""
    yield from (p for p in ROOT.glob("*.*") if p.suffix in ENDINGS and p.is_file())
    for folder in ("src/wend", "docs", "tests", "benchmarks", "examples", "scripts", ".ci"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in ENDINGS and path.is_file() and path != Path(__file__).resolve():
                yield path


@pytest.mark.smoke
def test_requirements_are_seen():
    text = "pip install 'wend[onnx]', pip install wend, or wend-dl[full, test]; wend['x'] is none"
    assert sorted(requirements(text)) == [
        ("wend", []),
        ("wend", []),
        ("wend", ["onnx"]),
        ("wend-dl", ["full", "test"]),
    ]


def test_texts_name_the_distribution_and_extras_that_it_has():
    rows = [
        (path.relative_to(ROOT).as_posix(), name, extra)
        for path in texts()
        for name, extras in requirements(path.read_text(encoding="utf-8", errors="replace"))
        for extra in extras or [""]
    ]
    assert len(rows) > 15
    assert [row for row in rows if row[1] != NAME] == []
    assert [row for row in rows if row[2] and row[2] not in EXTRAS] == []
