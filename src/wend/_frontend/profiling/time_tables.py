"""Time by the user's line, and by module: sums of shares, although kernels are fused."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from wend._engine.runtime.measure.recorder import Scope
from wend._engine.runtime.measure.shares import flops_of
from wend._frontend.profiling.event_lists import format_time
from wend._frontend.profiling.window import Window, line_of

__all__ = ["TimeRow", "TimeTable", "by_line", "by_module"]


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

    def __str__(self) -> str:
        whole = self.total_us or 1.0
        head = f"{'own':>10s} {'own %':>6s} {'total':>10s} {'backward':>10s} {'ops':>6s}"
        lines = [f"{head} {'MFLOP':>9s}  {self.title}"]
        for row in self:
            lines.append(
                f"{format_time(row.own_us):>10s} {row.own_us / whole:6.1%} "
                f"{format_time(row.total_us):>10s} {format_time(row.backward_us):>10s} "
                f"{row.calls:6d} {row.flops / 1e6:9.3f}  {row.where}"
            )
        lines.append(f"{format_time(self.total_us):>10s} in all")
        return "\n".join(lines)

    __repr__ = __str__


def by_line(window: Window) -> TimeTable:
    """Return the time of each line of the user's."""
    own: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    for flush in window.flushes():
        for op in window.ops_of(flush):
            line = line_of(flush, op.site)
            if op.is_gradient and not flush.states[op.site].is_step:
                line += " (backward)"
            own[line] += op.ns / 1e3  # type: ignore[assignment]
            calls[line] += op.count
            flops[line] += work_of_op(flush, op)
    rows = [TimeRow(line, us, us, calls[line], flops[line]) for line, us in own.items()]
    return TimeTable("line", rows + rest_of(window, sum(own.values())))


def by_module(window: Window) -> TimeTable:
    """Return the time of each module: of the ops recorded in the calls, and of backward passes."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    backward: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    for flush in window.flushes():
        for op in window.ops_of(flush):
            us = op.ns / 1e3
            scope, paths = flush.scope_at(op.site), []
            while scope is not None:
                if scope.kind == "module" and scope.about not in paths:
                    paths.append(scope.about)
                scope = scope.outer
            known = not (op.is_gradient and flush.states[op.site].is_step)
            inner = paths[0] if paths else "(no module)" if known else "(backward)"
            own[inner] += us  # type: ignore[assignment]
            calls[inner] += op.count
            flops[inner] += work_of_op(flush, op)
            for path in paths or [inner]:
                total[path] += us  # type: ignore[assignment]
                if op.is_gradient:
                    backward[path] += us  # type: ignore[assignment]
    rows = [
        TimeRow(path, own[path], us, calls[path], flops[path], backward[path])
        for path, us in total.items()
    ]
    return TimeTable("module", rows + rest_of(window, sum(own.values())))


def work_of_op(flush: Any, op: Any) -> int:
    """Return the operations of an op in all its calls."""
    state = flush.states[op.step]
    if state.is_step:
        return int(op.flops)
    return int(op.flops) or op.count * flops_of(state, flush.types)


_WORDS = {
    "recording": "(Python, and recording of ops)",
    "launch": "(launching: plans, arguments, handing over)",
    "plan": "(planning)",
    "compile": "(compiling)",
}


def rest_of(window: Window, computed: float) -> list[TimeRow]:
    """Return rows of the time that no op has, so that all rows add up to the recording's time."""
    found: Counter[str] = Counter()
    stack = [tree for tree in window.trees if tree.slice.kind == "profile"]
    while stack:
        tree = stack.pop()
        one = tree.slice
        if isinstance(one.about, tuple) and not isinstance(one.about, Scope):
            continue  # the ops of a flush share the whole part
        stack.extend(tree.inner)
        if not tree.inner and one.kind in _WORDS:
            found[_WORDS[one.kind]] += (one.end - one.begin) / 1e3  # type: ignore[assignment]
    left = (window.end - window.start) / 1e3 - computed - sum(found.values())
    if left > 0.5:
        found["(all else)"] += left  # type: ignore[assignment]
    return [TimeRow(name, us, us) for name, us in found.items()]
