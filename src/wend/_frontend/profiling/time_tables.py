"""Time by the user's line, and by module: sums of shares, although kernels are fused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wend._engine.runtime.measure.recorder import Scope
from wend._frontend.profiling.event_lists import format_time
from wend._frontend.profiling.ops import OpTime, summed
from wend._frontend.profiling.window import Window
from wend._frontend.seeing.tables import html_report, html_table, text_table

__all__ = ["TimeRow", "TimeTable", "by_line", "by_module"]

#: Rows of the time that no op has.
PYTHON, LAUNCHING, PLANNING, COMPILING = (
    "(Python, and recording of ops)",
    "(launching: plans, arguments, handing over)",
    "(planning)",
    "(compiling)",
)


class TimeRow(NamedTuple):
    """Time at a place.

    where: a line, the path of a module, or in brackets the engine's or the program's own work
    own_us: microseconds of the place itself     total_us: with the modules within
    backward_us: microseconds of gradients, a part of `total_us`
    calls: how many ops were computed     flops: their operations
    """

    where: str
    own_us: float
    total_us: float
    calls: int = 0
    flops: int = 0
    backward_us: float = 0.0


class TimeTable(list[TimeRow]):
    """Rows, the longest time first; the own times add up to the recording's time."""

    def __init__(self, title: str, rows: list[TimeRow]) -> None:
        super().__init__(sorted(rows, key=lambda row: -row.total_us))
        self.title = title

    @property
    def total_us(self) -> float:
        """Microseconds of all rows together."""
        return sum([row.own_us for row in self])

    def _cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Heads and rows of the table."""
        whole = self.total_us or 1.0
        rows = [
            (format_time(row.own_us), f"{row.own_us / whole:.1%}", format_time(row.total_us),
             format_time(row.backward_us), str(row.calls), f"{row.flops / 1e6:.3f}", row.where)
            for row in self
        ]  # fmt: skip
        return ("own", "own %", "total", "backward", "ops", "MFLOP", self.title), rows

    def __str__(self) -> str:
        heads, rows = self._cells()
        lines = text_table([heads, *rows], range(6), least=(10, 5, 9, 9, 5, 8))
        return "\n".join([*lines, f"{format_time(self.total_us):>10s} in all"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = html_table(*self._cells(), right=range(6))
        return html_report(f"{format_time(self.total_us)} in all, by {self.title}", table)


def by_line(window: Window) -> TimeTable:
    """Return the time of each line of the user's."""

    def line(op: OpTime) -> str:
        return f"{op.line} (backward)" if op.is_gradient and op.has_line else op.line

    lines = summed((line(op), (op.us, op.count, op.work)) for op in window.ops())
    rows = [TimeRow(place, us, us, calls, flops) for place, (us, calls, flops) in lines.items()]
    return TimeTable("line", rows + rest_of(window, rows))


def by_module(window: Window) -> TimeTable:
    """Return the time of each module: of the ops recorded in the calls, and of backward passes."""

    def shares() -> Iterator[tuple[str, tuple[float, ...]]]:
        for op in window.ops():
            own: tuple[float, ...] = op.us, op.count, op.work
            for path in op.modules or ["(no module)" if op.has_line else "(backward)"]:
                yield path, (*own, op.us, op.us if op.is_gradient else 0.0)
                own = 0.0, 0, 0  # the modules around have the time in all

    modules = summed(shares())
    rows = [
        TimeRow(path, own, total, int(calls), int(flops), backward)
        for path, (own, calls, flops, total, backward) in modules.items()
    ]
    return TimeTable("module", rows + rest_of(window, rows))


_WORDS = {"recording": PYTHON, "launch": LAUNCHING, "plan": PLANNING, "compile": COMPILING}


def rest_of(window: Window, computed: list[TimeRow]) -> list[TimeRow]:
    """Return rows of the time that no op has, so that all rows add up to the recording's time."""
    stretches = []
    stack = [tree for tree in window.trees if tree.slice.kind == "profile"]
    while stack:
        tree = stack.pop()
        one = tree.slice
        if isinstance(one.about, tuple) and not isinstance(one.about, Scope):
            continue  # the ops of a flush share the whole part
        stack.extend(tree.inner)
        if not tree.inner and one.kind in _WORDS:
            stretches.append((_WORDS[one.kind], [(one.end - one.begin) / 1e3]))
    rows = [TimeRow(name, us, us) for name, (us,) in summed(stretches).items()]
    left = (window.end - window.start) / 1e3 - sum([row.own_us for row in (*computed, *rows)])
    return [*rows, TimeRow("(all else)", left, left)] if left > 0.5 else rows
