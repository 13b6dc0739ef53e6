"""wend.xpu: there is no such device, and every function here says so."""

from __future__ import annotations

from wend._frontend import platform as _platform
from wend._frontend.platform import device_count, is_available, is_bf16_supported

manual_seed = manual_seed_all = seed = seed_all = empty_cache = _platform.nothing
current_device = current_stream = get_device_name = get_device_properties = _platform.refuse
get_device_capability = set_device = init = synchronize = mem_get_info = _platform.refuse
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _platform.no_bytes
reset_peak_memory_stats = _platform.nothing
is_initialized = is_available

__all__ = ["device_count", "is_available", "is_bf16_supported", "is_initialized"]
