"""Whether Wend's threads are OpenMP's: they are its own."""

from wend._frontend.platform import is_available

__all__ = ["is_available"]
