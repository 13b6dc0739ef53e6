"""The leaves that a value depends on: function transforms hide leaves of their own by this."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend._engine.core._hot import Value
from wend._engine.core.graph import path_at


def depends_on_others(values: Iterable[Value], mine: set[int]) -> bool:
    """Whether gradients flow from any of the values to a leaf whose id() is not among `mine`."""
    stack = [v for v in values if v.requires_grad]
    regions: dict[int, SearchedPart] = {}
    while stack:
        value = stack.pop()
        if value.leaf is not None:
            if value.leaf.requires_grad and id(value.leaf) not in mine:
                return True
            continue
        owner: Any = value.segment if value.segment is not None else value.trace
        if owner is None:
            continue
        region = regions.get(id(owner))
        if region is None:
            region = regions[id(owner)] = SearchedPart(owner, value.segment is not None)
        stack.extend(region.leaves_below(value.seg_index if region.held else value.index))
    return False


class SearchedPart:
    """The pending trace or a segment, with the state of the search there."""

    def __init__(self, owner: Any, held: bool) -> None:
        self.held = held
        self.owner = owner
        if held:
            self.path = owner.structure
        else:
            self.path = path_at(owner.states, owner.values, owner.args)
        self.seen: set[int] = set()

    def leaves_below(self, i: int) -> list[Value]:
        """The values from outside, not met before, that gradients of value i flow to."""
        path, leaves, stack = self.path, [], [i]
        while stack:
            i = stack.pop()
            if i in self.seen:
                continue
            self.seen.add(i)
            k = path.producer.get(i)
            if k is not None:
                if path.nodes[k].grad:
                    stack.extend(path.nodes[k].inputs)
            elif self.held:
                if i in self.owner.inputs:
                    leaves.append(self.owner.inputs[i])
            elif self.owner.values[i].requires_grad:
                leaves.append(self.owner.values[i])
        return leaves
