"""Holding back the cyclic garbage collector while many objects are made that all stay."""

from __future__ import annotations

import gc
import threading


class CollectionPaused:
    """No cyclic collection inside of a `with` block; a collector that was on resumes behind it.

    For building graphs and plans, where no users' code runs. Thousands of objects come into being
    that refer to no garbage, and the collector would look through all objects time and again.
    """

    _resume = False  # whether there was any, while inside

    def __enter__(self) -> None:
        self._resume = gc.isenabled()
        if self._resume:
            gc.disable()

    def __exit__(self, *unused: object) -> None:
        if self._resume:
            gc.enable()
            self._resume = False

    def __del__(self) -> None:
        if self._resume:  # an interrupt came where the block ended
            gc.enable()


#: Objects made until the youngest are looked through, while many calls take turns.
OFTEN_ENOUGH = 20_000


class CollectionSeldom:
    """Context: the cyclic garbage collector looks through young objects less often.

    Objects that wait for each other are no garbage, and looking through them repeatedly takes
    time. The same holds behind the block, where a backward pass removes most of the objects. If
    many young objects are there then, collection stays seldom until the next collection.
    """

    __slots__ = ()
    # A collection may begin wherever an object is made, and asks for the lock in the same thread.
    _lock = threading.RLock()
    # of all threads: the first thread in changes the process, the last thread out restores
    _inside = 0
    _before = (0, 0, 0)
    _raised: tuple[int, ...] | None = None  # the thresholds in force, if they are ours

    def __enter__(self) -> None:
        cls = CollectionSeldom
        with cls._lock:
            cls._inside += 1
            if cls._inside == 1:
                cls._raise()

    def __exit__(self, *unused: object) -> None:
        cls = CollectionSeldom
        with cls._lock:
            cls._inside -= 1
            if gc.get_count()[0] <= cls._before[0]:
                cls._restore()

    @classmethod
    def put_off(cls) -> None:
        """Let the next collection wait for many objects: those made now stay, as of a new op."""
        if gc.get_threshold() != cls._raised:
            with cls._lock:
                cls._raise()

    @classmethod
    def _raise(cls) -> None:
        if gc.get_threshold() == cls._raised:
            return
        first, *others = cls._before = gc.get_threshold()
        if first > 0:
            cls._raised = raised = (max(first, OFTEN_ENOUGH), *others)
            gc.set_threshold(*raised)
            if cls._collected not in gc.callbacks:
                gc.callbacks.append(cls._collected)

    @classmethod
    def _restore(cls) -> None:
        if cls._inside == 0 and cls._raised is not None:
            if gc.get_threshold() == cls._raised:  # nobody else has changed the thresholds
                gc.set_threshold(*cls._before)
            cls._raised = None

    @staticmethod
    def _collected(phase: str, info: dict[str, int]) -> None:
        """Called around each collection, in whatever thread; waits for nobody."""
        cls = CollectionSeldom
        if phase == "stop" and cls._lock.acquire(blocking=False):
            try:
                cls._restore()
            finally:
                cls._lock.release()
