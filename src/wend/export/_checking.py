"""How the parts of a program from a file fit together: ids, ways, types.

`check_graph` follows all runs.  Each id is made once, and before its use on all ways;
tensors are used as tensors, and numbers as numbers; axes, counts and places of arguments exist.
Then the type rules of all ops run, for the sizes while exploring.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend._engine.core.symbolic import ARG, DIM, Expr
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
    Give,
    Go,
    Info,
    Item,
    ReadNumber,
    StaticGraph,
    Stretch,
    number_category,
)
from wend.export._operands import counts_of
from wend.export._rules import check_rules
from wend.export._strict import damaged
from wend.export._ways import Place, Ways

__all__ = ["check_dims", "check_graph"]

MOST_BYTES = 1 << 62  # of a tensor while exploring, dims of size 0 left out
MOST_PATH = 32  # names of modules around a tensor


def check_graph(graph: StaticGraph) -> None:
    """Raise FormatError for a graph that cannot have been explored."""
    _check_arguments(graph)
    _check_captured(graph)
    for i, info in graph.info.items():
        _check_info(graph, i, info)
    _Checker(graph).check()
    check_rules(graph)


def check_dims(graph: StaticGraph, dims: list[dict[int, Any]]) -> None:
    """Raise FormatError for names of dims that the inputs do not have."""
    if len(dims) != len(graph.inputs):
        raise damaged(f"there are dims of {len(dims)} inputs, and {len(graph.inputs)} inputs")
    for i, row in zip(graph.inputs, dims, strict=True):
        if any(axis >= len(graph.info[i].hint) for axis in row):
            raise damaged(f"input %{i} has no dim {max(row)}")


def _tensor(graph: StaticGraph, i: int) -> Info:
    """The facts of a tensor."""
    info = graph.info.get(i)
    if info is None or info.extents is None:
        raise damaged(f"%{i} is used as a tensor, and is none")
    return info


def _check_arguments(graph: StaticGraph) -> None:
    structure = graph.structure
    args = structure.children[0] if len(structure.children) == 2 else structure
    named = structure.children[-1] if structure.children else structure
    if (structure.kind, args.kind, named.kind) != (tuple, tuple, dict):
        raise damaged("the arguments are no tuple and dict")
    if not all(type(name) is str for name in named.context):
        raise damaged("the name of an argument is no text")
    for k in graph.constants:
        if k >= structure.leaves:
            raise damaged(f"a constant is argument {k} of {structure.leaves}")
    if len(graph.inputs) + len(graph.constants) != structure.leaves:
        raise damaged(
            f"{len(graph.inputs)} tensors and {len(graph.constants)} constants are no "
            f"{structure.leaves} arguments"
        )
    for i in graph.inputs:
        _tensor(graph, i)


def _check_captured(graph: StaticGraph) -> None:
    """Names become attributes and modules: none may be both."""
    modules: set[tuple[str, ...]] = set()
    names: set[tuple[str, ...]] = set()
    for c in graph.captured:
        info = _tensor(graph, c.id)
        if tuple(c.tensor.shape) != info.extents or c.tensor.dtype is not info.dtype:
            raise damaged(f"the tensor {c.name!r} is not of the graph's type")
        path = tuple(c.name.split("."))
        if not all(path) or len(path) > MOST_PATH or path in names:
            raise damaged(f"a tensor has the name {c.name[:60]!r}, or two have")
        names.add(path)
        modules.update([path[:k] for k in range(1, len(path))])
    if not modules.isdisjoint(names):
        raise damaged(f"{'.'.join(min(modules & names))!r} is a tensor and a module")


def _check_info(graph: StaticGraph, i: int, info: Info) -> None:
    if info.extents is None:
        return
    if len(info.extents) != len(info.hint):
        raise damaged(f"%{i} has {len(info.extents)} dims, and {len(info.hint)} while exploring")
    size = info.dtype.itemsize
    for n in info.hint:
        size *= max(n, 1)
        if size >= MOST_BYTES:
            raise damaged(f"%{i} takes more bytes than there can be")
    for expr in info.extents:
        _check_expr(graph, expr, whole=True)


def _check_expr(graph: StaticGraph, expr: Expr, whole: bool = False) -> None:
    """Raise FormatError for extents and numbers that do not exist.  whole: an int is wanted"""
    for leaf in _leaves(expr):
        if type(leaf) is not tuple:
            if whole and type(leaf) is bool:
                raise damaged(f"a size is {leaf}")
            continue
        info = graph.info.get(leaf[1])
        if info is None or (info.extents is None) is not (leaf[0] == ARG):
            raise damaged(f"an expression reads %{leaf[1]}, which is no such value")
        if leaf[0] == DIM and leaf[2] >= len(info.hint):
            raise damaged(f"%{leaf[1]} has no dim {leaf[2]}")
    if whole and number_category(expr, graph.info) > 1:
        raise damaged("a size is no whole number")


def _leaves(expr: Expr) -> Iterable[Expr]:
    """The constants, extents and numbers of an expression."""
    left = [expr]
    while left:
        x = left.pop()
        if type(x) is not tuple or x[0] in (DIM, ARG):
            yield x
        else:
            left += x[1:]


class _Checker:
    """Walks through all stretches, with the place of each id's making at hand."""

    def __init__(self, graph: StaticGraph) -> None:
        self.graph = graph
        self.ways = Ways(graph)
        #: Where each id is made: a place of `Ways`, and the number of the item there.
        self.made: dict[int, tuple[Place, int]] = {}

    def check(self) -> None:
        """Raise FormatError for parts that do not fit."""
        graph = self.graph
        for i in (*graph.inputs, *[c.id for c in graph.captured]):
            self.make(i, None, 0)
        outside = dict(self.made)
        for op, a, b in graph.guards:
            for expr in (a, b):
                _check_expr(graph, expr)
                if any(x[0] == ARG or x[1] not in outside for x in _read(expr)):
                    raise damaged(f"a guard {op} reads other sizes than those of the inputs")
        for number, point in enumerate(graph.points):
            if (point.question is None) is not (number == 0) or (number == 0 and point.params):
                raise damaged("the first point, and no other, asks nothing")
            for i in point.params:
                self.make(i, (number, None), 0)
        for number, answer, stretch in graph.stretches():
            for k, item in enumerate(stretch.items):
                for i in _made(item):
                    self.make(i, (number, answer), k)
        for number, point in enumerate(graph.points):
            if point.question is not None:
                self.question(point.question, (number, None))
        for number, answer, stretch in graph.stretches():
            self.stretch(stretch, (number, answer))

    def make(self, i: int, place: Place | None, k: int) -> None:
        """Note where an id is made."""
        if i in self.made:
            raise damaged(f"%{i} is made twice")
        if i not in self.graph.info:
            raise damaged(f"there are no facts of %{i}")
        self.made[i] = place if place is None else (place, k)

    def use(self, i: int, place: Place, k: int) -> None:
        """Raise FormatError unless an id is made before item k of a place, on all ways there."""
        if i not in self.made:
            raise damaged(f"nothing makes %{i}")
        origin = self.made[i]
        if origin is None:
            return
        before = origin[1] < k or origin[0][1] is None
        if not (before if origin[0] == place else self.ways.leads(origin[0], place)):
            raise damaged(f"%{i} is used where it is not made yet")

    def tensor(self, i: int, place: Place, k: int) -> Info:
        """The facts of a tensor that is used."""
        self.use(i, place, k)
        return _tensor(self.graph, i)

    def expr(self, expr: Expr, place: Place, k: int, whole: bool = False) -> None:
        """Check an expression that is evaluated at item k of a place."""
        _check_expr(self.graph, expr, whole)
        for leaf in _read(expr):
            self.use(leaf[1], place, k)

    def question(self, question: tuple[Any, ...], place: Place) -> None:
        """Check the question of a point."""
        if question[0] == "value":
            info = self.tensor(question[1], place, 0)
            if any(n != 1 for n in info.hint):
                raise damaged(f"a question asks for %{question[1]}, which is not of one element")
        else:
            for expr in question[2:]:
                self.expr(expr, place, 0)

    def stretch(self, stretch: Stretch, place: Place) -> None:
        """Check the items and the end of a stretch."""
        for k, item in enumerate(stretch.items):
            if isinstance(item, Apply):
                self.apply(item, place, k)
            elif isinstance(item, ReadNumber):
                info = self.tensor(item.value, place, k)
                if any(n != 1 for n in info.hint) or info.dtype.category > 2:
                    raise damaged(f"a number is read from %{item.value}, which holds no single one")
                self.number(item.output)
            elif isinstance(item, Compute):
                self.expr(item.expr, place, k)
                self.number(item.output)
            else:
                self.expr(item.count, place, k, whole=True)
                self.number(item.seed)
                self.number(item.offset)
        n = len(stretch.items)
        if isinstance(stretch.end, Go):
            self.go(stretch.end, place, n)
        elif isinstance(stretch.end, Give):
            self.give(stretch.end, place, n)

    def number(self, i: int) -> None:
        """Raise FormatError unless the facts of an id are those of a number."""
        if self.graph.info[i].extents is not None:
            raise damaged(f"%{i} is made as a number, and is a tensor")

    def apply(self, item: Apply, place: Place, k: int) -> None:
        """Check the operands of an op."""
        prim = item.prim
        if (len(item.inputs), len(item.args)) != counts_of(prim.form):
            raise damaged(
                f"{prim.name}: {len(item.inputs)} tensors and {len(item.args)} numbers are not "
                "what its form says"
            )
        for i in item.inputs:
            self.tensor(i, place, k)
        for expr, is_size, category in zip(item.args, prim.size_mask, prim.categories, strict=True):
            self.expr(expr, place, k, whole=is_size)
            if not is_size and number_category(expr, self.graph.info) > max(category, 1):
                raise damaged(f"{prim.name}: a number is not of the kind that its form says")
        for i in item.outputs:
            _tensor(self.graph, i)

    def go(self, end: Go, place: Place, n: int) -> None:
        """Check the way on to a point."""
        graph = self.graph
        if not 0 < end.point < len(graph.points):
            raise damaged(f"there is no point {end.point}")
        params = graph.points[end.point].params
        if len(end.args) != len(params):
            raise damaged(f"point {end.point} takes {len(params)} values, and gets {len(end.args)}")
        for i, param in zip(end.args, params, strict=True):
            self.use(i, place, n)
            source, taken = graph.info[i], graph.info[param]
            if source.extents is None and taken.extents is None:
                continue
            kinds = [(x.extents is None, x.dtype, len(x.hint)) for x in (source, taken)]
            if kinds[0] != kinds[1]:
                raise damaged(f"%{param} is of another type than %{i}, from which it comes")

    def give(self, end: Give, place: Place, n: int) -> None:
        """Check the result."""
        if len(end.leaves) != end.structure.leaves:
            raise damaged(
                f"a result has {end.structure.leaves} places for {len(end.leaves)} values"
            )
        for kind, x in end.leaves:
            if kind == "value":
                self.tensor(x, place, n)
            elif kind == "number":
                self.expr(x, place, n)
        targets = [target for target, _ in end.writes]
        if len(set(targets)) != len(targets):
            raise damaged("a tensor is written to twice")
        for target, value in end.writes:
            if self.made.get(target, 0) is not None:
                raise damaged(f"%{target} is written to, and is no tensor from outside")
            old, new = _tensor(self.graph, target), self.tensor(value, place, n)
            if old.dtype is not new.dtype or len(old.hint) != len(new.hint):
                raise damaged(f"%{target} is written to with another type")


def _read(expr: Expr) -> list[tuple[int, ...]]:
    """The extents and numbers that an expression reads."""
    return [x for x in _leaves(expr) if type(x) is tuple]


def _made(item: Item) -> tuple[int, ...]:
    """The ids that an item makes."""
    if isinstance(item, Apply):
        return item.outputs
    return (item.seed, item.offset) if isinstance(item, Draw) else (item.output,)
