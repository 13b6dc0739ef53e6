"""The number of threads that share the parts of a kernel; the threads are in `_pool.h`.

The uncompiled launcher makes all calls in the thread that flushes. The results are the same,
because the cut of a kernel into parts depends on sizes alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from wend.runtime.native.launcher import launcher

__all__ = ["default_threads", "set_threads", "threads"]


def default_threads(environment: Mapping[str, str] = os.environ) -> int:
    """Return OMP_NUM_THREADS, or else the number of processors that this process may use.

    Other numerical libraries read this variable in the same way.
    """
    asked = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads() -> int:
    """Return how many threads share the parts of a kernel, the flushing thread included."""
    return _count[0]


def set_threads(number: int) -> None:
    """Set how many threads share the parts of a kernel, from the next flush on."""
    alone = _count[0] == 1
    _count[0] = number
    launcher.use_threads(number)
    if alone != (number == 1):
        for call in on_change:
            call()


#: Functions that are called when the number of threads changes from 1 or to 1.
on_change: list[Callable[[], None]] = []
_count = [1]
set_threads(default_threads())
