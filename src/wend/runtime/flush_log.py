"""The log of the last flushes: plan, path, and where a new path parted from known paths."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from wend.core._hot import FlushJob, State

#: The number of flushes in the log: more than a step of training has.
REMEMBERED = 32


class Flush(NamedTuple):
    """One flush. No values are held, so that results can be freed."""

    plan: Any  # None off the trie
    state: State | None  # None off the trie
    sites: Any
    parted: State | None  # the first state of a new path
    planned: bool  # a plan was made for it
    n_ops: int
    asked: tuple[tuple[str, str], ...]  # (executor, why it declined, or "" for the one that ran)
    #: Of a flush of fibers: (executor of lanes, number of lanes, why not one run, or "").
    lanes: Sequence[tuple[str, int, str]] = ()


#: `Flush.asked` of a flush that the launcher runs by a ready plan.
_READY = (("ready plan", ""),)
#: The rows of `Flush`. The launcher writes None for the number of ops, which `last_step` fills in.
RECENT: deque[tuple[Any, ...]] = deque(maxlen=REMEMBERED)


def note_flush(
    plan: Any, batch: FlushJob, planned: bool, asked: Iterable[tuple[str, str]] = ()
) -> None:
    """Remember a flush of a plan; called before the flush counts as a pass of its states.

    planned: whether the plan was made for this flush
    asked: see `Flush.asked`
    """
    state = batch.state
    parted = None
    if state is not None and state.passed == 0:
        parted = state
        while parted.parent is not None and parted.parent.passed == 0 and parted.parent.parent:
            parted = parted.parent
    kept = None if state is None else plan  # off the trie, plans hold much and never come back
    RECENT.append((kept, state, batch.sites, parted, planned, plan.n_ops, tuple(asked)))


def note_grouped(batch: FlushJob, asked: Iterable[tuple[str, str]]) -> None:
    """Remember a flush that ran by groups, without a plan."""
    RECENT.append((None, None, batch.sites, None, False, len(batch.states), tuple(asked)))


def note_lanes(first: FlushJob, n_ops: int, lanes: list[tuple[str, int, str]]) -> None:
    """Remember a flush of the lanes of several fibers.

    first: the first lane
    n_ops: the number of ops of all lanes
    lanes: see `Flush.lanes`
    """
    RECENT.append((None, first.state, first.sites, None, False, n_ops, (), lanes))


def last_step() -> list[Flush]:
    """Return the flushes since the last flush's path was computed before; at least the last."""
    flushes = [
        Flush(plan, state, sites, parted, planned, plan.n_ops if n_ops is None else n_ops, *asked)
        for plan, state, sites, parted, planned, n_ops, *asked in [
            (*row, _READY) if len(row) == 6 else row for row in list(RECENT)
        ]
    ]
    if not flushes:
        return []
    last = flushes[-1].state
    for k in range(len(flushes) - 2, -1, -1):
        if flushes[k].state is last and last is not None:
            return flushes[k + 1 :]
    return flushes[-1:]
