"""Backward passes on the device `meta`: who gets a gradient, and of which shape."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.core._hot import Leaf, Value
from wend._frontend.meta.values import Facts

__all__ = ["GradientOf", "reached"]

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Specify retain_graph=True if you need to backward through the "
    "graph a second time"
)


class GradientOf:
    """The node of a value without data: names the op, and the nodes before."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def name(self) -> str:
        """The node's name, such as MulBackward0."""
        return str(self.value.extra.op)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, 0) per operand that gradients flow to; of a leaf, the leaf."""
        sources = self.value.extra.sources or ()
        return tuple([(GradientOf(s) if isinstance(s, Value) else s, 0) for s in sources])

    def __repr__(self) -> str:
        return f"<{self.name()}>"


def reached(roots: list[Any], keep: bool) -> tuple[dict[int, Leaf], set[int]]:
    """The leaves that tensors depend on, by id(), and the id() of all values on the way.

    keep: whether another pass may follow. Raises GraphError if a pass has freed the graph.
    """
    leaves: dict[int, Leaf] = {}
    seen: dict[int, Value] = {}
    waiting = [t.value if t.leaf is None else t.leaf for t in roots]
    while waiting:
        source = waiting.pop()
        if isinstance(source, Leaf):
            leaves[id(source)] = source
            continue
        if id(source) in seen:
            continue
        seen[id(source)] = source
        facts = source.extra
        if type(facts) is not Facts:
            continue  # a value on the CPU
        if facts.sources is None:
            raise GraphError(FREED)
        waiting.extend(facts.sources)
    if not keep:
        for value in seen.values():
            if type(value.extra) is Facts:
                value.extra.sources = None
    return leaves, set(seen)
