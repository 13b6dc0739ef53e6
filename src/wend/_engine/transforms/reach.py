"""The regions that a backward pass will come to, and the ids there that lead to certain inputs."""

from __future__ import annotations

from collections.abc import Callable

from wend._engine.core._hot import Segment, Trace, Value
from wend._engine.core.graph import PathGraph
from wend._engine.transforms.differentiate import END, entries_met, survey
from wend._engine.transforms.hooks import has_hooks
from wend._engine.transforms.pass_context import PassContext, WalkContext
from wend._engine.transforms.quick import differentiable_leaves


class Reach:
    """The regions that gradients can come to from some seeds, latest first.

    floor: the serial of the first segment that matters. A segment reads values of earlier segments
    only, so those before the floor lead to no input of the pass.
    """

    def __init__(
        self,
        walk: WalkContext | None,
        seeds: tuple[int, ...],
        segments: list[tuple[Segment, set[int]]],
        floor: float,
    ) -> None:
        self.floor = floor
        self.rows: list[tuple[Segment | None, PathGraph, tuple[int, ...]]] = []
        self.waiting = {s.serial: (s, ids) for s, ids in segments if s.serial >= floor}
        # by id of a leaf: number of the last region that it is in
        self.last_use: dict[int, int] = {}
        self.number: dict[int, int] = {}  # by id of a segment
        if walk is not None:
            self._look(walk.segment, walk.path, walk.value_at, seeds)
        while self.waiting:
            segment, ids = self.waiting.pop(max(self.waiting))
            self._look(segment, segment.structure, segment.inputs.__getitem__, tuple(sorted(ids)))

    def _look(
        self,
        segment: Segment | None,
        path: PathGraph,
        value_at: Callable[[int], Value],
        ids: tuple[int, ...],
    ) -> None:
        number = len(self.rows)
        self.rows.append((segment, path, ids))
        if segment is not None:
            self.number[id(segment)] = number
        for i, role in entries_met(path, ids):
            value = value_at(i)
            if role == 1:
                self.last_use[id(value.leaf)] = number
            elif value.segment is not None and value.segment.serial >= self.floor:
                entry = self.waiting.setdefault(value.segment.serial, (value.segment, set()))
                entry[1].add(value.seg_index)


def useful_entries(owner: PassContext, reach: Reach) -> dict[int, set[int]]:
    """Per region (id of the segment, 0 for the trace) the ids that lead to a wanted input."""
    useful: dict[int, set[int]] = {}
    trace = owner.trace
    for segment, path, ids in reversed(reach.rows):
        inputs = trace.values if segment is None else segment.inputs
        wanted = set()
        for i, role in differentiable_leaves(path):
            value = inputs[i]
            if role == 1:
                if id(value.leaf) in (owner.wanted or ()):
                    wanted.add(i)
            elif value.seg_index in useful.get(id(value.segment), ()):
                wanted.add(i)
        goals = [id_in(value, trace, segment) for value in owner.goals]
        targets = tuple(sorted(wanted | {i for i in goals if i is not None}))
        useful[0 if segment is None else id(segment)] = survey(path, ids, targets).active
    return useful


def id_in(value: Value, trace: Trace, segment: Segment | None) -> int | None:
    """The id of a value in the pending trace, or in a segment; None for a value of neither."""
    if segment is not None:
        return value.seg_index if value.segment is segment else None
    if value.trace is trace and value.buffer is None and value.requires_grad:
        return value.index
    return None


def settle_ready(
    owner: PassContext,
    path: PathGraph,
    value_at: Callable[[int], Value],
    segment: Segment | None,
    low: int,
) -> None:
    """Settle leaves with hooks that nothing before `low` uses, so that these run in order."""
    if not owner.hooks:
        return
    ready = []
    for key, (leaf, _) in owner.totals.items():
        if has_hooks(leaf) and owner.last_use(key) <= owner.number_of(segment):
            ids = [
                i
                for i, role in differentiable_leaves(path)
                if role == 1 and value_at(i).leaf is leaf
            ]
            uses = first_uses(path)
            if low == 0 or all(uses.get(i, END) >= low for i in ids):
                ready.append((-max([uses.get(i, 0) for i in ids], default=0), key))
    for _, key in sorted(ready):
        owner.settle(key)


def first_uses(path: PathGraph) -> dict[int, int]:
    """Position of the first node through which each value could get a gradient."""
    positions: dict[int, int] | None = path.caches.get("first uses")
    if positions is None:
        positions = {}
        for k in range(path.n_nodes - 1, -1, -1):
            node = path.nodes[k]
            if node.grad:
                for i in node.inputs:
                    positions[i] = k
        path.caches["first uses"] = positions
    return positions
