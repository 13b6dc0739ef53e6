"""Long loops, and how much the resident memory grows along them.

python benchmarks/memory.py
python benchmarks/memory.py --iterations 5000      # a quick look
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
]
COLUMNS = ["loop", "framework", "iterations", "start MB", "growth MB", "most MB above", "aim"]


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
    }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=100_000)
    parser.add_argument("--warm-up", type=int, default=2_000)
    parser.add_argument("--loop", choices=LOOPS, help="only this one")
    args = parser.parse_args()
    rows = []
    for loop in [args.loop] if args.loop else LOOPS:
        for framework in frameworks():
            rows.append(measure(loop, framework, args.iterations, args.warm_up))
            print(rows[-1], flush=True)
    publish("memory", rows, COLUMNS)


if __name__ == "__main__":
    main()
