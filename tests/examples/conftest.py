"""Running the examples, each in a process of its own, with either framework."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(scope="session")
def run_example(tmp_path_factory):
    """A function (framework, name, *options) -> (metrics, what was printed)."""
    folder = tmp_path_factory.mktemp("examples")

    def run(framework, name, *options):
        metrics = folder / f"{framework}-{name}.json"
        through = ["-m", "wend", "run"] if framework == "wend" else []
        done = subprocess.run(
            [sys.executable, *through, str(ROOT / "examples" / f"{name}.py")]
            + [*map(str, options), "--metrics", str(metrics)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "RuntimeWarning" not in done.stderr, done.stderr
        return json.loads(metrics.read_text()), done.stdout

    return run


@pytest.fixture
def run_both(run_example, tmp_path):
    """A function (name, *options) -> (Wend's metrics, PyTorch's), from the same weights."""
    if not HAS_TORCH:
        pytest.skip("compares with PyTorch, which is not installed")

    def run(name, *options):
        weights = tmp_path / "init.pt"
        theirs, _ = run_example("torch", name, *options, "--save-init", weights)
        start = ("--init", weights) if weights.exists() else ()
        mine, _ = run_example("wend", name, *options, *start)
        return mine, theirs

    return run
