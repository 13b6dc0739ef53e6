"""Chains that become one kernel, against PyTorch's: norms, losses, pooling, attention, elementwise.

python benchmarks/chains.py
python benchmarks/chains.py softmax "attention 1 2 4096 64"     # these
python benchmarks/chains.py "written words_first 1 40 4 256"    # see written_attention.py
python benchmarks/chains.py --written --turns 40                # all ways of these

Rows are [4096, 1024], images [16, 64, 32, 128], forward and backward; elementwise chains go over
16 M elements, forward. Each is measured in processes of its own, passes in turns, so that the
column of the most memory (MB) says something.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from bench import Side, frameworks, publish, ratio

CHAINS = [
    "softmax", "log_softmax", "cross_entropy", "layer_norm", "rms_norm", "batch_norm",
    "group_norm", "column sums", "max_pool 3 2 1", "avg_pool 2", "unfold 3",
    "copy", "x * 2 + 1", "tanh(x * y) + y",
    "attention 12 4 64 32 causal", "attention 1 4 128 64", "attention 8 8 512 64",
    "attention 1 8 1024 64 causal", "attention 1 2 4096 64", "attention 1 2 4096 128 causal",
]  # fmt: skip
#: Ways to write attention: functions of ``written_attention.py``; and (batch, words, heads, width).
WAYS = [
    "split_and_transposed", "unbound", "words_first", "words_first_written_out", "heads_first",
    "heads_first_copied", "products_of_permuted", "weights_of_heads", "sums_by_name",
]  # fmt: skip
SIZES = ["12 64 4 128", "1 40 4 256", "25 13 3 96"]
COLUMNS = [
    "chain",
    "wend ms",
    "torch ms",
    "ratio",
    "low",
    "high",
    "wend MB",
    "torch MB",
    "agree to",
]


def measure(name: str, passes: int, turns: int) -> dict[str, Any]:
    """Return one row."""
    sides = {side: Side(side, "serve_chains.py") for side in frameworks()}
    times: dict[str, list[float]] = {side: [] for side in sides}
    row: dict[str, Any] = {"chain": name, "times": times}
    results = {}
    try:
        for _ in range(passes):
            for side, process in sides.items():
                found = process.ask(name=name, turns=turns)
                times[side].append(found["ms"])
                row[f"{side} MB"] = found["most"]
                results[side] = found["result"]
    finally:
        for process in sides.values():
            process.close()
    for side, measured in times.items():
        row[f"{side} ms"] = statistics.median(measured)
    if "torch" in sides:
        row |= ratio(times["wend"], times["torch"])
        row["agree to"] = abs(results["wend"] - results["torch"]) / max(abs(results["torch"]), 1e-6)
    return row


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("chains", nargs="*", help=", ".join(CHAINS))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--written", action="store_true", help="attention as people write it")
    args = parser.parse_args()
    rows = []
    if args.written:
        args.chains += [f"written {way} {sizes}" for sizes in SIZES for way in WAYS]
    for name in args.chains or CHAINS:
        rows.append(measure(name, args.passes, args.turns))
        print({key: rows[-1].get(key) for key in COLUMNS}, flush=True)
    publish("chains", rows, COLUMNS)


if __name__ == "__main__":
    main()
