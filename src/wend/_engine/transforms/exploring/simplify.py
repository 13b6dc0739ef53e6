"""Makes an explored graph small: dead ops and params go, and equal points are merged.

No pass changes the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wend._engine.core.symbolic import ARG, DIM, Expr
from wend._engine.transforms.exploring.numbers import ids_of, leaves_of
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
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

MOST_ROUNDS = 200


def used_by(item: object) -> Iterator[int]:
    """The ids that an item, or an end, reads."""
    if isinstance(item, Apply):
        yield from item.inputs
        for e in item.args:
            yield from ids_of(e)
    elif isinstance(item, ReadNumber):
        yield item.value
    elif isinstance(item, Compute):
        yield from ids_of(item.expr)
    elif isinstance(item, Draw):
        yield from ids_of(item.count)
    elif isinstance(item, Go):
        yield from item.args
    elif isinstance(item, Give):
        for kind, x in item.leaves:
            if kind == "value":
                yield x
            elif kind == "number":
                yield from ids_of(x)
        for _, x in item.writes:
            yield x


def made_by(item: Item) -> tuple[int, ...]:
    """The ids that an item makes."""
    if isinstance(item, Apply):
        return item.outputs
    if isinstance(item, Draw):
        return item.seed, item.offset
    return (item.output,)


def asked(question: tuple[Any, ...] | None) -> Iterator[int]:
    """The ids that a question reads."""
    if question is not None:
        if question[0] == "value":
            yield question[1]
        else:
            yield from ids_of(question[2])
            yield from ids_of(question[3])


def simplify(program: StaticGraph) -> StaticGraph:
    """The program without work that nobody needs; changed in place, and returned."""
    while True:
        _drop_dead(program)
        # Points that differ in arguments alone merge before these arguments are constants.
        if _merge_points(program):
            bind_extents(program)
        elif not _drop_constant_params(program):
            break
    drop_points(program)
    return program


def _global_ids(program: StaticGraph) -> set[int]:
    return {*program.inputs, *(c.id for c in program.captured)}


def _drop_dead(program: StaticGraph) -> None:
    """Remove ops whose results nobody reads, and params that are not live."""
    everywhere = _global_ids(program)
    live: list[set[int]] = [set() for _ in program.points]
    while True:
        before = [len(s) for s in live]
        for number, point in enumerate(program.points):
            need = set(asked(point.question))
            for stretch in point.answers:
                need |= _needed(program, stretch, live, everywhere)[0]
            live[number] |= need - everywhere
        if [len(s) for s in live] == before:
            break
    for point in program.points:
        for stretch in point.answers:
            stretch.items = _needed(program, stretch, live, everywhere)[1]
    keeps = [
        [k for k, p in enumerate(point.params) if p in live[n]]
        for n, point in enumerate(program.points)
    ]
    for number, point in enumerate(program.points):
        point.params = tuple([point.params[k] for k in keeps[number]])
        for stretch in point.answers:
            if isinstance(stretch.end, Go):
                kept = keeps[stretch.end.point]
                stretch.end = Go(stretch.end.point, tuple([stretch.end.args[k] for k in kept]))


def _needed(
    program: StaticGraph, stretch: Stretch, live: list[set[int]], everywhere: set[int]
) -> tuple[set[int], list[Item]]:
    """(the ids that a stretch needs from before, the items that are needed)."""
    end = stretch.end
    if isinstance(end, Go):
        params = program.points[end.point].params
        pairs = zip(end.args, params, strict=True)
        need = {a for a, p in pairs if p in live[end.point]}
    else:
        need = set(used_by(end))
    kept = []
    for item in reversed(stretch.items):
        outputs = made_by(item)
        if need.intersection(outputs):
            need.difference_update(outputs)
            need.update(used_by(item))
            kept.append(item)
    kept.reverse()
    return need, kept


def _drop_constant_params(program: StaticGraph) -> bool:
    """Params that are the same input or captured tensor on each way are that tensor."""
    everywhere = _global_ids(program)
    sources: dict[int, set[int]] = {}
    for _, _, stretch in program.stretches():
        if isinstance(stretch.end, Go):
            params = program.points[stretch.end.point].params
            for p, a in zip(params, stretch.end.args, strict=True):
                if a != p:
                    sources.setdefault(p, set()).add(a)
    same = {}
    for p, arguments in sources.items():
        if len(arguments) == 1:
            (only,) = arguments
            if only in everywhere:
                same[p] = only
    if not same:
        return False
    rename_all(program, lambda i: same.get(i, i))
    for number, point in enumerate(program.points):
        kept = [k for k, p in enumerate(point.params) if p not in same.values()]
        if len(kept) == len(point.params):
            continue
        point.params = tuple([point.params[k] for k in kept])
        for _, _, stretch in program.stretches():
            end = stretch.end
            if isinstance(end, Go) and end.point == number:
                stretch.end = Go(number, tuple([end.args[k] for k in kept]))
    return True


def renamed(expr: Expr, name: Callable[[int], int]) -> Expr:
    """An expression with new ids."""
    if type(expr) is not tuple:
        return expr
    if expr[0] == DIM:
        return (DIM, name(expr[1]), expr[2])
    if expr[0] == ARG:
        return (ARG, name(expr[1]))
    return (expr[0], *[renamed(part, name) for part in expr[1:]])


def _renamed_item(item: Item, name: Callable[[int], int]) -> Item:
    if isinstance(item, Apply):
        return Apply(
            item.prim,
            item.program,
            tuple(map(name, item.inputs)),
            tuple(map(name, item.outputs)),
            tuple([renamed(e, name) for e in item.args]),
            item.grad,
            item.site,
            item.modules,
        )
    if isinstance(item, ReadNumber):
        return ReadNumber(name(item.output), name(item.value), item.site)
    if isinstance(item, Compute):
        return Compute(name(item.output), renamed(item.expr, name))
    return Draw(name(item.seed), name(item.offset), renamed(item.count, name))


def _renamed_end(end: End, name: Callable[[int], int]) -> End:
    if isinstance(end, Go):
        return Go(end.point, tuple(map(name, end.args)))
    if isinstance(end, Give):
        leaves = []
        for kind, x in end.leaves:
            if kind == "value":
                x = name(x)
            elif kind == "number":
                x = renamed(x, name)
            leaves.append((kind, x))
        writes = tuple([(i, name(x)) for i, x in end.writes])
        return Give(tuple(leaves), end.structure, writes)
    return end


def _renamed_question(
    question: tuple[Any, ...] | None, name: Callable[[int], int]
) -> tuple[Any, ...] | None:
    if question is None:
        return None
    if question[0] == "value":
        return "value", name(question[1])
    return (*question[:2], *[renamed(e, name) for e in question[2:]])


def rename_all(program: StaticGraph, name: Callable[[int], int]) -> None:
    """New ids everywhere."""
    for point in program.points:
        point.params = tuple(map(name, point.params))
        point.question = _renamed_question(point.question, name)
        for stretch in point.answers:
            stretch.items = [_renamed_item(i, name) for i in stretch.items]
            stretch.end = _renamed_end(stretch.end, name)
    for info in program.info.values():
        if info.extents is not None:
            info.extents = tuple([renamed(e, name) for e in info.extents])


# -- equal points ---------------------------------------------------------------------------


def _merge_points(program: StaticGraph) -> bool:
    """Points that ask the same and go on in the same way are merged.

    Partition refinement, as for the states of an automaton.  In each round two points stay together
    if both look alike; points that follow are known by the classes of the round before.  The order
    of params is that of first use.
    """
    points = program.points
    classes = [0] * len(points)
    orders = [point.params for point in points]
    for _ in range(MOST_ROUNDS):
        looks: dict[Any, int] = {}
        fresh, fresh_orders = [], []
        for number in range(len(points)):
            look, order = _look(program, number, classes, orders)
            fresh.append(looks.setdefault((classes[number], look), len(looks)))
            fresh_orders.append(order)
        stable = len(set(fresh)) == len(set(classes)) and fresh_orders == orders
        classes, orders = fresh, fresh_orders
        if stable:
            break
    else:
        return False
    first: dict[int, int] = {}
    for number, c in enumerate(classes):
        first.setdefault(c, number)
    if len(first) == len(points):
        return False
    for _, _, stretch in program.stretches():
        end = stretch.end
        if isinstance(end, Go):
            target = first[classes[end.point]]
            if target != end.point:
                arguments = dict(zip(points[end.point].params, end.args, strict=True))
                pairs = zip(orders[target], orders[end.point], strict=True)
                theirs = {mine: arguments[other] for mine, other in pairs}
                stretch.end = Go(target, tuple([theirs[p] for p in points[target].params]))
    drop_points(program)
    return True


def _look(
    program: StaticGraph, number: int, classes: list[int], orders: list[tuple[int, ...]]
) -> tuple[Any, tuple[int, ...]]:
    """(how a point looks but for names, the params in the order of first use)."""
    point = program.points[number]
    names: dict[int, int] = {}
    fixed = _global_ids(program) | _unbound(program, point)

    def name(i: int) -> int:
        if i in fixed:
            return -1 - i
        return names.setdefault(i, len(names))

    look: list[Any] = [_renamed_question(point.question, name)]
    for stretch in point.answers:
        for item in stretch.items:
            part = _renamed_item(item, name)
            if isinstance(part, Apply):
                look.append((part.prim, part.program, part.inputs, part.outputs, part.args))
                look.append((part.grad, _facts(program, item, name)))
            elif isinstance(part, ReadNumber):
                look.append(("read", part.output, part.value))
            else:
                look.append(repr(part))
        end = stretch.end
        if isinstance(end, Go):
            arguments = dict(zip(program.points[end.point].params, end.args, strict=True))
            args = [name(arguments[p]) for p in orders[end.point]]
            look.append(("go", classes[end.point], tuple(args)))
        elif isinstance(end, Fail):
            look.append(("fail", type(end.error), str(end.error)))
        else:
            look.append(repr(_renamed_end(end, name)))
    for p in point.params:
        name(p)
    order = sorted(point.params, key=lambda p: names.get(p, -1))
    extents = [_extents(program, p, name) for p in order]
    return (tuple(look), tuple(extents)), tuple(order)


def _unbound(program: StaticGraph, point: Point) -> set[int]:
    """The ids of earlier points that a point reads, and that no extents of its params stand for."""
    own = set(point.params)
    for stretch in point.answers:
        for item in stretch.items:
            own.update(made_by(item))
    extents = {e for p in point.params for e in program.info[p].extents or () if type(e) is tuple}
    read = [*_expressions(point), *[e for e in extents if e[0] not in (ARG, DIM)]]
    leaves = {leaf for e in read for leaf in leaves_of(e)}
    return {leaf[1] for leaf in leaves if leaf[1] not in own and leaf not in extents}


def _expressions(point: Point) -> Iterator[Expr]:
    """The expressions of a point's question, items and ends."""
    if point.question is not None and point.question[0] != "value":
        yield from point.question[2:]
    for stretch in point.answers:
        for item in stretch.items:
            if isinstance(item, Apply):
                yield from item.args
            elif isinstance(item, Compute):
                yield item.expr
            elif isinstance(item, Draw):
                yield item.count
        if isinstance(stretch.end, Give):
            yield from [x for kind, x in stretch.end.leaves if kind == "number"]


