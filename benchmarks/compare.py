"""Compare Wend with PyTorch on the workloads: equal weights, equal losses, passes in turns.

python benchmarks/compare.py              # all
python benchmarks/compare.py w2 w7        # these
python benchmarks/compare.py w2 --compiled                          # torch.compile beside them
python benchmarks/compare.py w2 --steps 5 --passes 1 --warm-up 5    # a quick look

Times are processor time, all threads of the process together, in milliseconds a step, once what is
compiled in the background has come to rest. Beside them: the first step, all of the warm-up with
what was compiled until then, and how much was compiled during the passes (which should be nothing).
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench import HERE, Side, frameworks, publish, ratio

COLUMNS = [
    "workload", "wend ms", "torch ms", "compiled ms", "ratio", "low", "high",
    "losses agree to", "wend first", "torch first", "compiled first", "wend warm-up s",
    "compiled warm-up s", "compiled in passes",
]  # fmt: skip


def compare(
    name: str, passes: int, steps: int, warm_up: int, checked: int, compiled: bool = False
) -> dict[str, Any]:
    """Return one row of the table.

    passes: of each side; steps: of a pass, warm_up: before, 0 for the workload's own numbers;
    checked: how many of the first losses are compared; compiled: whether torch.compile is a side
    """
    sides = {side: Side(side, "serve_workload.py", name) for side in frameworks()}
    if compiled and "torch" in sides:
        sides["compiled"] = Side("torch", "serve_workload.py", name, "--compile")
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "weights.npz")
            first, *others = reversed(sides.values())
            first.ask(do="save", path=path)
            for side in others:
                side.ask(do="load", path=path)
        began = {n: side.ask(do="warm up", steps=warm_up) for n, side in sides.items()}
        times: dict[str, list[float]] = {side: [] for side in sides}
        late = 0
        for _ in range(passes):
            for side, process in sides.items():
                found = process.ask(do="pass", steps=steps)
                times[side].append(1000 * found["seconds"])
                late += found["compiled"] if side == "wend" else 0
    finally:
        for process in sides.values():
            process.close()
    row: dict[str, Any] = {"workload": name, "warm-up": began, "times": times}
    row["compiled in passes"] = late
    for side, found in times.items():
        row[f"{side} ms"] = statistics.median(found)
        row[f"{side} first"] = 1000 * began[side]["first"]
        row[f"{side} warm-up s"] = began[side]["seconds"]
    if "torch" in sides:
        row |= ratio(times["wend"], times["torch"])
        pairs = list(zip(began["wend"]["losses"], began["torch"]["losses"], strict=True))[:checked]
        row["losses agree to"] = max(abs(a - b) / max(abs(b), 1e-12) for a, b in pairs)
    return row


def main() -> None:
    """Run the comparison from the command line."""
    names = sorted({path.stem for path in (HERE / "workloads").glob("*.py")} - {"common"})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(names))
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a pass (0: the workload's own)")
    parser.add_argument("--warm-up", type=int, default=0, help="steps before the passes")
    parser.add_argument("--checked", type=int, default=10, help="first losses to compare")
    parser.add_argument("--compiled", action="store_true", help="torch.compile as well")
    args = parser.parse_args()
    unknown = set(args.workloads) - set(names)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}; there are {names}")
    rows = []
    for name in args.workloads or names:
        row = compare(
            name, args.passes, args.steps, args.warm_up, args.checked, compiled=args.compiled
        )
        rows.append(row)
        print({key: row.get(key) for key in COLUMNS}, flush=True)
    publish("workloads", rows, [c for c in COLUMNS if any(c in row for row in rows)])
    absent = [name for name in ("torch", "jax") if not importlib.util.find_spec(name)]
    if absent:
        print(f"\nnot installed, and so not compared: {', '.join(absent)}")


if __name__ == "__main__":
    main()
