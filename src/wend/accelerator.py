"""wend.accelerator: there is none."""

from wend._frontend.platform import current_accelerator, device_count, is_available
from wend._frontend.platform import nothing as synchronize

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]
