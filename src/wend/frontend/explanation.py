"""`wend.debug.explain()`: what became of the last step, as text and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from wend.base import defects
from wend.core import _hot
from wend.runtime.flush_log import last_step
from wend.runtime.report import FlushReport, PassText, StepReport, passes_of, report

__all__ = ["Explanation", "explain"]

_UNITS = ("", "k", "M", "G", "T")


def explain() -> Explanation:
    """What became of the last step: computes what is pending, and says how.

    The step is what was computed since its path was last taken: an iteration of a loop. Per flush:
    why its path was new, what ran it, each kernel with the ops that it fuses and the user's lines,
    bytes read and written, operations, host steps and why they are none.

    Printing shows the text; notebooks show a table; `passes()` what each pass made.
    """
    _hot.synchronize()
    return Explanation([report(flush) for flush in last_step()])


class Explanation:
    """What became of a step; `flushes` has it in parts.

    failures: those inside Wend that this process has met and repaired, or "none"
    """

    def __init__(self, flushes: list[FlushReport]) -> None:
        self.flushes = flushes
        self.failures = defects.summary()

    def passes(self, flush: int = -1) -> list[PassText]:
        """What each pass made of the path of a flush, in order: before a pass is after the last."""
        return passes_of(self.flushes[flush].plan)

    def __str__(self) -> str:
        lines = [] if self.flushes else ["nothing has been computed yet"]
        for k, flush in enumerate(self.flushes):
            lines += [f"flush {k + 1} of {len(self.flushes)}: {flush.n_ops} ops", *_head(flush)]
            for j, step in enumerate(flush.steps):
                lines.append(f"  {j:3d} {step.kind:9s} {_amounts(step)}")
                lines += [f"        {names}: {line}" for line, names in _by_line(step)]
                if step.reason:
                    lines.append(f"        on the host: {step.reason}")
        lines.append(f"failures inside Wend so far: {self.failures}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = ["<div>"]
        for k, flush in enumerate(self.flushes):
            head = "<br>".join(escape(line.strip()) for line in _head(flush))
            parts.append(f"<p><b>flush {k + 1}</b>: {flush.n_ops} ops<br>{head}</p>")
            if not flush.steps:
                continue
            parts.append("<table><tr><th>step</th><th>ops</th><th>bytes, flops</th></tr>")
            for j, step in enumerate(flush.steps):
                ops = "<br>".join(
                    f"{escape(names)} <small>{escape(line)}</small>"
                    for line, names in _by_line(step)
                )
                more = f"<br><i>{escape(step.reason)}</i>" if step.reason else ""
                row = (f"{j} {escape(step.kind)}", ops + more, escape(_amounts(step)))
                parts.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>")
            parts.append("</table>")
        parts.append(f"<p>failures inside Wend so far: {escape(self.failures)}</p></div>")
        return "".join(parts)


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
        n, hosts = len(flush.kernels), len(flush.host_steps)
        yield f"  {n} kernels, {hosts} host steps, {_number(flush.arena)}B of temporaries"


def _by_line(step: StepReport) -> list[tuple[str, str]]:
    """(the user's line, ops recorded there) of a step, in order."""
    lines: dict[str, list[str]] = {}
    for op, line in step.ops:
        lines.setdefault(line, []).append(op)
    return [(line, " ".join(names)) for line, names in lines.items()]


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
