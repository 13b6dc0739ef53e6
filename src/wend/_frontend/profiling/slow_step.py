"""`wend.debug.why_slow()`: why a step is slow, in sentences; the main reason comes first."""

from __future__ import annotations

import linecache
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wend._engine.base.config import settings
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core.provenance import last_site
from wend._engine.runtime.flush_log import Flush, last_passes, last_rows, last_step, rows_since
from wend._engine.runtime.report import NO_REPEATS, PART_BY_PART, FlushReport, counted, report
from wend._frontend.profiling.step_times import StepTimes, measured
from wend._frontend.seeing.rich_forms import html_of_reasons

__all__ = ["SlowReason", "WhySlow", "why_slow"]

#: A step counts as computed in pieces if values behind the same line are asked for so often, or if
#: there are so many computations.
OFTEN, MANY = 4, 8
#: Calls before the measured ones, at least and at most: paths are met, planned and compiled
#: meanwhile, with pauses of so many seconds.
BEFORE, MOST_BEFORE, PAUSE = 6, 60, 0.05
#: The least share of a step's time that is worth a sentence.
WORTH = 0.2
_GENERAL = ("python", "recording", "arithmetic")
#: Microseconds from op to op that a program spends outside of Wend, where recording takes a few.
IDLE = 15.0


@dataclass
class SlowReason:
    """A reason and a remedy.

    kind: "values asked for", "new path", "rebinding", "reference", "being compiled", "host",
    "groups", "backward", "mode", "python", "recording" or "arithmetic"
    text: the reason     remedy: advice
    share: of the time of the measured step; None if no step was measured
    """

    kind: str
    text: str
    remedy: str
    share: float | None = None


@dataclass
class WhySlow:
    """The reasons that slow a step, the main reason first; none, if ready machine code ran all.

    flushes: how many computations the step had     times: of the measured step, or None
    """

    reasons: list[SlowReason] = field(default_factory=list)
    flushes: int = 0
    times: StepTimes | None = None

    def __bool__(self) -> bool:
        """Whether there was a reason."""
        return bool(self.reasons)

    def __str__(self) -> str:
        if not self.flushes:
            return "nothing has been computed yet"
        lines = [] if self.times is None else [str(self.times)]
        if not self.reasons:
            lines.append(
                f"nothing slowed the last step: {counted(self.flushes, 'computation')} ran by "
                "ready machine code. Its kernels take the time: see wend.debug.explain()"
            )
        for reason in self.reasons:
            lines += [f"{reason.kind}: {reason.text}{_share(reason)}", f"  {reason.remedy}"]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.reasons:
            return html_of_reasons(str(self), [])
        head = "why the step is slow" if self.times is None else str(self.times)
        rows = [(x.kind + _share(x), x.text, x.remedy) for x in self.reasons]
        return html_of_reasons(head, rows)


def _share(reason: SlowReason) -> str:
    """The share of the measured step's time, as text; "" if it is not known."""
    return "" if reason.share is None else f" [{reason.share:.0%} of the step]"


def why_slow(step: Callable[[], object] | None = None, times: int = 5) -> WhySlow:
    """Say why a step is slow: each reason is a sentence with a remedy, the main reason first.

    step: a function that makes a step. It is called until no code is being made, and some times
    more, which are measured: each reason has its share of the time

    Without `step` the answer is about the last step: all that was computed since its path was last
    taken, as for `explain`.

    Raises ArgumentTypeError for a step that is no function, ArgumentError unless times is positive.
    """
    if step is None:
        _hot.synchronize()
        return _answer(last_step(), None)
    if not callable(step):
        raise ArgumentTypeError(f"why_slow: step must be a function, not {type(step).__name__}")
    if times < 1:
        raise ArgumentError(f"why_slow: times must be positive, and is {times}")
    rows: list[Flush] = []
    for k in range(MOST_BEFORE):
        mark = last_rows()
        step()
        _hot.synchronize()
        rows = rows_since(mark)
        if k + 1 >= BEFORE and not any("being" in report(flush).tier for flush in rows):
            break
        time.sleep(PAUSE if k + 1 >= BEFORE else 0.0)
    return _answer(rows, measured(step, times))


