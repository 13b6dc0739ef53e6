"""torch.profiler: the time of everything, by op, line and module; and the holders of memory.

While a profiler is on, each kernel, host step, plan, compilation and backward pass is a slice of
time.  Stretches, modules and optimizers of the program are slices around these.  Ops are computed
together, later than recorded: an op has a share of its kernel's time, by its cost.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from wend._engine.base.devices import count_of
from wend._engine.base.errors import ArgumentError
from wend._frontend.profiling.chrome_trace import MOST_BYTES, text_file
from wend._frontend.profiling.event_lists import DeviceType, EventList
from wend._frontend.profiling.memory_report import MemoryReport
from wend._frontend.profiling.profilers import Profiler
from wend._frontend.profiling.recording import Options, Recording
from wend._frontend.profiling.time_tables import TimeTable, by_line, by_module
from wend._frontend.profiling.window import SliceTree
from wend.autograd.profiler import record_function

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerAction(Enum):
    """The part of a schedule that a step belongs to."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


class ProfilerActivity(Enum):
    """Kinds of devices that a profiler may watch."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """The kinds of devices that are there."""
    kinds = [kind for kind in ("xpu", "cuda") if count_of(kind)]
    return {ProfilerActivity.CPU, *(ProfilerActivity[kind.upper()] for kind in kinds)}


def kineto_available() -> bool:
    """False: nothing is measured by that library."""
    return False


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """A function from the number of a step to the part: wait, warm up, record, and again.

    repeat: cycles until no more is recorded, 0 for no end     skip_first: steps before the first
    skip_first_wait: whether the first cycle has no wait
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ArgumentError("profiler.schedule: no number is negative, and active is above 0")
    cycle = wait + warmup + active

    def part(step: int) -> ProfilerAction:
        at = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first or (repeat and at >= repeat * cycle):
            return ProfilerAction.NONE
        at %= cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return part


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


