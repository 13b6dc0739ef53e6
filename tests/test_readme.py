"""README keeps its word: its commands are there, its program runs, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/compatibility.md",
    "docs/batching.md",
]


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.smoke
def test_the_two_commands_are_there():
    commands = re.findall(r"^bash (\S+)", "".join(blocks("README.md", "sh")), re.MULTILINE)
    assert commands == ["scripts/demo", "scripts/test"]
    for command in commands:
        done = subprocess.run(["bash", "-n", ROOT / command], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "examples/digits.py" in (ROOT / "scripts/demo").read_text()
    assert (ROOT / "examples/digits.py").exists()


def test_the_taste_runs(tmp_path):
    (program,) = blocks("README.md", "python")
    assert len(program.splitlines()) <= 30
    script = tmp_path / "taste.py"
    script.write_text(program.replace("range(100)", "range(3)"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (ROOT / page).parent.joinpath(target).exists(), target
