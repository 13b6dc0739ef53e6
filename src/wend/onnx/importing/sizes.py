"""Arithmetic of sizes, done beside the tensors, so that reading a shape computes nothing.

Exporters compute shapes by nodes: Shape, Gather, Concat and so on, and then Reshape. To read such
a tensor would flush all that is pending. A tensor whose numbers Python knows has them as `known`.
A small tensor of the file has data, which is read when a node asks.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import wend
from wend._engine.core import _hot
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.symbolic import MOD, SUB, SymInt, expr_of, hint_of, sym_max, sym_min
from wend.onnx.importing.registry import OpNode

MOST_KNOWN = 64  # numbers of a tensor that are followed
#: The types of results that are followed, and the least number that is too large. Floats are
#: followed only where they are ints, as casts for Range make these.
_LIMITS = {wend.int64: 1 << 62, wend.int32: 1 << 31, wend.bool: 0, wend.float32: 1 << 24}

Rule = Callable[[OpNode, list[Any], list[list[Any]]], "list[Any] | None"]


def remember(tensor: Any, numbers: list[Any]) -> Tensor:
    """The tensor, of which Python knows the numbers from here on."""
    tensor.known = numbers
    return tensor


def note_stored(tensor: Any) -> None:
    """Note that a tensor comes from the file: its numbers are there before anything runs."""
    if tensor.numel() <= MOST_KNOWN:
        tensor.stored = True
    if tensor.itemsize == 1:
        tensor.prepared = Prepared()


class Prepared:
    """Forms of a tensor of the file that kernels read, each kept until the tensor is written to.

    Copies and pickles of the tensor begin without any.
    """

    def __init__(self) -> None:
        self.forms: dict[Any, tuple[Any, Any]] = {}

    def __reduce__(self) -> Any:
        return Prepared, ()


def prepared(tensor: Tensor, key: object, make: Callable[[], Any]) -> Any:
    """make(), which depends on nothing but a tensor and a key; once for a tensor of the file."""
    kept = getattr(tensor, "prepared", None)
    if not isinstance(kept, Prepared) or _hot.current_trace().symbolic is not None:
        return make()
    value = _hot.refreshed(tensor)  # a write makes another
    form = kept.forms.get(key)
    if form is None or form[0] is not value:
        form = kept.forms[key] = value, make()
    return form[1]


def known_of(value: object) -> list[Any] | None:
    """The numbers of a tensor, if Python knows them, or if a small tensor of the file has them."""
    known: list[Any] | None = getattr(value, "known", None)
    if known is None and getattr(value, "stored", False):
        array = _hot.ensure(_hot.refreshed(value))  # as of now: `load_state_dict` may have written
        return array.reshape(-1).tolist() if array.dtype.kind in "biuf" else None
    return known


def is_exploring() -> bool:
    """Whether the function that runs is being explored."""
    return hasattr(_hot.current_trace().symbolic, "explores")


def is_explored(tensor: Tensor) -> bool:
    """Whether the tensor has no data, as a result of a function that is being explored."""
    return is_exploring() and _hot.current_trace().symbolic.explores(tensor)


def whole(n: Size) -> Size:
    """A size as an int; an extent of a function that is being explored stays a symbol."""
    return n if isinstance(n, SymInt) else int(n)


def is_int(n: Size, value: int) -> bool:
    """Whether a number is this int, and no symbol: extents are compared by no guard."""
    return not isinstance(n, SymInt) and bool(n == value)


def _pairs(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(node: OpNode, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
        a, b = numbers
        size = len(b) if len(a) == 1 else len(a)
        if {len(a), len(b)} - {1, size}:
            return None
        a, b = (n * size if len(n) == 1 else n for n in (a, b))
        return [function(x, y) for x, y in zip(a, b)]

    return rule


def _extremes(function: Callable[[Any, Any], Any]) -> Rule:
    pairs = _pairs(function)

    def rule(node: OpNode, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
        result: list[Any] | None = numbers[0]
        for more in numbers[1:]:
            result = None if result is None else pairs(node, inputs, [result, more])
        return result

    return rule


def _gather(node: OpNode, inputs: list[Any], numbers: list[list[Any]]) -> list[Any]:
    return [numbers[0][i] for i in numbers[1]]


def _slice(node: OpNode, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
    if len(numbers) < 3 or (len(numbers) > 4 and numbers[4][0] < 0):
        return None
    step = numbers[4][0] if len(numbers) > 4 else 1
    return numbers[0][numbers[1][0] : numbers[2][0] : step]


def _where(node: OpNode, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
    size = max(map(len, numbers))
    if any(len(n) not in (1, size) for n in numbers):
        return None
    rows = zip(*(n * size if len(n) == 1 else n for n in numbers))
    return [x if condition else y for condition, x, y in rows]


def _same(node: OpNode, inputs: list[Any], numbers: list[list[Any]]) -> list[Any]:
    return numbers[0]


def _divided(node: OpNode, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
    """Quotients of numbers that have the same sign, or leave no rest: rounding does not matter."""
    a, b = numbers
    if len(a) == len(b) and all(map(_without_rest, a, b)):
        return [_numerator(x) // y for x, y in zip(a, b)]
    if any(n < 0 for n in a) or any(n <= 0 for n in b):
        return None
    return _pairs(operator.floordiv)(node, inputs, numbers)


def _without_rest(x: Size, y: Size) -> bool:
    """Whether x is written as a - a % y."""
    expr = expr_of(x)
    if type(expr) is not tuple or expr[0] != SUB:
        return False
    rest = expr[2]
    return type(rest) is tuple and rest == (MOD, expr[1], expr_of(y))


def _numerator(x: SymInt) -> SymInt:
    """The a of a - a % y."""
    return type(x)(expr_of(x)[1], hint_of(x), x.guards)


def _remainders(node: OpNode, inputs: list[Any], numbers: list[list[Any]]) -> list[Any] | None:
    """Remainders, which have the sign of the divisor, as Python's have."""
    return None if node.get("fmod") else _pairs(operator.mod)(node, inputs, numbers)


