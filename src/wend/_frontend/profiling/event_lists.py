"""Measured operations, their sums, and tables of these, under the names of PyTorch.

Times are in microseconds, as in PyTorch.  An operation's time is the share that it has of the
kernels that computed it: see `wend.profiler`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from enum import Enum
from typing import Any, NamedTuple

from wend._engine.base.errors import ArgumentError
from wend._frontend.seeing.tables import RULE, html_report, html_table, text_table

__all__ = [
    "DeviceType",
    "EventList",
    "EventMetadata",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"


class DeviceType(Enum):
    """Kinds of devices on which an event may have run."""

    CPU = 0
    CUDA = 1
    XPU = 12
    PrivateUse1 = 20


class EventMetadata(NamedTuple):
    """A further fact about an event: a name and a text."""

    name: str
    value: str


class Kernel(NamedTuple):
    """A kernel of an event on another device. Wend lists such kernels as events."""

    name: str
    device: int
    duration: float


class Interval:
    """A stretch of time, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """The length in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start:.3f}, {self.end:.3f})"


class StringTable(defaultdict[str, str]):
    """Texts, each once: an unknown text is its own entry."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


class MemRecordsAcc:
    """Records of memory, found by time: (record with `start_ns()`, ...) each."""

    def __init__(self, mem_records: Iterable[Any]) -> None:
        rows = [(record[0].start_ns(), k, record) for k, record in enumerate(mem_records)]
        self._rows = sorted(rows, key=lambda row: row[:2])

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """The records from `start_ns` to `end_ns`, both included, in order of time."""
        for at, _, record in self._rows:
            if start_ns <= at <= end_ns:
                yield record


