"""The recording of a profiler: from `begin` to `end`, with its events and exports."""

from __future__ import annotations

from typing import Any

from wend._engine.core import _hot
from wend._engine.runtime.measure.recorder import Scope, SliceRecorder, now
from wend._frontend.profiling.chrome_trace import MOST_BYTES, write_trace
from wend._frontend.profiling.event_lists import EventList
from wend._frontend.profiling.memory_report import MemoryReport
from wend._frontend.profiling.session import session
from wend._frontend.profiling.window import EventMaker, Options, Window

__all__ = ["Options", "Recording"]


class Recording:
    """The measurements of a profiler."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.recorder: SliceRecorder | None = None
        self.window: Window | None = None
        self._first = self._start = 0
        self._events: EventList | None = None
        self._step: Scope | None = None

    def begin(self) -> None:
        """Begin to measure."""
        self.recorder = session.begin(self.options.with_stack, self.options.profile_memory)
        self.restart()

    def restart(self) -> None:
        """Forget all measurements so far."""
        assert self.recorder is not None
        self._first, self._start = len(self.recorder.slices), now()
        self.window = self._events = None

    def begin_step(self, number: int) -> None:
        """Begin a slice for a step of the program."""
        assert self.recorder is not None
        self._step = self.recorder.enter("step", f"ProfilerStep#{number}")

    def end_step(self) -> None:
        """End the slice of a step."""
        if self._step is not None and self.recorder is not None:
            self.recorder.leave(self._step)
        self._step = None

    def settle(self) -> None:
        """Compute all pending values, so that these are measured."""
        _hot.synchronize()

    def end(self) -> None:
        """Cease to measure, once all that is pending is computed."""
        recorder = self.recorder
        if recorder is None:
            return
        try:
            self.settle()
        finally:
            self.end_step()
            self.window = Window(recorder, self._first, self._start, now())
            self.recorder = None
            session.end()

    def toggle(self, on: bool) -> None:
        """Pause, or go on."""
        if on and self.recorder is None:
            self.recorder = session.begin(self.options.with_stack, self.options.profile_memory)
        elif not on and self.recorder is not None:
            self.end()

    def seen(self) -> Window:
        """The measurements so far."""
        if self.window is None:
            assert self.recorder is not None, "begin() comes first"
            return Window(self.recorder, self._first, self._start, now())
        return self.window

    def events(self) -> EventList:
        """All events."""
        if self._events is not None:
            return self._events
        options, window = self.options, self.seen()
        kinds = sorted({name.partition(":")[0] for name in window.devices.values()})
        events = EventList(
            EventMaker(window, options).events(),
            use_device=next(iter(kinds), None),
            with_flops=options.with_flops,
            profile_memory=options.profile_memory,
            export=lambda path: self.export(path, {}),
        )
        if self.window is not None:
            self._events = events
        return events

    def memory(self) -> MemoryReport:
        """The memory of the recording.  Raises RuntimeError without `profile_memory=True`."""
        if not self.options.profile_memory:
            raise RuntimeError("memory: make the profiler with profile_memory=True")
        window = self.seen()
        return MemoryReport(window, list(window.memory.events))

    def export(self, path: str, metadata: dict[str, Any], most: int | None = MOST_BYTES) -> int:
        """Write a Chrome trace; return how many steps the limit has left out."""
        return write_trace(self.seen(), path, metadata, most)