RULES: dict[str, Rule] = {
    "Add": _pairs(operator.add),
    "And": _pairs(operator.and_),
    "Cast": _same,
    "Concat": lambda node, inputs, numbers: [n for part in numbers for n in part],
    "Div": _divided,
    "Equal": _pairs(operator.eq),
    "Gather": _gather,
    "Greater": _pairs(operator.gt),
    "GreaterOrEqual": _pairs(operator.ge),
    "Identity": _same,
    "Less": _pairs(operator.lt),
    "LessOrEqual": _pairs(operator.le),
    "Max": _extremes(sym_max),
    "Min": _extremes(sym_min),
    "Mod": _remainders,
    "Mul": _pairs(operator.mul),
    "Neg": lambda node, inputs, numbers: [-n for n in numbers[0]],
    "Not": lambda node, inputs, numbers: [not n for n in numbers[0]],
    "Or": _pairs(operator.or_),
    "ReduceProd": lambda node, inputs, numbers: [math.prod(numbers[0])],
    "Reshape": _same,
    "Slice": _slice,
    "Squeeze": _same,
    "Sub": _pairs(operator.sub),
    "Unsqueeze": _same,
    "Where": _where,
}


def follow(node: OpNode, inputs: list[Any], result: object) -> None:
    """Note the numbers of a result that follow from known numbers of the inputs."""
    if not isinstance(result, wend.Tensor) or result.ndim > 1:
        return
    limit = _LIMITS.get(result.dtype)
    if limit is None or any(value.ndim > 1 for value in inputs):
        return
    if result.dtype.is_floating_point and node.op_type != "Cast":
        return
    numbers = [known_of(value) for value in inputs]
    if None in numbers:
        return
    result_numbers = RULES[node.op_type](node, inputs, numbers)  # type: ignore[arg-type]
    if (
        result_numbers is None
        or len(result_numbers) != result.numel()
        or len(result_numbers) > MOST_KNOWN
    ):
        return
    if result.dtype is wend.bool:
        remember(result, [bool(n) for n in result_numbers])
    elif result.dtype.is_floating_point:
        if all(type(n) is int and -limit < n < limit for n in result_numbers):
            remember(result, [float(n) for n in result_numbers])
    elif all(isinstance(n, SymInt) or -limit < n < limit for n in result_numbers):
        remember(result, [whole(n) for n in result_numbers])