def _answer(step: list[Flush], times: StepTimes | None) -> WhySlow:
    flushes = [report(flush) for flush in step]
    answer = WhySlow(flushes=len(flushes), times=times)
    reasons = [*_modes(), *_pieces(step, times), *_news(flushes, times is not None)]
    reasons += [*_references(flushes, times is not None), *_hosts(flushes, times)]
    if not any(reason.kind == "new path" for reason in reasons):
        reasons += _passes()
    if times is not None:
        reasons += _rest(reasons, flushes, times)
        reasons = [r for r in reasons if r.share is None or r.share >= WORTH / 4]
        # A reason with a remedy of its own comes before Python and arithmetic, if it counts.
        reasons.sort(key=lambda r: (r.kind in _GENERAL, -(r.share or 0.0)))
        reasons.sort(key=lambda r: r.kind != "mode" and (r.share or 0.0) < WORTH)
    answer.reasons = reasons
    return answer


def _modes() -> Iterator[SlowReason]:
    """Reasons that hold for the whole process."""
    if _computes_at_once():
        yield SlowReason(
            "mode",
            "each op is computed by itself, since wend.eager() or WEND_EAGER=1 is on",
            "Leave the block, or unset WEND_EAGER, once the fault is found.",
        )
    if not settings.compile:
        yield SlowReason(
            "mode",
            "no machine code is made, since WEND_COMPILE=0 is set",
            "Unset WEND_COMPILE.",
        )
    for on, name, words in (
        (settings.verify, "WEND_VERIFY=1", "each result is computed a second time and compared"),
        (settings.nan_guard, "nan_guard", "each result is looked through for NaN and infinity"),
    ):
        if on:
            yield SlowReason("mode", f"{words}, since {name} is on", f"Turn {name} off.")


def _computes_at_once() -> bool:
    """Whether each op is computed before the next line runs."""
    return bool(settings.eager or _hot.current_trace().eager)


def _pieces(step: list[Flush], times: StepTimes | None) -> list[SlowReason]:
    """The reason that a step was computed in many pieces, if it was."""
    lines = Counter(_asked_behind(flush) for flush in step)
    often = [(line, n) for line, n in lines.most_common(4) if line is not None]
    passes = [line for line, _ in often if _is_backward(line)]  # through values read before
    often = [row for row in often if row[0] not in passes] or often
    if _computes_at_once() or not often or (often[0][1] < OFTEN and len(step) < MANY):
        return []
    places = ", ".join(f"{line} ({n} times)" if n > 1 else line for line, n in often)
    return [
        SlowReason(
            "values asked for",
            f"the step was computed in {len(step)} pieces, each when a value was asked for "
            f"(item(), tolist(), bool, print): most often the results of {places}",
            "Keep the tensors in a list and read torch.stack(values).tolist() once, behind the "
            "loop, or let conditions be torch.where; wend.batched runs pieces of many examples "
            "together.",
            None if times is None else times.python + times.launching,
        )
    ]


def _asked_behind(flush: Flush) -> str | None:
    """The user's line of a flush's last op; None if unknown."""
    site = None if flush.state is None else last_site(flush.state.path(), flush.sites)
    return None if site is None else str(site)


def _is_backward(line: str) -> bool:
    """Whether a line calls `backward` or `grad`."""
    file, _, number = line.partition(" in ")[0].rpartition(":")
    text = linecache.getline(file, int(number)) if number.isdigit() else ""
    return "backward(" in text or "grad(" in text


def _news(flushes: list[FlushReport], measured: bool) -> Iterator[SlowReason]:
    """Reasons that lie in the paths: new, without repetition, planned anew."""
    kinds = (
        (
            "new path",
            [f for f in flushes if f.path.startswith("new") or f.tier == PART_BY_PART],
            "took a path for the first time: {path}",
            "A path that comes back is compiled at its third visit. Let what changes each "
            "time (a Python number, a length) be a tensor or a size, or call the function by "
            "wend.batched.",
        ),
        (
            "groups",
            [f for f in flushes if f.path.startswith(NO_REPEATS) and f.tier != PART_BY_PART],
            "took paths that never come back, and ran in groups of equal ops",
            "wend.debug.batches() shows the groups; groups of one gain nothing: give more "
            "inputs at once, or call the function by wend.batched.",
        ),
        (
            "rebinding",
            [f for f in flushes if "planned for what is wanted now" in f.path],
            "{were} planned anew: other values were wanted than at earlier visits",
            "Keep the same tensors alive in each iteration, or drop the same ones.",
        ),
    )
    for kind, chosen, text, remedy in kinds:
        if chosen:
            one = len(chosen) == 1
            words = text.format(
                path=chosen[0].path, have="has" if one else "have", were="was" if one else "were"
            )
            share = _part(chosen, flushes) if measured else None
            yield SlowReason(kind, f"{_some(chosen, flushes)} {words}", remedy, share)


