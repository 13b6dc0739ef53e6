"""Explored graphs as text: ops, branches and loops, with the user's lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from wend._engine.core.provenance import Site
from wend._engine.core.symbolic import ARG, DIM, NEG, OPERATORS, POW, SIGNS, Expr
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
    Fail,
    Give,
    Go,
    Item,
    StaticGraph,
    Stretch,
)

_NAMES = {row.opcode: row.name for row in OPERATORS}
_SIGNS = {
    row.opcode: SIGNS[row.function.__name__] for row in OPERATORS if row.function.__name__ in SIGNS
} | {POW: SIGNS["pow"]}
_NUMBERS = ("bool", "int", "float", "complex")


def expression(expr: Expr) -> str:
    """A size or number: `d0.1` is dim 1 of value %0, `%5` a number."""
    if type(expr) is not tuple:
        return repr(expr)
    op = expr[0]
    if op == DIM:
        return f"d{expr[1]}.{expr[2]}"
    if op == ARG:
        return f"%{expr[1]}"
    if op == NEG:
        return f"-{expression(expr[1])}"
    left, right = expression(expr[1]), expression(expr[2])
    if op not in _SIGNS:
        return f"{_NAMES[op].lower()}({left}, {right})"
    return f"({left} {_SIGNS[op]} {right})"


def comparison(op: int, left: str, right: str) -> str:
    """Two texts with the sign of a comparison between."""
    return f"{left} {_SIGNS.get(op, _NAMES[op])} {right}"


def type_text(program: StaticGraph, i: int) -> str:
    """The type of a value."""
    info = program.info[i]
    if info.extents is None:
        return _NUMBERS[info.dtype]
    return f"{info.dtype.name}[{', '.join(map(expression, info.extents))}]"


def lines(program: StaticGraph) -> Iterator[str]:
    """The program, line by line."""
    inputs = [f"%{i}: {type_text(program, i)}" for i in program.inputs]
    yield f"graph {program.name}({', '.join(inputs)}):"
    for c in program.captured:
        yield f"    %{c.id}: {type_text(program, c.id)} = {c.kind} {c.name}"
    for (op, a, b), (outcome, site) in program.guards.items():
        word = "require" if outcome else "require not"
        yield f"    {word} {comparison(op, expression(a), expression(b))}{_place(site)}"
    for number, point in enumerate(program.points):
        if point.question is None:
            yield from _stretch(program, point.answers[0], "    ")
            continue
        params = ", ".join(f"%{p}: {type_text(program, p)}" for p in point.params)
        yield f"point {number}({params}):"
        yield f"    if {_question(point.question)}:{_place(point.site)}"
        yield from _stretch(program, point.answers[1], "        ")
        yield "    else:"
        yield from _stretch(program, point.answers[0], "        ")


def _question(question: tuple[Any, ...]) -> str:
    if question[0] == "value":
        return f"%{question[1]}"
    return comparison(question[1], expression(question[2]), expression(question[3]))


def _stretch(program: StaticGraph, stretch: Stretch, indent: str) -> Iterator[str]:
    for item in stretch.items:
        yield indent + _item(program, item)
    end = stretch.end
    if isinstance(end, Go):
        yield f"{indent}go to {end.point}({', '.join(f'%{a}' for a in end.args)})"
    elif isinstance(end, Give):
        for target, value in end.writes:
            yield f"{indent}write %{value} to %{target}"
        results = [_leaf(kind, x) for kind, x in end.leaves]
        yield f"{indent}return {', '.join(results)}"
    elif isinstance(end, Fail):
        yield f"{indent}raise {type(end.error).__name__}: {end.error}"


def _leaf(kind: str, x: Any) -> str:
    if kind == "value":
        return f"%{x}"
    return expression(x) if kind == "number" else repr(x)


def _item(program: StaticGraph, item: Item) -> str:
    if isinstance(item, Apply):
        outputs = ", ".join(f"%{o}: {type_text(program, o)}" for o in item.outputs)
        operands = [f"%{i}" for i in item.inputs] + [expression(e) for e in item.args]
        return f"{outputs} = {item.prim!r}({', '.join(operands)}){_place(item.site)}"
    if isinstance(item, Compute):
        return f"%{item.output}: {type_text(program, item.output)} = {expression(item.expr)}"
    if isinstance(item, Draw):
        return f"%{item.seed}, %{item.offset} = draw({expression(item.count)})"
    return f"%{item.output}: {type_text(program, item.output)} = item(%{item.value})"


def place(site: Site | None) -> str:
    """The file, line and module of a site; "" where these are not known."""
    known = getattr(site, "text", "")  # of a program from a file
    if known:
        return str(known)
    if site is None or site.code is None:
        return ""
    name = os.path.basename(site.code.co_filename)
    return f"{name}:{site.line}" + (f" ({site.module})" if site.module else "")


def _place(site: Site | None) -> str:
    text = place(site)
    return f"  # {text}" if text else ""
