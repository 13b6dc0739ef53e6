"""Slices of time, each with a name and a thread; and the flushes with all parts.

A recording is on while a profiler is.  Nothing here is asked, or even imported, at other times:
`taps` puts measuring functions in the place of the engine's own for that time.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from types import CodeType, FrameType
from typing import Any, NamedTuple

from wend._engine.core import _hot
from wend._engine.core._hot import State, Trace
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import Sites

#: Nanoseconds of a clock that never goes back.
now = time.perf_counter_ns

#: Kinds of slices that the user's program opens: ops belong to the scope that records them.
SCOPES = frozenset({"step", "user", "module", "optimizer"})
FLUSH = "flush"
#: The kind of parts that compute gradients of the flush's own steps.
GRADIENTS = "gradients"
#: The kinds of slices of a device: a launch of a kernel, and a copy to its memory.
ON_DEVICE, COPY = "device", "copy"


class Scope(NamedTuple):
    """A stretch of the user's program, and the stretch around it.

    kind: a member of `SCOPES`
    about: for modules the path and the class
    frames: the user's frames around the beginning, innermost first, if these are kept
    """

    kind: str
    name: str
    about: object
    outer: Scope | None
    frames: tuple[str, ...]
    number: int

    def modules(self) -> list[str]:
        """Paths of the modules around, the innermost first, each once."""
        paths = [str(scope.about) for scope in self.around() if scope.kind == "module"]
        return list(dict.fromkeys(paths))

    def around(self) -> Iterator[Scope]:
        """This scope, and the scopes around."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


#: (number of the first step, scope) in order.
Scopes = list[tuple[int, Scope | None]]


def scope_at(scopes: Scopes, k: int) -> Scope | None:
    """The scope in which step k was recorded."""
    at = bisect_right(scopes, k, key=itemgetter(0))
    return scopes[at - 1][1] if at else None


#: The number of a thread, and a fiber of this thread or None.
Track = tuple[int, int | None]
_NUMBERS = count(1)


class Slice(NamedTuple):
    """A stretch of time.  Slices of the same track lie inside each other, or apart.

    track: a fiber's stretches overlap with those of more fibers
    about: further facts: a `Scope`, a `MeasuredFlush`, a `FlushPart`, a dict, or None
    """

    kind: str
    name: str
    begin: int
    end: int
    track: Track
    about: Any = None


class FlushPart(NamedTuple):
    """A part of a flush: a kernel, a host step, an op of the reference, or a run of groups.

    plan: the path whose values `ops` name, or None: then all ops of the flush have a share
    ops: the compiler's `Op`s, or nodes of the reference
    owner: gives the sizes of a bound plan; None elsewhere
    steps: the kernels among the plan's steps
    launches: the slices of a device that this part has waited for
    """

    kind: str
    name: str
    begin: int
    end: int
    plan: PathGraph | None = None
    ops: Sequence[Any] = ()
    owner: Any = None
    steps: Sequence[int] = ()
    launches: Sequence[Slice] = ()

    @property
    def device_ns(self) -> int:
        """Nanoseconds of a device."""
        return sum([one.end - one.begin for one in self.launches])


@dataclass(eq=False, slots=True)
class MeasuredFlush:
    """A flush: the recorded steps with types, scopes and lines, and the parts that ran.

    arena: bytes of temporaries     lanes: fibers that ran these steps together
    """

    states: Sequence[State]
    sites: Sites | None
    types: list[Any]
    scopes: Scopes
    track: Track
    parts: list[FlushPart] = field(default_factory=list)
    arena: int = 0
    lanes: int = 1
    begin: int = 0
    end: int = 0

    def scope_at(self, k: int) -> Scope | None:
        """The scope in which step k was recorded."""
        return scope_at(self.scopes, k)


class _Running(threading.local):
    """The flush that this thread runs, and whether a backward pass is under way.

    launches: of devices, until a part of the flush takes these
    """

    flush: MeasuredFlush | None = None
    backward = False
    track: Track | None = None
    launches: list[Slice] | None = None


