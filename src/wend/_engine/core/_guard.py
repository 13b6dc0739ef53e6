"""Guards that let the uncompiled core be cut short anywhere: its steps are taken back.

The compiled core is a single step to the interpreter, which looks for signals, and switches
threads, between the instructions of Python code alone. Where the core is Python code itself, a step
that an interrupt ends half-way is undone, and threads record in turns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any

#: Frames that the stack has more, while a step that was cut short is put back.
ROOM = 100
#: Functions that record or rebind: each is done as a whole.
STEPS = (
    "record", "record_step", "backward_known", "assign", "rebind_alone", "add_gradient",
    "renew_value", "give_gradients", "settle_gradient", "commit_many",
)  # fmt: skip


def guard(core: Any, part: Any) -> None:
    """Let the functions of a part of an uncompiled core be cut short; `core` is the hot part."""
    for name in STEPS:
        function = vars(part).get(name)
        if function is None or function.__module__ != part.__name__:
            continue
        whole = _step(core, function)
        setattr(part, name, whole)
        if hasattr(core.COLD, name):
            setattr(core.COLD, name, whole)
    if part is core:
        core.flush_now = _flush(core, core.flush_now)
        core.refreshed = _refreshed(core.refreshed)


#: Handles whose values the step in progress has derived anew: (handle, its value, its alias, the
#: alias's versions) before; None outside of a step. Each thread and fiber has its own, as a fiber
#: may wait in a step.
_RENEWED: ContextVar[list[tuple[Any, ...]] | None] = ContextVar("renewed", default=None)


def _refreshed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`refreshed`, which notes for the step in progress what a handle was before.

    The handle gets a value that the step records. No rebinding is noted in the trace, as both
    values stand for the same data. A step that is cut short takes that value off the trace.
    """

    @wraps(function)
    def run(handle: Any) -> Any:
        rows = _RENEWED.get()
        if rows is not None:
            alias = handle.derived
            versions = None if alias is None else (alias.version, alias.storage_version)
            rows.append((handle, handle.value, alias, versions))
        return function(handle)

    return run


def _step(core: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which leaves the trace unchanged if a call is cut short."""

    @wraps(function)
    def run(*given: Any) -> Any:
        # The trace of a composite's rule is nobody else's. A flush may trace a rule, and the thread
        # that holds the turn may wait for that flush.
        if not core.SEVERAL or core.current_trace().symbolic is not None:
            return whole(*given)
        from wend._engine.core._siblings import begin_write, end_write

        begin_write()
        try:
            return whole(*given)
        finally:
            end_write()

    def whole(*given: Any) -> Any:
        trace = core.current_trace()
        if trace.site_code is not None and not _is_running(trace.site_code, trace.site_lasti):
            trace.site_code = None  # its block was cut short before the end
        serial, n, state, symbolic = trace.serial, trace.n, trace.state, trace.symbolic
        counts = trace.nbytes, trace.held_bytes, trace.ops
        lengths = len(trace.states), len(trace.args), len(trace.touched)
        outer = _RENEWED.get()
        renewed: list[tuple[Any, ...]] = []
        try:
            _RENEWED.set(renewed)
            return function(*given)
        except BaseException as error:
            trace.symbolic = symbolic  # a rule's tracing may have been cut at its end
            sys.setrecursionlimit(sys.getrecursionlimit() + ROOM)
            try:
                if trace.serial == serial and _cuts_short(error):
                    _put_back_renewed(trace, n, renewed)
                    _shorten(trace, n, lengths)
                    trace.n, trace.state = n, state
                    trace.nbytes, trace.held_bytes, trace.ops = counts
            finally:
                sys.setrecursionlimit(sys.getrecursionlimit() - ROOM)
            raise
        finally:
            _RENEWED.set(outer)
            if outer is not None:
                outer += renewed

    return run


def _put_back_renewed(trace: Any, n: int, renewed: list[tuple[Any, ...]]) -> None:
    """Give handles back the values that they had, if the present ones are behind place `n`."""
    for handle, old, alias, versions in reversed(renewed):
        value = handle.value
        if value.trace is trace and value.serial == trace.serial and value.index >= n:
            handle.value = old
            if alias is not None:
                alias.version, alias.storage_version = versions
                handle.derived = alias


def _is_running(code: Any, lasti: int) -> bool:
    """Whether a frame of this thread is at this instruction."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code and frame.f_lasti == lasti:
            return True
        frame = frame.f_back
    return False


def _cuts_short(error: BaseException) -> bool:
    from wend._engine.core.whole import cuts_short

    return cuts_short(error)


def _shorten(trace: Any, n: int, lengths: tuple[int, int, int]) -> None:
    """Take all steps and rebindings behind these places off a trace, and all notes on these steps.

    The trace goes on in new lists. A graph of the steps may be kept already: under the list of
    states (see `graph.path_at`), or on a state that another trace comes to.
    """
    states, args, touched = lengths
    for handle, old, _ in reversed(trace.touched[touched:]):
        value = trace.values[old] if isinstance(old, int) else old
        if hasattr(handle, "shared"):  # a storage
            handle.data = value
        else:
            handle.value = value
        handle.version += 1
    for value in trace.values[n:]:
        value.serial = 0
        if value.trace is trace:
            value.trace = None
    del trace.touched[touched:]
    trace.states, trace.values = trace.states[:states], trace.values[:n]
    trace.args = trace.args[:args]
    if trace.sites is not None:
        trace.sites = {k: row for k, row in trace.sites.items() if k < states}


def _flush(core: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`flush_now`, which loses nothing, and no lock, wherever a call is cut short."""

    @wraps(function)
    def run(trace: Any) -> Any:
        if trace.n == 0 and not trace.flushing:
            return None
        batch = core.FlushJob(
            trace.states, trace.values, trace.args, trace.state, trace.sites, trace.serial,
            trace.touched, trace.extra,
        )  # fmt: skip
        flushing = trace.flushing
        depth = _depth(trace.lock)
        try:
            return function(trace)
        except BaseException:
            sys.setrecursionlimit(sys.getrecursionlimit() + ROOM)
            try:
                while _depth(trace.lock) > depth:
                    trace.lock.release()
                if not flushing:
                    _keep(core, trace, batch)
            finally:
                sys.setrecursionlimit(sys.getrecursionlimit() - ROOM)
            raise

    return run


def _depth(lock: Any) -> int:
    """How often this thread holds a lock, read from its text: nothing is released to find out."""
    if not lock._is_owned():
        return 0
    return int(repr(lock).rpartition("count=")[2].split()[0])


def _keep(core: Any, trace: Any, batch: Any) -> None:
    """Let a batch whose flush was cut short be computed later, whole.

    batch: all that was pending when the flush began

    The flush first takes the batch off the trace, then runs it, then lets go of its values. A flush
    that ended by itself has put back all values that were not computed. Values that are neither
    computed nor put back are put back here.
    """
    trace.flushing = False
    if trace.serial == batch.serial:  # the batch has never left the trace
        return
    lost = []
    for k, v in enumerate(batch.values):
        if v.trace is None and v.buffer is None and v.error is None:
            v.trace, v.serial = trace, batch.serial  # let go of, and not computed
        if v.trace is trace and v.serial == batch.serial:
            lost.append(k)
    core.COLD.put_back(trace, batch, lost)
