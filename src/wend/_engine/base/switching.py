"""Holding back all threads but the running thread, which looks at the objects that threads make."""

from __future__ import annotations

import os
import sys
import threading
import time

#: Seconds for which a thread goes on inside before a waiting thread may interrupt.
LONG = 0.25


class SwitchingSeldom:
    """Context: a thread that does not wait for anything is interrupted after `LONG` seconds.

    Waiting threads take a turn first: threads that have waited for a while would interrupt at once.
    The last thread out of such blocks restores the interval.
    """

    __slots__ = ()
    _lock = threading.Lock()
    _inside = 0
    _before = 0.005

    def __enter__(self) -> None:
        cls = SwitchingSeldom
        with cls._lock:
            cls._inside += 1
            if cls._inside == 1:
                cls._before = sys.getswitchinterval()
                sys.setswitchinterval(max(cls._before, LONG))
        if threading.active_count() > 1:
            time.sleep(0)

    def __exit__(self, *unused: object) -> None:
        cls = SwitchingSeldom
        with cls._lock:
            if cls._inside == 1:
                cls._restore()
            cls._inside = max(0, cls._inside - 1)  # a child of a fork inside begins with 0

    @classmethod
    def _restore(cls) -> None:
        if sys.getswitchinterval() == max(cls._before, LONG):  # nobody else has changed it
            sys.setswitchinterval(cls._before)

    @staticmethod
    def _after_fork() -> None:
        """In the child of a fork: blocks of the parent's threads have no end there."""
        cls = SwitchingSeldom
        cls._lock = threading.Lock()
        if cls._inside:
            cls._inside = 0
            cls._restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SwitchingSeldom._after_fork)
