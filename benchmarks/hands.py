"""Programs of several kinds, each written in several hands that a seed draws.

python benchmarks/hands.py [--seed 1] [--workload NAME ...] [--hands 4] [--seconds 3] [--all-data]

A hand is put together from choices (`written/hand.py`): how parameters are held, how a row is got
at, whether a sentence or each word is looked up, how loops are written, and whether data is new in
each step, or eight batches come back, in order or shuffled. With `--all-data` each hand meets all
three. Both sides run the same program from equal weights, and the first losses must agree.

PyTorch runs until its process has used so many seconds of processor time. Wend makes as many steps,
with an empty cache of machine code and again with the cache of that run; then it goes on until
nothing is compiled any more. `ms` is a step of this steady state (PyTorch's: of the last two
thirds), `longest` Wend's longest step after the first third of 30 steps or more, over their median,
`cold` and `warm` PyTorch's total from process start over Wend's, `memory` the most memory of Wend
over PyTorch's.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import asdict, replace
from typing import Any

from bench import Side, frameworks, publish, table
from written.hand import CHOICES, Hand, draw

PROGRAMS = (
    "tree_lstm",
    "bilstm_tagger",
    "unrolled_gru",
    "early_exit",
    "ragged_images",
    "stack_parser",
)
#: The first losses of both sides, in single precision, differ by less than this part.
AGREE = 1e-4


def run(side: str, **request: Any) -> dict[str, Any]:
    """Run one side in a process of its own."""
    process = Side(side, "serve_hands.py")
    try:
        found: dict[str, Any] = process.ask(**request)
    finally:
        process.close()
    return found


def check(hand: Hand, mine: list[float], theirs: list[float]) -> None:
    """Raise RuntimeError if losses differ."""
    for a, b in zip(mine, theirs):
        if not abs(a - b) <= AGREE * max(abs(b), 1e-6):
            raise RuntimeError(f"losses differ in the hand '{hand}': {mine}, PyTorch {theirs}")


def measure(program: str, hand: Hand, seconds: float) -> dict[str, Any]:
    """Return one row of the table."""
    request: dict[str, Any] = {"program": program, "hand": asdict(hand)}
    row: dict[str, Any] = {"workload": program, "hand": str(hand), "data": hand.data}
    torch = run("torch", seconds=seconds, steps=0, **request)
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("WEND_CACHE_DIR")
        os.environ["WEND_CACHE_DIR"] = folder
        try:
            cold = run("wend", seconds=0.0, steps=torch["steps"], **request)
            warm = run("wend", seconds=0.0, steps=torch["steps"], **request)
        finally:
            del os.environ["WEND_CACHE_DIR"]
            if before is not None:
                os.environ["WEND_CACHE_DIR"] = before
    for side in (cold, warm):
        check(hand, side["losses"], torch["losses"])
    return row | {
        "wend ms": warm["ms"],
        "torch ms": torch["ms"],
        "torch / wend": torch["ms"] / warm["ms"],
        "longest": warm["longest"],
        "cold": torch["total"] / cold["total"],
        "warm": torch["total"] / warm["total"],
        "memory": cold["MB"] / torch["MB"],
    }


def spread(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each workload how far its hands lie apart, and the worst of each number."""
    found = []
    for name in dict.fromkeys(row["workload"] for row in rows):
        of = [row for row in rows if row["workload"] == name]
        times = [row["wend ms"] for row in of]
        found.append(
            {
                "workload": name,
                "worst / best hand": max(times) / min(times),
                "least torch / wend": min(row["torch / wend"] for row in of),
                "longest": max(row["longest"] for row in of),
                "least cold": min(row["cold"] for row in of),
                "least warm": min(row["warm"] for row in of),
                "most memory": max(row["memory"] for row in of),
            }
        )
    return found


def main() -> None:
    """Run the comparison from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="draws the hands")
    parser.add_argument("--workload", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--hands", type=int, default=4, help="so many for each workload")
    parser.add_argument("--seconds", type=float, default=3.0, help="of PyTorch")
    parser.add_argument("--all-data", action="store_true", help="each hand on each kind of data")
    args = parser.parse_args()
    if "torch" not in frameworks():
        parser.error("PyTorch is not installed: pip install 'wend-dl[torch]'")
    rows = []
    for program in args.workload:
        for hand in draw(args.seed, program, args.hands):
            for data in CHOICES["data"] if args.all_data else (hand.data,):
                rows.append(measure(program, replace(hand, data=data), args.seconds))
                print(rows[-1], flush=True)
    publish("hands", rows, list(rows[0]))
    apart = spread(rows)
    print(f"\n{table(apart, list(apart[0]))}")


if __name__ == "__main__":
    main()
