"""A recording that is on while some profiler is: taps of the program, and of the engine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from wend._engine.core._hot import Tensor
from wend._engine.core.holdings import holdings
from wend._engine.core.provenance import site_of
from wend._engine.runtime.measure.allocations import AllocationLog
from wend._engine.runtime.measure.engine import measure_engine
from wend._engine.runtime.measure.recorder import RUNNING, SliceRecorder, now
from wend._engine.runtime.measure.taps import SOURCES, Taps
from wend._frontend.autograd import backward as backward_module

__all__ = ["Session", "session"]


class Session:
    """The recorder with its taps, and how many profilers use them."""

    def __init__(self) -> None:
        self.users = 0
        self.recorder: SliceRecorder | None = None
        self.taps: list[Taps] = []

    def begin(self, with_frames: bool = False, with_memory: bool = False) -> SliceRecorder:
        """Switch the recording on, or join the recording under way."""
        self.users += 1
        recorder = self.recorder
        if recorder is None:
            recorder = self.recorder = SliceRecorder()
            self.taps = [measure_engine(recorder), measure_program(recorder)]
            RUNNING.append(recorder)
        if with_memory and recorder.memory is None:
            recorder.memory = AllocationLog()
            recorder.memory.begin(list(holdings(site_of)))
        recorder.with_frames = recorder.with_frames or with_frames
        return recorder

    def end(self) -> None:
        """Leave the recording, which is switched off by the last profiler that uses it."""
        self.users -= 1
        if self.users == 0:
            RUNNING.clear()
            while self.taps:
                self.taps.pop().remove()
            if self.recorder is not None and self.recorder.memory is not None:
                self.recorder.memory.end()
            self.recorder = None


#: The session of this process.
session = Session()


def measure_program(recorder: SliceRecorder) -> Taps:
    """Have the recorder told of calls of modules, optimizers, loaders and backward passes."""
    taps = Taps()
    _tap_backward(recorder, taps)
    for source in SOURCES:
        source(recorder, taps)
    return taps


def _tap_backward(recorder: SliceRecorder, taps: Taps) -> None:
    def measure(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def measured(*args: object, **named: object) -> Any:
            local = recorder.local
            if local.backward:
                return original(*args, **named)
            begin, track = now(), recorder.track()
            local.backward = True
            try:
                return original(*args, **named)
            finally:
                local.backward = False
                recorder.slice("backward", "backward", begin, track)

        return measured

    taps.replace(Tensor, "backward", measure)
    taps.replace(backward_module, "run_backward", measure)
