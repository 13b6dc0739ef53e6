"""Settings of a backend that Wend does not use: accepted, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wend._frontend.platform import is_available

__all__ = ["flags", "is_available", "set_flags"]

_settings = [True]


def set_flags(_enabled: bool) -> tuple[bool]:
    """Change the setting; returns the former value."""
    former, _settings[0] = _settings[0], _enabled
    return (former,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """A block with this setting."""
    former = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(former[0])
