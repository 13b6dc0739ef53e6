"""docs/libraries.md, the pinned versions and the tests of libraries say the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "libraries"))
import libraries_page as page

sys.path.pop(0)


def test_the_table_is_that_of_pins_and_tests():
    """`.ci/libraries` sees to it that the tests pass; the page names nothing else."""
    _, inside, _ = page.parts(page.PAGE.read_text(encoding="utf-8"))
    assert inside == page.table()


def test_each_pinned_library_has_a_test():
    assert set(page.claims()) == set(page.pins()[0])


def test_pins_are_exact_and_without_pytorch():
    lines = (page.HERE / "pins.txt").read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line and not line.startswith("#")]
    assert len(named) == len(page.pins()[1]) > 60
    assert "torch" not in page.pins()[1]


@pytest.mark.parametrize("outcome", ["failed", "skipped", "xfailed"])
def test_a_library_that_does_not_run_is_no_row(outcome):
    ran = {name: dict.fromkeys(tests, "passed") for name, tests in page.claims().items()}
    assert page.table(ran) == page.table()
    ran["peft"] = {"test_peft": outcome}
    rows = page.table(ran)
    assert "| peft |" not in rows and "| skorch |" in rows


def test_a_run_of_other_versions_is_no_result(tmp_path):
    listed = page.pins()[0]
    rows = {name: {"version": v, "tests": {}} for name, v in listed.items()} | {
        "einops": {"version": "0.1", "tests": {}}
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps(rows))
    command = [sys.executable, page.__file__, "--check", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "einops" in done.stderr
