"""`wend.debug.why_slow()`: why the last step was slow, in sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from wend._engine.core import _hot
from wend._engine.core.provenance import last_site
from wend._engine.runtime.flush_log import Flush, last_passes, last_step
from wend._engine.runtime.report import FlushReport, counted, report

__all__ = ["SlowReason", "WhySlow", "why_slow"]

#: A step counts as computed in pieces if values behind the same line are asked for so often, or if
#: there are so many computations.
OFTEN, MANY = 4, 8


@dataclass
class SlowReason:
    """A reason and a remedy.

    kind: "new path", "new kernel", "rebinding", "reference", "host", "groups", "backward" or
    "values asked for"
    text: the reason     remedy: advice
    """

    kind: str
    text: str
    remedy: str


@dataclass
class WhySlow:
    """The reasons that slowed the last step; none, if all ran by ready machine code."""

    reasons: list[SlowReason] = field(default_factory=list)
    flushes: int = 0

    def __bool__(self) -> bool:
        """Whether there was a reason."""
        return bool(self.reasons)

    def __str__(self) -> str:
        if not self.flushes:
            return "nothing has been computed yet"
        if not self.reasons:
            return (
                f"nothing slowed the last step: {counted(self.flushes, 'computation')} ran by "
                "ready machine code. Its kernels take the time: see wend.debug.explain()"
            )
        lines = []
        for reason in self.reasons:
            lines += [f"{reason.kind}: {reason.text}", f"  {reason.remedy}"]
        return "\n".join(lines)

    __repr__ = __str__


def why_slow() -> WhySlow:
    """Say why the last step was slow: each reason is a sentence with a remedy.

    The step is all that was computed since the last path was taken before, as for `explain`.
    """
    _hot.synchronize()
    step = last_step()
    flushes = [report(flush) for flush in step]
    answer = WhySlow(flushes=len(flushes))
    for k, flush in enumerate(flushes):
        where = f"computation {k + 1} of {len(flushes)} ({flush.n_ops} ops)"
        answer.reasons += _reasons(flush, where)
    answer.reasons += _pieces(step)
    for row in last_passes():
        for (part, way, reason), n in row.asked.items():
            if reason:
                continue
            answer.reasons.append(
                SlowReason(
                    "backward",
                    f"{part}: run by {way}{f', {n} times' if n > 1 else ''}, and not as one known "
                    "step",
                    "The pass of a path that comes back is known from the second time on.",
                )
            )
    return answer


def _pieces(step: list[Flush]) -> list[SlowReason]:
    """The reason that a step was computed in many pieces, if it was."""
    lines = Counter(_asked_behind(flush) for flush in step)
    often = [(line, n) for line, n in lines.most_common(3) if line is not None]
    if not often or (often[0][1] < OFTEN and len(step) < MANY):
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
        )
    ]


def _asked_behind(flush: Flush) -> str | None:
    """The user's line of a flush's last op; None if unknown."""
    site = None if flush.state is None else last_site(flush.state.path(), flush.sites)
    return None if site is None else str(site)


def _reasons(flush: FlushReport, where: str) -> list[SlowReason]:
    """The reasons that slowed a flush."""
    reasons = []
    if flush.path.startswith("new"):
        reasons.append(
            SlowReason(
                "new path",
                f"{where} took a path for the first time: {flush.path}",
                "A path that comes back is compiled at its third visit. Let what changes each "
                "time (a Python number, a length) be a tensor or a size, or call the function by "
                "wend.batched.",
            )
        )
    elif flush.path.startswith("off the trie"):
        reasons.append(
            SlowReason(
                "groups",
                f"{where} has a structure that does not repeat, and ran in groups of like regions",
                "wend.debug.batches() shows the groups; groups of one gain nothing: give more "
                "inputs at once, or call the function by wend.batched.",
            )
        )
    if "planned for what is wanted now" in flush.path:
        reasons.append(
            SlowReason(
                "rebinding",
                f"{where} was planned anew: other values were wanted than at earlier visits",
                "Keep the same tensors alive in each iteration, or drop the same ones.",
            )
        )
    if flush.tier.startswith("reference"):
        pending = "compiled" in flush.tier or "planned" in flush.tier
        remedy = (
            "Machine code is made in the background meanwhile, and later visits run that. "
            "WEND_COMPILE=force makes the first visit wait for machine code."
            if "being" in flush.tier
            else "The third visit of a path has it compiled; later visits run machine code."
            if pending
            else "wend.debug.explain() has the reason; wend env tells whether code can be made."
        )
        reasons.append(
            SlowReason(
                "new kernel" if pending else "reference",
                f"{where} ran op by op by NumPy ({flush.tier})",
                remedy,
            )
        )
    hosts = flush.host_steps
    if hosts:
        names = ", ".join(dict.fromkeys(op for step in hosts for op, _ in step.ops))
        first = next((line for step in hosts for _, line in step.ops if line), "an unknown line")
        reason = next((step.reason for step in hosts if step.reason), "")
        reasons.append(
            SlowReason(
                "host",
                f"{where} has {counted(len(hosts), 'step')} that no kernel computes: {names}, "
                f"first at {first} ({reason})",
                "Such steps cost a call of NumPy each; another op may do the same.",
            )
        )
    return reasons
