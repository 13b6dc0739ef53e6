"""Sums of rows by index, over flat operands: runs of unlike lengths then go together.

The gradient of an embedding adds a row for each index, for any shape of the indices.  If the
gradient is put off to the end of a pass, one sum can add all rows by all indices.  The sum is
possible if nothing else depends on how many indices each run had.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wend._engine.core import _types
from wend._engine.core._types import Program, TensorType
from wend._engine.core.graph import Node, live_nodes
from wend._engine.ops.views.reshapes import Reshaping

#: By value: how many of the last dims stay; all dims before these become one dim.
Kept = dict[int, int]
KEPT = (1, 0)  # for the two operands of a sum of rows: rows, indices


def flattened(
    nodes: list[Node],
    outputs: list[int],
    shape_at: Callable[[int], tuple[Any, ...]],
    typed: Callable[[Node, tuple[int, ...]], Program],
) -> tuple[list[Node], Kept]:
    """Return the nodes with sums of rows over flat operands, and the values that are flat.

    Nodes that only reshaped the operands of such sums are left out.

    outputs: all outputs of the nodes
    shape_at: returns the extents of a value as expressions
    typed: returns the program of a sum over its flat operands
    """
    producers = {o: node for node in nodes for o in node.outputs}
    kept: Kept = {}
    sums: dict[int, Node] = {}
    for at, node in enumerate(nodes):
        if node.prim.adds_rows():
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


def origin(
    i: int, producers: dict[int, Node], shape_at: Callable[[int], tuple[Any, ...]], n: int
) -> int:
    """Return the value that value i is a reshape of, with the same last n dims."""
    row = shape_at(i)[len(shape_at(i)) - n :]
    at = i
    while at in producers and isinstance(producers[at].prim, Reshaping):
        at = producers[at].inputs[0]
        shape = shape_at(at)
        if shape[len(shape) - n :] == row:
            i = at
    return i


def flat(dims: tuple[int, ...], n: int | None) -> tuple[int, ...]:
    """Return the extents with all dims but the last n merged; unchanged if n is None."""
    at = len(dims) - (len(dims) if n is None else n)
    return dims if n is None else (math.prod(dims[:at]), *dims[at:])


def flat_type(type_: TensorType, n: int | None) -> TensorType:
    """Return the type with all dims but the last n merged."""
    return _types.intern_type(flat(type_.dims, n), type_.dtype, type_.device)


def row_of(array: object, n: int | None) -> tuple[int, ...]:
    """Return the extents of a row of an array: runs that go together have rows of the same size."""
    dims: tuple[int, ...] = getattr(array, "shape", ())
    return flat(dims, n)[1:]
