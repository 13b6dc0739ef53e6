"""Whether there is a device for scaling."""

from wend._engine.base.devices import count_of

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device."""
    return not count_of("cuda")
