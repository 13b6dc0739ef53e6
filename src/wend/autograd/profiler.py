"""torch.autograd.profiler: measure a stretch of a program, and name its parts."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from wend._engine.runtime.measure.recorder import RUNNING
from wend._frontend.profiling.event_lists import EventList, FunctionEvent, MemRecordsAcc
from wend._frontend.profiling.profilers import Profiler

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]


class record_function:
    """A named stretch of the program: a context manager and a decorator.

    While a profiler is on, the stretch is a slice, and the ops recorded within belong to it.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._scope: Any = None

    def __enter__(self) -> record_function:
        if RUNNING:
            recorder = RUNNING[0]
            self._scope = recorder, recorder.enter("user", self.name, self.args)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._scope is not None:
            recorder, scope = self._scope
            self._scope = None
            recorder.leave(scope)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)

        return inside


class profile(Profiler):
    """Measures all that runs within the block: see `wend.profiler.profile`.

    enabled: whether anything is measured
    record_shapes: note the shapes of operands
    with_flops: note the operations of each op
    profile_memory: note bytes that are allocated, by op and line
    with_stack: note the user's frames     with_modules: note calls of modules
    """

    _switched_on_by = "enter"

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        **more: Any,
    ) -> None:
        self.enabled = enabled
        self.use_device = use_device
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.custom_trace_id_callback = custom_trace_id_callback
        self.trace_id = ""
        self.entered = False
        if use_cuda or use_device not in (None, "cpu"):
            warnings.warn("profile: there is no other device; the CPU is measured", stacklevel=2)

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("profile: this profiler has been entered before; make a new one")
        self.entered = True
        self.trace_id = self.create_trace_id()
        self._record()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._recording is not None:
            self._recording.end()

    def config(self, create_trace_id: bool = False) -> dict[str, bool]:
        """The options that are on."""
        if create_trace_id:
            self.trace_id = self.create_trace_id()
        return self._options()._asdict()

    def default_trace_id(self) -> str:
        """A new name for a trace: 32 hexadecimal digits in capitals."""
        import uuid

        return uuid.uuid4().hex.upper()

    def create_trace_id(self) -> str:
        """A name for the trace, from the callback if given."""
        callback = self.custom_trace_id_callback
        return callback() if callback is not None else self.default_trace_id()

    @property
    def function_events(self) -> EventList | None:
        """The events; None if nothing was measured."""
        return None if self._recording is None else self._recording.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events together."""
        return self._listed("self_cpu_time_total").self_cpu_time_total

    def total_average(self) -> Any:
        """The sum of all events."""
        return self._listed("total_average").total_average()

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """A table of all events: see `EventList.table`."""
        return self._listed("table").table(
            sort_by, row_limit, max_src_column_width, max_name_column_width,
            max_shapes_column_width, header, top_level_events_only,
        )  # fmt: skip

    def export_chrome_trace(
        self, path: str, metadata: dict[str, Any] | None = None, use_python_export: bool = False
    ) -> None:
        """Write all slices: see `wend.profiler.profile.export_chrome_trace`."""
        self._measured("export_chrome_trace").export(path, dict(metadata or {}))

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Stop or resume measuring within the block."""
        self._measured("toggle_collection_dynamic").toggle(enabled)

    def __str__(self) -> str:
        return "<unfinished profile>" if self._recording is None else str(self._recording.events())

    def __repr__(self) -> str:
        return str(self)


class _Emitter:
    """A context that would hand ranges to another tool: there is none for this processor."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False

    def __enter__(self) -> Any:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError(f"{type(self).__name__}: entered before; make a new one")
        self.entered = True
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class emit_nvtx(_Emitter):
    """Accepted, and without effect: NVTX is a tool for another kind of device."""


class emit_itt(_Emitter):
    """Accepted, and without effect: the library of ITT is not linked."""


class EnforceUnique:
    """Raises an error for a key that was seen before."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Note a key.  Raises RuntimeError if the key was seen before."""
        if key in self.seen:
            raise RuntimeError(f"see: a duplicate key: {key}")
        self.seen.add(key)


def load_nvprof(path: str) -> EventList:
    """Events from a file of nvprof's.  Raises NotImplementedError: there is no such device."""
    return parse_nvprof_trace(path)


def parse_nvprof_trace(path: str) -> EventList:
    """Events from a file of nvprof's.  Raises NotImplementedError: there is no such device."""
    raise NotImplementedError("parse_nvprof_trace: files of nvprof tell of CUDA, which Wend lacks")


class KinetoStepTracker:
    """Counts steps, for several askers: the step is the largest count of any."""

    _current_step = 0
    _step_dict: ClassVar[dict[str, int]] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Begin to count for an asker, at the present step."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Cease to count for an asker; whether there was such an asker."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step of an asker; return the present step."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The largest count of any asker."""
        return cls._current_step
