"""What the C heap keeps of freed arrays, and how the system gets it back."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """The C library's function for it; None where it has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def give_back() -> None:
    """Return what is free in the C heap to the system, where the C library can.

    glibc serves arrays of up to 32 MB from its heap, once one of their size has been freed, and
    keeps the gaps between what is left there.
    """
    trim = _trim()
    if trim is not None:
        trim(0)
