"""The explored graph: points at which a value is asked for, and stretches of ops in between.

A `StaticGraph` is a control-flow graph in SSA form whose blocks are called *points*: the only
content is a question.  Point 0 is the entry.  From each point one stretch per answer leads to the
next point, or to an end.  A stretch hands the next point its params, as block arguments.

Ids of values are unique in a program: inputs and captured tensors first, then params of points and
results of ops.  Expressions (see `core.symbolic`) are over (DIM, id, axis), an extent of a value,
and (ARG, id), a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wend._engine.base.tree import Structure
from wend._engine.core._hot import Tensor
from wend._engine.core._types import Program
from wend._engine.core.provenance import Site
from wend._engine.core.symbolic import ARG, DIM, DIV, POW, Expr


@dataclass(slots=True)
class Info:
    """SizeFacts of a value.

    extents: None for a number     dtype: of a tensor; the category of a number (0 bool to 3)
    hint: the shape that the value had while exploring
    """

    extents: tuple[Expr, ...] | None
    dtype: Any
    hint: tuple[int, ...] = ()


def number_category(expr: Expr, info: dict[int, Info]) -> int:
    """The category of a number: 1 for an int, 2 for a float.

    info: facts of the numbers that the expression reads
    """
    if type(expr) is not tuple:
        return 2 if type(expr) is float else 1
    if expr[0] == ARG:
        return int(info[expr[1]].dtype)
    if expr[0] == DIM:
        return 1
    if expr[0] in (DIV, POW):
        return 2
    return max(number_category(part, info) for part in expr[1:])


@dataclass(slots=True)
class Apply:
    """An op applied.  grad: whether gradients were on; modules: of which module's forward"""

    prim: Any
    program: Program | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    args: tuple[Expr, ...]
    grad: bool
    site: Site
    modules: tuple[Any, ...] = ()


@dataclass(slots=True)
class ReadNumber:
    """The single element of a tensor, as a number."""

    output: int
    value: int
    site: Site


@dataclass(slots=True)
class Compute:
    """A number computed from numbers."""

    output: int
    expr: Expr


@dataclass(slots=True)
class Draw:
    """Positions of the random stream: a seed and an offset, for so many numbers."""

    seed: int
    offset: int
    count: Expr


Item = Apply | ReadNumber | Compute | Draw


@dataclass(slots=True)
class Go:
    """The way on to a point.  args: an id per param"""

    point: int
    args: tuple[int, ...]


@dataclass(slots=True)
class Give:
    """The end of the function.

    leaves: ("value", id), ("number", expr) or ("constant", object)
    writes: per tensor from outside that the function has written to (id, id of the new value)
    """

    leaves: tuple[tuple[str, Any], ...]
    structure: Structure
    writes: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Fail:
    """The end by an error of the user's code."""

    error: BaseException
    site: Site


End = Go | Give | Fail | None


@dataclass(slots=True)
class Stretch:
    """Ops from a point to the next, or to an end."""

    items: list[Item] = field(default_factory=list)
    end: End = None


@dataclass(slots=True)
class Point:
    """A question.

    question: ("value", id): the truth of a tensor; ("compare", op, a, b): of a comparison; None for
    the entry
    answers: the stretches for False and True; of the entry, the only stretch
    site: of the user's line; None for the entry
    """

    params: tuple[int, ...]
    question: tuple[Any, ...] | None
    answers: list[Stretch]
    site: Site | None


@dataclass(slots=True)
class Captured:
    """A tensor from outside of the function: a parameter, a buffer or a constant."""

    id: int
    tensor: Tensor
    name: str
    kind: str  # 'parameter', 'buffer' or 'constant'


@dataclass(slots=True)
class StaticGraph:
    """An explored function.

    inputs: ids of the tensors among the arguments     structure: of the arguments
    constants: the leaves of the arguments that are no tensors, by position
    guards: comparisons of extents of inputs that hold wherever the program holds
    tried: shapes of the inputs for which the function was explored, each way by some of these
    """

    name: str
    inputs: list[int]
    structure: Structure
    constants: dict[int, Any]
    captured: list[Captured]
    points: list[Point]
    info: dict[int, Info]
    guards: dict[tuple[int, Expr, Expr], tuple[bool, Site]]
    tried: list[list[tuple[int, ...]]] = field(default_factory=list)

    def stretches(self) -> Iterator[tuple[int, int, Stretch]]:
        """(point, answer, stretch) of all stretches."""
        for number, point in enumerate(self.points):
            for answer, stretch in enumerate(point.answers):
                yield number, answer, stretch

    def n_ops(self) -> int:
        """How many ops there are in all stretches."""
        return sum(isinstance(i, Apply) for _, _, s in self.stretches() for i in s.items)
