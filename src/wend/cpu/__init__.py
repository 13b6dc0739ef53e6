"""wend.cpu: the device that is always there, with the names that programs for GPUs use."""

from __future__ import annotations

from typing import Any

from wend._engine.core._hot import synchronize as _synchronize
from wend.cpu import amp

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """The order of the CPU's work: always the same, and nothing to wait for."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A point in the order of work, which has always passed."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_STREAM = Stream()


class StreamContext:
    """A block for the given stream, without effect."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


def stream(stream: Any) -> StreamContext:
    """A block for the given stream."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The stream."""
    return _STREAM


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def synchronize(device: Any = None) -> None:
    """Compute all that is pending in this thread."""
    _synchronize()


def current_device() -> str:
    """'cpu'."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is a single CPU."""


def device_count() -> int:
    """1."""
    return 1


def get_capabilities() -> dict[str, Any]:
    """{}: Wend asks LLVM for the processor's instructions itself."""
    return {}
