"""`torch.Stream` and `torch.Event`: the order of work on a device, here that of the program."""

from __future__ import annotations

from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._engine.base.devices import device as device_of
from wend._engine.base.errors import DeviceError

__all__ = ["Event", "Stream"]


def _of_cpu(name: str, request: Any) -> Any:
    """The device of a stream or an event.  Raises DeviceError for any but the CPU."""
    device = device_of("cpu" if request is None else request)
    if device.type != "cpu":
        raise DeviceError(f"{name}: there is no device {device}; Wend computes on 'cpu' so far")
    return device


class Stream:
    """The order of work on the CPU: that of the program, so that nothing has to be waited for.

    device: 'cpu'     priority: kept, without effect
    """

    def __init__(self, device: DeviceLike = None, *, priority: int = 0) -> None:
        self.device = _of_cpu("Stream", device)
        self.device_index, self.stream_id, self.priority = -1, 0, priority

    @property
    def device_type(self) -> int:
        """The number of the kind of device."""
        return 0

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index=-1, stream_id=0"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return hash((0, self.stream_id))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def query(self) -> bool:
        """Whether all work is done: True."""
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Put an event, by default a new one, behind the work so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to wait for."""


class Event:
    """A point in the order of work on the CPU, which has always passed.

    Raises DeviceError for another device.
    """

    def __init__(
        self,
        device: DeviceLike = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _of_cpu("Event", device)
        self.event_id = 0

    def __repr__(self) -> str:
        return f"torch.Event device_type={self.device.type}, device_index=-1, event_id=0"

    def record(self, stream: Stream | None = None) -> None:
        """Nothing to record."""

    def query(self) -> bool:
        """True."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, other: Event) -> float:
        """Raises DeviceError: the CPU's events have no times."""
        raise DeviceError(
            "Event.elapsed_time: events of 'cpu' have no times; use time.perf_counter"
        )
