"""Whole programs that others wrote, and the examples: processor time and memory from process start.

python benchmarks/programs.py FOLDER [--only NAME ...]
python benchmarks/programs.py --examples [--only NAME ...]

Each program runs as it is, by PyTorch, by Wend with an empty cache of machine code (cold), and by
Wend with the cache of that run (warm). Processor time is that of all processes and threads of the
program, from start to end, imports included; a ratio is PyTorch's over Wend's. A program that
PyTorch cannot run has no row, and a run of Wend that fails has no ratio.

FOLDER holds `programs.py` with a list `P` of programs: {"name", "repo" and "sub": the folder below
`repos/` to copy, "cwd", "cmds": lists of arguments, "files": {path: text, or a function that writes
the file}, "edits": [(file, old, new)], "env", "driver": a script of `drivers/`, "metric": a pattern
of the number that tells how training went, "timeout": seconds}; and `launch.py`, which
`launch.py --module torch SCRIPT ARGS` runs a command of a program with.

`reference s` and `reference ops` are of the warm run: the work of the NumPy reference. `host` names
the ops for which compiled paths call the reference. MB: the most memory of a process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import HERE, ONE_THREAD, conditions, publish, python_path, refuse_the_uncompiled_core

#: The examples that train until their result counts.
EXAMPLES = ("trees", "words", "parser", "grow", "digits")
#: What drivers print at their end.
LAST_LOSS = r"LOSS first [0-9.e+-]+ last ([0-9.e+-]+|nan|inf)"
#: Files above this size are data for other uses of a repository.
MOST_BYTES = 3_000_000
LEFT_OUT = shutil.ignore_patterns(".git", "docs", "assets", "results", "figures")
COLUMNS = [
    "program", "torch s", "cold s", "warm s", "torch / cold", "torch / warm", "torch MB",
    "cold MB", "warm MB", "torch metric", "wend metric", "reference s", "reference ops", "host",
    "fault",
]  # fmt: skip


@dataclass
class Program:
    """A program: its commands, the folder to run them in, and the pattern of its metric.

    prepare: makes the folder anew, so that no run finds the files of another
    """

    name: str
    commands: list[list[str]]
    folder: Path
    metric: str
    prepare: Callable[[], None]
    environment: dict[str, str] = field(default_factory=dict)
    timeout: float = 300.0


@dataclass
class Outcome:
    """A run: seconds of processor time, megabytes, the last metric, the work of the reference."""

    seconds: float = 0.0
    megabytes: float = 0.0
    metric: float | None = None
    fault: str = ""
    reference_seconds: float = 0.0
    reference_ops: int = 0
    host: set[str] = field(default_factory=set)


# -- which programs -----------------------------------------------------------------------------


def examples(work: Path) -> Iterator[Program]:
    """Yield the examples; their metric is the last number that they print."""
    for name in EXAMPLES:
        script = HERE.parent / "examples" / f"{name}.py"
        yield Program(name, [[str(script)]], work, r"\d+\.\d+", lambda: None, timeout=3600.0)


def programs_of(folder: Path, work: Path) -> Iterator[Program]:
    """Yield the programs of a folder whose repositories are there; each runs in a copy."""
    spec = importlib.util.spec_from_file_location("programs_of_folder", folder / "programs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for row in module.P:
        if (folder / "repos" / row["repo"]).is_dir():
            yield program_of(row, folder, work / row["name"])
        else:
            print(f"left out: {row['name']}: there is no repos/{row['repo']}", flush=True)


def program_of(row: dict[str, Any], folder: Path, root: Path) -> Program:
    """Return the program of a row, to be copied to `root`."""
    run_in = root / row.get("cwd", ".")
    environment = dict(row.get("env", {}))
    given = environment.pop("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join(str(run_in / path) for path in given if path)
    commands = []
    for script, *rest in row["cmds"]:
        start = script if script == "-m" else str(run_in / script)
        commands.append([str(folder / "launch.py"), "--module", "torch", start, *rest])
    return Program(
        row["name"],
        commands,
        run_in,
        row.get("metric") or (LAST_LOSS if row.get("driver") else ""),
        lambda: copy(row, folder, root),
        environment,
        row.get("timeout", 300.0),
    )


def copy(row: dict[str, Any], folder: Path, root: Path) -> None:
    """Copy a program to `root`, write its files, and change the lines that it asks to change."""
    shutil.rmtree(root, ignore_errors=True)

    def ignored(where: str, names: list[str]) -> set[str]:
        return {*LEFT_OUT(where, names), *(n for n in names if is_large(Path(where, n)))}

    shutil.copytree(folder / "repos" / row["repo"] / row.get("sub", ""), root, ignore=ignored)
    for name, content in row.get("files", {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(str(path))
        else:
            path.write_text(content, encoding="utf-8")
    for name, old, new in row.get("edits", []):
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(text.replace(old, new), encoding="utf-8")
    if row.get("driver"):
        to = root / row.get("cwd", ".") / "_driver.py"
        shutil.copy(folder / "drivers" / f"{row['driver']}.py", to)


def is_large(path: Path) -> bool:
    """Tell whether a path is a large file."""
    return path.is_file() and path.stat().st_size > MOST_BYTES


# -- running ------------------------------------------------------------------------------------


def run(program: Program, framework: str, cache: Path) -> Outcome:
    """Run all commands of a program, one after the other; the last failure is the outcome's."""
    program.prepare()
    found = Outcome()
    for command in program.commands:
        with tempfile.TemporaryDirectory() as own:
            run_command(program, framework, command, cache, Path(own), found)
        if found.fault:
            break
    return found


