"""wend.mps: there is no such device, and every function here says so."""

from __future__ import annotations

from wend._frontend import platform as _platform
from wend._frontend.platform import device_count, is_available

manual_seed = seed = _platform.nothing
synchronize = empty_cache = get_rng_state = set_rng_state = _platform.refuse
current_allocated_memory = driver_allocated_memory = recommended_max_memory = _platform.refuse
set_per_process_memory_fraction = _platform.refuse

__all__ = ["device_count", "is_available", "manual_seed", "seed"]
