"""Runs an explored graph: the ops are recorded again, on tensors of any sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base import random_state, tree
from wend._engine.base.devices import CPU
from wend._engine.base.errors import ArgumentError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core._types import Program
from wend._engine.core.symbolic import EQ, Expr, apply_binary, evaluate
from wend._engine.core.symtrace import flatten_outputs
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
    Fail,
    Give,
    Point,
    ReadNumber,
    StaticGraph,
)
from wend._engine.transforms.grad import with_grad


class _Shapes:
    """The shapes of tensors by id, as expressions read them."""

    __slots__ = ("env",)

    def __init__(self, env: dict[int, Any]) -> None:
        self.env = env

    def __getitem__(self, i: int) -> Any:
        return self.env[i].shape


def number_of(expr: Expr, env: dict[int, Any]) -> Any:
    """The value of an expression."""
    return evaluate(expr, _Shapes(env), env) if type(expr) is tuple else expr


def run(
    program: StaticGraph,
    tensors: Sequence[Tensor],
    captured: dict[int, Tensor],
    call: Callable[[Apply, dict[int, Any]], None] | None = None,
    most: int | None = None,
) -> Any:
    """The result of a program, given the tensors among its arguments and those from outside.

    call: a function in place of `apply`, which records an op
    most: how many answers to questions the run takes at most
    Raises SizesDiffer where a guard does not hold, and the user's error where the program ends
    in an error. Raises NoEnd where the run takes more answers.
    """
    env: dict[int, Any] = dict(zip(program.inputs, tensors, strict=True))
    env.update(captured)
    check_guards(program, env)
    call = call or apply
    stretch = program.points[0].answers[0]
    while True:
        for item in stretch.items:
            if isinstance(item, Apply):
                call(item, env)
            elif isinstance(item, ReadNumber):
                env[item.output] = env[item.value].item()
            elif isinstance(item, Compute):
                env[item.output] = number_of(item.expr, env)
            elif isinstance(item, Draw):
                count = number_of(item.count, env)
                env[item.seed], env[item.offset] = random_state.current().reserve(count)
        end = stretch.end
        if isinstance(end, Give):
            write(end, env, {**captured, **dict(zip(program.inputs, tensors, strict=True))})
            return tree.unflatten(end.structure, [_leaf(kind, x, env) for kind, x in end.leaves])
        if isinstance(end, Fail):
            raise end.error
        assert end is not None
        point = program.points[end.point]
        values = [env[a] for a in end.args]
        env.update(zip(point.params, values, strict=True))
        if most is not None:
            most -= 1
            if most < 0:
                raise NoEnd(point)
        stretch = point.answers[answer(point.question, env)]


class NoEnd(Exception):
    """A run has not ended after so many answers.

    site: the line of the last question     asks_values: whether this asked for a value
    """

    def __init__(self, point: Point) -> None:
        super().__init__(f"the graph has a loop without an end at {point.site}")
        self.site = point.site
        self.asks_values = point.question is not None and point.question[0] == "value"


def write(end: Give, env: dict[int, Any], targets: dict[int, Tensor]) -> None:
    """Put the new values into tensors from outside."""
    trace = _hot.current_trace()
    before = trace.mode
    trace.mode = with_grad(before, False)
    try:
        for target, value in end.writes:
            targets[target].copy_(env[value])
    finally:
        trace.mode = before


def apply(item: Apply, env: dict[int, Any]) -> None:
    """Record an op."""
    args = [number_of(e, env) for e in item.args]
    operands = [env[i] for i in item.inputs]
    trace = _hot.current_trace()
    before = trace.mode
    if before.grad and not item.grad:
        trace.mode = with_grad(before, False)
    try:
        results = flatten_outputs(_hot.record_list(item.prim, operands, args))
    finally:
        trace.mode = before
    env.update(zip(item.outputs, results, strict=True))


def pattern_of(program: StaticGraph, item: Apply) -> Program:
    """The pattern of an op, found again from the types while exploring where a file has none."""
    if item.program is None:
        info = program.info
        types = [_types.intern_type(info[i].hint, info[i].dtype, CPU) for i in item.inputs]
        sizes = {i: x.hint for i, x in info.items()}
        numbers = {i: x.hint[0] if x.hint else 2 for i, x in info.items() if x.extents is None}
        args = [evaluate(e, sizes, numbers) for e in item.args]
        item.program = item.prim.typed(types, args)[0]
    return item.program


def answer(question: Any, env: dict[int, Any]) -> bool:
    """The answer to a question."""
    if question[0] == "value":
        return bool(env[question[1]])
    return bool(apply_binary(question[1], *[number_of(e, env) for e in question[2:]]))


class SizesDiffer(ArgumentError):
    """The sizes of the arguments take another way than those that a program was explored with."""


def check_guards(program: StaticGraph, env: dict[int, Any]) -> None:
    """Raise SizesDiffer where the sizes break a guard."""
    for (op, a, b), (outcome, site) in program.guards.items():
        left, right = number_of(a, env), number_of(b, env)
        if bool(apply_binary(op, left, right)) != outcome:
            raise SizesDiffer(
                f"{program.name}: the sizes of the arguments take another way than those it was "
                f"explored with: {site} compares {left} with {right}{_remedy(op, b, outcome)}"
            )


def _remedy(op: int, b: Expr, outcome: bool) -> str:
    """The remedy for a size that is fixed to that of the example."""
    if op != EQ or not outcome or type(b) is not int:
        return ""
    return (
        ". Where Python needs the plain number, as for an index or a key, the size is a constant: "
        "compare sizes by ==, or make a graph for each size"
    )


def holds(program: StaticGraph, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether the guards and the fixed extents of a program allow inputs of these shapes."""
    sizes = dict(zip(program.inputs, shapes, strict=True))
    for i, shape in sizes.items():
        extents = program.info[i].extents or ()
        if any(type(e) is int and e != n for e, n in zip(extents, shape, strict=True)):
            return False
    return all(
        bool(apply_binary(op, evaluate(a, sizes, {}), evaluate(b, sizes, {}))) == outcome
        for (op, a, b), (outcome, _) in program.guards.items()
    )


def _leaf(kind: str, x: Any, env: dict[int, Any]) -> Any:
    if kind == "value":
        return env[x]
    return number_of(x, env) if kind == "number" else x
