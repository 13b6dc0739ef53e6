"""The input of the ahead-of-time compiler: an explored graph, cut into recorded pieces of ops."""

from __future__ import annotations

from typing import Any

from wend._engine.base.records import Record
from wend._engine.core.graph import Node, PathGraph, live_nodes
from wend._engine.core.provenance import Site
from wend._engine.core.symbolic import ARG, Expr, args_in
from wend._engine.transforms.exploring.program import ReadNumber, StaticGraph


class LibraryWeight(Record):
    """A tensor that the library reads from the file of weights.

    name: the name in the file
    code: the name of the element type in the file
    shape: the extents
    nbytes: the bytes of all elements
    itemsize: the bytes of an element
    """

    name: str
    code: str
    shape: tuple[int, ...]
    nbytes: int
    itemsize: int


class Output(Record):
    """A value that a piece hands on.

    local: the id of the value in the path
    slot: the id in the graph, of a value that later pieces read; None for a result of the user's
    place: of a result of the user's, the place among the results
    """

    local: int
    slot: int | None
    place: int = 0


class RecordedPath(Record):
    """A straight line of ops, for all sizes of a pattern.

    nodes: the ops in order
    types: by id, the type that the value had when recorded
    shapes: by id, (extents as expressions over the dims of inputs, element type) of each result
    guards: comparisons of extents and numbers with their outcomes, on which the ops rely
    inputs: the ids in the graph of the values with ids 0 and up
    weights: id -> number of the weight
    outputs: the values that are handed on
    numbers: (id in the graph, expression) of each number that is computed
    sites: by id, the user's lines of results

    Expressions are over dims of values of this path, and (ARG, id in the graph) of a number.
    """

    nodes: list[Node]
    types: list[Any]
    shapes: dict[int, Any]
    guards: tuple[tuple[int, Expr, Expr, bool], ...]
    inputs: tuple[int, ...]
    weights: dict[int, int]
    outputs: tuple[Output, ...]
    numbers: tuple[tuple[int, Expr], ...]
    sites: dict[int, Site]

    def graph(self) -> PathGraph:
        """Return the path in the form that the compiler takes."""
        path = PathGraph([], [], [])
        path.types = list(self.types)
        path.nodes = live_nodes(self.nodes, {o.local for o in self.outputs})
        path.n_nodes = len(path.nodes)
        path.producer = {o: k for k, node in enumerate(path.nodes) for o in node.outputs}
        n = len(self.inputs)
        path.leaves = [(i, 0) for i in (*range(n), *self.weights)]
        numbers = {k: (ARG, k) for _, a, b, _ in self.guards for k in args_in(a) | args_in(b)}
        path.asked = [(self.guards, tuple(range(n)), (0,) * n, numbers)]
        return path


class Piece(Record):
    """Ops of a stretch between two numbers that are read: a path for each pattern of sizes.

    site: the user's line of the first op
    read: the number that is read after these ops; None where the stretch ends
    """

    paths: list[RecordedPath]
    site: Site | None
    read: ReadNumber | None


class Growth(Record):
    """The end of a stretch appends to a list that nobody else reads: rows are added in place.

    output: the id of the longer list
    rows: the id of the list, whose dim 0 counts the items
    item: the id of the rows to append
    """

    output: int
    rows: int
    item: int


class RecordedGraph(Record):
    """An explored graph, ready to become code.

    weights: id of a captured tensor -> number of the weight
    pieces: by point and answer, the pieces of the stretch
    growths: by point and answer, the lists that are longer after the stretch
    live: by point, the ids whose values are still read there
    """

    program: StaticGraph
    weights: dict[int, int]
    pieces: dict[tuple[int, int], list[Piece]]
    growths: dict[tuple[int, int], list[Growth]]
    live: list[set[int]]
