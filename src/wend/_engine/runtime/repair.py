"""Runs flushes again that a faster way has failed to compute, and notes the failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from wend._engine.base import defects
from wend._engine.base.errors import DefectError
from wend._engine.core._hot import FlushJob
from wend._engine.core.provenance import last_site, user_level
from wend._engine.runtime import host_steps
from wend._engine.runtime.numpy_executor.plan import ReferencePlan, undo


def note_faults(
    faults: Iterable[BaseException], batch: FlushJob, error: BaseException | None
) -> None:
    """Note the failures of executors as defects, once another executor has computed the flush.

    A failure is no defect if the program has met an error of its own, and the failure is of that
    kind; nor if a number of the program is too wide for machine code.

    error: the error that the flush raises, or None
    """
    refused = error is not None and defects.by_rule(error)
    for fault in faults:
        if not (refused and defects.by_rule(fault)) and not has_wide_number(fault, batch):
            defects.note(fault, site=last_site(batch.states, batch.sites))


def has_wide_number(fault: BaseException, batch: FlushJob) -> bool:
    """Whether machine code could not take a number of more than 64 bits, which rules wrap."""
    return isinstance(fault, OverflowError) and any(
        isinstance(number, int) and not -(2**63) <= number < 2**63 for number in batch.args or ()
    )


def is_done(batch: FlushJob, wanted: Iterable[int]) -> bool:
    """Return whether all wanted values are computed, so that a failure came only afterwards."""
    values = batch.values
    return all(values[i].buffer is not None for i in wanted)


def is_told(error: Exception) -> bool:
    """Return whether an error is to be raised: a user's error with its line, or a DefectError.

    An error of a type that ops raise, but without a line, does not come from an op.
    """
    if isinstance(error, DefectError):
        return True
    return defects.by_rule(error) and getattr(error, "site", True) is not None


def run_plainly(make: Callable[[], ReferencePlan], batch: FlushJob, fault: Exception) -> None:
    """Compute a flush by reference rules alone, where its plan has failed with `fault`.

    make: makes the plan whose rules are run

    If `make` fails too, DefectError is raised, now and when a value of the flush is read.  Handles
    then return to the values from before the flush.
    """
    site = last_site(batch.states, batch.sites)
    try:
        plan = make()
    except Exception as error:
        defects.note(error, site=site, repaired=False)
        lost = DefectError(f"{type(error).__name__}: {error}; this is a defect of Wend")
        lost.site = site
        pending = [v for v in batch.values if v.buffer is None]
        for v in pending:
            v.error = lost
        undo(batch, [None] * len(batch.values), dict.fromkeys(range(len(batch.values)), lost), 0)
        raise lost from error
    defects.note(fault, site=site)
    plan.run_plainly(batch)


_held = threading.local()


@contextmanager
def held_back() -> Iterator[None]:
    """Hold warnings of defects back while several flushes are under way.

    The warnings are given at the end of the outermost such block.
    """
    outer = getattr(_held, "on", False)
    _held.on = True
    try:
        yield
    finally:
        _held.on = outer
    tell()


def tell() -> None:
    """Warn of defects and host steps that were noted, unless warnings are held back."""
    if not getattr(_held, "on", False):
        defects.tell()
        if host_steps.UNTOLD:
            host_steps.tell(user_level())
