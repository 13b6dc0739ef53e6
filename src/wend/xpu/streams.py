"""Streams, events, graphs and blocks of OpenCL devices."""

from __future__ import annotations

from typing import Any

from wend._frontend.devices import graphs, queues
from wend._frontend.devices.queues import StreamContext, index_of

__all__ = ["Event", "Stream", "StreamContext", "XPUGraph", "device", "device_of", "graph", "stream"]


class Event(queues.Event):
    """A mark in the order of work on an OpenCL device. Raises DeviceError if there is none."""

    kind = "xpu"

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__(enable_timing)


class Stream(queues.Stream):
    """A queue of an OpenCL device. Raises DeviceError if there is none."""

    kind = "xpu"
    event = Event


class XPUGraph(graphs.DeviceGraph):
    """Work to be repeated. Nothing is recorded: see `make_graphed_callables`."""

    kind = "xpu"


class graph(graphs.GraphBlock):
    """The block that an XPUGraph would record: it runs as ever."""

    kind = "xpu"

    def __init__(self, xpu_graph: Any, pool: Any = None, stream: Any = None) -> None:
        super().__init__(xpu_graph, pool, stream)


def stream(stream: Any) -> StreamContext:
    """The block of a stream."""
    return StreamContext(stream)


class device(queues.DeviceBlock):
    """A block in which "xpu" means this device, by number; -1 and None change nothing.

    Raises DeviceError, when the block begins, for a device that is not there.
    """

    kind = "xpu"


class device_of(device):
    """The block of the device of a tensor; of the CPU, it changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(index_of("xpu", obj))
