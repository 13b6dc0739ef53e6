"""The loop that computes flushes: executors are asked in order, and a failure leads to the next.

An executor says why it declines a flush, or computes the live values. If its machine code or its
own work fails, the next executor computes the same values from inputs that nobody has written to.
The failure is noted as a defect then, unless the program's own error was the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from wend._engine.base.errors import DefectError
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core._hot import FlushJob
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.repair import is_done, is_told, note_faults, run_plainly


class FlushRun:
    """A flush on its way through the executors.

    job: the pending steps     live: the indices of the values to compute
    plan: the plan of the path, once an executor has found or made the plan
    plain: makes a plan whose rules run singly, for the case that all executors fail; None: the last
        failure is raised
    asked: the executors that were asked, each with its reason to decline; "" for who computed
    faults: the failures of executors
    noted: whether the log of flushes has the flush with its plan
    written: whether a failed executor has overwritten inputs; only `plain` may go on then, which
        keeps the values that are computed
    """

    __slots__ = ("asked", "faults", "job", "live", "noted", "plain", "plan", "written")

    def __init__(
        self,
        job: FlushJob,
        live: list[int],
        plan: Any = None,
        plain: Callable[[FlushRun], ReferencePlan] | None = None,
    ) -> None:
        self.job = job
        self.live = live
        self.plan = plan
        self.plain = plain
        self.asked: list[tuple[str, str]] = []
        self.faults: list[Exception] = []
        self.noted = False
        self.written = False


class Executor(NamedTuple):
    """A way to compute a flush.

    name: the executor's name in reports
    purpose: the kind of flush that the executor is for
    why_not: returns why this executor declines a flush, or ""; cheap
    run: computes the live values; returns why this executor could not after all, or ""
    judges: whether the error of an op is the program's own if this executor meets the error
    """

    name: str
    purpose: str
    why_not: Callable[[FlushRun], str]
    run: Callable[[FlushRun], str]
    judges: bool = False


def always(run: FlushRun) -> str:
    """Return "": an executor that takes every flush."""
    return ""


def compute(executors: Iterable[Executor], run: FlushRun) -> None:
    """Compute the live values of a flush by the first executor that neither declines nor fails.

    Raises the program's own error, which also stands in the values that the error concerns.
    """
    job, error = run.job, None
    try:
        if job.fault is not None and _is_over(run):  # machine code has run already, and has failed
            return
        for executor in executors:
            reason = executor.why_not(run)
            if not reason:
                try:
                    reason = executor.run(run)
                except Exception as fault:  # kept in `run.faults`, and noted in the end
                    reason = _after(fault, executor, run)
                if job.fault is not None and _is_over(run):
                    reason = ""
            run.asked.append((executor.name, reason))
            if not reason:
                return
            if run.written:
                break
        last, plain = run.faults.pop(), run.plain
        if plain is None:
            raise last
        run_plainly(lambda: plain(run), job, last)
    except BaseException as exception:
        error = exception
        raise
    finally:
        if run.faults:
            note_faults(run.faults, job, error)


def _after(fault: Exception, executor: Executor, run: FlushRun) -> str:
    """Keep the failure of an executor; return the reason to ask the next, or "" if all is computed.

    Raises the failure if no executor is to try again.
    """
    is_the_programs = executor.judges and is_told(fault)
    if is_the_programs or is_interrupt(fault) or isinstance(fault, DefectError):
        raise  # noqa: PLE0704 (called where the failure is handled)
    if fault not in run.faults:  # planning fails only once
        run.faults.append(fault)
    if is_done(run.job, run.live):
        return ""
    return f"it failed: {type(fault).__name__}"


def _is_over(run: FlushRun) -> bool:
    """Take the failure that machine code has left; return whether all values are computed."""
    fault, run.job.fault = run.job.fault, None
    run.faults.append(fault)
    return is_done(run.job, run.live)
