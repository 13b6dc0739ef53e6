"""wend.xpu: the OpenCL devices. Where none is there, each function says so.

The random numbers of a device are those of the CPU, from the same generator.
"""

from __future__ import annotations

from typing import Any

from wend._frontend.devices.functions import DeviceFunctions as _DeviceFunctions
from wend._frontend.devices.graphs import graph_pool_handle, make_graphed_callables
from wend._frontend.platform import OutOfMemoryError
from wend.xpu.streams import (
    Event,
    Stream,
    StreamContext,
    XPUGraph,
    device,
    device_of,
    graph,
    stream,
)

_functions = _DeviceFunctions("xpu", Stream)
can_device_access_peer = _functions.can_device_access_peer
current_device = _functions.current_device
current_stream = _functions.current_stream
default_stream = _functions.default_stream
device_count = _functions.device_count
device_memory_used = _functions.device_memory_used
empty_cache = _functions.empty_cache
get_arch_list = _functions.get_arch_list
get_device_capability = _functions.get_device_capability
get_device_name = _functions.get_device_name
get_device_properties = _functions.get_device_properties
get_per_process_memory_fraction = _functions.get_per_process_memory_fraction
get_rng_state = _functions.get_rng_state
get_rng_state_all = _functions.get_rng_state_all
init = _functions.init
initial_seed = _functions.initial_seed
is_available = _functions.is_available
is_bf16_supported = _functions.is_bf16_supported
is_current_stream_capturing = _functions.is_current_stream_capturing
is_initialized = _functions.is_initialized
is_tf32_supported = _functions.is_tf32_supported
manual_seed = _functions.manual_seed
max_memory_allocated = _functions.max_memory_allocated
max_memory_reserved = _functions.max_memory_reserved
mem_get_info = _functions.mem_get_info
memory_allocated = _functions.memory_allocated
memory_reserved = _functions.memory_reserved
memory_stats = _functions.memory_stats
memory_stats_as_nested_dict = _functions.memory_stats_as_nested_dict
memory_summary = _functions.memory_summary
reset_accumulated_memory_stats = _functions.reset_accumulated_memory_stats
reset_peak_memory_stats = _functions.reset_peak_memory_stats
seed = _functions.seed
set_device = _functions.set_device
set_per_process_memory_fraction = _functions.set_per_process_memory_fraction
set_rng_state = _functions.set_rng_state
set_rng_state_all = _functions.set_rng_state_all
set_stream = _functions.set_stream
synchronize = _functions.synchronize
manual_seed_all = manual_seed
seed_all = seed


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return _functions.generators()
    raise AttributeError(f"module 'wend.xpu' has no attribute {name!r}")


__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "XPUGraph",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]
