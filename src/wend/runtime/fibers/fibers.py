"""Fibers: many calls that take turns, so that what all of them have pending is computed together.

Each call runs in a greenlet of its own until it needs a value; then it *parks*, and the next one
runs.  When all are parked, one flush computes what they have recorded, and they go on.  They record
into one trace, so that a value of one call can be used by any other, and one segment remembers
them all for the backward pass.  What else belongs to a call (grad mode, module stack, recorder,
random stream) is exchanged at each switch.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from wend.base import random_state
from wend.base.collecting import CollectionSeldom
from wend.base.errors import DefectError
from wend.base.random_state import RandomState
from wend.core import _hot
from wend.core._hot import Trace
from wend.runtime.batching import _slabs_select
from wend.runtime.batching.executor import allowed
from wend.runtime.fibers import flush_lanes as _weaving  # noqa: F401  (runs what several traces hold)

_slabs: Any = _slabs_select.select()

__all__ = ["Call", "run_alone", "run_together"]

Call = Callable[[], Any]

#: Greenlets that are kept for later calls, per thread.
MOST_IDLE = 128
#: Turns that the last of many calls takes like the others: what it would do alone is seldom met
#: again, nor is what a backward pass then makes of it.  So many more are.
MOST_ALONE = 32


class _Worker:
    """A greenlet that runs calls, one after the other, and the trace that it records them into.

    given: the fiber that is next     leave: switches to who has made the greenlet
    """

    __slots__ = ("given", "greenlet", "leave", "trace")

    def __init__(self) -> None:
        self.given: list[Fiber] = []
        self.greenlet = greenlet(functools.partial(_work, self.given))
        self.leave: Callable[[], Any] = self.greenlet.parent.switch
        self.trace: Trace | None = None  # of the last call that had one of its own


class _Idle(threading.local):
    """Those of this thread that have no call."""

    def __init__(self) -> None:
        self.workers: list[_Worker] = []


_idle = _Idle()


def _work(given: list[Fiber]) -> None:
    """Run one call after the other: to begin and to end a greenlet takes longer than most turns.

    No variable refers to the greenlet or to a fiber while it waits: neither would ever be freed.
    """
    while True:
        given.pop().run()
        getcurrent().parent.switch()


class _Surroundings:
    """What a thread keeps outside of the trace's records while one fiber runs."""

    __slots__ = ("eager", "fiber", "mode", "modules", "site", "symbolic")

    def __init__(self, trace: Trace) -> None:
        self.leave(trace)

    def leave(self, trace: Trace) -> None:
        """Note how the thread is now; `enter` brings it back."""
        self.mode = trace.mode
        self.symbolic = trace.symbolic
        self.eager = trace.eager
        self.modules = trace.modules
        self.site = trace.site_code, trace.site_lasti
        self.fiber = trace.fiber

    def enter(self, trace: Trace) -> None:
        """Make the thread what it was."""
        trace.mode = self.mode
        trace.symbolic = self.symbolic
        trace.eager = self.eager
        trace.modules = self.modules
        trace.site_code, trace.site_lasti = self.site
        trace.fiber = self.fiber


class Fiber:
    """One call, run in turns."""

    here = getcurrent  # for `_slabs.park`, as `greenlet` and `leave`

    def __init__(
        self,
        trace: Trace,
        index: int,
        call: Call,
        stream: RandomState | None,
        apart: bool,
        kept: bool,
    ) -> None:
        """apart: it records into a trace of its own     kept: whether its greenlet may be"""
        self.index = index
        self.result: Any = None
        self.error: BaseException | None = None
        self.cancelled = False
        self.is_parked = False  # whether the call has begun and not ended
        self.last = False  # whether there is nobody left to wait for
        self.random = stream
        self.apart = apart
        self._call = call
        self._is_kept = kept
        idle = _idle.workers
        self._worker = worker = idle.pop() if idle and kept else _Worker()
        self.greenlet = worker.greenlet
        self.leave = worker.leave
        if apart:
            self.trace = worker.trace = _hot.sibling_of(trace, worker.trace)
            self.trace.ops_before = 0
            self.trace.fiber = self
        else:
            self.trace = trace
            self.around = _Surroundings(trace)
            self.around.modules = list(trace.modules)
            self.around.fiber = self
        worker.given.append(self)
        self.switch = self.greenlet.switch
        self.greenlet.gr_context = contextvars.copy_context()

    def run(self) -> None:
        """Make the call; for `_work`."""
        self.is_parked = True
        try:
            self.result = self._call()
        except GreenletExit as stop:
            self.error = None if self.cancelled else stop
        except BaseException as error:
            self.error = error
        finally:
            self.is_parked = False

    def go(self) -> None:
        """Run until the call needs a value, or ends."""
        self._switch(self.switch)

    def cancel(self) -> BaseException | None:
        """End a parked call: its `finally` blocks run.  Returns what it raised instead."""
        self.cancelled = True
        self._switch(self.greenlet.throw)
        return self.error

    def release(self) -> None:
        """Part from all that was held: values live as long as somebody refers to them."""
        self.result = self.error = None
        if self.apart:
            self.trace.fiber = None
            self.trace.modules = []
        else:
            self.around.fiber = None
        worker, own = self._worker, self.greenlet
        del self._call, self._worker, self.greenlet, self.leave, self.switch
        worker.given.clear()  # it has never begun
        if self._is_kept and own and not self.is_parked and len(_idle.workers) < MOST_IDLE:
            own.gr_context = None
            _idle.workers.append(worker)

    def _switch(self, switch: Callable[[], Any]) -> None:
        trace = self.trace
        if self.apart:
            before = _hot.swap_trace(trace)
        else:
            here = _Surroundings(trace)
            self.around.enter(trace)
        stream = random_state.swap(self.random)
        try:
            switch()
        finally:
            self.random = random_state.swap(stream)
            if self.apart:
                _hot.swap_trace(before)
            else:
                self.around.leave(trace)
                here.enter(trace)


