"""The input of the ahead-of-time compiler: a function's ops, recorded with symbolic sizes."""

from __future__ import annotations

from typing import Any

from wend.base.records import Record
from wend.core.graph import Node, PathGraph, live_nodes
from wend.core.symbolic import Expr

__all__ = ["LibraryWeight", "RecordedPath"]


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


class RecordedPath(Record):
    """A straight line of ops from inputs and weights to outputs, for all sizes of a pattern.

    nodes: the ops in order
    types: by id, the type that the value had when recorded
    shapes: by id, (extents as expressions over the dims of inputs, element type) of each result
    guards: comparisons of extents with their outcomes, on which the ops rely
    inputs: ids of the inputs, 0 and up
    weights: id -> number of the weight
    outputs: ids of the values to compute, in the order of the user's results
    """

    nodes: list[Node]
    types: list[Any]
    shapes: dict[int, Any]
    guards: tuple[tuple[int, Expr, Expr, bool], ...]
    inputs: tuple[int, ...]
    weights: dict[int, int]
    outputs: tuple[int, ...]

    def graph(self) -> PathGraph:
        """Return the path in the form that the compiler takes."""
        path = PathGraph([], [], [])
        path.types = list(self.types)
        path.nodes = live_nodes(self.nodes, set(self.outputs))
        path.n_nodes = len(path.nodes)
        path.producer = {o: k for k, node in enumerate(path.nodes) for o in node.outputs}
        path.leaves = [(i, 0) for i in (*self.inputs, *self.weights)]
        n = len(self.inputs)
        path.asked = [(self.guards, tuple(range(n)), (0,) * n, ())]
        return path
