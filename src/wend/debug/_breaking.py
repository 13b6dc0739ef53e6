"""`wend.debug.break_when()`: a breakpoint on values."""

from __future__ import annotations

import pdb  # noqa: T100
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from wend._engine.base.errors import ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core._hot import FlushJob
from wend._engine.core._types import LeafPrimitive
from wend._engine.runtime.verify.flushes import unwatched
from wend._engine.runtime.verify.flushes import watch as watch_flushes
from wend._frontend.api import eager

__all__ = ["break_when"]


@contextmanager
def break_when(
    condition: Callable[[Any, str], Any], action: Callable[[FrameType, str], Any] | None = None
) -> Iterator[None]:
    """Inside the block stop where an op's result fulfils a condition.

    condition: a function of the result, as a NumPy array, and of the op's name
    action: called with the user's frame and the op's name; by default the debugger begins there,
    at the next line of the user's function. An action may look at values, and computes none

    Ops are computed at once inside the block, as by `wend.eager`, so that the line is the op's.

    Raises ArgumentTypeError for anything but functions; errors of the condition are passed on.
    """
    for name, function in (("condition", condition), ("action", action)):
        if function is not None and not callable(function):
            raise ArgumentTypeError(f"break_when: expected {name} to be a function: {function!r}")
    stop = begin_debugger if action is None else action

    def execute(batch: FlushJob, live: list[int]) -> None:
        unwatched("execute")(batch, live)
        if _in_debugger():
            return
        for state in batch.states:
            if isinstance(state.prim, LeafPrimitive):
                continue
            for value in batch.values[state.first : state.first + state.n_out]:
                if value.buffer is not None and condition(value.buffer, state.prim.name):
                    stop(_user_frame(), state.prim.name)
                    break

    with eager():
        before = watch_flushes({"execute": execute})
        try:
            yield
        finally:
            watch_flushes(before)


def begin_debugger(frame: FrameType, op: str) -> None:
    """Have Python's debugger stop at the next line of a frame, or of the callers."""
    debugger = pdb.Pdb()
    debugger.message(f"break_when: the result of {op} at line {frame.f_lineno} fits")
    # As `set_trace` does, which would stop in Wend's functions that are still to return.
    debugger.reset()
    outer: FrameType | None = frame
    while outer is not None:
        outer.f_trace = debugger.trace_dispatch
        debugger.botframe = outer
        outer = outer.f_back
    debugger.set_next(frame)
    sys.settrace(debugger.trace_dispatch)


def _in_debugger() -> bool:
    """Whether a command of the debugger asks for the op."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is pdb.Pdb.interaction.__code__:
            return True
        frame = frame.f_back
    return False


def _user_frame() -> FrameType:
    """The innermost frame outside of Wend."""
    frame: FrameType = sys._getframe(1)
    while _hot.is_internal(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
    return frame