#: The recording under way, or nothing.
RUNNING: list[SliceRecorder] = []


class SliceRecorder:
    """All slices since a profiler was switched on.

    with_frames: whether the user's frames around each scope are kept
    """

    def __init__(self, with_frames: bool = False) -> None:
        self.with_frames = with_frames
        self.slices: list[Slice] = []
        self.scopes: dict[Any, Scope | None] = {}  # the innermost open scope of each track
        self.begun: dict[int, tuple[Scope, int, Any]] = {}  # open scopes by number
        self.marks: dict[int, tuple[Any, Scopes]] = {}  # by id of a list of steps: the list, scopes
        self.threads: dict[int, str] = {}
        self.devices: dict[str, Track] = {}  # by name of the device
        self.count = 0
        self.memory: Any = None  # an `AllocationLog`, if memory is measured
        self.local = _Running()

    # -- scopes -----------------------------------------------------------------------------

    def track(self) -> Track:
        """The track of the engine: this thread, whatever the fiber."""
        track = self.local.track
        if track is None:
            number = next(_NUMBERS)  # the system gives the number of an ended thread to another
            self.threads[number] = threading.current_thread().name
            track = self.local.track = number, None
        return track

    def device_track(self, place: str) -> Track:
        """The track of a device's queue."""
        track = self.devices.get(place)
        if track is None:
            number = next(_NUMBERS)
            self.threads[number] = f"{place} queue"
            track = self.devices[place] = number, None
        return track

    def scope_track(self, trace: Trace) -> Track:
        """The track of the program: this thread, or a fiber of the thread."""
        fiber = trace.fiber
        return self.track() if fiber is None else (self.track()[0], id(fiber))

    def enter(self, kind: str, name: str, about: object = None) -> Scope:
        """Open a scope: steps recorded from now on belong to this scope."""
        trace = _hot.current_trace()
        track = self.scope_track(trace)
        outer = self.scopes.get(track)
        self.count += 1
        frames = user_frames() if self.with_frames else ()
        scope = Scope(kind, name, about, outer, frames, self.count)
        self._mark(trace, outer, scope)
        self.scopes[track] = scope
        self.begun[scope.number] = (scope, now(), track)
        return scope

    def module_path(self) -> str:
        """The path of the innermost module that is being called, or ""."""
        scope = self.innermost("module")
        return "" if scope is None else str(scope.about)

    def leave(self, scope: Scope) -> None:
        """Close a scope, and the scopes within that nobody has closed."""
        if scope.number not in self.begun:
            return
        track = self.begun[scope.number][2]
        inner = self.scopes.get(track)
        while inner is not None and inner is not scope and inner.number > scope.number:
            self._close(inner)
            inner = inner.outer
        self._close(scope)
        if inner is scope:
            self.scopes[track] = scope.outer
            self._mark(_hot.current_trace(), scope, scope.outer)

    def end(self, kind: str) -> Scope | None:
        """Close the innermost scope of a kind, and return the scope."""
        scope = self.innermost(kind)
        if scope is not None:
            self.leave(scope)
        return scope

    def _close(self, scope: Scope) -> None:
        if scope.number in self.begun:
            _, begin, track = self.begun.pop(scope.number)
            self.slice(scope.kind, scope.name, begin, track, scope)

    def _mark(self, trace: Trace, before: Scope | None, after: Scope | None) -> None:
        states = trace.states
        row = self.marks.get(id(states))
        if row is None or row[0] is not states:
            row = self.marks[id(states)] = (states, [(0, before)])
        row[1].append((len(states), after))

    def scopes_of(self, states: Sequence[State]) -> Scopes:
        """The scopes of recorded steps, which are forgotten; without marks, the scope of now."""
        row = self.marks.pop(id(states), None)
        return [(0, self.innermost())] if row is None or row[0] is not states else row[1]

    def forget(self, states: Sequence[State]) -> None:
        """Forget the scopes of steps that somebody else has reported."""
        self.marks.pop(id(states), None)

    def innermost(self, kind: str = "") -> Scope | None:
        """The innermost open scope, of a kind if that is asked for."""
        scope = self.scopes.get(self.scope_track(_hot.current_trace()))
        around = () if scope is None else scope.around()
        return next((outer for outer in around if kind in ("", outer.kind)), None)

    def open_scopes(self) -> list[Slice]:
        """The scopes that are open, as slices that end now."""
        end = now()
        return [
            Slice(scope.kind, scope.name, begin, end, track, scope)
            for scope, begin, track in list(self.begun.values())
        ]

    # -- the work of the engine -------------------------------------------------------------

    @contextmanager
    def measured(self, kind: str, name: str, about: object = None) -> Iterator[None]:
        """Note a slice around a block."""
        track, begin = self.track(), now()
        try:
            yield
        finally:
            self.slice(kind, name, begin, track, about)

    def slice(self, kind: str, name: str, begin: int, track: Track, about: object = None) -> None:
        """Note a slice that ends now."""
        self.slices.append(Slice(kind, name, begin, now(), track, about))

    @contextmanager
    def flushing(
        self, states: Sequence[State], sites: Sites | None, types: list[Any]
    ) -> Iterator[MeasuredFlush]:
        """Note a flush around a block; parts that run meanwhile belong to the flush."""
        track = self.track()
        flush = MeasuredFlush(states, sites, types, self.scopes_of(states), track)
        outer, self.local.flush = self.local.flush, flush
        flush.begin = now()
        try:
            yield flush
        finally:
            flush.end = now()
            self.local.flush = outer
            self.slices += self.take_launches()
            self.slices.append(Slice(FLUSH, FLUSH, flush.begin, flush.end, track, flush))

    @contextmanager
    def measured_part(self, kind: str, name: str) -> Iterator[None]:
        """Note a block as a part of the flush that runs; all ops of the flush have a share."""
        begin = now()
        try:
            yield
        finally:
            self.part(FlushPart(kind, name, begin, now()))

    def launched(self, place: str, begin: int, spans: Iterable[tuple[int, int]]) -> None:
        """Note launches of a device that are over.

        begin: when the host began to launch     spans: nanoseconds from then to begin and end
        """
        end, track = now(), self.device_track(place)
        launches = self.local.launches
        if launches is None:
            launches = self.local.launches = []
        for first, last in spans:  # clocks of devices are not exact
            at = min(begin + max(first, 0), end)
            until = max(at, min(begin + last, end))
            launches.append(Slice(ON_DEVICE, "kernel", at, until, track, {"device": place}))

    def take_launches(self) -> list[Slice]:
        """The launches of this thread that no part of a flush has taken."""
        launches, self.local.launches = self.local.launches, None
        return launches or []

    def temporaries(self, size: int) -> None:
        """Note the bytes of temporaries that the flush under way has."""
        flush = self.local.flush
        if flush is not None:
            flush.arena = max(flush.arena, size)

    def part(self, part: FlushPart) -> None:
        """Note a part of the flush that runs; a part outside of any flush is a slice of its own."""
        flush = self.local.flush
        if flush is not None:
            flush.parts.append(part)
        else:
            self.slices.append(
                Slice(part.kind, part.name, part.begin, part.end, self.track(), part)
            )


def user_frames(most: int = 12) -> tuple[str, ...]:
    """The user's frames, innermost first, as "file(line): function"."""
    import sys

    frames: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < most:
        code = frame.f_code
        if not _hot.is_internal(code) and "importlib" not in code.co_filename:
            frames.append(frame_text(code, frame.f_lineno))
        frame = frame.f_back
    return tuple(frames)


def frame_text(code: CodeType, line: int) -> str:
    """A frame as PyTorch's profiler writes it."""
    return f"{code.co_filename}({line}): {code.co_name}"
