"""Whether the time an op takes stays the same however many are pending, up to a million.

python benchmarks/growth.py
python benchmarks/growth.py --most 100000      # a quick look

A forest of random trees, none of which comes twice: nanoseconds of processor time an op takes to be
recorded, to be computed with its gradient, and to be freed.  PyTorch computes while Wend records.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench import Side, frameworks, publish

COLUMNS = [
    "framework", "ops", "recording ns", "computing ns", "freeing ns", "all ns", "of 10 000 ops'",
    "all / wend",
]  # fmt: skip
FIRST = 10_000


def measure(framework: str, most: int, passes: int) -> list[dict[str, Any]]:
    """Rows of one framework, in tens: the quickest of some passes, after two that warm up."""
    rows: list[dict[str, Any]] = []
    side = Side(framework, "serve_growth.py")
    try:
        for _ in range(2):
            side.ask(ops=FIRST)
        ops = FIRST
        while ops <= most:
            tried = [side.ask(ops=ops) for _ in range(passes)]
            parts = ("recording", "computing", "freeing")
            found = min(tried, key=lambda got: sum(got[part] for part in parts) / got["ops"])
            row: dict[str, Any] = {"framework": framework, "ops": found["ops"]}
            for part in parts:
                row[f"{part} ns"] = 1e9 * found[part] / found["ops"]
            row["all ns"] = sum(row[f"{part} ns"] for part in parts)
            row["of 10 000 ops'"] = row["all ns"] / rows[0]["all ns"] if rows else 1.0
            rows.append(row)
            print(row, flush=True)
            ops *= 10
    finally:
        side.close()
    return rows


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=1_000_000, help="ops that are pending")
    parser.add_argument("--passes", type=int, default=2)
    args = parser.parse_args()
    rows = [measure(framework, args.most, args.passes) for framework in frameworks()]
    for of_one in rows:
        for row, mine in zip(of_one, rows[0], strict=True):
            row["all / wend"] = row["all ns"] / mine["all ns"]
    publish("growth", [row for of_one in rows for row in of_one], COLUMNS)


if __name__ == "__main__":
    main()
