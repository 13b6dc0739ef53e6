"""Ops that work row by row: rows of several calls, stacked, can go through one call.

No batching rule is needed, and operands may have unlike numbers of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.errors import WendError
from wend._engine.core import _types
from wend._engine.core._types import Program, TensorType
from wend._engine.core.primitive import Primitive

Flags = tuple[bool, ...]


def row_wise(prim: Primitive, types: Sequence[Any], rows: Flags, args: list[Any]) -> bool:
    """Whether each row (dim 0) of the flagged operands gives a row of the results by itself.

    types, args: of one call
    """
    if True not in rows or prim.facts.random or prim.facts.calls_user:
        return False
    program, _ = prim.typed(list(types), args)
    if not prim.is_composite:
        rule = prim.by_rows
        return rule is not None and bool(rule(rows, tuple([len(t.dims) for t in types])))
    graph = program.graph
    flags = dict(enumerate(rows))
    ranks = {i: len(t.dims) for i, t in enumerate(types)}
    for node in graph.nodes:
        on = tuple([flags[i] for i in node.inputs])
        rule = node.prim.by_rows
        if True in on:
            if rule is None or not rule(on, tuple([ranks[i] for i in node.inputs])):
                return False
        elif not node.inputs:
            return False  # the result may depend on the number of rows
        for o, (extents, _) in zip(node.outputs, node.program.outs, strict=True):
            flags[o] = True in on
            ranks[o] = len(extents)
    return all(i is not None and flags[i] for i in graph.outputs)


def with_rows(type_: TensorType, n: int) -> TensorType:
    """A type with another number of rows."""
    return _types.intern_type((n, *type_.dims[1:]), type_.dtype, type_.device)


def holds_for(
    prim: Primitive, types: Sequence[Any], rows: Flags, args: list[Any], n: int, outs: Sequence[Any]
) -> bool:
    """Whether the op takes n rows as well, with the results `outs` alike but for that number.

    The pattern must be the same too: in it, a single row and an operand of extent 1 are alike.
    Several rows are broadcast against that operand, and its gradient is then a sum that a single
    row has no need of.
    """
    wider = [with_rows(t, n) if on else t for t, on in zip(types, rows, strict=True)]
    program, _ = prim.typed(list(types), args)
    try:
        general, wider_outs = prim.typed(wider, args)
    except WendError:  # the question is whether the op takes another number of rows
        return False
    return general is program and all(
        len(a.dims) > 0 and a.dims[0] == n and a.dims[1:] == b.dims[1:] and a.dtype is b.dtype
        for a, b in zip(wider_outs, outs, strict=True)
    )


def is_heavy(prim: Primitive, program: Program) -> bool:
    """Whether an op, or any op of its body, is worth a kernel of its own."""
    if not prim.is_composite:
        return bool(prim.schedule.heavy)
    return any(node.prim.schedule.heavy for node in program.graph.nodes)


def is_smooth(prim: Primitive, program: Program) -> bool:
    """Whether derivatives at finite operands are finite, so that a gradient of 0 stays 0."""
    if not prim.is_composite:
        return bool(prim.facts.smooth)
    return all(node.prim.facts.smooth for node in program.graph.nodes)


def batches(prim: Primitive, program: Program) -> bool:
    """Whether an op has batching rules all through."""
    prims = [node.prim for node in program.graph.nodes] if prim.is_composite else [prim]
    return not any(p.facts.random or p.facts.calls_user or p.batch is None for p in prims)
