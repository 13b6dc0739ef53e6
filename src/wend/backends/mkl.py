"""Settings of a backend that Wend does not use: accepted, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wend._frontend.platform import is_available

VERBOSE_OFF, VERBOSE_ON = 0, 1

__all__ = ["is_available", "verbose"]


@contextmanager
def verbose(enable: int) -> Iterator[None]:
    """A block: the library that would say more is not used."""
    yield