_SAVED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile(Profiler):
    """Measures the block, or the steps of it that the schedule picks.

    activities: kinds of devices; all devices that compute are measured, as the CPU is
    schedule: from the number of a step to its part, see `schedule`; None measures all
    on_trace_ready: called with the profiler when a recording is complete
    record_shapes: note the shapes of operands
    profile_memory: note bytes that are allocated, by op and line
    with_stack: note the user's frames     with_modules: list calls of modules
    with_flops: note the operations of each op
    acc_events: keep the events of earlier cycles of the schedule

    At the end of each measured step everything pending is computed.  Results are the same as
    without a profiler.  Raises RuntimeError where a profiler is used before it is started.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = {ProfilerActivity.CPU} if activities is None else set(activities)
        if not self.activities:
            raise ArgumentError("profile: activities is empty: nothing would be measured")
        if use_cuda:
            warnings.warn("profile: use_cuda: all devices are measured anyway", stacklevel=2)
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.execution_trace_observer = execution_trace_observer
        self.custom_trace_id_callback = custom_trace_id_callback
        self.schedule = schedule or _always
        self.record_steps: bool = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, Any] = {}
        self._earlier: list[Recording] = []
        self._trace_id = ""

    # -- begin and end ----------------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._move(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End; `on_trace_ready` gets a recording that was not finished."""
        self._end_step()
        self._move(self.current_action, None)
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """The next step begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._move(before, self.current_action)
        self._begin_step()

    def _is_on(self) -> bool:
        return self._recording is not None and self._recording.recorder is not None

    def _begin_step(self) -> None:
        if self.record_steps and self._recording is not None and self._is_on():
            self._recording.begin_step(self.step_num)

    def _end_step(self) -> None:
        if self._recording is not None and self._is_on():
            if self.current_action in _SAVED:
                self._recording.settle()
            self._recording.end_step()

    def _move(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Go from the part of a step to the part of the next; after: None at the end."""
        saves = before is ProfilerAction.RECORD_AND_SAVE
        if before in _SAVED and (saves or after not in _SAVED):
            if not saves and after is not None:
                warnings.warn(
                    f"profile: the schedule goes from RECORD to {after.name} without "
                    "RECORD_AND_SAVE: the recording is dropped",
                    stacklevel=3,
                )
            self.stop_trace()
            if saves or after is None:
                self._ready()
        elif before is ProfilerAction.WARMUP and after in (ProfilerAction.NONE, None):
            if after is not None:
                warnings.warn(
                    "profile: the schedule goes from WARMUP to NONE: nothing is recorded",
                    stacklevel=3,
                )
            self.stop_trace()
        if after is ProfilerAction.WARMUP and before is not ProfilerAction.WARMUP:
            self.prepare_trace()
        elif after in _SAVED and (saves or before not in _SAVED):
            self.start_trace()

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def prepare_trace(self) -> None:
        """Switch the recording on, to warm up."""
        recording = self._recording
        if recording is not None and self._is_on():
            return
        if recording is not None and self.acc_events:
            self._earlier.append(recording)
        self._record()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()

    def start_trace(self) -> None:
        """Begin to measure."""
        self.prepare_trace()
        self._measured("start_trace").restart()
        callback = self.custom_trace_id_callback
        self._trace_id = callback() if callback is not None else os.urandom(16).hex().upper()

    def stop_trace(self) -> None:
        """Cease to measure."""
        if self._recording is not None and self._is_on():
            self._recording.end()
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.stop()

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Stop or resume measuring within the block."""
        self._measured("toggle_collection_dynamic").toggle(enable)

    # -- measurements -----------------------------------------------------------------------

    def _listed(self, name: str) -> EventList:
        return self.events()

    def events(self) -> EventList:
        """All operations and stretches of the last recording, in order of their beginning."""
        events = self._measured("events").events()
        earlier = [event for recording in self._earlier for event in recording.events()]
        return events._like([*earlier, *events], self.export_chrome_trace) if earlier else events

    def export_chrome_trace(
        self, path: str, use_python_export: bool = False, *, max_bytes: int | None = MOST_BYTES
    ) -> None:
        """Write all slices as a file for Perfetto or chrome://tracing.

        Slices are nested: step, stretch or module, flush, kernel or host step.  The
        arguments of a kernel list the user's lines with their shares.

        path: with `.gz` at the end, the file is compressed
        max_bytes: of the text; whole steps are written while they fit, and the number of steps
            left out is noted in the file; None for no limit
        """
        self._measured("export_chrome_trace").export(path, self._whole_metadata(), max_bytes)

    def by_line(self) -> TimeTable:
        """The time of each of the user's lines: the shares that its ops have of the kernels.

        Rows in brackets are work of the engine and of the program; all rows add up to the time of
        the recording.
        """
        return by_line(self._measured("by_line").seen())

    def by_module(self) -> TimeTable:
        """The time of each module: of its own ops, and with the modules within."""
        return by_module(self._measured("by_module").seen())

    def memory(self) -> MemoryReport:
        """Who held how much memory at the peak, by owner and line; and all that was allocated.

        Raises RuntimeError if the profiler was made without `profile_memory=True`.
        """
        return self._measured("memory").memory()

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write the bytes held over time: `[[microseconds, ...], [bytes, ...]]` as JSON.

        Raises RuntimeError if the profiler was made without `profile_memory=True`, and
        ArgumentError for a path that does not end in `.json` or `.json.gz`.
        """
        if not path.endswith((".json", ".json.gz")):
            raise ArgumentError(
                f"export_memory_timeline: {path} ends neither in .json nor .json.gz"
            )
        timeline = self.memory().timeline
        with text_file(path) as file:
            json.dump([[at for at, _ in timeline], [size for _, size in timeline]], file)

    def slices(self) -> list[SliceTree]:
        """The slices of the last recording as trees: `slice`, `inner`, `walk()`, `leaves()`.

        A slice has a kind, a name, and begin and end in nanoseconds.
        """
        return self._measured("slices").seen().trees

    def _whole_metadata(self) -> dict[str, Any]:
        metadata = {**self.preset_metadata, **self._metadata}
        options = {name: int(on) for name, on in self._options()._asdict().items()}
        return {**metadata, **options, "trace_id": self._trace_id}

    # -- metadata ---------------------------------------------------------------------------

    def add_metadata(self, key: str, value: str) -> None:
        """Write a text into the trace under this key."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Write a value, given as JSON, into the trace under this key."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """As `add_metadata_json`, before the profiler is started."""
        self.preset_metadata[key] = json.loads(value)

    def get_trace_id(self) -> str | None:
        """The name of the trace; None if none was started."""
        return self._trace_id or None

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Take names of traces from this function."""
        self.custom_trace_id_callback = callback


