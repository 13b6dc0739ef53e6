"""In processes that cannot import SciPy, an extra, all but a few rare things work."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = "import sys; sys.modules['scipy'] = None; "
#: Examples without scikit-learn, which needs SciPy itself.
EXAMPLES = {
    "branch": (),
    "words": ("--modules", 30, "--limit", 24, "--test-limit", 10, "--epochs", 1),
    "trees": ("--modules", 30, "--limit", 24, "--test-limit", 12, "--epochs", 1, "--seeds", 1),
}


def run(code, *arguments):
    """What a program prints that cannot import SciPy."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_smoke_tests_pass():
    """Each op is computed there."""
    files = [
        path.relative_to(ROOT)
        for path in sorted(ROOT.glob("tests/**/test_*.py"))
        if re.search(r"^@pytest\.mark\.smoke", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    code = "import pytest; sys.exit(pytest.main(['-q', '-m', 'smoke', *sys.argv[1:]]))"
    assert re.search(r"\d\d passed", run(code, "-p", "no:cacheprovider", *files))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name):
    run(
        "from wend._tools.cli import main; sys.exit(main())",
        *("run", f"examples/{name}.py", *EXAMPLES[name]),
    )


def test_the_rest_names_the_extra():
    code = """
import wend
try:
    wend.quasirandom.SobolEngine(3)
except ModuleNotFoundError as error:
    print(error)
"""
    code = f"exec({code!r})"
    text = "SobolEngine: needs SciPy, which is not installed: pip install 'wend-dl[full]'"
    assert text in run(code)
