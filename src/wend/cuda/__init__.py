"""wend.cuda: there is no CUDA device, and every function here says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wend._frontend import platform as _platform
from wend._frontend.platform import (
    AcceleratorError,
    OutOfMemoryError,
    device_count,
    is_available,
    is_bf16_supported,
)
from wend.cuda import amp
from wend.cuda.streams import (
    CUDAGraph,
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    device,
    device_of,
    graph,
    stream,
)
from wend.cuda.tensors import CLASSES as _CLASSES

if TYPE_CHECKING:  # modules that are names of the package too
    from wend.cuda import streams as streams
    from wend.cuda import tensors as tensors

manual_seed = manual_seed_all = seed = seed_all = _platform.nothing
synchronize = empty_cache = ipc_collect = reset_peak_memory_stats = _platform.nothing
current_device = get_device_name = get_device_capability = _platform.refuse
get_device_properties = mem_get_info = set_device = init = _platform.refuse
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _platform.no_bytes
is_initialized = is_available

current_stream = default_stream = set_stream = get_rng_state = initial_seed = _platform.refuse
set_rng_state = memory_summary = _platform.refuse
reset_max_memory_allocated = reset_max_memory_cached = _platform.nothing
reset_accumulated_memory_stats = set_per_process_memory_fraction = _platform.nothing
max_memory_cached = memory_cached = _platform.no_bytes
default_generators: tuple[()] = ()
has_half = has_magma = False
globals().update(_CLASSES)


def get_rng_state_all() -> list[Any]:
    """[]: there is no such device."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of all devices. Raises DeviceError if states are given."""
    for state in new_states:
        set_rng_state(state)


def get_arch_list() -> list[str]:
    """[]: there is no such device."""
    return []


def memory_stats(device: Any = None) -> dict[str, Any]:
    """{}: there is no such device."""
    return {}


def is_current_stream_capturing() -> bool:
    """False: there is no such device."""
    return False


__all__ = [
    "AcceleratorError",
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "device",
    "device_count",
    "device_of",
    "graph",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "stream",
]
