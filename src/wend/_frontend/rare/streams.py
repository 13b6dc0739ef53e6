"""`torch.Stream` and `torch.Event`: the order of work on a device, which is that of the program.

A device runs all work in the order in which the program asks for it, whatever the stream. So no
stream ever waits for another. An event with a time is a moment at which its device had nothing to
do.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any, ClassVar, Self

from wend._engine.base.devices import CPU, DeviceLike, accelerator_kind, usable
from wend._engine.base.devices import device as device_of
from wend._engine.base.errors import DeviceError, ExecutionError
from wend._engine.core import _hot

__all__ = ["Event", "Stream"]

_serial = itertools.count(1)


class _Chosen(threading.local):
    """A thread's streams in force, by device, where they are not the default ones."""

    def __init__(self) -> None:
        self.by_place: dict[device_of, Stream] = {}


_CHOSEN = _Chosen()


def _place(cls: type, kind: str | None, request: Any) -> device_of:
    """The device of a stream or an event. Raises DeviceError if it is not there."""
    name = cls.__name__ if kind is None else f"{kind}.{cls.__name__}"
    if request is None:
        return usable(device_of(kind or accelerator_kind() or "cpu"), name)
    return usable(device_of(kind, request) if kind and isinstance(request, int) else request, name)


def wait_for(place: device_of) -> None:
    """Compute everything that is pending in this thread, and wait for the device."""
    _hot.synchronize()
    if place is not CPU:
        from wend._engine.runtime.devices.queue import opened

        unit = opened().get(place)
        if unit is not None:
            unit.wait()


class Stream:
    """The order of work on a device: that of the program, so that there is nothing to wait for.

    device: the CPU, or an accelerator     priority: kept, without effect
    Raises DeviceError for a device that is not there.
    """

    #: The kind of the devices that streams of a class belong to; None: any.
    kind: ClassVar[str | None] = None

    def __init__(self, device: DeviceLike = None, *, priority: int = 0) -> None:
        self.device = _place(type(self), self.kind, device)
        self.device_index = -1 if self.device.index is None else self.device.index
        self.stream_id = 0 if self.device is CPU else next(_serial)
        self.priority = priority
        self._before: list[Stream] = []

    @property
    def device_type(self) -> int:
        """The number of the kind of device, as PyTorch counts."""
        return {"cpu": 0, "cuda": 1, "xpu": 12}.get(self.device.type, 20)

    def __repr__(self) -> str:
        if self.kind is not None:
            return f"<torch.{self.kind}.Stream device={self.device} stream_id={self.stream_id}>"
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, "
            f"stream_id={self.stream_id}"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __enter__(self) -> Self:
        self._before.append(current_stream_of(type(self), self.device))
        choose_stream(self)
        return self

    def __exit__(self, *exception: object) -> None:
        choose_stream(self._before.pop())

    def query(self) -> bool:
        """Whether all work is done: True, as pending work is computed now."""
        wait_for(self.device)
        return True

    def record_event(self, event: Any = None) -> Any:
        """Put an event, by default a new one, behind the work so far."""
        event = self._event() if event is None else event
        event.record(self)
        return event

    def _event(self) -> Any:
        """An event for this stream."""
        return Event(self.device)

    def synchronize(self) -> None:
        """Wait for the work of the program so far."""
        wait_for(self.device)

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for: work is done in order."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for: work is done in order."""


def default_stream_of(cls: type[Stream], place: device_of) -> Stream:
    """The stream of a device that programs use which choose none."""
    stream = cls.__new__(cls)
    stream.device, stream.priority, stream.stream_id, stream._before = place, 0, 0, []
    stream.device_index = -1 if place.index is None else place.index
    return stream


def current_stream_of(cls: type[Stream], place: device_of) -> Stream:
    """The stream of a device that is in force in this thread."""
    stream = _CHOSEN.by_place.get(place)
    return default_stream_of(cls, place) if stream is None else stream


def choose_stream(stream: Stream) -> None:
    """Make a stream that of its device in this thread."""
    _CHOSEN.by_place[stream.device] = stream


class Event:
    """A point in the order of work on a device.

    Raises DeviceError for a device that is not there.
    """

    #: The kind of the devices that events of a class belong to; None: any.
    kind: ClassVar[str | None] = None

    def __init__(
        self,
        device: DeviceLike = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _place(type(self), self.kind, device)
        self.event_id = 0
        self._timed = enable_timing
        self._time: float | None = None
        self._recorded = False

    def __repr__(self) -> str:
        if self.kind is not None:
            return f"<torch.{self.kind}.Event {'recorded' if self._recorded else 'uninitialized'}>"
        index = -1 if self.device.index is None else self.device.index
        return f"torch.Event device_type={self.device.type}, device_index={index}, event_id=0"

    def record(self, stream: Any = None) -> None:
        """Put the event behind the work so far: an event with a time waits for this work."""
        self._recorded = True
        if self._timed:
            wait_for(self.device)
            self._time = time.perf_counter()

    def query(self) -> bool:
        """Whether the work before the event is done: True, as pending work is computed now."""
        if self._recorded:
            wait_for(self.device)
        return True

    def synchronize(self) -> None:
        """Wait for the work before the event."""
        if self._recorded:
            wait_for(self.device)

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for: work is done in order."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another.

        Raises DeviceError for events of the CPU, which have no times; ExecutionError for events
        without times, or that have not been recorded.
        """
        if self.device is CPU:
            raise DeviceError(
                "Event.elapsed_time: events of 'cpu' have no times; use time.perf_counter"
            )
        if not (self._timed and end_event._timed):
            raise ExecutionError(
                "Event.elapsed_time: Both events must be created with argument 'enable_timing=True'"
            )
        if self._time is None or end_event._time is None:
            raise ExecutionError(
                "Event.elapsed_time: Both events must be recorded before calculating elapsed time."
            )
        return 1000.0 * (end_event._time - self._time)
