"""wend.accelerator: the accelerators of the kind that is at hand, whatever it is."""

from __future__ import annotations

from wend._frontend.devices.functions import DeviceFunctions as _DeviceFunctions
from wend._frontend.devices.queues import DeviceBlock as _DeviceBlock

_functions = _DeviceFunctions(None)
current_accelerator = _functions.current_accelerator
current_stream = _functions.current_stream
device_count = _functions.device_count
empty_cache = _functions.empty_cache
get_device_capability = _functions.get_device_capability
is_available = _functions.is_available
max_memory_allocated = _functions.max_memory_allocated
max_memory_reserved = _functions.max_memory_reserved
memory_allocated = _functions.memory_allocated
memory_reserved = _functions.memory_reserved
memory_stats = _functions.memory_stats
reset_accumulated_memory_stats = _functions.reset_accumulated_memory_stats
reset_peak_memory_stats = _functions.reset_peak_memory_stats
set_stream = _functions.set_stream
synchronize = _functions.synchronize
current_device_index = current_device_idx = _functions.current_device
set_device_index = set_device_idx = _functions.set_device
get_memory_info = _functions.mem_get_info


class device_index(_DeviceBlock):
    """A block in which the accelerator means this device, by number; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        super().__init__(device)


__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]
