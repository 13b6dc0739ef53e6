"""The part that PyTorch's two profilers share: options, a recording, and reports of all events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wend._engine.base.errors import ArgumentError
from wend._frontend.profiling.event_lists import EventList

if TYPE_CHECKING:
    from wend._frontend.profiling.recording import Options, Recording

__all__ = ["Profiler"]


class Profiler:
    """A profiler over a `Recording`; the members of `Options` are attributes."""

    #: How the program switches the profiler on, for errors.
    _switched_on_by = "start"
    _recording: Recording | None = None  # under way, or else the last

    def _options(self) -> Options:
        from wend._frontend.profiling.recording import Options

        return Options(*[bool(getattr(self, name)) for name in Options._fields])

    def _record(self) -> None:
        """Begin a new recording."""
        from wend._frontend.profiling.recording import Recording

        self._recording = Recording(self._options())
        self._recording.begin()

    def _measured(self, name: str) -> Recording:
        """The recording, for a report.  Raises RuntimeError where there is none."""
        if self._recording is None:
            how = self._switched_on_by
            raise RuntimeError(f"{name}: nothing was measured; {how} the profiler first")
        return self._recording

    def _listed(self, name: str) -> EventList:
        """All events, for a report."""
        return self._measured(name).events()

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums of events of a name; by shapes of operands, or the first frames, if asked."""
        events = self._listed("key_averages")
        return events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with numbers, for flame graphs.  Needs `with_stack=True`."""
        if not self._options().with_stack:
            raise ArgumentError("export_stacks: make the profiler with with_stack=True")
        self._listed("export_stacks").export_stacks(path, metric)
