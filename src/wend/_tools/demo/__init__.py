"""`wend demo`: three short PyTorch programs, unchanged, by Wend and by PyTorch, and a table.

The programs are in the folder `programs`. Each prints losses and the processor time of each step.
Wend runs first, with no machine code kept; then PyTorch, where installed; then Wend again. All runs
start from the same weights, read the same data and use as many threads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from wend._tools.demo import comparison
from wend._tools.demo.runs import PROGRAMS, Failed, Timed, named_python, python_with_torch, timed
from wend._tools.environment import report
from wend.version import __version__

__all__ = ["main"]

_WITHOUT = """\
PyTorch is not installed here, so its rows are missing. To have them:
  {python} -m pip install torch        or, if another Python has it:
  WEND_TORCH_PYTHON=/path/to/python wend demo"""


def options() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="wend demo",
        description="Run three PyTorch programs, unchanged, by Wend and by PyTorch; print a table.",
        epilog="WEND_TORCH_PYTHON names a Python that has PyTorch; else this one and the one on "
        "the path are asked. Exit status: 0 equal losses, 1 the losses part or a run failed.",
    )
    parser.add_argument(
        "--program",
        nargs="+",
        choices=PROGRAMS,
        default=PROGRAMS,
        help="these only",
        metavar="NAME",
    )
    parser.add_argument("--steps", type=int, default=60, help="steps of each run (default 60)")
    parser.add_argument("--threads", type=int, default=1, help="of each run (default 1)")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    return parser


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    parser = options()
    args = parser.parse_args(words)
    if args.steps < 2 or args.threads < 1:
        parser.error("--steps must be 2 or more, and --threads 1 or more")
    try:
        python, version = (None, "") if args.no_torch else python_with_torch()
        return demonstrate(args.program, args.steps, args.threads, python, f"PyTorch {version}")
    except Failed as error:  # the end of the command: the user is told
        print(f"wend demo: {error}", file=sys.stderr)
        return 1


def demonstrate(
    programs: Sequence[str], steps: int, threads: int, python: str | None, torch: str
) -> int:
    """Run the programs and print the table; returns the exit status.

    python: an interpreter that has PyTorch, or None     torch: PyTorch's name in the table
    """
    start = time.monotonic()
    others = f", by {torch}" if python else ""
    say(f"PyTorch programs, unchanged: {steps} steps by Wend{others}, and by Wend again.")
    for fact in facts(threads):
        say(fact)
    runs, verdicts = [], []
    for name in programs:
        say(f"\n{name}: {title(PROGRAMS[name])}\n  {PROGRAMS[name]}")
        with tempfile.TemporaryDirectory(prefix="wend-demo-") as cache:
            ways = [("Wend, first run", None), (torch, python), ("Wend, again", None)]
            for label, through in ways:
                if label != torch or python is not None:
                    runs.append(announced(name, label, through, steps, threads, cache))
        verdicts.append(comparison.verdict(name, [run for run in runs if run.program == name]))
        say(f"  {verdicts[-1].text}")
    say(f"\n{comparison.table(runs)}\n")
    say(comparison.NOTE.format(steps=steps, half=steps - steps // 2))
    say(f"All of this took {time.monotonic() - start:.0f} s.")
    if python is None:
        say(_WITHOUT.format(python=named_python()))
    return 0 if all(verdict.equal for verdict in verdicts) else 1


def announced(
    name: str, label: str, python: str | None, steps: int, threads: int, cache: str
) -> Timed:
    """Run a program and return the run; print its begin and the time taken."""
    shows = sys.stdout.isatty()
    print(f"  {label:<16}", end="", flush=True)

    def progress(step: int) -> None:
        if shows:
            print(f"\r  {label:<16}step {step + 1} of {steps}", end="", flush=True)

    run = timed(name, label, python, steps, threads, cache, progress)
    if shows:
        print(f"\r\033[K  {label:<16}", end="")
    say(f"{run.whole:6.1f} s")
    return run


def title(path: Path) -> str:
    """Return the first paragraph of a program's docstring."""
    return path.read_text(encoding="utf-8").split('"""')[1].strip().split("\n\n")[0]


def facts(threads: int) -> list[str]:
    """Return the lines that say which machine and which versions the figures are of."""
    known = dict(report())
    return [
        f"{time.strftime('%Y-%m-%d')}, {known['processor']}, {known['cores']} cores",
        f"Wend {__version__} ({known['core']} core), Python {known['python']}, "
        f"{threads} thread{'s' if threads > 1 else ''}",
    ]


def say(text: str) -> None:
    """Print a line at once: the next line may come seconds later."""
    print(text, flush=True)
