"""How the values that a loop carries change: some stay, some count the turns, some are lists.

Formats with loops of their own have better words for these than a carried value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wend._engine.core.symbolic import ADD, ARG, DIM, LT, Expr
from wend._engine.transforms.exploring.numbers import ids_of
from wend._engine.transforms.exploring.program import Apply, Compute
from wend._engine.transforms.exploring.simplify import asked, made_by, used_by
from wend._engine.transforms.exploring.structure import Bind, Branch, Check, Nested, Repeat


@dataclass(slots=True)
class Carried:
    """The params of a loop by their kind, as places among the params.

    row: ids of the values after a turn     same: params that keep their first value
    first: per param that stays, the id of its value
    counts: params that count the turns from 0     bound: the number of turns, or None
    twins: params that always equal an earlier param, with the place of the latter
    lists: params that are longer by a row after each turn, and that nothing in the loop reads: the
    op that joins, and the id of the item that the row is made of
    """

    row: tuple[int, ...]
    made: dict[int, Any]
    same: set[int] = field(default_factory=set)
    first: dict[int, int] = field(default_factory=dict)
    twins: dict[int, int] = field(default_factory=dict)
    counts: set[int] = field(default_factory=set)
    lists: dict[int, tuple[Apply, int]] = field(default_factory=dict)
    bound: Expr | None = None

    @property
    def moving(self) -> list[int]:
        """The places of all params beside these."""
        known = {*self.same, *self.twins, *self.counts, *self.lists}
        return [k for k in range(len(self.row)) if k not in known]

    def settled(self, expr: Expr) -> Expr:
        """An expression with the values of params that stay, and of numbers computed of sizes."""
        if type(expr) is not tuple:
            return expr
        if expr[0] == ARG:
            first: Any = expr[1]
            number = self.first.get(first, first)
            item = self.made.get(number)
            if first in self.first and isinstance(item, Compute):
                return item.expr
            return (ARG, number)
        if expr[0] == DIM:
            return (DIM, self.first.get(expr[1], expr[1]), expr[2])
        return (expr[0], *map(self.settled, expr[1:]))


def items_of(region: Nested) -> Iterator[Any]:
    """The items and statements of a region, and of those inside."""
    for item in region.items:
        yield item
        if isinstance(item, Branch):
            yield from items_of(item.on_false)
            yield from items_of(item.on_true)
        elif isinstance(item, Repeat):
            yield from items_of(item.body)


def _reads(region: Nested) -> Iterator[int]:
    """The ids that a region reads."""
    regions = [region]
    for item in items_of(region):
        if isinstance(item, Bind):
            yield from item.values
        elif isinstance(item, Branch):
            regions += [item.on_false, item.on_true]
            yield from _asked(item.question)
        elif isinstance(item, Check):
            yield from _asked(item.question)
        elif isinstance(item, Repeat):
            regions.append(item.body)
            yield from item.start
            yield from _asked(item.question)
        else:
            yield from used_by(item)
    for inner in regions:
        for row in inner.outcome.values.values():
            yield from [i for i in row if i is not None]


def _asked(question: tuple[Any, ...] | None) -> Iterator[int]:
    if question is not None and question[0] != "target":
        yield from asked(question)


def carried(loop: Repeat, makers: dict[int, Any]) -> Carried:
    """The kinds of the params of a loop that is left by its question alone.

    makers: the item that makes an id, of all items of the program
    """
    row = tuple([i for i in loop.body.outcome.values[loop.point] if i is not None])
    assert len(row) == len(loop.params)
    kinds = Carried(row, makers)
    uses = Counter(_reads(loop.body))
    uses.update(_asked(loop.question))
    inside = {i for x in loop.body.items if isinstance(x, Apply) for i in made_by(x)}
    seen: dict[Any, int] = {}
    for k, (p, first, last) in enumerate(zip(loop.params, loop.start, row, strict=True)):
        start = makers.get(first)
        begins = start.expr if isinstance(start, Compute) else ("id", first)
        twin = seen.setdefault((begins, last), k)
        if twin != k:
            kinds.twins[k] = twin
        elif last == p:
            kinds.same.add(k)
        elif _counts(makers, p, first, last):
            kinds.counts.add(k)
        else:
            join: Any = makers.get(last)
            item = _item(makers, p, join, uses) if last in inside else None
            if item is not None and item in inside:
                kinds.lists[k] = (join, item)
    kinds.first = {
        p: loop.start[k] for k, p in enumerate(loop.params) if kinds.twins.get(k, k) in kinds.same
    }
    kinds.bound = _bound(loop, kinds)
    if kinds.bound is None:
        kinds.counts.clear()
    return kinds


def _counts(makers: dict[int, Any], p: int, first: int, last: int) -> bool:
    """Whether a param begins with 0, and is 1 more after each turn."""
    start, step = makers.get(first), makers.get(last)
    if not isinstance(start, Compute) or not isinstance(step, Compute):
        return False
    return start.expr == 0 and step.expr in ((ADD, (ARG, p), 1), (ADD, 1, (ARG, p)))


def _item(makers: dict[int, Any], p: int, join: object, uses: Counter[int]) -> int | None:
    """The item that a turn appends to the list p; None if p is no list, or read otherwise."""
    if not isinstance(join, Apply) or join.prim.name != "cat" or join.prim.dim != 0:
        return None
    if len(join.inputs) != 2 or join.inputs[0] != p or uses[p] != 1 or uses[join.outputs[0]] != 1:
        return None
    part = makers.get(join.inputs[1])
    if not isinstance(part, Apply) or part.prim.name != "unsqueeze" or part.prim.dim != 0:
        return None
    return part.inputs[0]


def _bound(loop: Repeat, kinds: Carried) -> Expr | None:
    """The number of turns, where the loop goes on while a count is below a number that stays."""
    question = loop.question
    if question is None or not loop.goes_on or question[:2] != ("compare", LT):
        return None
    count, bound = question[2:]
    if type(count) is not tuple or count[0] != ARG or count[1] not in loop.params:
        return None
    k = loop.params.index(count[1])
    moving = {p for p in loop.params if p not in kinds.first}
    if kinds.twins.get(k, k) not in kinds.counts or not moving.isdisjoint(ids_of(bound)):
        return None
    return kinds.settled(bound)
