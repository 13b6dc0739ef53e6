"""The log of the last flushes: plan, path, and where a new path parted from known paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from wend._engine.core._hot import FlushJob, State
from wend._engine.core.provenance import Sites
from wend._engine.core.step_log import ROWS, BackwardRow


class Flush(NamedTuple):
    """A flush. No values are held, so that results can be freed."""

    plan: Any  # None off the trie
    state: State | None  # None off the trie
    sites: Sites | None
    parted: State | None  # the first state of a new path
    planned: bool  # a plan was made for this flush
    n_ops: int
    asked: tuple[tuple[str, str], ...]  # (executor, why it declined, or "" for the one that ran)
    #: For a flush of fibers: (executor of lanes, number of lanes, why not run together, or "").
    lanes: Sequence[tuple[str, int, str]] = ()
    #: The serials of its records in `batching.noted`, first and end, if groups or lanes ran.
    records: tuple[int, int] = (0, 0)


#: Roots of tries whose paths are parts of flushes: these have no rows of their own in reports.
PART_ROOTS: list[State] = []
#: `Flush.asked` of a flush that the launcher runs by a ready plan.
_READY = (("ready plan", ""),)
# A flush's row has the fields of `Flush`. None for the number of ops is the plan's number,
# which `last_step` fills in.


def note_flush(
    plan: Any,
    batch: FlushJob,
    planned: bool,
    asked: Iterable[tuple[str, str]] = (),
    records: tuple[int, int] = (0, 0),
) -> None:
    """Remember a flush of a plan; called before the flush counts as a pass of its states.

    planned: whether the plan was made for this flush
    asked: grows while executors are asked     records: see `Flush`
    """
    state = batch.state
    parted = None
    if state is not None and state.passed == 0:
        parted = state
        while parted.parent is not None and parted.parent.passed == 0 and parted.parent.parent:
            parted = parted.parent
    kept = None if state is None else plan  # off the trie, plans hold much and never come back
    n_ops = plan.n_ops if kept is None else None
    row = (kept, state, batch.sites, parted, planned, n_ops, asked, (), records)
    ROWS.append(row)


def note_grouped(
    batch: FlushJob, asked: Iterable[tuple[str, str]], records: tuple[int, int]
) -> None:
    """Remember a flush that ran by groups, without a plan.  records: see `Flush`"""
    n_ops = len(batch.states)
    ROWS.append((None, None, batch.sites, None, False, n_ops, asked, (), records))


def note_lanes(
    first: FlushJob, n_ops: int, lanes: list[tuple[str, int, str]], records: tuple[int, int]
) -> None:
    """Remember a flush of the lanes of several fibers.

    first: the first lane
    n_ops: the number of ops of all lanes
    lanes, records: see `Flush`
    """
    ROWS.append((None, first.state, first.sites, None, False, n_ops, (), lanes, records))


def last_step() -> list[Flush]:
    """Return the flushes since the last flush's path was computed before; at least the last."""
    return [row for row in _last_rows() if isinstance(row, Flush)]


def last_passes() -> list[BackwardRow]:
    """Return the backward passes of the same step that the core has not run by itself."""
    return [row for row in _last_rows() if isinstance(row, BackwardRow)]


def last_rows() -> list[object]:
    """Return a mark: the log as it is now."""
    return list(ROWS)


def rows_since(mark: list[object]) -> list[Flush]:
    """Return the flushes since a mark, as far as the log has them."""
    rows = list(ROWS)
    last = mark[-1] if mark else None
    start = next((k for k in range(len(rows), 0, -1) if rows[k - 1] is last), 0)
    return [row for row in _shown(rows[start:]) if isinstance(row, Flush)]


def last_plans() -> list[Any]:
    """Return the plans of the flushes in the log, in order."""
    return [row[0] for row in ROWS if not isinstance(row, BackwardRow) and row[0] is not None]


def _shown(rows: list[Any]) -> list[Flush | BackwardRow]:
    """Rows of the log for reports: flushes of parts belong to the flush of the whole path."""
    return [
        row if isinstance(row, BackwardRow) else _completed(row)
        for row in rows
        if isinstance(row, BackwardRow) or not _is_part(row[1])
    ]


def _last_rows() -> list[Flush | BackwardRow]:
    rows = _shown(list(ROWS))
    places = [k for k, row in enumerate(rows) if isinstance(row, Flush)]
    if not places:
        return rows
    states = {k: row.state for k, row in enumerate(rows) if isinstance(row, Flush)}
    last = states[places[-1]]
    same = [k for k in places[:-1] if last is not None and states[k] is last]
    begin = same[-1] if same else places[-2] if len(places) > 1 else -1
    return rows[begin + 1 :]


def _is_part(state: State | None) -> bool:
    while state is not None and state.parent is not None:
        state = state.parent
    return any(state is root for root in PART_ROOTS)


def _completed(row: tuple[Any, ...]) -> Flush:
    if len(row) == 6:
        row = (*row, _READY)
    plan, state, sites, parted, planned, n_ops, asked, *more = row
    n_ops = plan.n_ops if n_ops is None else n_ops
    return Flush(plan, state, sites, parted, planned, n_ops, tuple(asked), *more)
