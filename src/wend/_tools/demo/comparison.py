"""The demo's table, and whether runs have equal losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wend._tools.demo.runs import Timed

COLUMNS: Final = (
    *("program", "run by", "first step", "a step", "PyTorch / Wend"),
    *("start to end", "last loss"),
)
NOTE: Final = """\
Seconds of processor time. A step: the median of the last {half} of {steps}. Start to end: with
imports. The first run finds no machine code of earlier runs; the second finds that of the first."""
#: Relative: rounding of many steps. A branch taken otherwise parts the losses further.
TOLERANCE: Final = 1e-3


@dataclass(frozen=True)
class Agreement:
    """Whether the losses of a program's runs are equal, and how near, in words."""

    equal: bool
    text: str


def table(runs: Sequence[Timed]) -> str:
    """Return a table in Markdown: a row for each run."""
    rows = [COLUMNS, *(row(run, torch_run(run.program, runs)) for run in runs)]
    widths = [max(len(line[k]) for line in rows) for k in range(len(COLUMNS))]
    rule = tuple("-" * width for width in widths)
    lines = [rows[0], rule, *rows[1:]]
    return "\n".join(
        "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(line, widths)) + " |"
        for line in lines
    )


def row(run: Timed, torch: Timed | None) -> tuple[str, ...]:
    """Return the cells of a run; PyTorch's own run is the measure."""
    ratio = "" if torch is None or torch is run else f"{torch.step / run.step:.1f}"
    return (
        *(run.program, run.label, span(run.steps[0]), span(run.step), ratio),
        *(span(run.whole), f"{run.losses[-1]:.6f}"),
    )


def torch_run(program: str, runs: Sequence[Timed]) -> Timed | None:
    """Return PyTorch's run of a program, if any."""
    theirs = [run for run in runs if run.program == program and run.label.startswith("PyTorch")]
    return theirs[0] if theirs else None


def span(seconds: float) -> str:
    """Return seconds in the unit that fits."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def verdict(program: str, runs: Sequence[Timed]) -> Agreement:
    """Compare the losses of a program's runs, step by step.

    runs: of this program; the measure is PyTorch's, or else the first
    """
    measure = torch_run(program, runs) or runs[0]
    farthest = 0.0
    for step, right in enumerate(measure.losses):
        for run in runs:
            apart = abs(run.losses[step] - right) / max(abs(right), 1e-6)
            if not apart <= TOLERANCE and not (math.isnan(run.losses[step]) and math.isnan(right)):
                text = f"{run.losses[step]} by {run.label}, {right} by {measure.label}"
                return Agreement(False, f"losses part at step {step}: {text}")
            farthest = max(farthest, apart)
    near = f"the farthest apart by {farthest:.0e}" if farthest else "to the last digit printed"
    return Agreement(True, f"losses of all {len(measure.losses)} steps are equal, {near}")
