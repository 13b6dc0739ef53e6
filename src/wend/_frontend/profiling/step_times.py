"""The time of a step: Python, launching, planning, and arithmetic by the program's lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from wend._engine.core import _hot
from wend._frontend.profiling.recording import Options, Recording
from wend._frontend.profiling.time_tables import (
    COMPILING,
    LAUNCHING,
    PLANNING,
    PYTHON,
    TimeTable,
    by_line,
)

__all__ = ["StepTimes", "measured"]


@dataclass
class StepTimes:
    """The time of a step, and shares of it.

    seconds: of a step without the profiler
    python: share of Python and of recording     launching: of each computation besides kernels
    planning: of planning and compiling          lines: of the arithmetic, by line
    """

    seconds: float
    python: float = 0.0
    launching: float = 0.0
    planning: float = 0.0
    lines: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = (
            ("arithmetic", sum(self.lines.values())),
            ("Python and recording", self.python),
            ("launching", self.launching),
            ("planning and compiling", self.planning),
        )
        shares = ", ".join(f"{share:.0%} {name}" for name, share in rows if share >= 0.005)
        return f"a step takes {self.seconds * 1e3:.3g} ms: {shares}"


def measured(step: Callable[[], object], times: int) -> StepTimes:
    """Call a function `times` times, and as often under the profiler; the quickest calls count.

    Other work on the machine makes some calls longer, and none quicker.
    """
    seconds = min(_seconds(step) for _ in range(times))
    table = min((_table(step) for _ in range(times)), key=lambda table: table.total_us)
    whole = table.total_us or 1.0
    result = StepTimes(seconds)
    for row in table:
        share = row.own_us / whole
        if row.where == PYTHON:
            result.python += share
        elif row.where == LAUNCHING:
            result.launching += share
        elif row.where in (PLANNING, COMPILING):
            result.planning += share
        elif not row.where.startswith("("):
            line = row.where.removesuffix(" (backward)")
            result.lines[line] = result.lines.get(line, 0.0) + share
    return result


def _seconds(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    step()
    _hot.synchronize()
    return time.perf_counter() - begin


def _table(step: Callable[[], object]) -> TimeTable:
    recording = Recording(Options())
    recording.begin()
    try:
        step()
    finally:
        recording.end()
    return by_line(recording.seen())
