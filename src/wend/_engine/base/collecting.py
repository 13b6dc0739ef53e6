"""Holding back the cyclic garbage collector while many objects are made that all stay."""

from __future__ import annotations

import gc
import os
import threading
from typing import ClassVar


class CollectionPaused:
    """No cyclic collection while a thread is inside; a collector that was on resumes behind that.

    For building graphs and plans, where no users' code runs. Thousands of objects come into being
    that refer to no garbage, and the collector would look through all objects time and again.
    """

    # A collection may begin wherever an object is made, and end a pause in the same thread.
    _lock = threading.RLock()
    #: The thread of each pause that lasts, by the pause's id.
    _lasting: ClassVar[dict[int, int]] = {}
    _resume = False  # whether the collector was on before the first pause that lasts

    def __enter__(self) -> None:
        cls = CollectionPaused
        with cls._lock:
            is_first = not cls._lasting
            cls._lasting[id(self)] = threading.get_ident()
            if is_first:
                cls._resume = gc.isenabled()
            gc.disable()

    def __exit__(self, *unused: object) -> None:
        cls = CollectionPaused
        with cls._lock:
            if cls._lasting.pop(id(self), None) is not None and not cls._lasting and cls._resume:
                gc.enable()

    def __del__(self) -> None:
        if id(self) in CollectionPaused._lasting:  # an interrupt came where the block ended
            self.__exit__()

    @staticmethod
    def _after_fork() -> None:
        """In the child of a fork: the pauses of other threads have no end there."""
        cls, own = CollectionPaused, threading.get_ident()
        cls._lock = threading.RLock()
        for number in [n for n, thread in cls._lasting.items() if thread != own]:
            del cls._lasting[number]
            if not cls._lasting and cls._resume:
                gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CollectionPaused._after_fork)


def count_as_old() -> None:
    """Count all objects of now as old, without a look at them: the next full collection has that.

    For the end of a pause in which many objects came into being that stay.
    """
    if gc.get_freeze_count() == 0:  # else the program wants objects to be left alone for good
        gc.freeze()
        gc.unfreeze()


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
