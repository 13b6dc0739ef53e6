"""Runs of the demo's programs, each in a process of its own, and where PyTorch is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_FOLDER = Path(__file__).parent / "programs"
#: {name: file}, in the order of the table.
PROGRAMS: Final = {name: _FOLDER / f"{name}.py" for name in ("tree", "ragged", "branches")}
_STEP = re.compile(r"step (\d+): loss (\S+), ([\d.]+) ms$")
_WHOLE = re.compile(r"\d+ steps, imports included: ([\d.]+) s$")
#: Read by the libraries of both frameworks.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "WEND_NUM_THREADS")
_ASK = (
    "import importlib.metadata as m, importlib.util as u; "
    "assert u.find_spec('torch'), 'it is not installed'; print(m.version('torch'))"
)


class Failed(Exception):
    """A run ended with an error, or a Python that was named has no PyTorch."""


@dataclass
class Timed:
    """A run: losses and processor times."""

    program: str
    label: str
    losses: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)  # seconds
    whole: float = 0.0  # seconds, imports included

    @property
    def step(self) -> float:
        """Seconds of a step once the run is under way: the median of the later half."""
        later = sorted(self.steps[len(self.steps) // 2 :])
        return (later[(len(later) - 1) // 2] + later[len(later) // 2]) / 2


def timed(
    program: str,
    label: str,
    python: str | None,
    steps: int,
    threads: int,
    cache: str,
    progress: Callable[[int], None] = lambda step: None,
) -> Timed:
    """Run a program for so many steps and return its figures.

    python: an interpreter that has PyTorch; None: Wend runs the program
    cache: the folder of Wend's machine code     progress: is told each step
    Raises Failed with the end of the program's output.
    """
    through = [sys.executable, "-m", "wend", "run"] if python is None else [python]
    # Both read the files of this Python's library: those of another version differ.
    library = ["--library", sysconfig.get_path("stdlib")]
    command = [*through, str(PROGRAMS[program]), "--steps", str(steps), *library]
    environment = {**os.environ, **dict.fromkeys(_THREADS, str(threads))}
    environment |= {"WEND_CACHE_DIR": cache, "PYTHONUNBUFFERED": "1"}
    run, others = Timed(program, label), []
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if step := _STEP.match(line):
                run.losses.append(float(step[2]))
                run.steps.append(float(step[3]) / 1000)
                progress(int(step[1]))
            elif whole := _WHOLE.match(line):
                run.whole = float(whole[1])
            else:
                others.append(line)
    if process.returncode or len(run.steps) != steps:
        text = "".join(others[-20:]).rstrip()
        raise Failed(f"{program}, {label}: exit status {process.returncode}\n{text}")
    return run


def python_with_torch() -> tuple[str | None, str]:
    """Return an interpreter that has PyTorch and PyTorch's version; (None, "") if there is none.

    Raises Failed if WEND_TORCH_PYTHON names an interpreter without PyTorch.
    """
    named = os.environ.get("WEND_TORCH_PYTHON")
    for python in [named] if named else candidates():
        version, fault = version_of_torch(python)
        if version:
            return python, version
        if named:
            raise Failed(f"WEND_TORCH_PYTHON={named} has no PyTorch: {fault}")
    return None, ""


def candidates() -> Iterator[str]:
    """Yield interpreters: the running, the base of the environment, and those on the path."""
    own = [sys.executable, getattr(sys, "_base_executable", None)]
    on_path = [shutil.which("python3"), shutil.which("python")]
    yield from dict.fromkeys(python for python in [*own, *on_path] if python)


def version_of_torch(python: str) -> tuple[str, str]:
    """Return (PyTorch's version, "") or ("", why there is none) of an interpreter."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        # No interpreter, or a hanging interpreter: the caller tells, if a person gave the name.
        return "", str(error)
    if done.returncode:
        return "", (done.stderr.strip().splitlines() or ["no word"])[-1]
    return done.stdout.strip().partition("+")[0], ""  # +cpu names a build


def named_python() -> str:
    """Return this interpreter as a person would type it."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