def _facts(program: StaticGraph, item: Any, name: Callable[[int], int]) -> tuple[Any, ...]:
    return tuple([_extents(program, o, name) for o in item.outputs])


def _extents(program: StaticGraph, i: int, name: Callable[[int], int]) -> object:
    info = program.info[i]
    if info.extents is None:
        return info.dtype
    known = set()

    def known_name(k: int) -> int:
        known.add(k)
        return name(k)

    return info.dtype, tuple([renamed(e, known_name) for e in info.extents])


# -- extents of params ----------------------------------------------------------------------


def bind_extents(program: StaticGraph) -> None:
    """Let extents that only some ways to a point know be extents of the params of the point."""
    everywhere = _global_ids(program)
    for point, known in zip(program.points, _known_at(program), strict=True):
        at_hand = known | everywhere | set(point.params)
        own: dict[Expr, Expr] = {}
        for p in point.params:
            for axis, e in enumerate(program.info[p].extents or ()):
                if not at_hand.issuperset(ids_of(e)):
                    own.setdefault(e, (DIM, p, axis))
            _give_own(program, p, at_hand, {})
        if own:
            point.question = _replaced(point.question, own)
            for stretch in point.answers:
                ids = at_hand | {i for item in stretch.items for i in made_by(item)}
                stretch.items = [_with_own(item, own) for item in stretch.items]
                if isinstance(stretch.end, Give):
                    leaves = tuple(
                        [
                            (kind, _replaced(x, own) if kind == "number" else x)
                            for kind, x in stretch.end.leaves
                        ]
                    )
                    stretch.end = Give(leaves, stretch.end.structure, stretch.end.writes)
                for item in stretch.items:
                    for i in made_by(item):
                        _give_own(program, i, ids, own)


