"""Runs that go on behind points that are known, and compare what they record with the program.

A run ends at a point with the same Python state as before. State that a snapshot does not see
would make the program wrong there. So for each such end a further run takes the same way, and goes
on with drawn answers to the end of the function.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import WendError
from wend._engine.core.provenance import Site, current_site
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
    End,
    Fail,
    Give,
    Go,
    Item,
    ReadNumber,
    Stretch,
)
from wend._engine.transforms.exploring.recording import (
    Exploration,
    ExploreError,
    Run,
)
from wend._engine.transforms.exploring.simplify import made_by, renamed
from wend._engine.transforms.exploring.sizes import SizesOfInputs

MOST_REPLAYED = 48  # ways of a program
MOST_FURTHER = 200  # questions behind the way that is taken again


class Enough(BaseException):
    """Ends a run that has asked many questions, or has come to an end that says nothing."""


class Continued(Run):
    """A run along the points of a program.

    script: the answers at first     drawn: the further answers
    """

    def __init__(
        self, shared: Exploration, script: tuple[bool, ...], sizes: SizesOfInputs, seed: int
    ) -> None:
        super().__init__(shared, (), sizes)
        self.way = script
        self.drawn = random.Random(seed)
        self.expected = shared.points[0].answers[0]

    def ask(self, question: tuple[Any, ...], outcome: bool | None = None) -> bool:
        """The next answer of the way, or a drawn answer; that of the sizes where these decide."""
        self.refuse_shown()
        place = self.asked
        if place >= len(self.way) + MOST_FURTHER:
            raise Enough
        self.asked += 1
        answer = self.drawn.random() < 0.5 if outcome is None else outcome
        if place < len(self.way):
            if outcome is not None and self.way[place] is not outcome:
                raise Enough
            answer = self.way[place]
        point = self.arrive(question, replayed=True)
        self.compare(self.stretch.end, current_site())
        self.script = (*self.script, answer)
        self.row = (*self.row, answer)
        self.unseen.answered.append(answer)
        compared = question[1:] if outcome is not None else ()
        if compared and all(map(self.is_of_inputs, compared[1:])):
            self.path.append((*compared, answer))
        self.expected, self.stretch = point.answers[answer], Stretch()
        return answer

    def compare(self, end: End, site: Site) -> None:
        """Raise ExploreError if the stretch of this run, with this end, is not the program's."""
        wanted = self.expected
        if _is_of_an_op(end) or _is_of_an_op(wanted.end):
            raise Enough  # drawn answers do not fit the sizes
        new: dict[int, int] = {}

        def name(i: int) -> int:
            return new.get(i, i)

        items = self.stretch.items
        alike = len(items) == len(wanted.items) and all(
            _alike(a, b, new, name) for a, b in zip(items, wanted.items, strict=True)
        )
        if not alike or not _same_end(end, wanted.end, name):
            raise ExploreError(
                "explore: the function goes on in another way when it comes to this line again "
                "with the same Python state: it depends on something that exploring does not see, "
                "such as the progress of a library's function in C that calls Python. Write the "
                "loop in Python, with the results in names",
                site,
            )

    def finish(self, end: End) -> None:
        """Compare the end of the function."""
        last = self.shared.site_of(self.expected)
        self.compare(end, last)


def _is_of_an_op(end: End) -> bool:
    """Whether an end is that by the error of an op, and not of the user's code."""
    return isinstance(end, Fail) and isinstance(end.error, WendError)


def _alike(mine: Item, other: Item, new: dict[int, int], name: Callable[[int], int]) -> bool:
    """Whether two items do the same; the results of mine then get the names of those of `other`."""
    if type(mine) is not type(other):
        return False
    if isinstance(mine, Apply) and isinstance(other, Apply):
        alike = mine.prim is other.prim and mine.grad == other.grad
        alike = alike and tuple(map(name, mine.inputs)) == other.inputs
        alike = alike and tuple([renamed(e, name) for e in mine.args]) == other.args
        alike = alike and len(mine.outputs) == len(other.outputs)
    elif isinstance(mine, ReadNumber) and isinstance(other, ReadNumber):
        alike = name(mine.value) == other.value
    elif isinstance(mine, Compute) and isinstance(other, Compute):
        alike = renamed(mine.expr, name) == other.expr
    else:
        assert isinstance(mine, Draw) and isinstance(other, Draw)
        alike = renamed(mine.count, name) == other.count
    if alike:
        new.update(zip(made_by(mine), made_by(other), strict=True))
    return alike


def _same_end(mine: End, other: End, name: Callable[[int], int]) -> bool:
    if isinstance(mine, Go) and isinstance(other, Go):
        return mine.point == other.point and tuple(map(name, mine.args)) == other.args
    if isinstance(mine, Fail) and isinstance(other, Fail):
        return type(mine.error) is type(other.error) and str(mine.error) == str(other.error)
    if not isinstance(mine, Give) or not isinstance(other, Give):
        return False
    if mine.structure != other.structure:
        return False
    for (kind, m), (other_kind, o) in zip(mine.leaves, other.leaves, strict=True):
        if kind != other_kind:
            return False
        if kind == "constant":
            if m is not o and type(m) is type(o) and type(m) in (int, float, str, bool) and m != o:
                return False
        elif (name(m) if kind == "value" else renamed(m, name)) != o:
            return False
    return tuple([(i, name(x)) for i, x in mine.writes]) == other.writes
