"""`wend.debug.diff()`: where two graphs part, and the ops of a single side."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import islice
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.runtime.report import counted
from wend._frontend.seeing.op_graph import OpGraph, OpNode
from wend._frontend.seeing.side_by_side import Side, page_of_sides, sides_html

__all__ = ["GraphDiff", "diff"]

#: Ops between the first and the last difference that are compared in pairs.
MOST_COMPARED = 4000
#: Names where nothing else names the graphs, and the longest argument of a call that is a name.
NAMES, LONGEST = ("before", "after"), 60
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
    names: of `a` and `b`, for texts and pictures

    A notebook shows both graphs side by side, and `save` writes that as a page.
    """

    a: OpGraph
    b: OpGraph
    parting: tuple[OpNode | None, OpNode | None] | None = None
    only_a: list[OpNode] = field(default_factory=list)
    only_b: list[OpNode] = field(default_factory=list)
    resized: list[tuple[OpNode, OpNode]] = field(default_factory=list)
    same: int = 0
    names: tuple[str, str] = NAMES

    def __bool__(self) -> bool:
        """Whether the graphs differ."""
        return self.parting is not None or bool(self.resized)

    def __str__(self) -> str:
        lines = [f"a: {self.names[0]}, b: {self.names[1]}: {self.same} ops in both"]
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

    def _repr_html_(self) -> str:
        return sides_html(self._sides(), str(self))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a page (".html") with both graphs side by side, or the text (".txt").

        Raises ArgumentError for another ending.
        """
        file = Path(path)
        if file.suffix not in (".html", ".txt"):
            raise ArgumentError(
                f"save: expected a name that ends in .html, .txt, got {file.name!r}"
            )
        title = f"{self.names[0]} and {self.names[1]}"
        text = str(self)
        if file.suffix == ".html":
            text = page_of_sides(title, self._sides(), text)
        file.write_text(text, encoding="utf-8", errors="replace")

    def _sides(self) -> list[Side]:
        marks: tuple[dict[int, str], dict[int, str]] = ({}, {})
        for side, nodes, mark in ((0, self.only_a, "gone"), (1, self.only_b, "new")):
            marks[side].update((node.id, mark) for node in nodes)
        for pair in self.resized:
            for side in (0, 1):
                marks[side][pair[side].id] = "resized"
        sides = []
        for k, (graph, nodes) in enumerate(((self.a, self.only_a), (self.b, self.only_b))):
            note = f"{counted(len(nodes), 'op')} only here, {len(self.resized)} of other sizes"
            sides.append(Side(f"{'ab'[k]}: {self.names[k]}", graph, marks[k], note))
        return sides


def diff(a: OpGraph, b: OpGraph, *, names: tuple[str, str] | None = None) -> GraphDiff:
    """Compare two graphs, op by op in the order of the program.

    names: of both; None takes the titles, the arguments as the caller's line has them, or "before"
        and "after"

    Ops are the same if op, parameters, module, part of the step and the user's line agree; run-time
    numbers (a learning rate, say) may differ. Ops of unlike shapes or dtypes are listed.

    Raises ArgumentTypeError for anything but graphs, and for anything but two names.
    """
    for x in (a, b):
        if not isinstance(x, OpGraph):
            raise ArgumentTypeError(f"diff: expected two graphs, got {type(x).__name__}")
    left = [node for node in a if not node.is_leaf]
    right = [node for node in b if not node.is_leaf]
    if names is None:
        different = a.title != b.title
        names = (a.title, b.title) if different else call_arguments(sys._getframe(1)) or NAMES
    elif len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError(f"diff: expected names to be two strings, got {names!r}")
    difference = GraphDiff(a, b, names=(names[0], names[1]))
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


def call_arguments(frame: FrameType) -> tuple[str, str] | None:
    """The first two arguments of the call that a frame is in, as the source has them.

    None where there is no source, where the texts are long or alike, or not given by place.
    """
    place = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if place is None:
        return None
    first, last, start, end = place
    if first is None or last is None:
        return None
    lines = [linecache.getline(frame.f_code.co_filename, n) for n in range(first, last + 1)]
    source = [line.encode() for line in lines]  # columns count bytes
    if not all(source):
        return None
    source[-1] = source[-1][:end]
    source[0] = source[0][start:]
    try:
        call = ast.parse(b"".join(source).decode(), mode="eval").body
    except (SyntaxError, ValueError):
        # The file may have changed since the code was compiled: the names are then the usual.
        return None
    if not isinstance(call, ast.Call) or len(call.args) < 2:
        return None
    here, there = (ast.unparse(x) for x in call.args[:2])
    return (here, there) if here != there and max(len(here), len(there)) <= LONGEST else None


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
