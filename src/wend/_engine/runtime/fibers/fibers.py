"""Fibers: many calls that take turns, so that the pending ops of all calls are computed together.

Each call runs in a greenlet of its own until the call needs a value.  The call then *parks*, and
the next call runs.  When all calls are parked, a flush computes the ops that the calls have
recorded, and the calls go on.  The calls record into a common trace, so that any call can use a
value of another call.  One segment keeps all calls for the backward pass.  With `apart`, each call
has a trace of its own instead (see `lanes`).  The remaining state of a call (grad mode, module
stack, recorder, random stream) is exchanged at each switch.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from wend._engine.base import random_state
from wend._engine.base.collecting import CollectionSeldom
from wend._engine.base.errors import BadValueError, DefectError
from wend._engine.base.random_state import RandomState
from wend._engine.core import _hot, _siblings
from wend._engine.core._hot import Trace
from wend._engine.runtime.batching.group_choice import allowed
from wend._engine.runtime.fibers import _lanes_select
from wend._engine.runtime.fibers import flush_lanes as _flush_lanes  # noqa: F401  (fills a slot)

_lanes: ModuleType = _lanes_select.select()

Call = Callable[[], Any]

#: Most greenlets that are kept for later calls, per thread.
MOST_IDLE = 128
#: Most turns that the last of many calls takes like the rest; then this call no longer parks.
#: A path of all the remaining ops would seldom come back, nor would the path's backward pass.
MOST_ALONE = 32


class _Worker:
    """A greenlet that runs calls in turn, and the trace that the calls record into.

    given: a list with the fiber that is to run next
    leave: switches to the greenlet that has made this greenlet
    """

    __slots__ = ("given", "greenlet", "leave", "trace")

    def __init__(self) -> None:
        self.given: list[Fiber] = []
        self.greenlet = greenlet(functools.partial(_work, self.given))
        self.leave: Callable[[], Any] = self.greenlet.parent.switch
        self.trace: Trace | None = None  # the trace of the last call that recorded apart


class _Idle(threading.local):
    """The workers of this thread that have no call."""

    def __init__(self) -> None:
        self.workers: list[_Worker] = []


_idle = _Idle()


def _work(given: list[Fiber]) -> None:
    """Run call after call, as beginning and ending a greenlet takes longer than a turn.

    No variable refers to the greenlet or a fiber while the greenlet waits: neither would be freed.
    """
    while True:
        given.pop().run()
        getcurrent().parent.switch()


class _Surroundings:
    """The state of a thread, apart from the trace's records, while a fiber runs."""

    __slots__ = ("eager", "fiber", "mode", "modules", "site", "symbolic")

    def __init__(self, trace: Trace) -> None:
        self.leave(trace)

    def leave(self, trace: Trace) -> None:
        """Save the thread's present state; `enter` restores the state."""
        self.mode = trace.mode
        self.symbolic = trace.symbolic
        self.eager = trace.eager
        self.modules = trace.modules
        self.site = trace.site_code, trace.site_lasti
        self.fiber = trace.fiber

    def enter(self, trace: Trace) -> None:
        """Restore the saved state of the thread."""
        trace.mode = self.mode
        trace.symbolic = self.symbolic
        trace.eager = self.eager
        trace.modules = self.modules
        trace.site_code, trace.site_lasti = self.site
        trace.fiber = self.fiber


