"""`wend.debug.explain()`: how the last step was computed, as text and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from wend._engine.base import defects
from wend._engine.base.errors import ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core.step_log import BackwardRow
from wend._engine.runtime.flush_log import last_passes, last_step
from wend._engine.runtime.report import (
    FlushReport,
    PassText,
    StepReport,
    counted,
    passes_of,
    report,
)
from wend._frontend.seeing.tables import Html, html_table

__all__ = ["Explanation", "explain"]

_UNITS = ("", "k", "M", "G", "T")


def explain(op: str | None = None) -> Explanation:
    """How the last step was computed: computes pending values first.

    op: the name of an op, or of a gradient ("linear_backward"): only its kernels are shown

    The step is all that was computed since its path was last taken: an iteration of a loop. Per
    flush: why the path was new, the executor, each kernel with the fused ops and the user's lines,
    bytes and operations, host steps with reasons. Gradients have the line of the forward op. Per
    backward pass: the ways that ran its parts, and why others declined.

    Printing shows the text; notebooks show a table; `passes()` the result of each pass.

    Raises ArgumentTypeError for an op that is no name.
    """
    if op is not None and not isinstance(op, str):
        raise ArgumentTypeError(f"explain: expected the name of an op, got {type(op).__name__}")
    _hot.synchronize()
    return Explanation([report(flush) for flush in last_step()], last_passes(), op)


class Explanation:
    """How a step was computed; `flushes` and `backward` have the parts.

    op: the op whose kernels alone are shown, or None
    failures: failures inside Wend that this process has met and repaired, or "none"
    """

    def __init__(
        self, flushes: list[FlushReport], backward: list[BackwardRow], op: str | None = None
    ) -> None:
        self.flushes = flushes
        self.op = op
        self.backward = backward
        self.failures: str = defects.summary()

    def passes(self, flush: int = -1) -> list[PassText]:
        """The path of a flush after each pass, in order (before a pass: the entry before)."""
        return passes_of(self.flushes[flush].plan)

    def steps(self, flush: FlushReport) -> list[StepReport]:
        """The kernels and host steps of a flush; those of `op` alone, if that is given."""
        if self.op is None:
            return flush.steps
        return [
            step
            for step in flush.steps
            if self.op in [name for name, _ in (*step.recorded, *step.ops)]
        ]

    def __str__(self) -> str:
        lines = [] if self.flushes else ["nothing has been computed yet"]
        for places, flush in self._alike():
            which, alike = _numbers(places), f" ({len(places)} alike)" if len(places) > 1 else ""
            lines.append(f"{which} of {len(self.flushes)}{alike}: {flush.n_ops} ops")
            lines += self._body(flush)
        lines += self._backward_lines()
        lines.append(f"failures inside Wend so far: {self.failures}")
        return "\n".join(lines)

    __repr__ = __str__

    def _body(self, flush: FlushReport) -> list[str]:
        """The lines of a flush, without its number."""
        lines = [*_head(flush)]
        shown = self.steps(flush)
        if self.op is not None:
            n = counted(len(shown), "step") if flush.steps else "no kernel yet"
            lines.append(f"  {self.op}: {n}")
        for step in shown:
            lines.append(f"  {step.number:3d} {step.kind:9s} {_amounts(step)}")
            lines += [f"        {names}: {line}" for line, names in _by_line(step)]
            if lowered := _lowered(step):
                lines.append(f"        in parts: {lowered}")
            if step.reason:
                lines.append(f"        on the host: {step.reason}")
        return lines

    def _alike(self) -> list[tuple[list[int], FlushReport]]:
        """The numbers of the flushes whose lines are the same, and the first of them."""
        rows: dict[tuple[int, str], tuple[list[int], FlushReport]] = {}
        for k, flush in enumerate(self.flushes):
            key = (flush.n_ops, "\n".join(self._body(flush)))
            rows.setdefault(key, ([], flush))[0].append(k + 1)
        return list(rows.values())

    def _backward_lines(self) -> Iterator[str]:
        for k, row in enumerate(self.backward):
            yield f"backward pass {k + 1} of {len(self.backward)}, not known as one step:"
            for (part, way, reason), n in row.asked.items():
                outcome = f"declined: {way}: {reason}" if reason else f"run by: {way}"
                yield f"  {part}: {outcome}" + (f" ({n} times)" if n > 1 else "")

    def _repr_html_(self) -> str:
        parts = ["<div>"]
        for places, flush in self._alike():
            head = "<br>".join(escape(line.strip()) for line in _head(flush))
            parts.append(f"<p><b>{_numbers(places)}</b>: {flush.n_ops} ops<br>{head}</p>")
            shown = self.steps(flush)
            if not shown:
                continue
            rows = [
                (f"{step.number} {step.kind}", _ops_html(step), _amounts(step)) for step in shown
            ]
            parts.append(html_table(("step", "ops", "bytes, flops"), rows))
        passes = "<br>".join(escape(line) for line in self._backward_lines())
        parts.append(f"<p>{passes}</p>" if passes else "")
        parts.append(f"<p>failures inside Wend so far: {escape(self.failures)}</p></div>")
        return "".join(parts)


def _numbers(places: list[int]) -> str:
    """The numbers of flushes, neighbours as ranges: flushes 2 to 33, 35."""
    ranges: list[list[int]] = []
    for place in places:
        if ranges and ranges[-1][1] == place - 1:
            ranges[-1][1] = place
        else:
            ranges.append([place, place])
    shown = [str(a) if a == b else f"{a} to {b}" for a, b in ranges]
    if len(shown) > 4:
        shown = [*shown[:2], "...", shown[-1]]
    return f"flush{'es' if len(places) > 1 else ''} {', '.join(shown)}"


def _head(flush: FlushReport) -> Iterator[str]:
    """The lines above the steps."""
    yield f"  path: {flush.path}"
    yield f"  run by: {flush.tier}"
    for name, reason in flush.asked:
        if reason:
            yield f"  declined: {name}: {reason}"
    for name, count, reason in flush.lanes:
        yield f"  {count} by {name}" + (f": not as one, because {reason}" if reason else "")
    if flush.steps:
        kernels = counted(len(flush.kernels), "kernel")
        hosts = counted(len(flush.host_steps), "host step")
        yield f"  {kernels}, {hosts}, {_number(flush.arena)}B of temporaries"


def _by_line(step: StepReport) -> list[tuple[str, str]]:
    """(the user's line, ops recorded there) of a step, in order."""
    lines: dict[str, list[str]] = {}
    for op, line in step.recorded:
        lines.setdefault(line, []).append(op)
    return [(line, " ".join(names)) for line, names in lines.items()]


def _ops_html(step: StepReport) -> Html:
    """The ops of a step with lines, for a table."""
    rows = [f"{escape(op)} <small>{escape(line)}</small>" for line, op in _by_line(step)]
    return Html("<br>".join([*rows, *([f"<i>{escape(step.reason)}</i>"] if step.reason else [])]))


def _lowered(step: StepReport) -> str:
    """The ops as the compiler names these, where they are not those recorded."""
    names = [op for op, _ in step.ops]
    return "" if names == [op for op, _ in step.recorded] else " ".join(names)


def _amounts(step: StepReport) -> str:
    """Bytes and operations of a step."""
    if step.read is None:
        return ""
    text = f"reads {_number(step.read)}B, writes {_number(step.written)}B"
    return text if step.flops is None else f"{text}, {_number(step.flops)}flop"


def _number(n: int | None) -> str:
    """A number with three digits and a unit's prefix."""
    if n is None:
        return "? "
    x = float(n)
    for unit in _UNITS:
        if x < 1000 or unit == _UNITS[-1]:
            break
        x /= 1000
    return f"{x:.3g} {unit}"
