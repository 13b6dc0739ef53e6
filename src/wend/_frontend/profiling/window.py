"""The content of a recording: slices as a tree for each track, and the ops of each flush."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from wend._engine.runtime.measure.recorder import (
    COPY,
    FLUSH,
    ON_DEVICE,
    SCOPES,
    FlushPart,
    MeasuredFlush,
    Slice,
    SliceRecorder,
)
from wend._engine.runtime.measure.shares import OpCost, costs_of_part
from wend._frontend.profiling.event_lists import DeviceType, FunctionEvent
from wend._frontend.profiling.ops import BACKWARD, OpTime, line_of, ops_of, summed

__all__ = ["LAUNCH", "RECORDING", "EventMaker", "Options", "SliceTree", "Window"]

#: Time of the program outside of the engine: Python, and the recording of ops.
RECORDING = "recording"
#: Time of a flush or group outside of the kernels: choosing a plan, arguments, handing over.
LAUNCH = "launch"
#: Gaps of fewer nanoseconds are no slices.
_SHORT = 300


class SliceTree:
    """A slice, and the slices within."""

    __slots__ = ("inner", "slice")

    def __init__(self, one: Slice) -> None:
        self.slice = one
        self.inner: list[SliceTree] = []

    @property
    def own(self) -> int:
        """Nanoseconds outside of the slices within."""
        inside = sum([tree.slice.end - tree.slice.begin for tree in self.inner])
        return self.slice.end - self.slice.begin - inside

    def walk(self) -> Iterator[SliceTree]:
        """This slice, and all slices within, from the outside."""
        stack = [self]
        while stack:
            tree = stack.pop()
            yield tree
            stack.extend(reversed(tree.inner))

    def leaves(self) -> Iterator[Slice]:
        """The slices that have none within."""
        return (tree.slice for tree in self.walk() if not tree.inner)


class Launched(NamedTuple):
    """A launch of a device: the part of a flush that asked for it, and further facts."""

    flush: MeasuredFlush
    part: FlushPart
    facts: dict[str, Any]


class Window:
    """The slices of a stretch of time.

    start, end: nanoseconds of the recorder's clock
    """

    def __init__(self, recorder: SliceRecorder, first: int, start: int, end: int) -> None:
        """first: the number of slices that are older"""
        self.start, self.end = start, end
        self.threads: dict[int, str] = dict(recorder.threads)
        #: Names of devices by track.
        self.devices: dict[Any, str] = {track: name for name, track in recorder.devices.items()}
        self.memory: Any = recorder.memory
        rows = [*recorder.slices[first:], *recorder.open_scopes()]
        self.slices: list[Slice] = [clipped(row, start, end) for row in rows if row.end > start]
        self._known: dict[int, Any] = {}  # see `shares.costs_of_part`
        self._trees: list[SliceTree] | None = None
        self._ops: dict[int, list[OpTime]] = {}

    # -- slices -----------------------------------------------------------------------------

    @property
    def trees(self) -> list[SliceTree]:
        """The outermost slices of all tracks, in order of time; kernels are slices within."""
        if self._trees is None:
            self._trees = trees_of(self.all_slices())
        return self._trees

    def all_slices(self) -> list[Slice]:
        """All slices with the parts of flushes, and the gaps between them."""
        slices = list(self.slices)
        for one in self.slices:
            if one.kind == FLUSH:
                for part in one.about.parts:
                    slices.append(Slice(part.kind, part.name, part.begin, part.end, one.track,
                                       (one.about, part)))  # fmt: skip
        slices += [launch for launch, part in self.launches() if part is not None]
        tracks = {s.track for s in slices} - self.devices.keys()
        whole = [t for t in tracks if t[1] is None]
        main = min(whole, key=lambda t: -sum(s.track == t for s in slices), default=None)
        if main is not None:
            slices.append(Slice("profile", "profile", self.start, self.end, main))
        gaps = []
        for tree in trees_of(slices):
            for inner in tree.walk():
                if inner.slice.track[1] is None:
                    gaps += gaps_of(inner)
        return slices + gaps

    def launches(self) -> Iterator[tuple[Slice, Launched | None]]:
        """The launches of devices, each with the part of a flush that asked for the launch."""
        for one in self.slices:
            if one.kind == ON_DEVICE:
                yield one, None
            elif one.kind == FLUSH:
                for part in one.about.parts:
                    for launch in part.launches:
                        about = Launched(one.about, part, launch.about)
                        yield launch._replace(name=part.name, about=about), about

    def flushes(self) -> list[MeasuredFlush]:
        """All flushes, in order of time."""
        flushes = [one.about for one in self.slices if one.kind == FLUSH]
        return sorted(flushes, key=lambda flush: flush.begin)

    # -- ops --------------------------------------------------------------------------------

    def ops_of(self, flush: MeasuredFlush) -> list[OpTime]:
        """The ops of a flush with their times; ops that nobody wanted have none."""
        ops = self._ops.get(id(flush))
        if ops is None:
            ops = self._ops[id(flush)] = ops_of(flush, self._known)
        return ops

    def ops(self) -> Iterator[OpTime]:
        """The table of the ops of all flushes, in order of time."""
        for flush in self.flushes():
            yield from self.ops_of(flush)

    def lines_of(self, part: FlushPart, flush: MeasuredFlush) -> list[tuple[str, str, float]]:
        """(the user's line, ops, share of the part's time) of a kernel, the largest first."""
        costs = costs_of_part(part, flush, self._known)
        total = sum([cost.weight for cost in costs]) or 1.0

        def line(cost: OpCost) -> str:
            if cost.origin >= 0:
                return f"{line_of(flush, cost.origin)} (backward)"
            return line_of(flush, cost.step) if cost.step >= 0 else ""

        lines = summed((line(cost), ([cost.name], cost.weight / total)) for cost in costs)
        rows = [(place, " ".join(names), share) for place, (names, share) in lines.items()]
        return sorted(rows, key=lambda row: -row[2])

    def costs(self, part: FlushPart, flush: MeasuredFlush) -> tuple[int, int]:
        """(operations, bytes read and written) of a part."""
        costs = costs_of_part(part, flush, self._known)
        return sum([c.flops for c in costs]), sum([c.bytes for c in costs])


class Options(NamedTuple):
    """The options of a profiler: see `wend.profiler.profile`."""

    record_shapes: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    profile_memory: bool = False


class EventMaker:
    """Makes `FunctionEvent`s of a window."""

    def __init__(self, window: Window, options: Options) -> None:
        self.window, self.options = window, options
        self.found: list[FunctionEvent] = []
        self.by_scope: dict[int, FunctionEvent] = {}  # by number of the scope

    def events(self) -> list[FunctionEvent]:
        """All events in order of their beginning."""
        window = self.window
        for tree in trees_of([s for s in window.slices if s.track not in window.devices]):
            self.add(tree, None)
        copies = [s for s in window.slices if s.kind == COPY]
        for one in [*(launch for launch, _ in window.launches()), *copies]:
            self.add_on_device(one)
        for op in self.window.ops():
            self.add_deferred(op)
        self.found.sort(key=lambda event: event.time_range.start)
        return self.found

    def us(self, ns: float) -> float:
        """Microseconds since the beginning."""
        return (ns - self.window.start) / 1e3

    def event(
        self, name: str, thread: int, begin: float, end: float, parent: FunctionEvent | None
    ) -> FunctionEvent:
        """A new event.  parent: the event within which this event ran"""
        event = FunctionEvent(len(self.found), name, thread, self.us(begin), self.us(end))
        self.found.append(event)
        if parent is not None:
            event.set_cpu_parent(parent)
            parent.append_cpu_child(event)
        return event

    def add_on_device(self, one: Slice) -> None:
        """Add the event of a launch, or of a copy."""
        kind, _, index = self.window.devices[one.track].partition(":")
        event = self.event(one.name, one.track[0], one.begin, one.end, None)
        event.device_type, event.device_index = DeviceType[kind.upper()], int(index or 0)
        event.use_device = kind

    def add(self, tree: SliceTree, parent: FunctionEvent | None) -> None:
        """Add the event of a slice, and of the slices within."""
        one = tree.slice
        event = parent
        if self.is_shown(one):
            user = one.kind in SCOPES
            name = one.name if user else f"wend::{one.name}"
            if isinstance(one.about, FlushPart):  # outside of flushes there are only gradients
                name = f"{BACKWARD}{one.name}"
            elif one.kind == "step":
                name = "ProfilerStep*"  # all steps are a single row of sums
            event = self.event(name, one.track[0], one.begin, one.end, parent)
            event.trace_name, event.is_user_annotation = one.name, user
            if user:
                self.by_scope[one.about.number] = event
                if self.options.with_stack:
                    event.stack = list(one.about.frames)
                if one.kind == "module":
                    event.module = one.about.about
                    event.is_python_function = True
                if one.track[1] is not None:  # more fibers run meanwhile
                    event.self_us = 0.0
        for inner in tree.inner:
            self.add(inner, event)
        if one.kind == FLUSH and event is not None:
            self.add_ops(one.about, event)

    def is_shown(self, one: Slice) -> bool:
        """Whether a slice is an event: modules only if asked for."""
        return one.kind != "module" or self.options.with_modules or self.options.with_stack

    def add_ops(self, flush: MeasuredFlush, parent: FunctionEvent) -> None:
        """Add the ops of a flush."""
        counted: set[int] = set()
        options = self.options
        memory = self.window.memory if options.profile_memory else None
        for op in self.window.ops_of(flush):
            begin = op.begin or flush.begin
            event = self.event(op.name, parent.thread, begin, begin + op.ns, parent)
            event.count = op.count
            event.device_us = op.device_ns / 1e3
            if options.record_shapes and not op.state.is_step:
                event.input_shapes = op.input_shapes()
            if options.with_flops and not op.state.is_step:
                event.flops = op.flops_by_types
            if options.with_stack:
                event.stack = op.stack()
            if options.with_modules or options.with_stack:
                event.module = next(iter(op.modules), "")
            if memory is not None and op.step not in counted:
                counted.add(op.step)  # a backward pass is a step of many ops
                event.cpu_memory_usage = memory.bytes_of(flush, op.step)

    def add_deferred(self, op: OpTime) -> None:
        """Add the time of an op to the stretches that recorded the op, if these had ended."""
        for scope in () if op.scope is None else op.scope.around():
            event = self.by_scope.get(scope.number)
            if event is not None and event.time_range.end <= self.us(op.flush.begin):
                event.deferred_us += op.us
                event.deferred_device_us += op.device_ns / 1e3


# -- trees ------------------------------------------------------------------------------------


def trees_of(slices: Iterable[Slice]) -> list[SliceTree]:
    """Return the outermost slices of each track, with the slices within, in order of time."""
    tops: list[SliceTree] = []
    open_: dict[Any, list[SliceTree]] = {}
    for one in sorted(slices, key=lambda s: (s.begin, -s.end, s.kind != "profile")):
        stack = open_.setdefault(one.track, [])
        while stack and stack[-1].slice.end <= one.begin and not _same(stack[-1].slice, one):
            stack.pop()
        tree = SliceTree(one)
        if stack:
            outer = stack[-1].slice
            if one.end > outer.end:
                tree.slice = one._replace(end=outer.end)
            stack[-1].inner.append(tree)
        else:
            tops.append(tree)
        stack.append(tree)
    return tops


def _same(outer: Slice, inner: Slice) -> bool:
    """Whether an empty slice lies within another."""
    return outer.begin == outer.end == inner.begin == inner.end


def clipped(one: Slice, start: int, end: int) -> Slice:
    """Return the part of a slice within a window."""
    if one.begin >= start and one.end <= end:
        return one
    return one._replace(begin=max(one.begin, start), end=max(start, min(one.end, end)))


def gaps_of(tree: SliceTree) -> list[Slice]:
    """Return the time of the program within a slice, and outside of the slices within."""
    one = tree.slice
    if one.kind in SCOPES or one.kind in ("profile", "backward", "backward part"):
        name = RECORDING
    elif one.kind in ("plan", "compile"):
        name = one.kind
    else:
        name = LAUNCH
    if not tree.inner and name != RECORDING and one.kind != FLUSH:
        return []
    gaps, at = [], one.begin
    for inner in [*(t.slice for t in tree.inner), None]:
        stop = one.end if inner is None else inner.begin
        if stop - at >= _SHORT:
            gaps.append(Slice(name, name, at, stop, one.track))
        at = one.end if inner is None else inner.end
    return gaps