class ExecutionTraceObserver:
    """Writes the ops that run between `start` and `stop` to a file, as nodes in JSON."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._recording: Recording | None = None
        self._nodes: list[dict[str, Any]] = []
        self._extra = False

    def __del__(self) -> None:
        self.cleanup()

    @property
    def is_registered(self) -> bool:
        """Whether a file is set."""
        return self._path is not None

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Set the file, which `unregister_callback` writes."""
        self._path = output_file_path
        self._nodes = []
        return self

    def unregister_callback(self) -> None:
        """Write the file, if set."""
        self.stop()
        path, self._path = self._path, None
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"schema": "1.1.1-chakra.0.0.4", "pid": os.getpid(),
                           "nodes": self._nodes}, file)  # fmt: skip

    def cleanup(self) -> None:
        """Write the file, and forget it."""
        self.unregister_callback()

    def is_running(self) -> bool:
        """Whether ops are noted."""
        return self._recording is not None

    def start(self) -> None:
        """Begin to note ops, if a file is set."""
        if self._path is not None and self._recording is None:
            self._recording = Recording(Options(record_shapes=True))
            self._recording.begin()

    def stop(self) -> None:
        """Cease to note ops."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        recording.end()
        ids = {id(event): k + 1 for k, event in enumerate(recording.events())}
        for event in recording.events():
            parent = 0 if event.cpu_parent is None else ids[id(event.cpu_parent)]
            self._nodes.append(
                {"id": ids[id(event)], "name": event.name, "ctrl_deps": parent,
                 "inputs": {"shapes": event.input_shapes},
                 "attrs": [{"name": "tid", "type": "uint64", "value": event.thread}]}
            )  # fmt: skip

    def get_output_file_path(self) -> str | None:
        """The file, or None."""
        return self._path

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """An observer of the environment's file; None unless `ENABLE_PYTORCH_EXECUTION_TRACE=1`.

        The file lies in the folder `ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_DIR`, or in that of
        temporary files.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        folder = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_DIR") or tempfile.gettempdir()
        name = f"wend_et_{os.getpid()}_{time.time_ns()}.json"
        return ExecutionTraceObserver().register_callback(os.path.join(folder, name))

    def set_extra_resource_collection(self, val: bool) -> None:
        """Whether a folder for further files is made beside the file."""
        self._extra = bool(val)
        if self._extra:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """The folder for further files, or None where there is none."""
        if self._path is None or not self._extra:
            return None
        return self.get_resources_dir_for_et_path(self._path, create_dir=can_create)

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """The folder for the further files of a trace, or None where there is none."""
        stem, _ = os.path.splitext(trace_path)
        folder = f"{stem}_resources"
        if create_dir:
            os.makedirs(folder, exist_ok=True)
        return folder if os.path.isdir(folder) else None


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """A callback for `on_trace_ready` that writes the trace to a new file of the folder.

    The names of the files are those that TensorBoard's plugin for profiles looks for.
    Raises RuntimeError, when called, for a folder that cannot be made.
    """

    def write(prof: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as fault:
            raise RuntimeError(
                f"tensorboard_trace_handler: the folder {dir_name} cannot be made: {fault}"
            ) from fault
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{end}"))

    return write
