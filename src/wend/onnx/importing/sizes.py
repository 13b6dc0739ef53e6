"""Arithmetic of sizes, done beside the tensors, so that reading a shape computes nothing.

Exporters compute shapes by nodes: Shape, Gather, Concat and so on, and then Reshape. To read such
a tensor would flush all that is pending. A tensor whose numbers Python knows has them as `known`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import wend

MOST_KNOWN = 64  # numbers of a tensor that are followed
_LARGEST = 1 << 62

Rule = Callable[[Any, list[Any], list[list[Any]]], "list[Any] | None"]


def remember(tensor: Any, numbers: list[Any]) -> Any:
    """The tensor, of which Python knows the numbers from here on."""
    tensor.known = numbers
    return tensor


def known_of(value: Any) -> list[Any] | None:
    """The numbers of a tensor, if Python knows them."""
    return getattr(value, "known", None)


def _pairs(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(node: Any, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
        a, b = numbers
        size = len(b) if len(a) == 1 else len(a)
        if {len(a), len(b)} - {1, size}:
            return None
        a, b = (n * size if len(n) == 1 else n for n in (a, b))
        return [function(x, y) for x, y in zip(a, b)]

    return rule


def _gather(node: Any, inputs: list[Any], numbers: list[list[Any]]) -> list[Any]:
    return [numbers[0][i] for i in numbers[1]]


def _slice(node: Any, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
    if len(numbers) < 3 or (len(numbers) > 4 and numbers[4][0] < 0):
        return None
    step = numbers[4][0] if len(numbers) > 4 else 1
    return numbers[0][numbers[1][0] : numbers[2][0] : step]


def _where(node: Any, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
    size = max(map(len, numbers))
    if any(len(n) not in (1, size) for n in numbers):
        return None
    rows = zip(*(n * size if len(n) == 1 else n for n in numbers))
    return [x if condition else y for condition, x, y in rows]


def _same(node: Any, inputs: list[Any], numbers: list[list[Any]]) -> list[Any]:
    return numbers[0]


def _divided(node: Any, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
    """Quotients and remainders of numbers that have the same sign: no rule of rounding matters."""
    if any(n < 0 for n in numbers[0]) or any(n <= 0 for n in numbers[1]):
        return None
    function = operator.floordiv if node.op_type == "Div" else operator.mod
    return _pairs(function)(node, inputs, numbers)


RULES: dict[str, Rule] = {
    "Add": _pairs(operator.add),
    "Cast": _same,
    "Concat": lambda node, inputs, numbers: [n for part in numbers for n in part],
    "Div": _divided,
    "Equal": _pairs(operator.eq),
    "Gather": _gather,
    "Greater": _pairs(operator.gt),
    "Less": _pairs(operator.lt),
    "Mod": _divided,
    "Mul": _pairs(operator.mul),
    "ReduceProd": lambda node, inputs, numbers: [math.prod(numbers[0])],
    "Reshape": _same,
    "Slice": _slice,
    "Squeeze": _same,
    "Sub": _pairs(operator.sub),
    "Unsqueeze": _same,
    "Where": _where,
}


def follow(node: Any, inputs: list[Any], result: Any) -> None:
    """Note the numbers of a result that follow from known numbers of the inputs."""
    numbers = [known_of(value) for value in inputs]
    if None in numbers or any(value.ndim > 1 for value in inputs):
        return
    if not isinstance(result, wend.Tensor) or result.ndim > 1:
        return
    if result.dtype not in (wend.int64, wend.bool):
        return
    found = RULES[node.op_type](node, inputs, numbers)  # type: ignore[arg-type]
    if found is None or len(found) != result.numel() or len(found) > MOST_KNOWN:
        return
    found = [(bool if result.dtype is wend.bool else int)(n) for n in found]
    if all(-_LARGEST < n < _LARGEST for n in found):
        remember(result, found)
