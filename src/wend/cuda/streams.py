"""Streams, events and the choice of a device, for devices that are not there."""

from __future__ import annotations

from typing import Any, NoReturn

from wend._engine.base.devices import device as Device
from wend._engine.base.errors import DeviceError
from wend._frontend.platform import Event as AnyEvent
from wend._frontend.platform import Stream as AnyStream

__all__ = [
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "device",
    "device_of",
    "graph",
    "stream",
]


def _refuse(name: str) -> NoReturn:
    raise DeviceError(f"cuda.{name}: no CUDA device is available; Wend computes on 'cpu' so far")


class Stream(AnyStream):
    """A queue of a CUDA device. Raises DeviceError: there is no such device."""

    def __new__(cls, device: Any = None, priority: int = 0, **more: Any) -> Stream:
        _refuse("Stream")

    def query(self) -> bool:
        """Whether all work of the queue is done."""
        _refuse("Stream.query")

    def record_event(self, event: Any = None) -> Event:
        """Put an event behind the work of the queue."""
        _refuse("Stream.record_event")

    def synchronize(self) -> None:
        """Wait for the work of the queue."""
        _refuse("Stream.synchronize")

    def wait_event(self, event: Any) -> None:
        """Let further work wait for an event."""
        _refuse("Stream.wait_event")

    def wait_stream(self, stream: Any) -> None:
        """Let further work wait for another queue."""
        _refuse("Stream.wait_stream")


class Event(AnyEvent):
    """A mark in a queue of a CUDA device. Raises DeviceError: there is no such device."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Event:
        _refuse("Event")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: Any) -> Event:
        """The event of another process."""
        _refuse("Event.from_ipc_handle")

    def ipc_handle(self) -> Any:
        """A handle for another process."""
        _refuse("Event.ipc_handle")

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to another."""
        _refuse("Event.elapsed_time")

    def query(self) -> bool:
        """Whether the work before the event is done."""
        _refuse("Event.query")

    def record(self, stream: Any = None) -> None:
        """Put the event behind the work of a queue."""
        _refuse("Event.record")

    def synchronize(self) -> None:
        """Wait for the event."""
        _refuse("Event.synchronize")

    def wait(self, stream: Any = None) -> None:
        """Let further work of a queue wait for the event."""
        _refuse("Event.wait")


class ExternalStream:
    """A queue of foreign code. Raises DeviceError: there is no such device."""

    def __new__(cls, stream_ptr: int, device: Any = None, **more: Any) -> ExternalStream:
        raise DeviceError("cuda.ExternalStream: no CUDA device is available")


class CUDAGraph:
    """Work to be repeated. Raises DeviceError: there is no such device."""

    def __new__(cls, keep_graph: bool = False) -> CUDAGraph:
        raise DeviceError("cuda.CUDAGraph: no CUDA device is available; call the function instead")


class graph:
    """A block that records a CUDAGraph. Raises DeviceError: there is no such device."""

    def __init__(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        raise DeviceError("cuda.graph: no CUDA device is available; run the block without it")


class StreamContext:
    """A block whose work goes to a stream. None, the only stream there is, changes nothing."""

    cur_stream: Any = None

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        return None


def stream(stream: Any) -> StreamContext:
    """The block of a stream."""
    return StreamContext(stream)


class device:
    """A block whose tensors go to a CUDA device, by number: -1 and None change nothing.

    Raises DeviceError, when the block begins, for a number from 0: there is no such device.
    """

    def __init__(self, device: Any) -> None:
        place = Device(device) if isinstance(device, str) else device
        known = place.index if isinstance(place, Device) else place
        self.idx = 0 if known is None and isinstance(place, Device) else known
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None and self.idx >= 0:
            raise DeviceError(
                f"cuda.device: there is no CUDA device {self.idx}; Wend computes on 'cpu' so far"
            )

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        return None


class device_of(device):
    """The block of the device of a tensor: of the CPU, which changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1)