def format_time(us: float) -> str:
    """A time with three decimals, in the unit that suits it."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3f}{unit}"
    return f"{us:.3f}us"


def format_memory(n: float) -> str:
    """Bytes with two decimals, in the unit that suits them."""
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{int(n)} B"


def _as_time(name: str) -> property:
    def get(self: object) -> str:
        return format_time(getattr(self, name))

    get.__doc__ = f"`{name}` as a text with a unit."
    return property(get)


class FormattedTimesMixin:
    """Times as texts, and times per call."""

    count: int
    cpu_time_total: float
    device_time_total: float

    cpu_time_str = _as_time("cpu_time")
    cpu_time_total_str = _as_time("cpu_time_total")
    self_cpu_time_total_str = _as_time("self_cpu_time_total")
    device_time_str = _as_time("device_time")
    device_time_total_str = _as_time("device_time_total")
    self_device_time_total_str = _as_time("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        """Microseconds per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds of an accelerator per call."""
        return self.device_time_total / self.count if self.count else 0.0

    cuda_time = property(lambda self: self.device_time, doc="The former name of `device_time`.")


class FunctionEvent(FormattedTimesMixin):
    """A measured operation, or a stretch of the program.

    time_range: from when to when, in microseconds since the beginning of the recording
    cpu_time_total: microseconds, those within `cpu_children` included.  For a stretch of the
        program this is the time from its begin to its end, and the time of its operations that
        were computed later.
    self_cpu_time_total: microseconds outside of `cpu_children`
    device_time_total: microseconds of an accelerator, those of `cpu_children` included: an
        operation's share of its kernels
    self_device_time_total: those outside of `cpu_children`
    device_type: where the event ran; a kernel on an accelerator has no time of the processor
    stack: the user's frames, innermost first
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: object = None,
        stack: Any = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: object = None,
        kwinputs: object = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        **more: object,
    ) -> None:
        self.id = id
        self.node_id = node_id
        self.name = name
        self.overload_name: str = overload_name or ""
        self.trace_name: str = name if trace_name is None else trace_name
        self.time_range: Interval = Interval(start_us, end_us)
        self.thread = thread
        self.fwd_thread = fwd_thread
        self.kernels: list[Kernel] = []
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes = input_shapes if input_shapes is not None else []
        self.concrete_inputs = concrete_inputs if concrete_inputs is not None else []
        self.kwinputs = kwinputs if kwinputs is not None else {}
        self.stack: list[Any] = list(stack) if stack is not None else []
        self.scope = scope
        self.use_device = use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async = is_async
        self.is_remote = is_remote
        self.sequence_nr = sequence_nr
        self.device_type = device_type
        self.device_index = device_index
        self.device_resource_id: int = thread if device_resource_id is None else device_resource_id
        self.is_legacy = is_legacy
        self.flops = flops
        self.is_user_annotation = is_user_annotation
        self.is_python_function = is_python_function
        self.module: str = str(more.pop("module", ""))  # the path of the module that recorded it
        self.metadata = [EventMetadata(k, str(v)) for k, v in more.items() if v is not None]
        self.deferred_us: float = 0.0  # of operations that were recorded here, and computed later
        self.device_us: float = 0.0  # of an accelerator, outside of the children
        self.deferred_device_us: float = 0.0  # of operations that were computed later
        self.self_us: float | None = None  # set where the children overlap with more work
        self.self_cpu_percent: float | None = None
        self.total_cpu_percent: float | None = None

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from begin to end, and of operations that were computed later."""
        return 0.0 if self.is_on_device else self.time_range.elapsed_us() + self.deferred_us

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds outside of the children."""
        if self.self_us is not None or self.is_on_device:
            return self.self_us or 0.0
        inside = sum([child.time_range.elapsed_us() for child in self.cpu_children])
        return max(0.0, self.time_range.elapsed_us() - inside)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes that were allocated outside of the children."""
        return self.cpu_memory_usage - sum([c.cpu_memory_usage for c in self.cpu_children])

    @property
    def is_on_device(self) -> bool:
        """Whether the event ran on an accelerator."""
        return self.device_type is not DeviceType.CPU

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of an accelerator, the children's included."""
        inside = sum([child.device_time_total for child in self.cpu_children])
        return self.self_device_time_total + inside + self.deferred_device_us

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of an accelerator outside of the children."""
        return self.time_range.elapsed_us() if self.is_on_device else self.device_us

    cuda_time_total = property(lambda self: self.device_time_total, doc="`device_time_total`.")
    self_cuda_time_total = self_xpu_time_total = property(
        lambda self: self.self_device_time_total, doc="`self_device_time_total`."
    )
    self_device_memory_usage = property(lambda self: 0, doc="0: memory is that of all devices.")
    self_cuda_memory_usage = property(lambda self: 0, doc="0: memory is that of all devices.")

    @property
    def metadata_json(self) -> str:
        """All else that is known, as JSON."""
        return json.dumps(dict(self.metadata))

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Note a kernel of another device."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Note an event that ran within this event."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Note the event within which this event ran."""
        self.cpu_parent = parent

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent {self.name} cpu_time={self.cpu_time_total_str} "
            f"self={self.self_cpu_time_total_str} thread={self.thread} "
            f"input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """The sum of equal events."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = -1
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.input_shapes: Any = None
        self.overload_name = ""
        self.stack: object = None
        self.scope: int | None = None
        self.module = ""
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.cpu_children: list[Any] = []
        self.cpu_parent: Any = None
        self.device_type = DeviceType.CPU
        self.flops = 0

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event, or another sum of the same key."""
        if self.key is None:
            self.key = other.key
            for name in ("node_id", "is_async", "is_remote", "cpu_parent", "cpu_children",
                         "overload_name", "input_shapes", "stack", "scope", "device_type",
                         "is_legacy", "use_device", "is_user_annotation", "module"):  # fmt: skip
                setattr(self, name, getattr(other, name))
        if other.key != self.key:
            raise ArgumentError(f"add: an event {other.key!r} is none of {self.key!r}")
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.device_time_total += other.device_time_total
        self.self_device_time_total += other.self_device_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.count += other.count
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} count={self.count} input_shapes={self.input_shapes}>"
        )


#: The numbers that `export_stacks` can write.
_METRICS = (
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
)


#: Columns of texts; the cells of all further columns stand at the right.
_TEXTS = ("Name", "Input Shapes", "Source Location")
#: Rows that a notebook shows.
_SHOWN = 100
_UNITS = {"ns": 1e3, "us": 1.0, "ms": 1e-3, "s": 1e-6}


class EventList(list[Any]):
    """Events, or sums of events, with tables and exports."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._with_flops = bool(kwargs.pop("with_flops", False))
        self._profile_memory = bool(kwargs.pop("profile_memory", False))
        self._use_device: str | None = kwargs.pop("use_device", None)
        self._export: Callable[[str], None] | None = kwargs.pop("export", None)
        super().__init__(*args, **kwargs)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        total = self.self_cpu_time_total
        columns = self._columns(self[:_SHOWN], total, (0, 0, 0), format_time)
        heads = [name for name, _ in columns]
        right = {k for k, name in enumerate(heads) if name not in _TEXTS}
        table = html_table(heads, zip(*[cells for _, cells in columns], strict=True), right)
        more = f"<p>… {len(self) - _SHOWN:,} more</p>" if len(self) > _SHOWN else ""
        return html_report(f"Self CPU time total: {format_time(total)}", table, more)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events together."""
        return sum([event.self_cpu_time_total for event in self])

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of all kernels and copies on accelerators."""
        return sum([e.self_device_time_total for e in self if e.device_type is not DeviceType.CPU])

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums of events of a name.

        group_by_input_shapes: events of different shapes are apart
        group_by_stack_n: events that differ in the first n frames are apart
        """
        sums_by_key: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key = (
                event.key,
                event.device_type,
                event.is_user_annotation,
                str(event.input_shapes) if group_by_input_shapes else "",
                tuple(event.stack[:group_by_stack_n]) if group_by_stack_n > 0 else (),
                event.overload_name if group_by_overload_name else "",
            )
            sums_by_key.setdefault(key, FunctionEventAvg()).add(event)
        sums = self._like(sums_by_key.values())
        for row in sums:
            if not group_by_input_shapes:
                row.input_shapes = ""
            row.stack = row.stack[:group_by_stack_n] if group_by_stack_n > 0 else []
            if not group_by_overload_name:
                row.overload_name = ""
        return sums

    def _like(self, rows: Iterable[Any], export: Callable[[str], None] | None = None) -> EventList:
        """A list of further rows with the same columns.  export: another function"""
        event_list = copy(self)
        event_list[:] = rows
        event_list._export = export or self._export
        return event_list

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        total = FunctionEventAvg()
        for event in self:
            total.key = event.key
            total.add(event)
        total.key = None
        return total

    def supported_export_stacks_metrics(self) -> list[str]:
        """The numbers that `export_stacks` can write."""
        return list(_METRICS)

    def export_stacks(self, path: str, metric: str) -> None:
        """Write a line for each event with a stack: frames from the outermost, and a number.

        Flame graphs are made of such files.  The numbers are whole microseconds.
        Raises ArgumentError for a metric that is none of `supported_export_stacks_metrics`.
        """
        if metric not in _METRICS:
            raise ArgumentError(f"export_stacks: metric is one of {', '.join(_METRICS)}")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                time = int(getattr(event, metric, 0))
                if event.stack and time > 0:
                    frames = [frame.replace(";", ",").replace(" ", "_") for frame in event.stack]
                    file.write(";".join(reversed(frames)) + f" {time}\n")

    def export_chrome_trace(self, path: str) -> None:
        """Write all slices of the recording: see `wend.profiler.profile.export_chrome_trace`."""
        if self._export is None:
            raise ArgumentError("export_chrome_trace: these events come from no recording")
        self._export(path)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """A table: a line for each event, or each sum of events.

        sort_by: a time, a memory usage or `count`: the largest first
        row_limit: how many lines at most; -1 for all
        time_unit: "ns", "us", "ms" or "s"; None for the unit that suits each time
        """
        if time_unit is not None and time_unit not in _UNITS:
            units = ", ".join(_UNITS)
            raise ArgumentError(f"table: time_unit is one of {units}, not {time_unit!r}")
        events, total = list(self), self.self_cpu_time_total
        if not events:
            return ""
        if sort_by is not None:
            if not hasattr(events[0], sort_by):
                raise ArgumentError(f"table: sort_by names no number of events: {sort_by!r}")
            events.sort(key=lambda e: getattr(e, sort_by), reverse=True)
        if top_level_events_only:
            events = [e for e in events if e.cpu_parent is None]
        if row_limit >= 0:
            events = events[:row_limit]

        def time(us: float) -> str:
            if time_unit is None:
                return format_time(us)
            return f"{us * _UNITS[time_unit]:.3f}{time_unit}"

        widths = max_name_column_width, max_src_column_width, max_shapes_column_width
        columns = self._columns(events, total, widths, time)
        heads = [name for name, _ in columns]
        right = {k for k, name in enumerate(heads) if name not in _TEXTS}
        cells = zip(*[cells for _, cells in columns], strict=True)
        lines = text_table([RULE, heads, RULE, *cells, RULE], right)
        above = [] if header is None else ["=" * len(lines[0]), header.rstrip()]
        below = [f"Self CPU time total: {time(total)}", ""]
        if self._use_device:
            own = time(self.self_device_time_total)
            below.insert(1, f"Self {self._use_device.upper()} time total: {own}")
        return "\n".join([*above, *lines, *below])

    def _columns(
        self,
        events: list[Any],
        total: float,
        widths: tuple[int, int, int],
        time: Callable[[float], str],
    ) -> list[tuple[str, list[str]]]:
        """The columns of a table: a title, and the text of each event."""

        def share(us: float, total: float = total) -> str:
            return f"{100 * us / total:.2f}%" if total else "nan"

        columns = [
            ("Name", [shortened(e.key, widths[0]) for e in events]),
            ("Self CPU %", [share(e.self_cpu_time_total) for e in events]),
            ("Self CPU", [time(e.self_cpu_time_total) for e in events]),
            ("CPU total %", [share(e.cpu_time_total) for e in events]),
            ("CPU total", [time(e.cpu_time_total) for e in events]),
            ("CPU time avg", [time(e.cpu_time) for e in events]),
        ]
        if self._use_device:
            device, whole = self._use_device.upper(), self.self_device_time_total
            own = [e.self_device_time_total for e in events]
            columns += [
                (f"Self {device}", [time(us) for us in own]),
                (f"Self {device} %", [share(us, whole) for us in own]),
                (f"{device} total", [time(e.device_time_total) for e in events]),
                (f"{device} time avg", [time(e.device_time) for e in events]),
            ]
        if self._profile_memory:
            columns += [
                ("CPU Mem", [format_memory(e.cpu_memory_usage) for e in events]),
                ("Self CPU Mem", [format_memory(e.self_cpu_memory_usage) for e in events]),
            ]
        columns.append(("# of Calls", [str(e.count) for e in events]))
        if any(e.input_shapes for e in events):
            texts = [str(e.input_shapes or []) for e in events]
            columns.append(("Input Shapes", [shortened(text, widths[2]) for text in texts]))
        if any(e.stack for e in events):
            texts = [e.stack[0] if e.stack else "" for e in events]
            columns.append(("Source Location", [shortened(t, widths[1], True) for t in texts]))
        if self._with_flops:
            texts = [f"{e.flops / 1e6:.3f}" if e.flops else "--" for e in events]
            columns.append(("Total MFLOPs", texts))
        return columns


def shortened(text: str, width: int, end: bool = False) -> str:
    """A text of at most so many characters.  end: keep its end"""
    if width < 4 or len(text) <= width:
        return text
    return "..." + text[3 - width :] if end else text[: width - 3] + "..."
