"""Streams, events and blocks of a device, for all kinds of accelerators.

A kind's module derives classes of its own from these, with the name of the kind as `kind`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from wend._engine.base.devices import CURRENT, DeviceLike, accelerator, device
from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend._frontend.devices.places import kind_at_hand, make_current, place_of
from wend._frontend.rare import streams

__all__ = ["DeviceBlock", "Event", "Stream", "StreamContext"]


class Event(streams.Event):
    """A mark in the order of work on an accelerator. Raises DeviceError if there is none."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        super().__init__(None, enable_timing=enable_timing)

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: Any) -> Self:
        """Raises NotImplementedInWend: events do not leave their process."""
        raise NotImplementedInWend(f"{cls.kind}.Event.from_ipc_handle: use wend.distributed")

    def ipc_handle(self) -> Any:
        """Raises NotImplementedInWend: events do not leave their process."""
        raise NotImplementedInWend(f"{self.kind}.Event.ipc_handle: use wend.distributed")


class Stream(streams.Stream):
    """A queue of an accelerator. Raises DeviceError if there is none."""

    #: The events that `record_event` makes.
    event: ClassVar[type[Event]] = Event

    def __init__(self, device: DeviceLike = None, priority: int = 0, **more: Any) -> None:
        super().__init__(device, priority=priority)
        if "stream_id" in more:
            self.stream_id = more["stream_id"]

    def _event(self) -> Event:
        return self.event()


class StreamContext:
    """A block whose work goes to a stream; None changes nothing."""

    cur_stream: Any = None

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self._index = CURRENT.get(self.stream.device.type)
            make_current(self.stream.device)
            self.stream.__enter__()

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(type, value, traceback)
            make_current(accelerator(self.stream.device.type, self._index or 0))


class DeviceBlock:
    """A block in which the name of a kind means this device, by number; -1 and None: no change.

    Raises DeviceError, when the block begins, for a device that is not there.
    """

    kind: ClassVar[str | None] = None

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None and self.idx >= 0:
            place = place_of(self.kind, self.idx, "device")
            self.prev_idx = CURRENT.get(place.type, 0)
            make_current(place)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        if self.idx is not None and self.idx >= 0:
            make_current(accelerator(kind_at_hand(self.kind, "device"), self.prev_idx))


def _index(request: Any) -> Any:
    """The number of a device; None stays."""
    place = device(request) if isinstance(request, str) else request
    if not isinstance(place, device):
        return place
    return CURRENT.get(place.type, 0) if place.index is None else place.index


def index_of(kind: str, obj: Any) -> int:
    """The number of the device of that kind on which a tensor lies; -1 for another place."""
    is_there = isinstance(obj, Tensor) and obj.device.type == kind
    return obj.get_device() if is_there else -1
