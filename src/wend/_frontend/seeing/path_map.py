"""`wend.debug.paths()`: the map of all paths that the program has taken, with counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wend._engine.core import _hot
from wend._engine.core._types import LeafPrimitive
from wend._engine.core.provenance import Site
from wend._engine.runtime.report import counted, name_of, tier_of
from wend._frontend.seeing.rich_forms import html_of_paths

__all__ = ["PathMap", "PathStretch", "paths"]

#: Stretches that the text shows.
SHOWN = 60


@dataclass
class PathStretch:
    """Ops that always follow each other: from a parting of paths to the next.

    ops: number of ops, 0 where only operands differ     first, last: names of ops, or of an operand
    place: the first user's line
    taken: how often a computation went through     ended: how often a computation ended here
    plans: how each plan that ends here is run
    branches: the ways that go on, most taken first
    """

    ops: int
    first: str
    last: str
    place: str
    taken: int
    ended: int
    plans: list[str] = field(default_factory=list)
    branches: list[PathStretch] = field(default_factory=list)

    def walk(self, depth: int = 0) -> Iterator[Any]:
        """(depth, stretch) of this stretch and all behind.

        The way that is taken most goes on at the same depth, behind the others, which are a level
        deeper: a loop is a column, however often the program asks for values.
        """
        stack = [(depth, self)]
        while stack:
            level, stretch = stack.pop()
            yield level, stretch
            stack += [(level, x) for x in stretch.branches[:1]]
            stack += [(level + 1, x) for x in reversed(stretch.branches[1:])]


@dataclass
class PathMap:
    """All paths that this process has taken: `stretches` begin at the start of a computation."""

    stretches: list[PathStretch]

    def __iter__(self) -> Iterator[Any]:
        for stretch in self.stretches:
            yield from (x for _, x in stretch.walk())

    def __str__(self) -> str:
        rows = [row for stretch in self.stretches for row in stretch.walk()]
        ends = sum(1 for _, x in rows if x.ended)
        lines = [f"{counted(ends, 'path')}, {counted(len(rows), 'stretch', 'es')}"]
        going_on = {id(x.branches[0]) for _, x in rows if x.branches}
        for depth, x in rows[:SHOWN]:
            then = "then " if id(x) in going_on else ""
            ops = f"{x.first} ... {x.last}" if x.ops > 1 else x.first
            count = counted(x.ops, "op") if x.ops else "operands"
            at = f" at {x.place}" if x.place else ""
            lines.append(f"{'  ' * depth}{then}{_times(x.taken)}: {count}, {ops}{at}")
            lines += [f"{'  ' * depth}  ends here {_times(x.ended)}: {plan}" for plan in x.plans]
        if len(rows) > SHOWN:
            lines.append(f"... {counted(len(rows) - SHOWN, 'more stretch', 'es')}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of_paths(self.stretches, SHOWN)


def paths() -> PathMap:
    """The map of all paths that this process has taken and still knows.

    A path is all that was recorded up to a computation. Where paths part, the line says which op
    came there. Structure that does not come back is not kept, and so not shown.
    """
    _hot.synchronize()
    stretches = [_stretch(state) for state in _hot.current_trace().root.offspring()]
    return PathMap(sorted(stretches, key=lambda x: -x.taken))


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _stretch(start: object) -> PathStretch:
    """The stretch that begins with a state, and all behind."""
    root: PathStretch | None = None
    stack: list[tuple[Any, PathStretch | None]] = [(start, None)]
    while stack:
        state, parent = stack.pop()
        states = [state]
        while len(children := states[-1].offspring()) == 1 and not _ends(states[-1]):
            states.append(children[0])
        stretch = _made(states)
        if parent is None:
            root = stretch
        else:
            parent.branches.append(stretch)
            parent.branches.sort(key=lambda x: -x.taken)
        stack += [(child, stretch) for child in states[-1].offspring()]
    assert root is not None
    return root


def _ends(state: Any) -> bool:
    """Whether a computation has ended here."""
    return bool(state.plans)


def _made(states: list[Any]) -> PathStretch:
    ops = [s for s in states if not isinstance(s.prim, LeafPrimitive)]
    ends = (ops[0], ops[-1]) if ops else (states[0], states[0])
    first, latest = [str(name_of(s) if ops else s.prim.kind) for s in ends]
    placed = next((s for s in ops if s.code is not None), None)
    place = "" if placed is None else str(Site(placed.code, placed.lasti))
    plans = []
    if _ends(states[-1]):
        kept = states[-1].plans.get("plans", [])
        plans = [tier_of(plan) for plan in dict.fromkeys(kept)]
    last = states[-1]
    behind = sum(child.passed for child in last.offspring())
    return PathStretch(
        len(ops), first, latest, place, int(states[0].passed),
        max(0, int(last.passed) - behind) if plans else 0, plans,
    )  # fmt: skip
