"""Compare Wend with PyTorch on the workloads: equal weights, equal losses, passes in turns.

python benchmarks/compare.py              # all
python benchmarks/compare.py w2 w7        # these
python benchmarks/compare.py w2 --steps 5 --passes 1 --warm-up 5    # a quick look
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench import HERE, Side, frameworks, publish, ratio

COLUMNS = ["workload", "wend ms", "torch ms", "ratio", "low", "high", "losses agree to"]


def compare(name: str, passes: int, steps: int, warm_up: int, checked: int) -> dict[str, Any]:
    """Return one row of the table.

    passes: of each side; steps: of a pass, 0 for the workload's own number; warm_up: steps before;
    checked: how many of the first losses are compared.
    """
    sides = {side: Side(side, "serve_workload.py", name) for side in frameworks()}
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "weights.npz")
            first, *others = reversed(sides.values())
            first.ask(do="save", path=path)
            for side in others:
                side.ask(do="load", path=path)
        losses = {n: s.ask(do="losses", steps=max(warm_up, checked)) for n, s in sides.items()}
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(passes):
            for side, process in sides.items():
                times[side].append(1000 * process.ask(do="pass", steps=steps))
    finally:
        for process in sides.values():
            process.close()
    row: dict[str, Any] = {"workload": name, "first losses": losses, "times": times}
    row |= {f"{side} ms": statistics.median(found) for side, found in times.items()}
    if "torch" in sides:
        row |= ratio(times["wend"], times["torch"])
        pairs = list(zip(losses["wend"], losses["torch"], strict=True))[:checked]
        row["losses agree to"] = max(abs(a - b) / max(abs(b), 1e-12) for a, b in pairs)
    return row


def main() -> None:
    """Run the comparison from the command line."""
    names = sorted(path.stem for path in (HERE / "workloads").glob("w*.py"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(names))
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a pass (0: the workload's own)")
    parser.add_argument("--warm-up", type=int, default=20, help="steps before the passes")
    parser.add_argument("--checked", type=int, default=10, help="first losses to compare")
    args = parser.parse_args()
    unknown = set(args.workloads) - set(names)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}; there are {names}")
    rows = []
    for name in args.workloads or names:
        row = compare(name, args.passes, args.steps, args.warm_up, args.checked)
        rows.append(row)
        print({key: row.get(key) for key in COLUMNS}, flush=True)
    publish("workloads", rows, COLUMNS)


if __name__ == "__main__":
    main()
