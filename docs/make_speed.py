"""Writes the page 'How fast, honestly' from measured figures: run after new measurements.

    python docs/make_speed.py                      # docs/speed.md from benchmarks/figures.json
    python docs/make_speed.py --take NAME "NOTE"   # first take over benchmarks/results/NAME.json

NAME is totals, examples or cliffs. The figures keep the machine, the day and a note on how the run
was made. `tests/tools/test_speed.py` compares the page with the figures.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BENCHMARKS = HERE.parent / "benchmarks"
FIGURES = BENCHMARKS / "figures.json"
PAGE = HERE / "speed.md"

#: Columns of each set of figures with their headings; ratios first, which a phone then shows.
KEPT = {
    "totals": {
        "workload": "workload", "torch / cold": "cold", "torch / warm": "warm",
        "cold ahead after": "ahead after", "steps": "steps", "torch s": "PyTorch s",
        "torch MB": "PyTorch MB", "cold MB": "Wend MB",
    },
    "examples": {
        "program": "example", "torch / cold": "cold", "torch / warm": "warm",
        "torch s": "PyTorch s", "torch MB": "PyTorch MB", "cold MB": "Wend MB",
    },
    "cliffs": {
        "feature": "feature", "steady": "steady", "total": "total", "torch ms": "PyTorch ms",
        "wend ms": "Wend ms", "steps": "steps", "until fast": "until fast", "longest": "longest",
    },
}  # fmt: skip
NAMES = {"totals": "workload", "examples": "program", "cliffs": "feature"}
#: Rows with a ratio below this stand on top of the page, too.
NEAR = 1.1

HEAD = """\
# How fast, honestly

<!-- Made by `python docs/make_speed.py` from `benchmarks/figures.json`; do not edit. -->

Each row compares Wend with PyTorch on the same program, on one thread, in processor time. A
ratio is PyTorch's time over Wend's: above 1 Wend is faster. *Cold* begins with an empty cache
of machine code, *warm* with the cache of the run before. Both count all that a process does:
imports, first steps, planning, compiling. No row is left out.

Ratios vary by about a tenth from run to run. On another machine measure your own program:
`time python train.py` and `time wend run train.py`, both with `OMP_NUM_THREADS=1`.
"""
FLEX = """\
## flex_attention

Eight heads, two examples, 1 024 positions of width 64, float32. Six masks and scores: causal,
sliding window, prefix, documents, ALiBi, capped scores. Each cell has the least and the
greatest ratio.

| | results, PyTorch's eager function | results and gradients, PyTorch's composition |
|---|---|---|
| AVX-512 | 11.6 to 20 | 5.0 to 9.3 |
| AVX2 | 9.3 to 16.6 | 4.6 to 8.0 |

PyTorch 2.13 has no backward pass of `flex_attention` on CPUs, and `torch.compile` was not
measured. Command: `python benchmarks/flex_attention.py`, 2026-11-30.
"""
PROGRAMS = """\
## Programs that others wrote

