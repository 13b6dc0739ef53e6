"""torch.profiler: schedules, callbacks and named stretches; operations are not measured.

`wend.debug.explain()` tells where the time of a program goes.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from wend.autograd.profiler import EventList, record_function
from wend.base.errors import ArgumentError

__all__ = [
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
    return {ProfilerActivity.CPU}


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


class profile:
    """A stretch of a program with steps: `on_trace_ready` is called as the schedule says."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        self.activities = supported_activities() if activities is None else set(activities)
        self.schedule = schedule or _always
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        self.step_num = 0
        self.current_action = self.schedule(0)

    def stop(self) -> None:
        """End; `on_trace_ready` gets a recording that was not finished."""
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._ready()
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """The next step begins."""
        if self.current_action is ProfilerAction.RECORD_AND_SAVE:
            self._ready()
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def events(self) -> EventList:
        """There are none."""
        return EventList()

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """There are none."""
        return EventList()

    def add_metadata(self, key: str, value: str) -> None:
        """Accepted; there is no trace to add to."""

    def add_metadata_json(self, key: str, value: str) -> None:
        """Accepted; there is no trace to add to."""

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace without events."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": []}, file)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """A callback for `on_trace_ready` that writes the trace to a new file of the folder."""

    def write(made: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        made.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return write
