"""Runs cases of the training matrix, and records how they ended.

    python tests/training/run.py                          # what CI runs: all pairs of choices
    python tests/training/run.py --strength 3             # all triples
    python tests/training/run.py --all --slice 2/8        # an eighth of the whole matrix
    python tests/training/run.py --case 'task=mlp optimiser=Adam clip=norm'
    WEND_COMPILE=force python tests/training/run.py --all --output record.json
    WEND_PURE=1 python tests/training/run.py --all --minutes 30

The whole matrix is each task with each optimiser and kind of sizes, plainly and with each other
choice. Cases come in an order that is shuffled, always alike, so that some of them are a sample.
They run in processes of their own, some hundred in each: one that crashes is passed over.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("WEND_STRICT", "1")  # a failure inside is a failure of the case

from training.choices import Case, covered, every, parsed

SHARE = 200  # cases of one process


def chosen(args: argparse.Namespace) -> list[Case]:
    """The cases that were asked for."""
    if args.case:
        return [parsed(args.case)]
    cases = list(every()) if args.all else list(covered(args.strength))
    random.Random(0).shuffle(cases)
    part, parts = map(int, args.slice.split("/"))
    return cases[part - 1 :: parts]


def work() -> None:
    """Run the cases that come as lines; print a line of JSON about each one."""
    from training.compare import check, report, tolerance_of

    for line in sys.stdin:
        case = parsed(line)
        print(json.dumps({"begins": str(case)}), flush=True)
        try:
            apart = check(case, tolerance=0.0)
            ending: dict[str, Any] = {"apart": max((d.size for d in apart), default=0.0)}
            if found := [d for d in apart if not d.size <= tolerance_of(case)]:
                ending |= {"ending": "differs", "text": report(case, found)}
        except Exception as error:
            ending = {
                "ending": "raises",
                "text": f"'{case}' raises {type(error).__name__}: {error}",
            }
        print(json.dumps({"case": str(case), "ending": "equal", **ending}), flush=True)


def run_share(cases: list[Case]) -> list[dict[str, Any]]:
    """Run cases in a process; returns their endings, the last one of which may be a crash."""
    endings = []
    begun = ""
    done = subprocess.run(
        [sys.executable, __file__, "--work"],
        input="".join(f"{case}\n" for case in cases),
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in done.stdout.splitlines():
        found = json.loads(line)
        begun = found.get("begins", begun)
        if "case" in found:
            endings.append(found)
    if done.returncode != 0 and not begun:
        raise SystemExit("No case was begun: the error is above.")
    if done.returncode != 0:
        text = f"'{begun}' ends the process with {done.returncode}"
        endings.append({"case": begun, "ending": "crashes", "text": text})
    return endings


def run(cases: list[Case], minutes: float) -> dict[str, Any]:
    """Run cases, report as they go, and return what is recorded."""
    start = time.time()
    endings: list[dict[str, Any]] = []
    while len(endings) < len(cases) and time.time() - start < 60 * minutes:
        for ending in run_share(cases[len(endings) : len(endings) + SHARE]):
            endings.append(ending)
            if ending["ending"] != "equal":
                print(f"\n{ending['text']}", flush=True)
        counts = dict(Counter(ending["ending"] for ending in endings))
        print(f"{len(endings)} of {len(cases)}, {time.time() - start:.0f} s: {counts}", flush=True)
    apart: dict[str, list[float]] = {"float64": [], "float32": []}
    for ending in endings:
        if ending["ending"] == "equal":
            apart[parsed(ending["case"]).dtype].append(ending.get("apart", 0.0))
    switches = {k: v for k, v in os.environ.items() if k.startswith("WEND_")}
    return {
        "cases": len(cases), "run": len(endings), "seconds": round(time.time() - start),
        "endings": dict(Counter(ending["ending"] for ending in endings)),
        "apart": {dtype: sorted(sizes)[-5:] for dtype, sizes in apart.items()},
        "failures": [ending for ending in endings if ending["ending"] != "equal"],
        "switches": switches, "python": platform.python_version(),
    }  # fmt: skip


def main() -> int:
    """Run from the command line; 1 if a case did not end equal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", help="one case, as failures print it")
    parser.add_argument("--all", action="store_true", help="the whole matrix")
    parser.add_argument("--strength", type=int, default=2, help="how many choices meet in all ways")
    parser.add_argument("--slice", default="1/1", metavar="I/N", help="each Nth case, from the Ith")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so many")
    parser.add_argument("--output", type=Path, help="write the record here, as JSON")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work()
        return 0
    record = run(chosen(args), args.minutes)
    if args.output:
        args.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if record["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
