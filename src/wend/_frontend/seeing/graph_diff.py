"""`wend.debug.diff()`: where two graphs part, and the ops of a single side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from wend._engine.base.errors import ArgumentTypeError
from wend._frontend.seeing.op_graph import OpGraph, OpNode

__all__ = ["GraphDiff", "diff"]

#: Ops between the first and the last difference that are compared in pairs.
MOST_COMPARED = 4000
#: Ops of each side that the text names.
SHOWN = 20


@dataclass
class GraphDiff:
    """The difference of two graphs.

    parting: (the first op that differs in `a`, in `b`); None where a side has
    ended; None for graphs of the same ops
    only_a, only_b: ops of a single side
    resized: pairs of ops that differ in shape or dtype alone
    same: number of ops that both graphs have
    """

    a: OpGraph
    b: OpGraph
    parting: tuple[OpNode | None, OpNode | None] | None = None
    only_a: list[OpNode] = field(default_factory=list)
    only_b: list[OpNode] = field(default_factory=list)
    resized: list[tuple[OpNode, OpNode]] = field(default_factory=list)
    same: int = 0

    def __bool__(self) -> bool:
        """Whether the graphs differ."""
        return self.parting is not None or bool(self.resized)

    def __str__(self) -> str:
        lines = [f"a: {self.a.title}, b: {self.b.title}: {self.same} ops in both"]
        if self.parting is not None:
            here, there = self.parting
            lines += ["they part at", f"  a: {_text(here)}", f"  b: {_text(there)}"]
        for name, nodes in (("a", self.only_a), ("b", self.only_b)):
            if nodes:
                lines.append(f"only in {name}: {len(nodes)} ops")
                lines += _first(nodes, _text)
        if self.resized:
            lines.append(f"of other sizes: {len(self.resized)} ops")
            lines += _first(self.resized, _resized)
        if not self:
            lines.append("no difference")
        return "\n".join(lines)

    __repr__ = __str__


def diff(a: OpGraph, b: OpGraph) -> GraphDiff:
    """Compare two graphs, op by op in the order of the program.

    Ops are the same if op, parameters, module, part of the step and the user's line agree; run-time
    numbers (a learning rate, say) may differ. Ops of unlike shapes or dtypes are listed.

    Raises ArgumentTypeError for anything but graphs.
    """
    for x in (a, b):
        if not isinstance(x, OpGraph):
            raise ArgumentTypeError(f"diff: expected two graphs, got {type(x).__name__}")
    left = [node for node in a if not node.is_leaf]
    right = [node for node in b if not node.is_leaf]
    difference = GraphDiff(a, b)
    names_a, names_b = [_key(n) for n in left], [_key(n) for n in right]
    first = _common(names_a, names_b)
    last = _common(names_a[first:][::-1], names_b[first:][::-1])
    end_a, end_b = len(left) - last, len(right) - last
    pairs = [*zip(left[:first], right[:first], strict=True)]
    if first < max(len(left), len(right)):
        difference.parting = (
            left[first] if first < len(left) else None,
            right[first] if first < len(right) else None,
        )
        middle = _aligned(names_a[first:end_a], names_b[first:end_b])
        here, there = left[first:end_a], right[first:end_b]
        pairs += [(here[i], there[j]) for i, j in middle]
        taken_a, taken_b = {i for i, _ in middle}, {j for _, j in middle}
        difference.only_a = [node for i, node in enumerate(here) if i not in taken_a]
        difference.only_b = [node for j, node in enumerate(there) if j not in taken_b]
    pairs += [*zip(left[end_a:], right[end_b:], strict=True)]
    difference.same = len(pairs)
    difference.resized = [(x, y) for x, y in pairs if (x.shape, x.dtype) != (y.shape, y.dtype)]
    return difference


def _key(node: OpNode) -> tuple[Any, ...]:
    """Ops of the same key are the same op."""
    return (node.op, node.phase, node.module, node.file, node.line, len(node.inputs))


def _common(a: list[Any], b: list[Any]) -> int:
    """How many entries at the beginning are equal."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def _aligned(a: list[Any], b: list[Any]) -> list[tuple[int, int]]:
    """Pairs of places of equal entries, in order on both sides."""
    if not a or not b or max(len(a), len(b)) > MOST_COMPARED:
        return []
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return [(x.a + k, x.b + k) for x in blocks for k in range(x.size)]


def _first(rows: list[Any], text: Callable[[Any], str]) -> Iterator[str]:
    yield from (f"  {text(row)}" for row in rows[:SHOWN])
    if len(rows) > SHOWN:
        yield f"  ... {len(rows) - SHOWN} more"


def _resized(pair: tuple[OpNode, OpNode]) -> str:
    return f"{pair[0].type_text} -> {pair[1].type_text}: {_text(pair[0])}"


def _text(node: OpNode | None) -> str:
    """An op and the line."""
    if node is None:
        return "the end"
    module = f" ({node.module})" if node.module else ""
    source = f": {node.source}" if node.source else ""
    part = "" if node.phase == "forward" else f"{node.phase}: "
    return f"{part}{node.op} at {node.place}{module}{source}"
