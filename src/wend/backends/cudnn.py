"""Settings of a backend that Wend does not use: accepted, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend._frontend.platform import is_available

is_built = is_available
enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"

__all__ = ["flags", "is_acceptable", "is_available", "set_flags", "version"]


def version() -> int | None:
    """None: there is no cuDNN."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: there is no cuDNN."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Change settings; returns the former ones."""
    former = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    settings = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
    }
    globals().update({name: value for name, value in settings.items() if value is not None})
    globals()["fp32_precision"] = _fp32_precision
    return former


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """A block with these settings."""
    former = set_flags(
        enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision
    )
    try:
        yield
    finally:
        set_flags(*former)