Forty-eight public programs ran on 2026-11-26, on a processor with AVX2. The geometric mean of
the 45 with both ratios is 1.89 cold and 1.97 warm. Slower than PyTorch were 13 large networks
with two steps each (`cifar_models`, 0.51 and 0.60) and the tests of torchdiffeq (0.96 and
0.83). `benchmarks/programs.md` has all rows.
"""
WORKLOADS = """\
PyTorch runs until its process has used eight seconds; Wend makes as many steps. *Ahead after*
is PyTorch's time in seconds from which on Wend stays ahead. `benchmarks/README.md` describes
the workloads. Command: `python benchmarks/totals.py --seconds 8`.
"""
FEATURES = """\
A recurrent net in training, with one more feature a row. *Steady* compares a step in the last
third of the run; *total* compares all steps of a cold run. *Until fast* counts steps until
Wend is near the steady time; *longest* is Wend's longest step in ms. Command: `python
benchmarks/cliffs.py --seconds 12`.
"""
EXAMPLES = """\
The programs of [the examples](examples.md) from start to end. Command: `python
benchmarks/programs.py --examples`.
"""
LEFT = """\
## Not measured here

- GPUs: none has run Wend's kernels yet.
- Several threads: `python benchmarks/threads.py`; ratios above are for one thread of each
  side.
- `torch.compile`, JAX and DyNet: `python benchmarks/compare.py --peers compiled jax dynet`.
- Arm, macOS and Windows.
"""


def take(name: str, note: str) -> None:
    """Take over the newest results of a benchmark."""
    measured = BENCHMARKS / "results" / f"{name}.json"
    found = json.loads(measured.read_text(encoding="utf-8"))
    rows = [{key: rounded(row[key]) for key in KEPT[name]} for row in found["rows"]]
    figures = read() if FIGURES.exists() else {}
    day = date.fromtimestamp(measured.stat().st_mtime).isoformat()
    figures[name] = {"day": day, "note": note, "machine": found["machine"], "rows": rows}
    FIGURES.write_text(as_text(figures), encoding="utf-8")


def as_text(figures: dict[str, Any]) -> str:
    """Figures as JSON, a line for each row: changes are seen in a diff."""
    sets = []
    for name, found in figures.items():
        facts = {key: value for key, value in found.items() if key != "rows"}
        lines = ",\n".join(f"  {json.dumps(row)}" for row in found["rows"])
        sets.append(f'"{name}": {json.dumps(facts)[:-1]}, "rows": [\n{lines}\n]}}')
    return "{" + ",\n".join(sets) + "}\n"


def rounded(value: Any) -> Any:
    """Four digits of a number."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def read() -> dict[str, Any]:
    """The figures."""
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def ratios(name: str, row: dict[str, Any]) -> tuple[float, float]:
    """The two ratios of a row: cold and warm, or steady and in total."""
    first, second = ("steady", "total") if name == "cliffs" else ("torch / cold", "torch / warm")
    return row[first], row[second]


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def number(value: Any) -> str:
    """A number for people; a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value.replace("_", " ")
    return f"{value:.0f}" if value >= 100 or isinstance(value, int) else f"{value:.2f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table, numbers at the right."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    lines += ["| " + " | ".join(map(number, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def conditions(found: dict[str, Any]) -> str:
    """The machine, the day and the run."""
    machine = found["machine"]
    return (
        f"Measured on {found['day']}: {machine['processor']}, {machine['cores']} cores, vectors of "
        f"{machine['vectors']}, Python {machine['python']}, NumPy {machine['numpy']}, PyTorch "
        f"{machine['torch']}. {found['note']}\n"
    )


def slow(figures: dict[str, Any]) -> str:
    """The rows in which Wend is slower, or hardly faster."""
    rows = []
    for name, found in figures.items():
        for row in found["rows"]:
            pair = ratios(name, row)
            if min(pair) < NEAR:
                kind = "steady, total" if name == "cliffs" else "cold, warm"
                rows.append((row[NAMES[name]], kind, *pair))
    rows.sort(key=lambda row: min(row[2:]))
    worse = sum(min(row[2:]) < 1 for row in rows)
    text = (
        "## Where Wend is slower, or hardly faster\n\n"
        f"{worse} of {sum(len(found['rows']) for found in figures.values())} rows are below 1, and "
        f"{len(rows) - worse} more are below {NEAR}.\n\n"
    )
    return text + table(("program", "ratios", "first", "second"), rows) + "\n" + WHY


WHY = """\
- `digits` asks for deterministic algorithms. Wend then computes by NumPy throughout, so that
  the moment at which machine code takes over cannot change a bit.
- A parser with a stack takes a new path in each step. Such paths are recorded and run part by
  part, by way of Python.
- Training of a ResNet takes seven steps in this time, most of it in convolutions; planning and
  compiling come on top when cold.
- The sizes after `unique` depend on values, so each step waits for values.
"""


def section(
    figures: dict[str, Any],
    name: str,
    title: str,
    text: str,
) -> str:
    """A set of figures, with the means of both ratios."""
    found = figures[name]
    rows = [[row[column] for column in KEPT[name]] for row in found["rows"]]
    pairs = [ratios(name, row) for row in found["rows"]]
    first, second = (mean(column) for column in zip(*pairs, strict=True))
    kinds = ("steady", "in total") if name == "cliffs" else ("cold", "warm")
    return (
        f"## {title}\n\n{text}\n{conditions(found)}\n"
        f"{table(list(KEPT[name].values()), rows)}\n"
        f"Geometric means: {kinds[0]} {first:.2f}, {kinds[1]} {second:.2f}.\n"
    )


def page(figures: dict[str, Any]) -> str:
    """The whole page."""
    workloads = section(
        figures,
        "totals",
        "Workloads from process start",
        WORKLOADS,
    )
    examples = section(
        figures,
        "examples",
        "Examples, whole",
        EXAMPLES,
    )
    features = section(
        figures,
        "cliffs",
        "A small net with one feature more",
        FEATURES,
    )
    return "\n".join([HEAD, slow(figures), workloads, examples, features, FLEX, PROGRAMS, LEFT])


def main(words: list[str]) -> int:
    """Run the command; returns the exit status."""
    if words:
        if len(words) != 3 or words[0] != "--take" or words[1] not in KEPT:
            print(__doc__, file=sys.stderr)
            return 2
        take(words[1], words[2])
    PAGE.write_text(page(read()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
