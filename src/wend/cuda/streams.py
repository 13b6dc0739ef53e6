"""Streams, events, graphs and blocks of CUDA devices."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import NotImplementedInWend
from wend._frontend.devices import graphs, queues
from wend._frontend.devices.places import kind_at_hand
from wend._frontend.devices.queues import StreamContext, index_of

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


class Event(queues.Event):
    """A mark in the order of work on a CUDA device. Raises DeviceError if there is none."""

    kind = "cuda"


class Stream(queues.Stream):
    """A queue of a CUDA device. Raises DeviceError if there is none."""

    kind = "cuda"
    event = Event


class ExternalStream(Stream):
    """A queue of foreign code. Raises NotImplementedInWend, and DeviceError without a device."""

    def __init__(self, stream_ptr: int, device: Any = None, **more: Any) -> None:
        kind_at_hand("cuda", "ExternalStream")
        raise NotImplementedInWend("cuda.ExternalStream: Wend's work goes to a queue of its own")


class CUDAGraph(graphs.DeviceGraph):
    """Work to be repeated. Nothing is recorded: see `make_graphed_callables`."""

    kind = "cuda"


class graph(graphs.GraphBlock):
    """The block that a CUDAGraph would record: it runs as ever."""

    kind = "cuda"


def stream(stream: Any) -> StreamContext:
    """The block of a stream."""
    return StreamContext(stream)


class device(queues.DeviceBlock):
    """A block in which "cuda" means this device, by number; -1 and None change nothing.

    Raises DeviceError, when the block begins, for a device that is not there.
    """

    kind = "cuda"


class device_of(device):
    """The block of the device of a tensor; of the CPU, it changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(index_of("cuda", obj))
