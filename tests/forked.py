"""Runs programs, each in a process of its own, and hands back the counts that each one prints.

    python tests/forked.py MODULE < names      a line of JSON about each name

MODULE is a file with a function `counts_of(name) -> dict`. The process imports it once, with Wend,
and forks for each name, so that programs begin alike and quickly, and none meets what another left.
A program that takes longer than `SECONDS` of processor time is ended. Hashes of strings are fixed:
counts do not depend on the order of sets.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
#: Processor time of one program, if it sets no other limit.
SECONDS = 60
#: What would make counts depend on the machine or its user.
SETTINGS = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "WEND_STRICT": "1"}


class Forked:
    """Counts of the programs of a module, from processes of their own.

    folder: holds the object cache and all counts; several processes of tests may share it
    settings: further variables of the environment
    """

    def __init__(self, module: Path, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.module = module
        self.folder = folder
        self.settings = SETTINGS | (settings or {})
        self.process: subprocess.Popen[str] | None = None

    def of(self, name: str) -> dict[str, Any]:
        """The counts of a program, found once for all that share the folder.

        {"ended": text} instead, for a program that raised or was ended.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / (name.replace("/", "_") + ".json")
        with path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            if not text:
                text = self.ask(name)
                file.write(text)
        found: dict[str, Any] = json.loads(text)
        return found

    def ask(self, name: str) -> str:
        """Have a program run; returns a line of JSON."""
        if self.process is None:
            env = {**os.environ, **self.settings, "WEND_CACHE_DIR": str(self.folder / "objects")}
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), str(self.module)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
            )  # fmt: skip
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the process that runs {self.module.name} has ended"
        return line

    def end(self) -> None:
        """End the process; counts stay."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def shared_folder(tmp_path_factory: Any, name: str) -> Path:
    """A folder that all processes of a run of tests share."""
    base = Path(tmp_path_factory.getbasetemp())
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name


def run(module: Any, name: str) -> str:
    """Fork and run a program; returns a line of JSON."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        os.dup2(2, 1)  # what programs print is not for the reader of counts
        os._exit(child(module, name, writing))
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = "took too long" if number == signal.SIGXCPU else f"signal {number}"
        return json.dumps({"ended": why})
    return text


def child(module: Any, name: str, writing: int) -> int:
    """Run a program in a process of its own; returns the status to end with."""
    limit = getattr(module, "SECONDS", SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    try:
        found = module.counts_of(name)
    except BaseException as error:
        traceback.print_exc()
        found = {"ended": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}
    with open(writing, "w", encoding="utf-8") as pipe:
        pipe.write(json.dumps(found))
    sys.stderr.flush()
    return 0


def main() -> None:
    """Answer each line of standard input."""
    path = Path(sys.argv[1])
    sys.path[:0] = [str(TESTS), str(path.parent)]
    specification = importlib.util.spec_from_file_location(f"forked_{path.stem}", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    for line in sys.stdin:
        print(run(module, line.rstrip("\n")), flush=True)


if __name__ == "__main__":
    main()
