"""wend.cuda: there is no CUDA device, and every function here says so."""

from __future__ import annotations

from wend.cuda import amp
from wend.frontend import platform as _platform
from wend.frontend.platform import device_count, is_available

manual_seed = manual_seed_all = seed = seed_all = _platform.nothing
synchronize = empty_cache = ipc_collect = reset_peak_memory_stats = _platform.nothing
current_device = get_device_name = get_device_capability = _platform.refuse
get_device_properties = mem_get_info = set_device = init = _platform.refuse
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _platform.no_bytes
is_initialized = is_available

__all__ = ["amp", "device_count", "is_available", "manual_seed", "manual_seed_all"]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no such device."""
    return False
