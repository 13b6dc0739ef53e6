"""Loops whose first turn is written before the loop: the turn goes, and the loop begins earlier.

Python's state is another before the first turn: a list is empty, two names mean the same tensor.
So exploring finds a point for the first turn, and the loop behind.  Where both do the same, the
loop alone says all; a list that is empty begins as a tensor of no items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wend._engine.core.primitive import REGISTRY
from wend._engine.core.signature import Binder
from wend._engine.core.symbolic import ARG, DIM, EQ, NE, Expr
from wend._engine.transforms.exploring.numbers import ids_of
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    End,
    Fail,
    Give,
    Go,
    Info,
    Item,
    Point,
    ReadNumber,
    StaticGraph,
    Stretch,
)
from wend._engine.transforms.exploring.simplify import drop_points, made_by, rename_all, renamed


def rolled(program: StaticGraph) -> StaticGraph:
    """The program without first turns in front of loops.

    The error of a way out before the first turn is lost: the loop then has no turn.
    """
    points = [
        Point(p.params, p.question, [Stretch(list(s.items), s.end) for s in p.answers], p.site)
        for p in program.points
    ]
    copy = replace(program, points=points, info={i: replace(x) for i, x in program.info.items()})
    while any(_roll(copy, number) for number in range(1, len(copy.points))):
        drop_points(copy)
    return copy


def _roll(program: StaticGraph, number: int) -> bool:
    """Lead the ways to a point into the loop behind the point, if the point is a first turn."""
    first = program.points[number]
    for answer, stretch in enumerate(first.answers):
        end = stretch.end
        if not isinstance(end, Go) or end.point == number:
            continue
        loop = program.points[end.point]
        back = loop.answers[answer].end
        if not isinstance(back, Go) or back.point != end.point:
            continue
        match = _Match(program, first, loop)
        if match.whole(answer):
            _enter(program, number, end.point, match)
            # Extents may be those of the params of the point that goes.
            new = match.successors()
            rename_all(program, lambda i: new.get(i, i))  # noqa: B023
            return True
    return False


def _enter(program: StaticGraph, number: int, target: int, match: _Match) -> None:
    """Replace each way to a point by a way to the loop, with the first values of the params."""
    first, loop = program.points[number], program.points[target]
    for _, _, stretch in program.stretches():
        end = stretch.end
        if not isinstance(end, Go) or end.point != number:
            continue
        arguments = dict(zip(first.params, end.args, strict=True))
        args = []
        for p in loop.params:
            if p in match.empty:
                item = _no_items(program, match.empty[p], arguments, loop)
                stretch.items.append(item)
                args.append(item.outputs[0])
            else:
                args.append(arguments.get(match.known[p], match.known[p]))
        stretch.end = Go(target, tuple(args))


def _no_items(program: StaticGraph, row: Info, arguments: dict[int, int], loop: Point) -> Apply:
    """A tensor of no rows like `row`, a tensor of a single row."""
    assert row.extents is not None and loop.site is not None
    sizes = [renamed(e, lambda i: arguments.get(i, i)) for e in row.extents[1:]]
    hint = (0, *row.hint[1:])
    binder = Binder("full", REGISTRY["full"])
    prim, _, _, _ = binder.bind((hint, 0), {"dtype": row.dtype})
    fresh = max(program.info) + 1
    program.info[fresh] = Info((0, *sizes), row.dtype, hint)
    return Apply(prim, None, (), (fresh,), (0, *sizes, 0), False, loop.site)


class _Match:
    """Compares a first turn with the turns of a loop.

    known: id of the loop -> id of the first turn     empty: params of the loop that are lists
    without items before the first turn, with the facts of the first item, a tensor of one row
    """

    def __init__(self, program: StaticGraph, first: Point, loop: Point) -> None:
        self.program, self.first, self.loop = program, first, loop
        self.known: dict[int, int] = {}
        self.empty: dict[int, Info] = {}
        self.equal = {
            pair
            for (op, a, b), (outcome, _) in program.guards.items()
            if (op, outcome) in ((EQ, True), (NE, False))
            for pair in ((a, b), (b, a))
        }
        self.outside = {*program.inputs, *(c.id for c in program.captured), *first.params}

    def whole(self, answer: int) -> bool:
        """Whether the first turn, and the way out before, are the loop's."""
        mine, other = self.first.answers[answer], self.loop.answers[answer]
        if not self.stretch(mine, other, self.question):
            return False
        out, leaves = self.first.answers[1 - answer], self.loop.answers[1 - answer]
        if not isinstance(out.end, Fail) and not self.stretch(out, leaves, lambda: True):
            return False
        return all(p in self.empty or self.fits(p) for p in self.loop.params)

    def successors(self) -> dict[int, int]:
        """Per param before the first turn the param of the loop that begins as that value."""
        params: dict[int, int] = {}
        for p in self.loop.params:
            first = self.known.get(p)
            if first in self.first.params:
                mine, other = self.program.info[first], self.program.info[p]
                if mine.extents == other.extents or first not in params:
                    params[first] = p
        return params

    def question(self) -> bool:
        """Whether both points ask the same."""
        mine, other = self.first.question, self.loop.question
        assert mine is not None and other is not None
        if mine[0] != other[0]:
            return False
        if mine[0] == "value":
            return self.same(mine[1], other[1])
        return mine[1] == other[1] and all(map(self.alike, mine[2:], other[2:]))

    def fits(self, p: int) -> bool:
        """Whether the first value of a param is known before the turn, in the loop's extents."""
        first = self.known.get(p)
        if first not in self.outside:
            return False
        mine, other = self.program.info[first], self.program.info[p]
        if mine.dtype is not other.dtype or (mine.extents is None) != (other.extents is None):
            return False
        pairs = enumerate(zip(mine.extents or (), other.extents or (), strict=True))
        return all(o == (DIM, p, axis) or self.agree(m, o) for axis, (m, o) in pairs)

    def agree(self, mine: Expr, other: Expr) -> bool:
        """Whether two extents are equal, by a guard if not as expressions."""
        return self.alike(mine, other) or (mine, other) in self.equal

    def stretch(self, mine: Stretch, other: Stretch, rest: Callable[[], bool]) -> bool:
        """Whether two stretches do the same; `rest` is asked before the ends are compared."""
        waiting = iter(mine.items)
        for item in other.items:
            if not self.begins_list(item):
                own = next(waiting, None)
                if own is None or not self.item(own, item):
                    return False
        return next(waiting, None) is None and rest() and self.end(mine.end, other.end)

    def begins_list(self, item: Item) -> bool:
        """Whether an item of the loop joins a list, empty before the first turn, with a row."""
        if not isinstance(item, Apply) or item.prim.name != "cat" or item.prim.dim != 0:
            return False
        if len(item.inputs) != 2 or item.inputs[0] not in self.loop.params:
            return False
        whole, row = item.inputs
        first = self.known.get(row)
        if first is None or whole in self.known:
            return False
        info = self.program.info[first]
        ids = {i for e in (info.extents or ())[1:] for i in ids_of(e)}
        if info.extents is None or info.extents[0] != 1 or not ids <= self.outside:
            return False
        self.empty[whole] = info
        self.known[item.outputs[0]] = first
        return True

    def item(self, mine: Item, other: Item) -> bool:
        """Whether two items do the same; the results of both are then the same."""
        if type(mine) is not type(other):
            return False
        if isinstance(mine, Apply) and isinstance(other, Apply):
            alike = mine.prim is other.prim and mine.grad == other.grad
            alike = alike and mine.program == other.program
            alike = alike and len(mine.inputs) == len(other.inputs)
            alike = alike and all(map(self.same, mine.inputs, other.inputs))
            alike = alike and all(map(self.alike, mine.args, other.args))
        elif isinstance(mine, ReadNumber) and isinstance(other, ReadNumber):
            alike = self.same(mine.value, other.value)
        elif isinstance(mine, Compute) and isinstance(other, Compute):
            alike = self.alike(mine.expr, other.expr)
        else:
            return False  # numbers are drawn
        if alike:
            self.known.update(zip(made_by(other), made_by(mine), strict=True))
        return alike

    def end(self, mine: End, other: End) -> bool:
        """Whether two stretches lead to the same."""
        if isinstance(mine, Go) and isinstance(other, Go):
            pairs = zip(mine.args, other.args, strict=True)
            return mine.point == other.point and all(self.same(m, o) for m, o in pairs)
        if not isinstance(mine, Give) or not isinstance(other, Give):
            return False
        if mine.structure != other.structure or len(mine.writes) != len(other.writes):
            return False
        for (kind, m), (other_kind, o) in zip(mine.leaves, other.leaves, strict=True):
            if kind != other_kind:
                return False
            if kind == "constant":
                if m is not o:
                    return False
            elif not (self.same(m, o) if kind == "value" else self.alike(m, o)):
                return False
        return all(
            m[0] == o[0] and self.same(m[1], o[1])
            for m, o in zip(mine.writes, other.writes, strict=True)
        )

    def same(self, mine: int, other: int) -> bool:
        """Whether an id of the loop means an id of the first turn; params take the first value."""
        if other in self.empty:
            return False
        if other in self.known:
            return self.known[other] == mine
        if other in self.loop.params:
            self.known[other] = mine
            return True
        return mine == other

    def alike(self, mine: Expr, other: Expr) -> bool:
        """Whether two expressions mean the same."""
        if type(mine) is not tuple or type(other) is not tuple:
            return type(mine) is type(other) and mine == other
        if mine[0] != other[0]:
            return False
        if mine[0] == ARG:
            return self.same(mine[1], other[1])
        if mine[0] == DIM:
            return mine[2] == other[2] and self.same(mine[1], other[1])
        return all(map(self.alike, mine[1:], other[1:]))
