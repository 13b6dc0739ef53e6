"""Handing results over while a plan still runs: for gradients that are sent to further processes.

The steps of a frame are data (see `_launch.ArgumentBlock.steps`). Where results have been written
for the last time, runs of calls are cut in two, and a `Handover` is put in between (`announce.py`).
The frame's owner hands the arrays to the receiver of this thread, if there is any. Results do not
change by that, nor does the launcher. Flushes of further executors have no such steps: the receiver
takes all arrays after the flush.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Receiver(Protocol):
    """An object that takes results of a flush early."""

    def take(self, index: int, array: Any) -> None:
        """Take the array of value number `index` of the flush; nobody writes to it any more."""


class _Here(threading.local):
    receiver: Any = None


_here = _Here()


class Handover:
    """A step of a frame: these results are complete.

    rows: (number of the value on the path, number of the array among those that are made)
    """

    __slots__ = ("rows",)

    def __init__(self, rows: tuple[tuple[int, int], ...]) -> None:
        self.rows = rows

    def run(self, arrays: list[Any]) -> None:
        """Hand the arrays to this thread's receiver."""
        receiver = _here.receiver
        if receiver is not None:
            for index, k in self.rows:
                array = arrays[k]
                if array is not None:
                    receiver.take(index, array)


class received:
    """Context: results of this thread's flushes are handed to a receiver as they become ready."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def __enter__(self) -> None:
        self._before = _here.receiver
        _here.receiver = self._receiver

    def __exit__(self, *exc: object) -> None:
        _here.receiver = self._before


def has_handovers(steps: Any) -> bool:
    """Whether a frame's steps hand results over."""
    return any(step[0] == 1 and type(step[1]) is Handover for step in steps)


def without_handovers(steps: Any) -> tuple[Any, ...]:
    """The steps of a frame as they were before `announce`."""
    done: list[Any] = []
    joins = False  # whether a run of calls goes on
    for step in steps:
        if step[0] == 1 and type(step[1]) is Handover:
            joins = bool(done) and done[-1][0] == 0
        elif joins and step[0] == 0:
            done[-1] = (0, done[-1][1], done[-1][2] + step[2])
            joins = False
        else:
            done.append(step)
            joins = False
    return tuple(done)
