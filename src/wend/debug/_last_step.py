"""The graph of the last step, from the log of flushes and from the records of groups."""

from __future__ import annotations

from typing import Any, NamedTuple

from wend._engine.base.devices import CPU
from wend._engine.core import _types
from wend._engine.core._types import LeafPrimitive
from wend._engine.core.graph import PathGraph
from wend._engine.runtime.batching.noted import Noted, records
from wend._engine.runtime.flush_log import Flush, last_passes, last_step
from wend.debug._watch import WatchedFlush

__all__ = ["LastStep", "last_flushes"]


class LastStep(NamedTuple):
    """The flushes of the last step.

    lost: number of ops of which nothing is kept     unseen: backward passes that ran by groups
    lanes: number of fibers for which a lane stands
    """

    flushes: list[WatchedFlush]
    lost: int
    unseen: int
    lanes: int


class _Typed(NamedTuple):
    """Stands for a value of which only the type is known."""

    type: Any


def last_flushes() -> LastStep:
    """All that was computed since the last path was last taken.

    Groups and new paths keep no numbers. The sizes of their parameters and inputs are known only
    where an op of a path on the trie reads these.
    """
    flushes: list[WatchedFlush] = []
    lost = lanes = 0
    seen: set[int] = set()
    for row in last_step():
        plan = row.plan
        path = None if plan is None else getattr(plan, "reference", plan).path
        groups = [noted for noted in records(*row.records) if noted.serial not in seen]
        seen.update([noted.serial for noted in groups])
        if path is not None:
            types = [t if t is not None else _unknown() for t in path.types]
            sites = dict(row.sites or {})
            flushes.append(WatchedFlush(path, 0, sites, types, list(path.args), plan=plan))
        elif groups:
            flushes += _of_groups(groups, row)
            fibers = [row[1] for noted in groups if noted.is_of_lanes for row in noted.listed()]
            lanes = max([lanes, *fibers])
        elif row.state is not None:
            flushes.append(_of_path(row.state.path(), row.sites))
        else:
            lost += row.n_ops
    unseen = sum(
        count
        for row in last_passes()
        for (_, way, why), count in row.asked.items()
        if not why and "group" in way
    )
    return LastStep(flushes, lost, unseen, lanes)


def _of_groups(groups: list[Noted], row: Flush) -> list[WatchedFlush]:
    """The parts of a flush that ran by groups; parts of a single flush share ids of values."""
    shared: dict[int, int] | None = None if row.lanes else {}
    flushes = []
    for noted in groups:
        flush = _of_path(noted.states[: noted.n_ops], noted.sites)
        flush.env = shared
        listed = noted.listed()
        flush.members = [members for _, members, *_ in listed]
        if noted.owners is not None:
            flush.groups = dict(noted.owners())
        elif [row for row in listed if row[0] is not None]:  # lanes of equal structure
            flush.groups = dict.fromkeys(range(len(flush.types)), 0)
        flushes.append(flush)
    return flushes


def _of_path(states: list[Any], sites: Any) -> WatchedFlush:
    """A path by its states alone."""
    types = _types_of(states)
    path = PathGraph(states, [_Typed(t) for t in types], [])
    args: list[Any] = [None] * _n_args(states)
    return WatchedFlush(path, 0, dict(sites or {}), types, args)


def _n_args(states: list[Any]) -> int:
    counts = [
        state.arg0 + len(state.prim.size_mask)
        for state in states
        if not isinstance(state.prim, LeafPrimitive) and not state.is_step
    ]
    return max(counts, default=0)


def _types_of(states: list[Any]) -> list[Any]:
    """The types of all values of a path, those that its states saw last."""
    end = max([state.first + state.n_out for state in states], default=0)
    types: list[Any] = [None] * end
    for state in states:
        if isinstance(state.prim, LeafPrimitive):
            continue
        outs = state.outs if state.outs else (state.out_type,)
        for k in range(state.n_out):
            types[state.first + k] = outs[k] if k < len(outs) else None
        seen = [getattr(state, name, None) for name in ("t0", "t1", "t2")]
        seen += getattr(state, "trest", None) or []
        for i, type_ in zip(state.operand_indices(), seen, strict=False):
            if types[i] is None:
                types[i] = type_
    for state in states:
        if isinstance(state.prim, LeafPrimitive) and types[state.first] is None:
            types[state.first] = _unknown(state.prim.kind)
    return [_unknown() if t is None else t for t in types]


def _unknown(kind: Any = None) -> Any:
    """Stands for the type of a value whose sizes are not kept."""
    from wend._engine.base.dtypes import float32

    return _types.intern_type((), float32 if kind is None else kind.dtype, CPU)
