"""Sums of rows by index, over flat operands: runs of unlike lengths then go together.

The gradient of an embedding adds a row for each index, in whatever shape the indices came.  Put off
to the end of a pass it is one sum, of all rows by all indices, if nothing else depends on how many
there were in a run.
"""

from __future__ import annotations

import math
from typing import Any

from wend.core import _hot
from wend.core.graph import Node, live_nodes
from wend.ops.reshapes import Reshaping

#: By value: how many of its last dims stay; those before them become one.
Kept = dict[int, int]
KEPT = (1, 0)  # of the operands of a sum of rows


def flattened(
    nodes: list[Node], outputs: list[int], shape_at: Any, typed: Any
) -> tuple[list[Node], Kept]:
    """The nodes with sums of rows over flat operands, without those that make such operands.

    outputs: of the nodes, which have no others     shape_at: gives extents as expressions
    typed: gives the program of a sum over its operands, flat
    """
    producers = {o: node for node in nodes for o in node.outputs}
    kept: Kept = {}
    sums: dict[int, Node] = {}
    for at, node in enumerate(nodes):
        if node.prim.adds_rows:
            g, index = [
                origin(i, producers, shape_at, n) for i, n in zip(node.inputs, KEPT, strict=True)
            ]
            kept |= {g: 1, index: 0}
            program = typed(node, (g, index))
            sums[at] = Node(node.prim, program, (g, index), node.outputs, node.args, node.grad)
    made = {node.outputs for node in live_nodes(nodes, set(kept))}
    left = [sums.get(at, node) for at, node in enumerate(nodes) if node.outputs not in made]
    left = live_nodes(left, set(outputs))
    asked = {i for node in left if node not in sums.values() for i in node.inputs} | set(outputs)
    return (left, kept) if kept and asked.isdisjoint(kept) else (nodes, {})


def origin(i: int, producers: dict[int, Node], shape_at: Any, n: int) -> int:
    """The value that this one shows in another shape, of the same last n dims."""
    row = shape_at(i)[len(shape_at(i)) - n :]
    at = i
    while at in producers and isinstance(producers[at].prim, Reshaping):
        at = producers[at].inputs[0]
        shape = shape_at(at)
        if shape[len(shape) - n :] == row:
            i = at
    return i


def flat(dims: tuple[int, ...], n: int | None) -> tuple[int, ...]:
    """Extents, of which the last n stay (None: all, as they are)."""
    at = len(dims) - (len(dims) if n is None else n)
    return dims if n is None else (math.prod(dims[:at]), *dims[at:])


def flat_type(type_: Any, n: int | None) -> Any:
    """The type of a value of which n dims are kept."""
    return _hot.intern_type(flat(type_.dims, n), type_.dtype, type_.device)


def row_of(array: Any, n: int | None) -> tuple[int, ...]:
    """The extents of a row of an array: what all runs that go together have in common."""
    dims: tuple[int, ...] = getattr(array, "shape", ())
    return flat(dims, n)[1:]
