"""WEND_NAN_GUARD=1: the results of each flush are looked through for NaN and infinity.

The guard holds the operands of a flush until the results have been read once.  A bad result has the
path replayed by the reference: see `bad_values`.  Backward passes run as steps of paths meanwhile,
so that each gradient is a result of a flush.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import BadValueError
from wend._engine.core._hot import FlushJob, Segment, Storage
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import user_level
from wend._engine.runtime.verify.bad_values import BadValue, Replay, is_bad


class Findings:
    """The findings of guarded flushes, and the answer to a finding.

    action: "raise", "warn" or "note"
    infinities: whether infinities count, or only NaN
    name_leaf: returns the module path for the values of some leaves, or ""
    """

    def __init__(self) -> None:
        self.action = "raise"
        self.infinities = True
        self.name_leaf: Callable[[list[Any]], str] = lambda values: ""
        self.found: list[BadValue] = []

    def tell(self, finding: BadValue) -> None:
        """Raise, warn, or only note a finding."""
        if len(self.found) >= MOST_FOUND:
            del self.found[0]
        self.found.append(finding)
        if self.action == "raise":
            error = BadValueError(str(finding))
            error.finding = finding
            raise error
        if self.action == "warn":
            warnings.warn(str(finding), stacklevel=user_level())


#: By the serial of a trace and the position of a step: the user's lines of the segment whose
#: gradients the step computes, and the path of the segment. Programs of equal structure share
#: the ops of such a step, and with these the lines of the first program.
PASSES: dict[int, dict[int, tuple[Any, Any]]] = {}
MOST_PASSES = 100
#: Findings that are kept.
MOST_FOUND = 100
WATCH = Findings()
#: The results of the flush that is being replayed, so that a guard inside of a guard is silent.
_inside: set[int] = set()


def execute(
    plain: Callable[[FlushJob, list[int]], object], batch: FlushJob, live: list[int]
) -> None:
    """Compute the live values of a flush, and tell of a bad value among them."""
    if id(batch.values) in _inside:  # lanes that go on to single flushes are looked at once
        plain(batch, live)
        return
    held = hold(batch)
    touched = list(batch.touched)  # flushes that have succeeded may empty the list
    plain(batch, live)
    finding = look(batch, live, held)
    held = []
    if finding is not None:
        told(finding, [touched])


def told(finding: BadValue, touched: list[list[Any]]) -> None:
    """Tell of a finding; if that raises, tensors that were written to return to former values.

    touched: the rebindings of each flush, as in `FlushJob.touched`
    """
    if WATCH.action == "raise":
        for rows in touched:
            put_back(rows)
    WATCH.tell(finding)


def put_back(rows: list[Any]) -> None:
    """Undo the writes of a flush to tensors that are older than the flush: an update, say."""
    done: set[int] = set()
    for handle, old, _ in rows:
        if id(handle) in done:
            continue
        done.add(id(handle))
        if isinstance(old, int):  # a value of the same flush
            continue
        if isinstance(handle, Storage):
            handle.data = old
            handle.version += 1
        else:
            handle.value = old


def execute_many(
    plain: Callable[[list[FlushJob], list[list[int]]], object],
    batches: list[FlushJob],
    lives: list[list[int]],
) -> None:
    """Do the same as `execute`, for the pending flushes of several fibers."""
    held = [hold(batch) for batch in batches]
    touched = [list(batch.touched) for batch in batches]
    mine = {id(batch.values) for batch in batches}
    _inside.update(mine)
    try:
        plain(batches, lives)
    finally:
        _inside.difference_update(mine)
    finding = None
    for batch, live, row in zip(batches, lives, held, strict=True):
        finding = finding or look(batch, live, row)
    held = []
    if finding is not None:
        told(finding, touched)


def note_pass(serial: int, position: int, segment: Segment) -> None:
    """Note whose gradients a step computes that has just been recorded."""
    if serial not in PASSES and len(PASSES) >= MOST_PASSES:  # of traces that were dropped
        del PASSES[next(iter(PASSES))]
    PASSES.setdefault(serial, {})[position] = (segment.sites or {}, segment.structure)


def hold(batch: FlushJob) -> list[tuple[int, Any, Any]]:
    """(index, value, array) of the operands of a flush: held arrays are not written over."""
    return [(i, v, v.buffer) for i, v in enumerate(batch.values) if v.buffer is not None]


def look(batch: FlushJob, live: list[int], held: list[tuple[int, Any, Any]]) -> BadValue | None:
    """Return the maker of a bad value among the results of a flush, or None."""
    values = batch.values
    passes = PASSES.pop(batch.serial, {})
    bad = [i for i in live if values[i].buffer is not None and is_bad(values[i].buffer)]
    if not bad:
        return None
    path = PathGraph(batch.states, values, batch.args)
    leaves = {i: array for i, _, array in held}
    replay = Replay(path, leaves, [v.type for v in values], list(batch.args), batch.sites)
    replay.passes = passes
    finding = replay.find(bad)
    if finding is None:
        return differing(replay, bad, values)
    if finding.kind != "NaN" and not WATCH.infinities:
        return None
    finding.module = WATCH.name_leaf([values[i] for i in finding.leaves if i >= 0])
    return finding


def differing(replay: Replay, bad: list[int], values: list[Any]) -> BadValue | None:
    """The finding where the reference has finite numbers in place of a bad result; else None."""
    for i in bad:
        if i not in replay.env or is_bad(replay.env[i]) or i not in replay.path.producer:
            continue
        replay.env[i] = values[i].buffer
        replay.forget(i)
        finding = replay.find([i])
        if finding is not None:
            finding.exact = False
            finding.note = (
                "the reference gives finite numbers here: the values are near the end of their "
                "type's range, or WEND_VERIFY=1 will tell of a defect"
            )
        return finding
    return None