class Fiber:
    """A call, run in turns."""

    here = getcurrent  # read by `_lanes.park`, like `greenlet` and `leave`

    def __init__(
        self,
        trace: Trace,
        index: int,
        call: Call,
        stream: RandomState | None,
        apart: bool,
        kept: bool,
    ) -> None:
        """Prepare a call.

        trace: the trace of the thread
        index: the number of the call
        stream: the random stream of the call
        apart: whether the call records into a trace of its own
        kept: whether the greenlet may be kept for later calls
        """
        self.index = index
        self.result: object = None
        self.error: BaseException | None = None
        self.cancelled = False
        self.is_parked = False  # whether the call has begun and not ended
        self.last = False  # whether the call no longer parks, as there is no call to wait for
        self.random = stream
        self.apart = apart
        self._call = call
        self._is_kept = kept
        idle = _idle.workers
        self._worker = worker = idle.pop() if idle and kept else _Worker()
        self.greenlet = worker.greenlet
        self.leave = worker.leave
        if apart:
            self.trace = worker.trace = _siblings.sibling_of(trace, worker.trace)
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
        """Make the call (called by `_work`)."""
        self.is_parked = True
        try:
            self.result = self._call()
        except GreenletExit as stop:
            # The error of a user's call: raised in the caller with the example's number.
            self.error = None if self.cancelled else stop
        except BaseException as error:
            # The error of a user's call: raised in the caller with the example's number.
            self.error = error
        finally:
            self.is_parked = False

    def go(self) -> None:
        """Run until the call needs a value, or ends."""
        self._switch(self.switch)

    def cancel(self) -> BaseException | None:
        """End a parked call, whose `finally` blocks run; return another error that these raised."""
        self.cancelled = True
        self._switch(self.greenlet.throw)
        return self.error

    def release(self) -> None:
        """Drop all references, so that values are freed as soon as users drop these."""
        self.result = self.error = None
        if self.apart:
            self.trace.fiber = None
            self.trace.modules = []
        else:
            self.around.fiber = None
        worker, own = self._worker, self.greenlet
        del self._call, self._worker, self.greenlet, self.leave, self.switch
        worker.given.clear()  # the fiber is still there if the call has never begun
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


_hot.set_slot("park", _lanes.park)


def run_together(
    calls: Sequence[Call], streams: Sequence[RandomState], apart: bool = False
) -> tuple[list[Any], bool]:
    """Return the results of the calls, run as fibers of this thread: see `_run_together`."""
    with CollectionSeldom():
        return _run_together(calls, streams, apart)


def _run_together(
    calls: Sequence[Call], streams: Sequence[RandomState], apart: bool
) -> tuple[list[Any], bool]:
    """Return the results of the calls, run as fibers of this thread, and whether any had to wait.

    The first call that raises an error ends all.  The remaining calls are cancelled, and the error
    is raised with the number of the call (see `mark`).

    streams: the random stream of each call
    apart: whether each call has a trace of its own, so that turns of the same path run together
    (`lanes`); else the recorded ops of all calls are a single structure, off the trie
    """
    trace = _hot.current_trace()
    apart = apart and trace.symbolic is None and trace.fiber is None and allowed()
    rows = enumerate(zip(calls, streams, strict=True))
    # A greenlet made inside of another greenlet would keep that parent alive, so is not kept.
    kept = getcurrent().parent is None
    fibers = [Fiber(trace, k, call, stream, apart, kept) for k, (call, stream) in rows]
    budget = trace.soft_nodes
    trace.soft_nodes = trace.hard_nodes  # pending ops wait until all calls are parked
    waiting = fibers
    failure: Exception | None = None
    raised_at = None
    parted = False  # whether any call had to wait for a flush
    alone = 0  # number of turns in which a single call was left
    ended: list[Trace] = []  # traces of ended calls, with pending ops that no call waits for
    try:
        while waiting:
            # The pending ops of many calls hardly come back as a whole; a single call's path may.
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
            # A call that reads a failed value gets the error, and may go on.  Reading extends the
            # traceback; a traceback as before means that no call has seen the error.
            if failure is not None and failure.__traceback__ is raised_at:
                raise failure
            failure = None
            ran = waiting
            waiting = [fiber for fiber in waiting if fiber.is_parked]
            # Which calls end last differs from run to run, so pending ops are flushed now.  The
            # ops behind all calls are then the same each time.
            parted = parted or bool(waiting)
            if apart or (parted and trace.n > 0):
                try:
                    if apart:
                        # Calls that end in different turns often end alike, and so form a batch.
                        ended += [fiber.trace for fiber in ran if not fiber.is_parked]
                        _siblings.flush_many([fiber.trace for fiber in waiting] or ended)
                    else:
                        _hot.flush(trace)
                except (DefectError, BadValueError):  # no value has the error: no call sees it
                    raise
                except Exception as error:
                    # An error of an op: who reads the value is told, or else it is raised after the
                    # turn.
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
    """Let fibers with traces of their own run in turn, until each needs a value or ends.

    Does the same as `Fiber.go` for each fiber, but restores the thread only after the last fiber.
    """
    before, here = _hot.current_trace(), random_state.here
    stream = here.state
    own = here.__dict__  # the thread's attributes, looked up once instead of at each access
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
    """Return the results of the calls, run one by one, with the same random numbers as together."""
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
    """Note the example that an error comes from, as `error.example_index` and in the text."""
    error.example_index = index  # type: ignore[attr-defined]
    error.add_note(f"  in example {index} of wend.batched")
    return error
