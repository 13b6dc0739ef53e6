"""Sizes and values that a model refuses: constants in types of inputs, or a node that fails.

ONNX has no node that raises an error.  An index out of range does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.core.symbolic import DIM, EQ, NE, Expr, substitute
from wend._engine.transforms.exploring.program import StaticGraph
from wend._engine.transforms.exploring.sizes import allowed, dims_of
from wend.onnx.exporting.values import Value
from wend.onnx.exporting.writer import GraphWriter

__all__ = ["checked", "fixed_and_open"]

SAMPLES = 400
Guards = dict[tuple[int, Expr, Expr], tuple[bool, Any]]


def fixed_and_open(program: StaticGraph) -> tuple[dict[Expr, int], Guards]:
    """(the dims of inputs that have a single size, the guards that other dims may break).

    Sizes of 0 are not looked at.
    """
    fixed: dict[Expr, int] = {}
    for (op, a, b), (outcome, _) in program.guards.items():
        for e, n in ((a, b), (b, a)):
            equal = (op, outcome) in ((EQ, True), (NE, False))
            if equal and type(e) is tuple and e[0] == DIM and type(n) is int:
                fixed[e] = n
    left: Guards = {}
    for (op, a, b), entry in program.guards.items():
        a, b = [
            substitute(e, lambda i, k: fixed.get((DIM, i, k), (DIM, i, k)), lambda k: k)
            for e in (a, b)
        ]
        if (type(a) is tuple or type(b) is tuple) and _may_break(op, a, b, entry[0]):
            left[op, a, b] = entry
    return fixed, left


def _may_break(op: int, a: Expr, b: Expr, outcome: bool) -> bool:
    """Whether some sizes give a comparison the other outcome."""
    dims = list(dict.fromkeys([*dims_of(a), *dims_of(b)]))
    draw = random.Random(0)
    for k in range(SAMPLES):
        most = 6 if k % 2 else 400
        sizes = {d: k + 1 if k < 40 else draw.randint(1, most) for d in dims}
        if not allowed(sizes, [(op, a, b, outcome)]):
            return True
    return False


class CheckedScope(Protocol):
    """A graph with conditions without which the graph has no results."""

    writer: GraphWriter
    checks: list[tuple[Value, str]]


def checked(scope: CheckedScope, values: Sequence[Value]) -> list[Value]:
    """The results of a graph, which fails where a check does."""
    if not scope.checks:
        return list(values)
    writer = scope.writer
    zero = writer.constant(np.zeros(1, np.int64), int64)
    outside = None
    for condition, reason in scope.checks:
        chosen = [writer.constant([0], int64), writer.constant([1], int64)]
        index = writer.raw_node("Where", [condition, *chosen], int64)
        check = writer.raw_node("Gather", [zero, index], int64, axis=0)
        writer.nodes[-1].name = f"no sizes for {reason}/{check.name}"
        outside = check if outside is None else writer.raw_node("Add", [outside, check], int64)
    results = []
    for value in values:
        sizes = writer.raw_node("Shape", [value], int64)
        same = writer.raw_node("Add", [sizes, outside], int64)
        result = writer.raw_node("Reshape", [value, same], value.dtype)
        results.append(Value(result.name, value.dtype, value.shape))
    return results
