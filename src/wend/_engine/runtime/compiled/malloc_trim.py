"""Returns memory of freed arrays, which the C heap keeps, to the system."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """Return the C library's `malloc_trim`; None where the library has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # the C library has no `malloc_trim`
        return None


def give_back() -> None:
    """Return free memory of the C heap to the system, where the C library can.

    glibc serves arrays of up to 32 MB from its heap, once an array of such a size has been freed.
    Gaps between the arrays that are left there stay in the heap.
    """
    trim = _trim()
    if trim is not None:
        trim(0)