def _known_at(program: StaticGraph) -> list[set[int]]:
    """Return the ids that each way to a point has made, by point."""
    everything = set(program.info)
    known = [everything for _ in program.points]
    known[0] = set()
    while True:
        update: list[set[int]] = [everything for _ in program.points]
        update[0] = set()
        for number, _, stretch in program.stretches():
            if isinstance(stretch.end, Go):
                ids = {i for item in stretch.items for i in made_by(item)}
                ids |= known[number] | set(program.points[number].params)
                update[stretch.end.point] = update[stretch.end.point] & ids
        if update == known:
            return known
        known = update


def _give_own(program: StaticGraph, i: int, at_hand: set[int], own: dict[Expr, Expr]) -> None:
    """Let extents of a value that are not known at a place be known by other names, or its own."""
    info = program.info[i]
    if info.extents is not None:
        extents = [_replaced(e, own) for e in info.extents]
        program.info[i] = Info(
            tuple(
                [
                    e if at_hand.issuperset(ids_of(e)) else (DIM, i, axis)
                    for axis, e in enumerate(extents)
                ]
            ),
            info.dtype,
            info.hint,
        )


def _replaced(expr: Expr, own: dict[Expr, Expr]) -> Expr:
    """An expression, or a question, with other names for parts."""
    if type(expr) is not tuple:
        return expr
    name = own.get(expr)
    if name is not None or expr[0] in (DIM, ARG):
        return expr if name is None else name
    return (expr[0], *[_replaced(part, own) for part in expr[1:]])


def _with_own(item: Item, own: dict[Expr, Expr]) -> Item:
    if isinstance(item, Apply):
        item.args = tuple([_replaced(e, own) for e in item.args])
    elif isinstance(item, Compute):
        item.expr = _replaced(item.expr, own)
    elif isinstance(item, Draw):
        item.count = _replaced(item.count, own)
    return item


def drop_points(program: StaticGraph) -> None:
    """Remove points that no way leads to."""
    reached = [0]
    seen = {0}
    for number in reached:
        for stretch in program.points[number].answers:
            if isinstance(stretch.end, Go) and stretch.end.point not in seen:
                seen.add(stretch.end.point)
                reached.append(stretch.end.point)
    place = {old: new for new, old in enumerate(reached)}
    program.points = [program.points[old] for old in reached]
    for _, _, stretch in program.stretches():
        if isinstance(stretch.end, Go):
            stretch.end = Go(place[stretch.end.point], stretch.end.args)
