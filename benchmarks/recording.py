"""What recording costs, in nanoseconds a line, beside PyTorch's eager execution of the same line.

python benchmarks/recording.py
python benchmarks/recording.py --repeats 20 --passes 1      # a quick look
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from bench import Side, frameworks, publish

COLUMNS = ["what", "wend", "low", "high", "aim", "torch"]
KINDS = [
    "scalar operand", "two tensors", "matmul", "x[:, i]", "sum(dim=...)", "cat", "reshape",
    "in place", "keyword arguments", "composite", "where", "cast",
]  # fmt: skip
RESIZED = ["scalar operand", "two tensors", "sum(dim=...)", "cat", "where"]
PROGRAMS = ["chain", "layers", "rows", "reductions", "mixed"]

Request = dict[str, Any]


class Measurement:
    """Requests that are sent to each side in turn, pass after pass."""

    def __init__(self, passes: int) -> None:
        self.passes = passes
        self.sides = {name: Side(name, "serve_recording.py") for name in frameworks()}

    def numbers(self, request: Request) -> dict[str, list[Any]]:
        """Return each side's answers."""
        found: dict[str, list[Any]] = {name: [] for name in self.sides}
        for _ in range(self.passes):
            for name, side in self.sides.items():
                found[name].append(side.ask(**request))
        return found

    def row(self, what: str, aim: float | None, request: Request) -> dict[str, Any]:
        """Return one row: medians, and the spread of Wend's passes."""
        return row(what, aim, self.numbers(request))

    def close(self) -> None:
        """End both sides."""
        for side in self.sides.values():
            side.close()


def row(what: str, aim: float | None, numbers: dict[str, list[float]]) -> dict[str, Any]:
    """Return a row of the table from each side's numbers."""
    medians = {name: statistics.median(found) for name, found in numbers.items()}
    spread = {"low": min(numbers["wend"]), "high": max(numbers["wend"])}
    return {"what": what, "aim": aim, **medians, **spread}


def mean_row(what: str, aim: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of some rows as a row."""
    keys = [key for key in ("wend", "low", "high", "torch") if key in rows[0]]
    return {"what": what, "aim": aim} | {
        key: statistics.mean(entry[key] for entry in rows) for key in keys
    }


def measure(measurement: Measurement, repeats: int) -> list[dict[str, Any]]:
    """Return all rows."""
    rows = []
    for gradient in (False, True):
        kinds = [
            measurement.row(
                kind + ", with gradient" * gradient,
                300,
                {"do": "known", "kind": kind, "gradient": gradient, "repeats": repeats},
            )
            for kind in KINDS
        ]
        rows += kinds
        rows.append(mean_row("mean of the twelve" + ", with gradient" * gradient, 150, kinds))
    sizes = [
        measurement.row(f"{kind}, new sizes", 400, {"do": "resized", "kind": kind, "repeats": 12})
        for kind in RESIZED
    ]
    rows += [*sizes, mean_row("mean with new sizes", 400, sizes)]
    for what, aim, gradient in (
        ("structure that never repeats", 300, False),
        ("the same with backward", None, True),
    ):
        request = {"do": "never_repeating", "repeats": repeats, "backward": gradient}
        rows.append(measurement.row(what, aim, request))
    numbers = measurement.numbers({"do": "trees", "repeats": repeats // 5})
    for part, aim in (("lines", None), ("sorting", None), ("both", 150)):
        found = {name: [answer[part] for answer in given] for name, given in numbers.items()}
        rows.append(row(f"TreeLSTM, an op: {part}", aim, found))
    rows.append(measurement.row("new path, an op", 25_000, {"do": "new_path", "repeats": 60}))
    for program in PROGRAMS:
        request = {"do": "backward", "program": program, "repeats": repeats}
        numbers = measurement.numbers(request)
        for part, aim in (("backward", 3000), ("flush", None), ("bookkeeping", None)):
            found = {name: [answer[part] for answer in given] for name, given in numbers.items()}
            rows.append(row(f"{program}, 40 ops: {part}", aim, found))
    for what, aim, line in (("Module.__call__", 200, "x(y)"), ("self.weight", 60, "x.weight")):
        request = {"do": "module", "line": line, "repeats": repeats}
        rows.append(measurement.row(what, aim, request))
    return rows


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=100, help="of a line's timed part")
    args = parser.parse_args()
    measurement = Measurement(args.passes)
    try:
        rows = measure(measurement, args.repeats)
    finally:
        measurement.close()
    publish("recording", rows, COLUMNS)


if __name__ == "__main__":
    main()
