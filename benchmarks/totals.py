"""Totals from process start: what a user waits for, first steps and compilation included.

python benchmarks/totals.py [--seconds 12] [WORKLOAD ...]

PyTorch runs a workload until its process has used so many seconds of processor time, import
included. Wend makes as many steps, with an empty cache of machine code (cold), and again with the
cache of that run (warm). Both find the kernels that a build has made, as installations do. A ratio
is PyTorch's total over Wend's, all threads together. Under `ahead after` stands the total of
PyTorch, in seconds, from which on Wend stays ahead; nothing if it does not. MB: the most memory.
"""

from __future__ import annotations

import argparse
import compileall
import math
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from bench import HERE, Side, frameworks, publish

#: Workloads that are variants of others, and parts of them.
LEFT_OUT = {"common", "resnet", "random_programs_read", "random_programs_unread"}


def run(framework: str, name: str, **request: Any) -> dict[str, Any]:
    """Run one side in a process of its own; return the total after each step, and the memory."""
    process = Side(framework, "serve_workload.py", name)
    try:
        found: dict[str, Any] = process.ask(do="total", **request)
    finally:
        process.close()
    return found


def ahead_after(mine: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Return their total from which on mine stays below; None if mine ends behind."""
    found = None
    for a, b in zip(reversed(mine), reversed(theirs), strict=True):
        if a > b:
            break
        found = b
    return found


def compare(name: str, seconds: float) -> dict[str, Any]:
    """Return one row of the table."""
    torch = run("torch", name, seconds=seconds, steps=0)
    theirs = torch["totals"]
    row: dict[str, Any] = {"workload": name, "steps": len(theirs), "torch s": theirs[-1]}
    row["torch MB"] = torch["MB"]
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("WEND_CACHE_DIR")
        os.environ["WEND_CACHE_DIR"] = folder
        try:
            for state in ("cold", "warm"):
                wend = run("wend", name, seconds=0.0, steps=len(theirs))
                row[f"{state} s"] = wend["totals"][-1]
                row[f"torch / {state}"] = theirs[-1] / wend["totals"][-1]
                row[f"{state} ahead after"] = ahead_after(wend["totals"], theirs)
                row[f"{state} MB"] = wend["MB"]
        finally:
            del os.environ["WEND_CACHE_DIR"]
            if before is not None:
                os.environ["WEND_CACHE_DIR"] = before
    return row


def mean(rows: Sequence[dict[str, Any]], column: str) -> float:
    """Return the geometric mean of a column of ratios."""
    return math.exp(sum(math.log(row[column]) for row in rows) / len(rows))


def main() -> None:
    """Run the comparison from the command line."""
    names = sorted({path.stem for path in (HERE / "workloads").glob("*.py")} - LEFT_OUT)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=12.0, help="of PyTorch")
    args = parser.parse_args()
    unknown = set(args.workloads) - set(names)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}; there are {names}")
    if "torch" not in frameworks():
        parser.error("PyTorch is not installed: pip install 'wend-dl[torch]'")
    # The compared libraries have been installed, and so their modules are bytecode already.
    compileall.compile_dir(HERE.parent / "src" / "wend", quiet=1)
    rows = []
    for name in args.workloads or names:
        rows.append(compare(name, args.seconds))
        print(rows[-1], flush=True)
    publish("totals", rows, list(rows[0]))
    for state in ("cold", "warm"):
        print(f"geometric mean, {state}: {mean(rows, f'torch / {state}'):.2f}")


if __name__ == "__main__":
    main()
