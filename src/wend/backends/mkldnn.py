"""Settings of a backend that Wend does not use: accepted, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend._frontend.platform import is_available

is_built = is_available
enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"
VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2

__all__ = ["flags", "is_acl_available", "is_available", "set_flags", "verbose"]


def is_acl_available() -> bool:
    """False: Wend does not use that library."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Change settings; returns the former ones."""
    former = (enabled, deterministic, allow_tf32, fp32_precision)
    settings = {"enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32}
    globals().update({name: value for name, value in settings.items() if value is not None})
    globals()["fp32_precision"] = _fp32_precision
    return former


@contextmanager
def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """A block with these settings."""
    former = set_flags(enabled, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        set_flags(*former)


@contextmanager
def verbose(level: int) -> Iterator[None]:
    """A block: the library that would say more is not used."""
    yield
