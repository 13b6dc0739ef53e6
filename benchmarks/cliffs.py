"""The map of cliffs: a small net in training with one feature more at a time, beside PyTorch.

python benchmarks/cliffs.py [--seconds 4] [--warm] [--drawn N] [--least R] [FEATURE ...]

`cliff_features.py` has the features; a further one takes about five lines. `--drawn N` adds N drawn
programs of two or three features. PyTorch trains until `--seconds` of processor time have passed;
Wend makes as many steps, with an empty cache of machine code. One thread each, and processor time,
so that other work on the machine hardly counts. The exit status is 1 where a feature is slower than
R times PyTorch for good.

steady: PyTorch's time of a step over Wend's, in the last third
total: the same of all steps, planning and compiling included; warm: with the cache of that run
until fast: steps until three of four times ten steps of Wend, of the next 200 and of all that
    follow, are within a third of the steady time
longest: Wend's longest step in milliseconds     MB: Wend's peak of memory over PyTorch's
by: who computed the flushes of the last step     failures: those that Wend has met and repaired
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from bench import HERE, ONE_THREAD, publish, python_path

COLUMNS = (
    "feature", "steps", "torch ms", "wend ms", "steady", "total", "warm", "until fast", "longest",
    "MB", "by", "failures",
)  # fmt: skip
MOST_SECONDS = 120.0  # of a side, by the wall clock


def train(names: Sequence[str], seconds: float, steps: int) -> dict[str, Any]:
    """Train with these features for so many steps, or else for so many seconds."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    sys.path.insert(0, str(HERE))
    import cliff_features

    step = cliff_features.step_of(names)
    marks = [time.process_time()]
    begin, loss = time.monotonic(), 0.0
    while len(marks) <= steps if steps else marks[-1] - marks[0] < seconds:
        loss = step()
        marks.append(time.process_time())
        if time.monotonic() - begin > MOST_SECONDS:
            break
    result = {"marks": marks, "loss": loss, "MB": peak()}
    if hasattr(torch, "debug"):
        explanation = torch.debug.explain()
        ran = Counter(map(executor_of, explanation.flushes))
        result["by"] = ", ".join(f"{n} {name}" for name, n in ran.most_common())
        result["failures"] = explanation.failures
    return result


def executor_of(flush: Any) -> str:
    """Return who computed a flush."""
    return next((name for name, declined in flush.asked if not declined), str(flush.tier))


def peak() -> float:
    """Return the most memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(framework: str, names: Sequence[str], seconds: float, steps: int, cache: str) -> Any:
    """Train in a process of its own; returns what `train` does, or the last line of the error."""
    through = ["-m", "wend", "run"] if framework == "wend" else []
    command = [sys.executable, *through, __file__, "--train", "+".join(names)]
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": python_path(), "WEND_CACHE_DIR": cache}
    try:
        ended = subprocess.run(
            [*command, str(seconds), str(steps)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=3 * MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if ended.returncode:
        return (ended.stderr.strip().splitlines() or ["no output"])[-1]
    return json.loads(ended.stdout.splitlines()[-1])


def steady(marks: Sequence[float]) -> float:
    """Return the seconds of a step in the last third."""
    n = len(marks) - 1
    first = n * 2 // 3
    return (marks[n] - marks[first]) / (n - first)


def until_fast(marks: Sequence[float]) -> int:
    """Return the number of steps after which ten steps at a time mostly take the steady time.

    Sentences are of drawn lengths, so that ten steps may take longer at any time.
    """
    times = [b - a for a, b in pairwise(marks)]
    limit = 4 / 3 * steady(marks)
    slow = [statistics.median(times[k : k + 10]) > limit for k in range(0, len(times) - 9, 10)]
    for k in range(len(slow)):
        spans = slow[k : k + 1], slow[k : k + 20], slow[k:]
        if all(4 * sum(blocks) <= len(blocks) for blocks in spans):
            return 10 * k
    return 10 * len(slow)


def compare(names: Sequence[str], seconds: float, warm: bool) -> dict[str, Any]:
    """Return a row of the table; `failures` is what kept a side from running."""
    row: dict[str, Any] = {"feature": "+".join(names)}
    with tempfile.TemporaryDirectory() as cache:
        theirs = run("torch", names, seconds, 0, cache)
        if isinstance(theirs, str):
            return row | {"failures": f"PyTorch: {theirs}"}
        steps = len(theirs["marks"]) - 1
        mine = run("wend", names, seconds, steps, cache)
        if isinstance(mine, str):
            return row | {"failures": mine}
        row["total"] = mean_step(theirs["marks"]) / mean_step(mine["marks"])
        if warm:
            again = run("wend", names, seconds, steps, cache)
            row["warm"] = mean_step(theirs["marks"]) / mean_step(again["marks"])
    times = [b - a for a, b in pairwise(mine["marks"])]
    return row | {
        "steps": len(times),
        "torch ms": 1e3 * steady(theirs["marks"]),
        "wend ms": 1e3 * steady(mine["marks"]),
        "steady": steady(theirs["marks"]) / steady(mine["marks"]),
        "until fast": until_fast(mine["marks"]),
        "longest": 1e3 * max(times),
        "MB": mine["MB"] / theirs["MB"],
        "by": mine["by"],
        "failures": mine["failures"],
    }


def mean_step(marks: Sequence[float]) -> float:
    """Return the seconds of a step over all steps."""
    return (marks[-1] - marks[0]) / (len(marks) - 1)


def geometric_mean(rows: Sequence[dict[str, Any]], column: str) -> float:
    """Return the geometric mean of a column, over rows that have that column."""
    values = [math.log(row[column]) for row in rows if column in row]
    return math.exp(sum(values) / max(1, len(values)))


def main() -> int:
    """Run the comparison from the command line; return the exit status."""
    if sys.argv[1:2] == ["--train"]:
        names, seconds, steps = sys.argv[2:]
        print(json.dumps(train(names.split("+"), float(seconds), int(steps))))
        return 0
    import cliff_features

    known = [*cliff_features.WHOLE, *cliff_features.WORDS, *cliff_features.AROUND]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("features", nargs="*", help="names, joined by + in one program")
    parser.add_argument("--seconds", type=float, default=4.0, help="of PyTorch")
    parser.add_argument("--warm", action="store_true", help="also with the cache of a first run")
    parser.add_argument("--drawn", type=int, default=0, help="drawn programs of several features")
    parser.add_argument("--least", type=float, default=0.0, help="steady ratio of each feature")
    args = parser.parse_args()
    programs = [tuple(name.split("+")) for name in args.features]
    unknown = {name for names in programs for name in names} - set(known)
    if unknown:
        parser.error(f"no such feature: {', '.join(sorted(unknown))}")
    if not programs and not args.drawn:
        programs = [(name,) for name in known]
    rows = []
    for names in [*programs, *cliff_features.combinations(args.drawn)]:
        rows.append(compare(names, args.seconds, args.warm))
        shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}
        print(shown, flush=True)
    publish("cliffs", rows, COLUMNS)
    columns = [name for name in ("steady", "total", "warm") if any(name in row for row in rows)]
    print(", ".join(f"{name} {geometric_mean(rows, name):.2f}" for name in columns))
    return int(any(row.get("steady", 0.0) < args.least for row in rows))


if __name__ == "__main__":
    sys.exit(main())