_hot.set_slot("park", _slabs.park)


def run_together(
    calls: Sequence[Call], streams: Sequence[RandomState], apart: bool = False
) -> tuple[list[Any], bool]:
    """Results of the calls, run as fibers of this thread: see `_run_together`."""
    with CollectionSeldom():
        return _run_together(calls, streams, apart)


def _run_together(
    calls: Sequence[Call], streams: Sequence[RandomState], apart: bool
) -> tuple[list[Any], bool]:
    """Results of the calls, run as fibers of this thread, and whether any had to wait.

    apart: each has a trace of its own, whose turns that took the same path run as one (`lanes`);
    else what all have recorded is one structure, off the trie

    The first call that raises ends all: the others are cancelled, and its error is raised with
    the number of the call (see `mark`).
    """
    trace = _hot.current_trace()
    apart = apart and trace.symbolic is None and trace.fiber is None and allowed()
    rows = enumerate(zip(calls, streams, strict=True))
    # Inside of another greenlet theirs have that one for their parent, which they would keep alive.
    kept = getcurrent().parent is None
    fibers = [Fiber(trace, k, call, stream, apart, kept) for k, (call, stream) in rows]
    budget = trace.soft_nodes
    trace.soft_nodes = trace.hard_nodes  # there is no beat to wait for
    waiting = fibers
    failure: Exception | None = None
    raised_at = None
    parted = False  # whether there has been a flush meanwhile
    alone = 0  # turns of a single call
    ended: list[Trace] = []  # with what calls have left that nobody waits for
    try:
        while waiting:
            # What many have pending hardly comes back as a whole; the path of a single one may.
            if not apart and len(waiting) > 1 and trace.symbolic is None and allowed():
                trace.state = None
            elif trace.n == 0:
                trace.state = trace.root
            if apart and len(waiting) == 1:
                alone += 1
                waiting[0].last = len(fibers) == 1 or alone > MOST_ALONE
            if apart:
                take_turns(waiting)
            else:
                for fiber in waiting:
                    fiber.go()
                    if fiber.error is not None:
                        raise mark(fiber.error, fiber.index)
            # Whoever reads what has failed is told (which extends the traceback), and may go on.
            if failure is not None and failure.__traceback__ is raised_at:
                raise failure
            failure = None
            ran = waiting
            waiting = [fiber for fiber in waiting if fiber.is_parked]
            # Which calls were the last to end differs; what the program does with all does not.
            parted = parted or bool(waiting)
            if apart or (parted and trace.n > 0):
                try:
                    if apart:
                        # Calls that end in unlike turns often end alike: that is one batch.
                        ended += [fiber.trace for fiber in ran if not fiber.is_parked]
                        _hot.flush_many([fiber.trace for fiber in waiting] or ended)
                    else:
                        _hot.flush(trace)
                except DefectError:  # after which values are missing
                    raise
                except Exception as error:
                    failure, raised_at = error, error.__traceback__
        return [fiber.result for fiber in fibers], parted
    except BaseException as error:
        _cancel(fibers, error)
        raise
    finally:
        trace.soft_nodes = budget
        if trace.n == 0:
            trace.state = trace.root
        for fiber in fibers:
            if apart:
                trace.ops_before += fiber.trace.ops_before + fiber.trace.ops
            fiber.release()


def take_turns(fibers: Sequence[Fiber]) -> None:
    """Let fibers with traces of their own run, one after the other, until they need a value or end.

    As `Fiber.go` for each, but that the thread becomes what it was only behind the last one.
    """
    before, here = _hot.current_trace(), random_state.here
    stream = here.state
    own = here.__dict__  # this thread's: the object looks it up for each of its attributes
    swap = _hot.swap_trace
    try:
        for fiber in fibers:
            swap(fiber.trace)
            own["state"] = fiber.random
            fiber.switch()
            fiber.random = own["state"]
            if fiber.error is not None:
                raise mark(fiber.error, fiber.index)
    finally:
        here.state = stream
        _hot.swap_trace(before)


def _cancel(fibers: Sequence[Fiber], cause: BaseException) -> None:
    for fiber in fibers:
        if fiber.is_parked:
            error = fiber.cancel()
            if error is not None:
                cause.add_note(
                    f"  while example {fiber.index} was being cancelled: "
                    f"{type(error).__name__}: {error}"
                )


def run_alone(calls: Sequence[Call], streams: Sequence[RandomState]) -> list[Any]:
    """Results of the calls, one after the other, with the same random numbers as together."""
    results = []
    with CollectionSeldom():
        for k, (call, stream) in enumerate(zip(calls, streams, strict=True)):
            before = random_state.swap(stream)
            try:
                results.append(call())
            except BaseException as error:
                mark(error, k)
                raise
            finally:
                random_state.swap(before)
    return results


def mark(error: BaseException, index: int) -> BaseException:
    """Note in an error which example it comes from: `error.example_index`, and in its text."""
    error.example_index = index  # type: ignore[attr-defined]
    error.add_note(f"  in example {index} of wend.batched")
    return error