def run_command(
    program: Program,
    framework: str,
    command: list[str],
    cache: Path,
    own: Path,
    found: Outcome,
    script: str = "serve_program.py",
    to: Path | None = None,
) -> None:
    """Run a command and add its time and its counts to the outcome.

    own: a folder for the files of this run: it is the program's home, too
    script: runs the command, given the file `to` for its findings; by default counts
    """
    through = ["-m", "wend", "run"] if framework == "wend" else []
    arguments = [sys.executable, *through, str(HERE / script), str(to or own / "counts")]
    paths = [program.environment.get("PYTHONPATH", ""), python_path()]
    environment = {**os.environ, **ONE_THREAD, "COMPAT_THREADS": "1", "MPLBACKEND": "Agg"}
    environment |= {"PYTHONWARNINGS": "ignore", "HOME": str(own), **program.environment}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environment["WEND_CACHE_DIR"] = str(cache)
    with (own / "output").open("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [*arguments, *command],
            cwd=program.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        # The processes of the program only: they have a session of their own.
        timer = threading.Timer(program.timeout, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        timer.cancel()
        output.seek(0)
        text = output.read()
    found.seconds += usage.ru_utime + usage.ru_stime
    found.megabytes = max(found.megabytes, usage.ru_maxrss / 1024)
    numbers = re.findall(program.metric, text, flags=re.MULTILINE) if program.metric else []
    if numbers:
        found.metric = float(numbers[-1])
    if process.returncode:
        found.fault = last_words(text, process.returncode)
    if (own / "counts").exists():
        counts = json.loads((own / "counts").read_text(encoding="utf-8"))
        found.reference_seconds += counts["seconds"]
        found.reference_ops += counts["ops"]
        found.host.update(counts["host"])


def last_words(text: str, status: int) -> str:
    """Return the last line that names an error, or the last line."""
    lines = [line for line in text.splitlines() if line.strip()] or [f"ended with {status}"]
    errors = [line for line in lines if re.match(r"([\w.]+(Error|Exception)|FAILED)\b", line)]
    return (errors or lines)[-1][:160]


def compare(program: Program) -> dict[str, Any] | None:
    """Return the row of a program; None if PyTorch cannot run it here."""
    row: dict[str, Any] = {"program": program.name}
    with tempfile.TemporaryDirectory() as cache:
        torch = run(program, "torch", Path(cache))
        if torch.fault:
            print(f"left out: {program.name}: PyTorch: {torch.fault}", flush=True)
            return None
        row |= {"torch s": torch.seconds, "torch MB": torch.megabytes}
        row["torch metric"] = torch.metric
        for state in ("cold", "warm"):
            wend = run(program, "wend", Path(cache))
            row |= {f"{state} s": wend.seconds, f"{state} MB": wend.megabytes}
            if wend.fault:
                row["fault"] = wend.fault
                return row
            row[f"torch / {state}"] = torch.seconds / wend.seconds
        row["wend metric"] = wend.metric
        row["reference s"], row["reference ops"] = wend.reference_seconds, wend.reference_ops
        row["host"] = " ".join(sorted(wend.host))
    return row


def mean(rows: Sequence[dict[str, Any]], column: str) -> float:
    """Return the geometric mean of a column of ratios, of the rows that have one."""
    ratios = [row[column] for row in rows if column in row]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def main() -> None:
    """Run the comparison from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="with programs.py and repos/")
    parser.add_argument("--examples", action="store_true", help="measure the examples")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these programs")
    args = parser.parse_args()
    if args.examples == (args.folder is not None):
        parser.error("name a folder of programs, or --examples")
    refuse_the_uncompiled_core(conditions()["core"])
    rows = []
    with tempfile.TemporaryDirectory() as work:
        if args.examples:
            chosen = examples(Path(work))
        else:
            chosen = programs_of(args.folder.resolve(), Path(work))
        for program in chosen:
            if args.only and program.name not in args.only:
                continue
            row = compare(program)
            if row is not None:
                rows.append(row)
                print(row, flush=True)
    publish("examples" if args.examples else "programs", rows, COLUMNS)
    for state in ("cold", "warm"):
        print(f"geometric mean, {state}: {mean(rows, f'torch / {state}'):.2f}")


if __name__ == "__main__":
    main()
