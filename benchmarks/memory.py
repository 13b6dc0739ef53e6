"""Long loops, and how much the resident memory grows along them; the peak of a training step.

python benchmarks/memory.py
python benchmarks/memory.py --iterations 5000      # a quick look
python benchmarks/memory.py --loop "trees of new shapes" --iterations 1000000
python benchmarks/memory.py --peak                 # transformer, batch 48, 256 characters (Linux)
"""

from __future__ import annotations

import argparse
from typing import Any

from bench import Side, frameworks, publish

LOOPS = [
    "reads no value",
    "trains, reads no value",
    "sizes always change",
    "structure never repeats",
    "trees of new shapes",
]
COLUMNS = [
    "loop", "framework", "iterations", "start MB", "growth MB", "most MB above", "aim", "first ms",
    "last ms",
]  # fmt: skip


def measure(loop: str, framework: str, iterations: int, warm_up: int) -> dict[str, Any]:
    """Return one row: memory after the warm-up and what was added since."""
    side = Side(framework, "serve_memory.py")
    try:
        found = side.ask(loop=loop, iterations=iterations, warm_up=warm_up)
    finally:
        side.close()
    return {
        "loop": loop,
        "framework": framework,
        "iterations": iterations,
        "start MB": found["start"],
        "growth MB": found["end"] - found["start"],
        "most MB above": found["most"] - found["start"],
        "aim": "<= 20" if framework == "wend" else "",
        "first ms": found["first"],
        "last ms": found["last"],
    }


PEAK_COLUMNS = ["framework", "budget MB", "start MB", "peak MB", "of torch's", "seconds", "loss"]


def peak(framework: str, steps: int, budget: float = 0.0) -> dict[str, Any]:
    """Return one row: the most memory that steps of training held, in a process of its own."""
    side = Side(framework, "serve_peak.py")
    try:
        found = side.ask(batch=48, length=256, steps=steps, budget=budget)
    finally:
        side.close()
    return {
        "framework": framework,
        "budget MB": budget or None,
        "start MB": found["start"],
        "peak MB": found["peak"],
        "seconds": found["seconds"],
        "loss": found["loss"],
    }


def peaks(steps: int) -> None:
    """Compare peaks: torch's, Wend's, and Wend's with a budget of 0.35 times torch's."""
    rows = [peak(framework, steps) for framework in reversed(frameworks())]
    torch_peak = rows[0]["peak MB"]
    rows.append(peak("wend", steps, 0.35 * torch_peak))
    for row in rows:
        row["of torch's"] = row["peak MB"] / torch_peak
    publish("peak", rows, PEAK_COLUMNS)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=100_000)
    parser.add_argument("--warm-up", type=int, default=2_000, help="steps, four times")
    parser.add_argument("--loop", choices=LOOPS, help="only this one")
    parser.add_argument("--peak", action="store_true", help="only the peak of training steps")
    parser.add_argument("--steps", type=int, default=3, help="of training at rest, for --peak")
    args = parser.parse_args()
    if args.peak:
        peaks(args.steps)
        return
    rows = []
    for loop in [args.loop] if args.loop else LOOPS:
        for framework in frameworks():
            rows.append(measure(loop, framework, args.iterations, args.warm_up))
            print(rows[-1], flush=True)
    publish("memory", rows, COLUMNS)


if __name__ == "__main__":
    main()
