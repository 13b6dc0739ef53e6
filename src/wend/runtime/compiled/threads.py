"""How many threads share the parts of a kernel. The threads themselves are in `_pool.h`.

The uncompiled launcher makes all calls in the thread that flushes: how kernels are cut into parts
depends on sizes alone, so the results are the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from wend.runtime.native.launcher import launcher

__all__ = ["default_threads", "set_threads", "threads"]


def default_threads(environment: Mapping[str, str] = os.environ) -> int:
    """OMP_NUM_THREADS, as numerical libraries have it; else the processors this process may use."""
    asked = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads() -> int:
    """Threads that share the parts of a kernel, the one that flushes among them."""
    return _count[0]


def set_threads(number: int) -> None:
    """Let so many threads share the parts of a kernel, from the next flush on."""
    alone = _count[0] == 1
    _count[0] = number
    launcher.use_threads(number)
    if alone != (number == 1):
        for call in on_change:
            call()


#: Called when there begin, or cease, to be threads that share.
on_change: list[Callable[[], None]] = []
_count = [1]
set_threads(default_threads())
