"""Holding back the cyclic garbage collector while many objects are made that all stay."""

from __future__ import annotations

import gc
import threading


class CollectionPaused:
    """No cyclic collection inside of a `with` block, if there was any before it.

    For building graphs and plans, where no users' code runs: thousands of objects come into being
    that refer to no garbage, and the collector would look at them, and at all else, time and again.
    """

    __slots__ = ("_resume",)

    def __enter__(self) -> None:
        self._resume = gc.isenabled()
        if self._resume:
            gc.disable()

    def __exit__(self, *unused: object) -> None:
        if self._resume:
            gc.enable()


#: Objects made until the youngest are looked through, while many calls take turns.
OFTEN_ENOUGH = 20_000


class CollectionSeldom:
    """Context: the cyclic garbage collector looks through young objects less often.

    What waits for others to go on is no garbage, and looking through it again and again takes time.
    """

    __slots__ = ()
    _lock = threading.Lock()
    _inside = 0  # of all threads: the first one in changes the process, the last one out restores
    _before = (0, 0, 0)

    def __enter__(self) -> None:
        cls = CollectionSeldom
        with cls._lock:
            if cls._inside == 0:
                first, *others = cls._before = gc.get_threshold()
                if first > 0:
                    gc.set_threshold(max(first, OFTEN_ENOUGH), *others)
            cls._inside += 1

    def __exit__(self, *unused: object) -> None:
        cls = CollectionSeldom
        with cls._lock:
            cls._inside -= 1
            if cls._inside == 0:
                gc.set_threshold(*cls._before)