def _part(chosen: Iterable[FlushReport], flushes: Iterable[FlushReport]) -> float:
    """The part of a step's ops that some of its computations have."""
    return sum(f.n_ops for f in chosen) / max(1, sum(f.n_ops for f in flushes))


def _references(flushes: list[FlushReport], measured: bool) -> Iterator[SlowReason]:
    """Reasons that machine code did not run."""
    if not settings.compile or _computes_at_once():
        return
    slow = [
        flush
        for flush in flushes
        if flush.tier.startswith("reference") and not (measured and flush.path.startswith("new"))
    ]
    pending = [f for f in slow if "compiled" in f.tier or "planned" in f.tier]
    if pending:
        being = any("being" in flush.tier for flush in pending)
        yield SlowReason(
            "being compiled",
            f"{_some(pending, flushes)} ran op by op by NumPy ({pending[0].tier})",
            "Machine code is made in the background meanwhile, and later visits run that. "
            "WEND_COMPILE=force makes the first visit wait for machine code."
            if being
            else "The third visit of a path has it compiled; later visits run machine code.",
            _part(pending, flushes) if measured else None,
        )
    rest = [flush for flush in slow if flush not in pending]
    if rest:
        yield SlowReason(
            "reference",
            f"{_some(rest, flushes)} ran op by op by NumPy ({rest[0].tier})",
            "wend.debug.explain() has the reason; wend env tells whether code can be made.",
            _part(rest, flushes) if measured else None,
        )


def _hosts(flushes: list[FlushReport], times: StepTimes | None) -> Iterator[SlowReason]:
    """The reason that some ops have no kernel."""
    steps = [step for flush in flushes for step in flush.host_steps]
    if not steps:
        return
    ops = Counter(op for step in steps for op, _ in step.ops)
    names = ", ".join(op for op, _ in ops.most_common(4))
    lines = dict.fromkeys(line for step in steps for _, line in step.ops if line)
    first = next(iter(lines), "an unknown line")
    reason = next((step.reason for step in steps if step.reason), "")
    yield SlowReason(
        "host",
        f"{counted(len(steps), 'op')} of the step {'has' if len(steps) == 1 else 'have'} no "
        f"kernel: {names}, first at {first} ({reason})",
        "Such ops cost a call of NumPy each; another op may do the same.",
        None if times is None else sum(times.lines.get(line, 0.0) for line in lines),
    )


def _passes() -> Iterator[SlowReason]:
    """Reasons that lie in backward passes."""
    ways = Counter(
        (part, way)
        for row in last_passes()
        for (part, way, reason), n in row.asked.items()
        for _ in range(0 if reason else n)
    )
    if ways:
        shown = ", ".join(
            f"{part} by {way}" + (f" ({n} times)" if n > 1 else "")
            for (part, way), n in ways.items()
        )
        yield SlowReason(
            "backward",
            f"a backward pass was not known as a whole: it ran in {ways.total()} parts ({shown})",
            "The pass of a path that comes back is known from the second time on.",
        )


def _rest(
    reasons: Sequence[SlowReason], flushes: list[FlushReport], times: StepTimes
) -> Iterator[SlowReason]:
    """Reasons for the time that no other reason has: Python, recording, or arithmetic."""
    kinds = {reason.kind for reason in reasons}
    n_ops = sum(flush.n_ops for flush in flushes)
    if times.python >= WORTH and not kinds & {"values asked for", "mode"}:
        if times.python * times.seconds * 1e6 > IDLE * max(n_ops, 1):
            yield SlowReason(
                "python",
                f"the program's own Python takes the time between {counted(n_ops, 'op')}: reading "
                "data, lists, calls that make no tensors",
                "cProfile finds the function; a DataLoader with workers reads data meanwhile.",
                times.python,
            )
        else:
            yield SlowReason(
                "recording",
                f"recording {counted(n_ops, 'op')} takes the time, a microsecond or two each: the "
                "tensors are small",
                "Compute more examples at once: a larger batch, wend.vmap or wend.batched.",
                times.python,
            )
    if times.lines:
        line, share = max(times.lines.items(), key=lambda item: item[1])
        if share >= WORTH:
            yield SlowReason(
                "arithmetic",
                f"the arithmetic of {line} takes the time",
                "wend.debug.explain() lists its kernels, with bytes and operations; "
                "wend.set_num_threads lets more cores share the work.",
                share,
            )


def _some(chosen: Sequence[FlushReport], flushes: Iterable[FlushReport]) -> str:
    """So many of the computations of a step, with the number of ops."""
    n_ops = sum(flush.n_ops for flush in chosen)
    return f"{len(chosen)} of {len(list(flushes))} computations ({counted(n_ops, 'op')})"
