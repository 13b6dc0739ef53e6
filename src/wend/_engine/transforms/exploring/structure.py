"""The explored graph as nested branches and loops, for formats that have no jumps.

Points become `Branch` where both answers meet again, and `Repeat` where an answer leads back.
A region ends in an `Outcome`: where the program goes on, and with which values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wend._engine.core.provenance import Site
from wend._engine.core.symbolic import DIM
from wend._engine.transforms.exploring.program import (
    Compute,
    Fail,
    Give,
    Go,
    Info,
    Item,
    StaticGraph,
    Stretch,
)
from wend._engine.transforms.exploring.recording import ExploreError

END = -1  # the target that stands for the end of the function


@dataclass(slots=True)
class Bind:
    """Further names for values."""

    names: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(slots=True)
class Check:
    """A question with an answer for which the program ends in an error.

    goes_on: the other answer
    """

    question: tuple[Any, ...]
    goes_on: bool
    site: Site | None


@dataclass(slots=True)
class Outcome:
    """Where a region leads.

    values: per target, a point or END, the ids of the values that go there; None where the values
    do not matter
    selector: the id of the number of the target, or the number; decides if there are several
    No target at all: the region always ends in an error.
    """

    values: dict[int, tuple[int | None, ...]]
    selector: tuple[str, int] = ("constant", END)

    @property
    def only(self) -> int:
        """The single target."""
        (target,) = self.values
        return target


@dataclass(slots=True)
class Nested:
    """Items and nested statements in order, and the outcome."""

    items: list[Item | Bind | Branch | Check | Repeat] = field(default_factory=list)
    outcome: Outcome = field(default_factory=lambda: Outcome({}))


@dataclass(slots=True)
class Branch:
    """Either of two regions.

    question: as of a point, or ("target", id, number): whether the selector `id` is the number
    outcome: of both, with ids for the results of this statement
    """

    question: tuple[Any, ...]
    on_false: Nested
    on_true: Nested
    outcome: Outcome


@dataclass(slots=True)
class Repeat:
    """A loop.

    params: ids of the carried values in the body     start: their first values
    question: asked before each turn, with the answer that goes on; None: the body leads to `point`
    or out of the loop
    outputs: the last values of the params
    outcome: where the loop leads, if the body may leave it
    """

    point: int
    params: tuple[int, ...]
    start: tuple[int, ...]
    question: tuple[Any, ...] | None
    goes_on: bool
    body: Nested
    outputs: tuple[int, ...]
    outcome: Outcome | None


def structured(program: StaticGraph) -> Nested:
    """The program as a region whose only target is END.

    The values of END: the results of the function, then the new values of `writes_of(program)`.
    """
    return _Builder(program).whole()


def writes_of(program: StaticGraph) -> list[int]:
    """The ids of the tensors from outside, and arguments, that some way through the program
    writes to."""
    targets: dict[int, None] = {}
    for _, _, stretch in program.stretches():
        if isinstance(stretch.end, Give):
            targets.update(dict.fromkeys(target for target, _ in stretch.end.writes))
    return list(targets)


def results_of(program: StaticGraph) -> list[Any]:
    """Per result the facts of the tensor or number; of a constant, the constant.

    A number in a way through the program where another way has a tensor counts as a 0-d tensor.
    Raises ExploreError where the ways disagree otherwise.
    """
    ends = [s.end for _, _, s in program.stretches() if isinstance(s.end, Give)]
    if not ends:
        raise ExploreError(f"{program.name}: the function always ends in an error")
    if any(end.structure != ends[0].structure for end in ends):
        raise ExploreError(f"{program.name}: branches return results of unlike structure")
    results = []
    for column in zip(*[end.leaves for end in ends], strict=True):
        values = [program.info[x] for kind, x in column if kind == "value"]
        constants = [x for kind, x in column if kind == "constant"]
        if values:
            plain = all(isinstance(x, (bool, int, float)) for x in constants)
            if not plain or any(v.dtype is not values[0].dtype for v in values):
                raise ExploreError(
                    f"{program.name}: a result has another type in another branch, and a static "
                    "graph has a single type"
                )
            results.append(Info((), values[0].dtype))
        elif all(x is constants[0] or x == constants[0] for x in constants) and len(
            constants
        ) == len(column):
            results.append(constants[0])
        else:
            numbers = [x for x in constants if not isinstance(x, (bool, int, float))]
            if numbers:
                raise ExploreError(f"{program.name}: branches return unlike constants: {constants}")
            is_float = any(isinstance(x, float) for x in constants)
            results.append(Info(None, 2 if is_float else 1))
    return results


class _Builder:
    def __init__(self, program: StaticGraph) -> None:
        self.program = program
        self.points = program.points
        self.next = [
            [s.end.point if isinstance(s.end, Go) else END for s in p.answers] for p in self.points
        ]
        self.fails = [[isinstance(s.end, Fail) for s in p.answers] for p in self.points]
        self.loops = _natural_loops(self.next)
        self.writes = writes_of(program)
        self.results = results_of(program)

    def whole(self) -> Nested:
        """The region of the whole program."""
        region = Nested()
        self.follow(region, self.points[0].answers[0], frozenset())
        return region

    def fresh(self, *likes: int | None) -> int:
        """A new id, with the facts that ids in its place agree on; None for no id there.

        An extent that they do not agree on, or that one of them counts itself, is the new id's own.
        """
        facts = [(i, self.program.info[i]) for i in likes if i is not None]
        number = max(self.program.info) + 1
        info = facts[0][1]
        shapes = [(i, like.extents) for i, like in facts if like.extents is not None]
        extents = info.extents and tuple(
            (DIM, number, axis)
            if any(shape[axis] != e or e == (DIM, i, axis) for i, shape in shapes)
            else e
            for axis, e in enumerate(info.extents)
        )
        self.program.info[number] = Info(extents, info.dtype, info.hint)
        return number

    # -- stretches --------------------------------------------------------------------------

    def follow(self, region: Nested, stretch: Stretch, stops: frozenset[int]) -> None:
        """Append a stretch and all that follows, up to the stops."""
        region.items.extend(stretch.items)
        end = stretch.end
        if isinstance(end, Give):
            region.outcome = Outcome({END: self.given(region, end)})
        elif isinstance(end, Fail):
            region.outcome = Outcome({})
        elif isinstance(end, Go):
            if end.point in stops:
                region.outcome = Outcome({end.point: end.args}, ("constant", end.point))
            else:
                self.arrive(region, end.point, end.args, stops)

    def given(self, region: Nested, end: Give) -> tuple[int, ...]:
        """The results as ids."""
        ids = []
        for (kind, x), wanted in zip(end.leaves, self.results, strict=True):
            if kind == "value":
                ids.append(x)
            elif isinstance(wanted, Info):
                number = max(self.program.info) + 1
                self.program.info[number] = wanted
                region.items.append(Compute(number, x))
                ids.append(number)
        new = dict(end.writes)
        return (*ids, *[new.get(target, target) for target in self.writes])

    # -- points -----------------------------------------------------------------------------

    def arrive(
        self, region: Nested, point: int, args: tuple[int, ...], stops: frozenset[int]
    ) -> None:
        """Append a point and all that follows, up to the stops."""
        if point in self.loops:
            self.loop(region, point, args, stops)
            return
        region.items.append(Bind(self.points[point].params, args))
        self.branch(region, point, stops)

    def branch(self, region: Nested, point: int, stops: frozenset[int]) -> None:
        """Append the question of a point whose params are bound."""
        join = self.join(point, stops)
        inner = stops if join is None else stops | {join}
        sides = []
        for stretch in self.points[point].answers:
            side = Nested()
            self.follow(side, stretch, inner)
            sides.append(side)
        question = self.points[point].question
        assert question is not None
        self.merge(region, question, sides[0], sides[1], self.points[point].site)
        if join is not None and join not in stops and list(region.outcome.values) == [join]:
            values = _all_known(region.outcome.values[join])
            self.arrive(region, join, values, stops)

    def merge(
        self,
        region: Nested,
        question: tuple[Any, ...],
        on_false: Nested,
        on_true: Nested,
        site: Site | None = None,
    ) -> None:
        """Append a branch of two regions."""
        sides = (on_false, on_true)
        if not on_false.outcome.values or not on_true.outcome.values:
            left = on_false if on_false.outcome.values else on_true  # the second ends in an error
            if left.outcome.values:
                region.items.append(Check(question, left is on_true, site))
            region.items.extend(left.items)
            region.outcome = left.outcome
            return
        targets = list(dict.fromkeys([*on_false.outcome.values, *on_true.outcome.values]))
        values = {}
        for target in targets:
            a, b = [side.outcome.values.get(target) for side in sides]
            n = len(a if a is not None else b if b is not None else ())
            row = zip(a or [None] * n, b or [None] * n, strict=True)
            values[target] = tuple(
                [None if x is None and y is None else self.fresh(x, y) for x, y in row]
            )
        selector = ("constant", targets[0])
        if len(targets) > 1:
            number = max(self.program.info) + 1
            self.program.info[number] = Info(None, 1)
            selector = ("id", number)
        region.outcome = Outcome(values, selector)
        region.items.append(Branch(question, on_false, on_true, region.outcome))

    def join(self, point: int, stops: frozenset[int]) -> int | None:
        """The nearest point that each way from here to a stop or the end leads through."""
        order = self.reached(point, stops, None)
        for candidate in order[1:]:
            if candidate in stops:
                continue
            ends = self.reached(point, stops, candidate)
            if not any(self.is_last(p, stops, candidate) for p in ends):
                return candidate
        return None

    def reached(self, point: int, stops: frozenset[int], without: int | None) -> list[int]:
        """The points that follow, nearest first."""
        points, seen = [point], {point}
        for p in points:
            for target in self.next[p]:
                if target not in seen and target not in stops and target not in (END, without):
                    seen.add(target)
                    points.append(target)
        return points

    def is_last(self, point: int, stops: frozenset[int], without: int) -> bool:
        """Whether a way from a point leads to a stop or the end at once."""
        return any(
            (target == END and not fails) or (target in stops and target != without)
            for target, fails in zip(self.next[point], self.fails[point], strict=True)
        )

    # -- loops ------------------------------------------------------------------------------

    def loop(
        self, region: Nested, point: int, args: tuple[int, ...], stops: frozenset[int]
    ) -> None:
        """Append a loop and all that follows."""
        inside = self.loops[point]
        header = self.points[point]
        leaves = [n not in inside for n in self.next[point]]
        exits = {
            n
            for p in inside
            for n, fails in zip(self.next[p], self.fails[p], strict=True)
            if n not in inside and not (n == END and fails)
        }
        others = [p for p in inside if p != point and any(n not in inside for n in self.live(p))]
        outputs = tuple([self.fresh(p) for p in header.params])
        body = Nested()
        if not others and leaves.count(True) == 1:
            goes_on = leaves.index(False) == 1
            self.follow(body, header.answers[goes_on], frozenset([point]))
            assert set(body.outcome.values) <= {point}
            question = header.question
            region.items.append(
                Repeat(point, header.params, args, question, goes_on, body, outputs, None)
            )
            region.items.append(Bind(header.params, outputs))
            self.follow(region, header.answers[not goes_on], stops)
            return
        self.branch(body, point, frozenset([point, *exits]) - {END})
        values = {
            target: tuple([None if x is None else self.fresh(x) for x in row])
            for target, row in body.outcome.values.items()
            if target != point
        }
        number = max(self.program.info) + 1
        self.program.info[number] = Info(None, 1)
        outcome = Outcome(values, ("id", number))
        region.items.append(Repeat(point, header.params, args, None, True, body, outputs, outcome))
        self.after(region, outcome, stops)

    def live(self, point: int) -> list[int]:
        """The targets of a point, but for errors."""
        rows = zip(self.next[point], self.fails[point], strict=True)
        return [n for n, fails in rows if not fails]

    def after(self, region: Nested, outcome: Outcome, stops: frozenset[int]) -> None:
        """Append the ways on from a loop that is left in the middle."""
        sides = []
        for target, row in outcome.values.items():
            side = Nested()
            if target == END or target in stops:
                side.outcome = Outcome({target: row}, ("constant", target))
            else:
                self.arrive(side, target, _all_known(row), stops)
            sides.append((target, side))
        _, rest = sides.pop()
        while sides:
            target, side = sides.pop()
            joined = Nested()
            self.merge(joined, ("target", outcome.selector[1], target), rest, side)
            rest = joined
        region.items.extend(rest.items)
        region.outcome = rest.outcome


def _all_known(values: tuple[int | None, ...]) -> tuple[int, ...]:
    """Values that all matter."""
    assert None not in values
    return tuple([v for v in values if v is not None])


def _natural_loops(following: list[list[int]]) -> dict[int, set[int]]:
    """Per header of a loop the points inside."""
    n = len(following)
    dominators = [set(range(n)) for _ in range(n)]
    dominators[0] = {0}
    before: list[list[int]] = [[] for _ in range(n)]
    for p, targets in enumerate(following):
        for target in targets:
            if target != END:
                before[target].append(p)
    changed = True
    while changed:
        changed = False
        for p in range(1, n):
            common = set.intersection(*[dominators[b] for b in before[p]]) | {p}
            if common != dominators[p]:
                dominators[p], changed = common, True
    loops: dict[int, set[int]] = {}
    for p, targets in enumerate(following):
        for header in targets:
            if header != END and header in dominators[p]:
                inside = loops.setdefault(header, {header})
                waiting = [p]
                while waiting:
                    b = waiting.pop()
                    if b not in inside:
                        inside.add(b)
                        waiting.extend(before[b])
    return loops
