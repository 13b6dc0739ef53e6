"""Questions about Apple's GPUs: there is none."""

from wend._frontend.platform import device_count as get_core_count
from wend._frontend.platform import is_available

is_built = is_available

__all__ = ["get_core_count", "get_name", "is_available", "is_built", "is_macos_or_newer"]


def get_name() -> str:
    """'': there is no such device."""
    return ""


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: there is no such device."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: there is no such device."""
    return False
