"""wend.cuda: there is no CUDA device, and every function here says so."""

from __future__ import annotations

from typing import Any

from wend.cuda import amp
from wend.frontend import platform as _platform
from wend.frontend.platform import device_count, is_available

manual_seed = manual_seed_all = seed = seed_all = _platform.nothing
synchronize = empty_cache = ipc_collect = reset_peak_memory_stats = _platform.nothing
current_device = get_device_name = get_device_capability = _platform.refuse
get_device_properties = mem_get_info = set_device = init = _platform.refuse
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _platform.no_bytes
is_initialized = is_available

is_current_stream_capturing = is_available
current_stream = default_stream = get_rng_state = set_rng_state = _platform.refuse
memory_stats = memory_summary = _platform.refuse
default_generators = ()


def get_rng_state_all() -> list[Any]:
    """[]: the states of all devices."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of all devices. Raises DeviceError if states are given."""
    for state in new_states:
        set_rng_state(state)


class Stream:
    """A queue of work on a CUDA device. `Stream()` raises DeviceError: there is no device."""

    __init__ = _platform.refuse  # type: ignore[assignment]


class Event(Stream):
    """A mark in a queue of work; raises DeviceError as Stream does."""


class ExternalStream(Stream):
    """A queue of foreign code; raises DeviceError as Stream does."""


class CUDAGraph(Stream):
    """Work to be repeated; raises DeviceError as Stream does."""


class graph(Stream):
    """A block that records a CUDAGraph; raises DeviceError as Stream does."""


class device:
    """A block on a device; for no device (None, or below 0) nothing happens."""

    def __init__(self, device: Any) -> None:
        if device is not None and not (isinstance(device, int) and device < 0):
            _platform.refuse()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


class device_of(device):
    """A block on the device of a tensor; nothing happens on the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(None)


class StreamContext(device):
    """A block whose work goes to a stream; for None nothing happens."""


stream = StreamContext

__all__ = [
    "CUDAGraph",
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "device",
    "device_count",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "stream",
]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no such device."""
    return False
