"""The way of the calls of `batched`, in turns or in sequence: whichever has been quicker.

Both ways compute the same.  The quicker way depends on the program. In turns, common work is
computed in batches. But a batch of calls that went different ways is a structure that does not come
back. Planning such a batch costs more than the short paths of single calls, which do come back.

So both ways are tried on a program's first batches. The cost of a batch runs from its start to the
start of the next batch, with its backward pass and all.  Batches may be of very unlike size (trees,
say). The compared cost is therefore per op that the calls recorded: a number that is the same in
both ways.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Weighing", "weighing_of"]

TRIALS = 12  # batches in which the ways alternate; the first two are not counted
# Batches until a way that is twice as slow is tried again; the pause doubles each time.  A way that
# is slower still waits longer, so that trials never cost more than some percent.
FIRST_PAUSE = 64
# A way that is not much slower may still wait for machine code. So it is tried again soon, for some
# batches at a time, since the first of these are needed to get the code.
CLOSE, SOON, AT_A_TIME = 2.0, 8, 3
MOST_DISTANT = 8  # times `FIRST_PAUSE`


class Weighing:
    """The costs of the batches of a function, in each of two ways."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.clock = clock
        self.best: dict[bool, float] = {}  # seconds per op: together, in sequence
        self.waits = False  # whether calls of the last batch together had to wait for values
        self.batches = 0
        self.retrial = 0  # the batch from which on the slower way is tried again
        self.pause = 0  # 0 until the ways are compared
        self.slower = False  # the way that is tried again
        self.since: tuple[float, bool, int] | None = None  # start, way, work of the last batch

    def choose(self) -> bool:
        """Whether the next batch is to run together; it counts once `worked` tells its work."""
        now = self.clock()
        if self.since is not None:
            start, way, work = self.since
            if work and self.batches > 2:
                self._note(way, (now - start) / work)
        way = self._next()
        self.batches += 1
        self.since = now, way, 0
        return way

    def worked(self, ops: int) -> None:
        """Note how many ops the calls of the last batch have recorded: the measure of its work."""
        if self.since is not None:
            start, way, _ = self.since
            self.since = start, way, ops

    def _note(self, way: bool, seconds: float) -> None:
        known = self.best.get(way)
        # A way may become slower as well: the best cost is forgotten slowly.
        self.best[way] = seconds if known is None else min(seconds, 1.02 * known)

    def _next(self) -> bool:
        if self.batches < TRIALS or len(self.best) < 2:
            return self.batches % 2 == 0
        quicker = self.best[True] <= self.best[False]
        close = self.best[not quicker] <= CLOSE * self.best[quicker]
        if self.pause == 0:
            self.pause = SOON if close else self._first_pause(quicker)
            self.retrial = self.batches + self.pause
        if self.batches < self.retrial:
            return quicker
        if self.batches == self.retrial:
            self.slower = not quicker
            if self.pause == SOON and not close:  # the quicker way has become so meanwhile
                self.pause = self._first_pause(quicker)
                self.retrial = self.batches + self.pause
                return quicker
        way = self.slower
        if not close or self.batches - self.retrial == AT_A_TIME - 1:
            self.pause *= 2
            self.retrial = self.batches + self.pause
        return way

    def _first_pause(self, quicker: bool) -> int:
        distance = self.best[not quicker] / max(self.best[quicker], 1e-9)
        return int(FIRST_PAUSE * min(max(distance / CLOSE, 1), MOST_DISTANT))


_KNOWN: weakref.WeakKeyDictionary[Any, Weighing] = weakref.WeakKeyDictionary()


def weighing_of(fn: Callable[..., Any]) -> Weighing:
    """The costs known of a function, a method, a partial call of a function, or a module."""
    while hasattr(fn, "func"):
        fn = fn.func
    key = getattr(fn, "__code__", None) or type(fn)
    weighing = _KNOWN.get(key)
    if weighing is None:
        weighing = _KNOWN[key] = Weighing()
    return weighing
