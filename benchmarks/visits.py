"""What is paid once: first steps of a process, first visits of a new length, planning, binding.

python benchmarks/visits.py
python benchmarks/visits.py --passes 2      # a quick look

Processor time of all threads, PyTorch's beside it where it does the same.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from typing import Any

from bench import Side, frameworks, publish

COLUMNS = ["what", "wend", "low", "high", "torch", "ratio", "aim"]
TURNS = 500


def row(what: str, aim: str, numbers: dict[str, list[float]]) -> dict[str, Any]:
    """One row: medians, the spread of Wend's, and how many times PyTorch's time it is."""
    mine = numbers["wend"]
    found = {"what": what, "aim": aim, "low": min(mine), "high": max(mine)}
    found |= {name: statistics.median(times) for name, times in numbers.items()}
    if "torch" in numbers:
        found["ratio"] = found["wend"] / found["torch"]
    return found


def asked(script: str, request: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The answer of a fresh process of each framework."""
    found = {}
    for name in names:
        side = Side(name, script)
        try:
            found[name] = side.ask(**request)
        finally:
            side.close()
    return found


def first_steps(passes: int) -> list[dict[str, Any]]:
    """First steps of a process, with an empty disk cache and with a warm one."""
    cold: dict[str, list[float]] = {name: [] for name in frameworks()}
    warm: dict[str, list[float]] = {name: [] for name in frameworks()}
    before = os.environ.get("WEND_CACHE_DIR")
    for _ in range(passes):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["WEND_CACHE_DIR"] = folder
            for numbers in (cold, warm):
                found = asked("serve_visits.py", {"do": "first step"}, list(numbers))
                for name, took in found.items():
                    numbers[name].append(took)
    os.environ.pop("WEND_CACHE_DIR")
    if before is not None:
        os.environ["WEND_CACHE_DIR"] = before
    return [
        row("first step of an MLP, empty cache: ms", "1000", cold),
        row("first step of an MLP, warm cache: ms", "1.5 x torch", warm),
    ]


def new_lengths(gradient: bool, passes: int) -> dict[str, Any]:
    """First visits of loops of new lengths, once loops of another have been seen."""
    sides = {name: Side(name, "serve_visits.py") for name in frameworks()}
    numbers: dict[str, list[float]] = {name: [] for name in sides}
    try:
        for side in sides.values():
            for _ in range(6):
                side.ask(do="visit", turns=TURNS, gradient=gradient)
            side.ask(do="rest")
            side.ask(do="visit", turns=TURNS, gradient=gradient)
        for k in range(1, 4 * passes + 1):
            for name, side in sides.items():
                turns = TURNS + 7 * k
                numbers[name].append(side.ask(do="visit", turns=turns, gradient=gradient))
    finally:
        for side in sides.values():
            side.close()
    what = f"loop of 20 ops in a turn, a new length{', with gradient' * gradient}: ms"
    return row(what, "1.5 x torch", numbers)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passes", type=int, default=3)
    passes = parser.parse_args().passes
    rows = first_steps(passes)
    rows += [new_lengths(gradient, passes) for gradient in (False, True)]
    for turns, gradient in ((2, True), (50, False), (20, True)):
        request = {"do": "planning", "turns": turns, "gradient": gradient}
        found = [asked("serve_visits.py", request, ["wend"])["wend"] for _ in range(passes)]
        planned, bound = ([f[key] for f in found] for key in ("op", "bind"))
        n_ops, n_kernels = found[0]["ops"], found[0]["kernels"]
        rows.append(row(f"planning {n_ops} ops: us an op", "200", {"wend": planned}))
        rows.append(row(f"binding {n_kernels} kernels: us each", "5", {"wend": bound}))
    for name in ("resnet_inference", "transformer_encoder"):
        request = {"do": "new sizes", "name": name}
        found = [asked("serve_visits.py", request, ["wend"])["wend"] for _ in range(passes)]
        visits, compiled, bound = ([f[key] for f in found] for key in ("ratio", "compiled", "bind"))
        label, n_kernels = name.upper(), found[0]["kernels"]
        rows.append(row(f"{label}: a new size, over the same again", "1.15", {"wend": visits}))
        rows.append(row(f"{label}: modules compiled for 25 new sizes", "0", {"wend": compiled}))
        rows.append(row(f"{label}: binding {n_kernels} kernels: us each", "5", {"wend": bound}))
    request = {"do": "under way"}
    found = [asked("serve_visits.py", request, ["wend"])["wend"] for _ in range(passes)]
    ratios = [f["during"] / f["without"] for f in found]
    rows.append(row("a step with planning under way, over one without", "1.2", {"wend": ratios}))
    publish("visits", rows, COLUMNS)


if __name__ == "__main__":
    main()
