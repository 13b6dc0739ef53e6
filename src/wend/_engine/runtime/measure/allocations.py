"""Memory while a profiler is on: each array that a flush makes, from its making to its end.

The end is told by weak references, which leave the counts of references as before: results are
written over operands in the same cases.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.core.holdings import Holding, root_of
from wend._engine.runtime.measure.recorder import MeasuredFlush, now


class MemoryOwner(NamedTuple):
    """Whose memory it is: a step of a flush, or the holder that was there before.

    kind: "result", "kept for backward", "temporaries of a flush", or a kind of `Holding`
    flush: None for memory that was held when the profiler was switched on
    step: number of the step in the flush; -1 for none
    place: of a `Holding`
    """

    kind: str
    flush: MeasuredFlush | None = None
    step: int = -1
    place: str = ""


class MemoryEvent(NamedTuple):
    """An allocation, or the end of it.

    size: bytes; below 0 for the end
    """

    at: int
    size: int
    owner: MemoryOwner


class AllocationLog:
    """All allocations and their ends, in order; in bytes."""

    def __init__(self) -> None:
        self.events: list[MemoryEvent] = []
        self.by_step: dict[tuple[int, int], int] = {}  # bytes by id of the flush, and step
        self._live: dict[int, Any] = {}  # weak references, by id of the array
        self.on = True

    def begin(self, held: list[Holding]) -> None:
        """Note all that is held already."""
        for holding in held:
            self.track(holding.array, MemoryOwner(holding.owner, place=holding.place))

    def track(self, array: object, owner: MemoryOwner) -> int:
        """Note an array, unless its memory is known; return the bytes that are new."""
        root = root_of(array)
        key = id(root)
        known = self._live.get(key)
        if known is not None and known() is root:
            return 0
        size = int(getattr(root, "nbytes", 0))
        try:
            self._live[key] = weakref.ref(root, self._ended(key, size, owner))
        except TypeError:  # memory of another library's
            return 0
        self.events.append(MemoryEvent(now(), size, owner))
        return size

    def _ended(self, key: int, size: int, owner: MemoryOwner) -> Callable[[Any], None]:
        def ended(reference: object) -> None:
            if self._live.get(key) is reference:
                del self._live[key]
            if self.on:
                self.events.append(MemoryEvent(now(), -size, owner))

        return ended

    def after_flush(self, flush: MeasuredFlush, values: list[Any], live: list[int]) -> None:
        """Note the arrays that a flush has made, and the arena that it had.

        live: indices of the values that were wanted
        """
        starts = [state.first for state in flush.states]
        segments: dict[int, Any] = {}
        for i in live:
            value = values[i]
            if value.buffer is not None:
                self._note(value.buffer, "result", flush, bisect_right(starts, i) - 1)
            if value.segment is not None:
                segments[id(value.segment)] = value.segment
        for segment in segments.values():
            path = segment.structure
            for i, (_, array) in (segment.saved or {}).items():
                k = bisect_right(starts, i) - 1
                if i < 0:
                    k = path.state_at(path.producer.get(i, -1))
                self._note(array, "kept for backward", flush, k)
        if flush.arena:
            owner = MemoryOwner("temporaries of a flush", flush)
            self.events.append(MemoryEvent(flush.begin, flush.arena, owner))
            self.events.append(MemoryEvent(flush.end, -flush.arena, owner))

    def _note(self, array: object, kind: str, flush: MeasuredFlush, k: int) -> None:
        size = self.track(array, MemoryOwner(kind, flush, k))
        if size:
            at = id(flush), k
            self.by_step[at] = self.by_step.get(at, 0) + size

    def bytes_of(self, flush: MeasuredFlush, k: int) -> int:
        """Return the bytes that step k of a flush has allocated."""
        return self.by_step.get((id(flush), k), 0)

    def end(self) -> None:
        """Forget the arrays; the events stay."""
        self.on = False
        self._live.clear()
