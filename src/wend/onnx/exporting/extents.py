"""Extents and run-time numbers as tensors of an ONNX graph.

An extent is an expression over dims of the graph's tensors (`core.symbolic`). It becomes nodes only
where a rule asks for it, once per scope: each part is a 1-D tensor of a single element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, DType, bool_, float64, int64
from wend._engine.core.symbolic import (
    ADD,
    ARG,
    DIM,
    DIV,
    EQ,
    FLOORDIV,
    GE,
    GT,
    LE,
    LT,
    MAX,
    MIN,
    MOD,
    MUL,
    NE,
    NEG,
    POW,
    SUB,
    Expr,
    apply_binary,
    expr_of,
    sym_max,
    sym_min,
)
from wend.onnx.exporting.values import NodeWriter, Value

__all__ = ["placed", "write", "write_sizes"]

_NODES = {
    ADD: "Add",
    SUB: "Sub",
    MUL: "Mul",
    DIV: "Div",
    MIN: "Min",
    MAX: "Max",
    POW: "Pow",
    EQ: "Equal",
    LT: "Less",
    LE: "LessOrEqual",
    GT: "Greater",
    GE: "GreaterOrEqual",
}


def placed(expr: Expr, operands: Any, args: Sequence[Any]) -> Any:
    """The value of an expression over the dims of operands and over args: a number or a symbol."""
    if type(expr) is not tuple:
        return expr
    op = expr[0]
    if op == DIM:
        return operands[expr[1]].shape[expr[2]]
    if op == ARG:
        return args[expr[1]]
    a = placed(expr[1], operands, args)
    if op == NEG:
        return -a
    b = placed(expr[2], operands, args)
    if op == MIN:
        return sym_min(a, b)
    return sym_max(a, b) if op == MAX else apply_binary(op, a, b)


def write_sizes(writer: NodeWriter, sizes: list[Any]) -> Value:
    """Ints and extents as a 1-D tensor of int64."""
    exprs = [expr_of(n) for n in sizes]
    if all(type(e) is not tuple for e in exprs):
        return writer.constant(np.array(exprs, np.int64).reshape(-1), int64)
    parts = []
    i = 0
    while i < len(exprs):
        j = i + 1
        if type(exprs[i]) is not tuple:
            while j < len(exprs) and type(exprs[j]) is not tuple:
                j += 1
            parts.append(writer.constant(np.array(exprs[i:j], np.int64), int64))
        elif exprs[i][0] == DIM:
            leaf, axis = exprs[i][1:]
            while j < len(exprs) and exprs[j] == (DIM, leaf, axis + j - i):
                j += 1
            parts.append(_dims(writer, leaf, axis, axis + j - i))
        else:
            parts.append(write(writer, exprs[i], False))
        i = j
    return parts[0] if len(parts) == 1 else writer.node("Concat", *parts, axis=0, dtype=int64)


def _dims(writer: NodeWriter, leaf: int, start: int, end: int) -> Value:
    key = ("dims", leaf, start, end)
    sizes = writer.known(key)
    if sizes is None:
        source = writer.model.leaves[leaf]
        sizes = writer.raw_node("Shape", [source], int64, start=start, end=end)
        writer.remember(key, sizes)
    return sizes


def write(writer: NodeWriter, expr: Expr, is_float: bool) -> Value:
    """An expression as a 1-D tensor of an element: int64, or float64 if any part is no integer."""
    dtype = float64 if is_float else int64
    if type(expr) is not tuple:
        return writer.constant(np.array([expr]).astype(dtype.numpy), dtype)
    key = (is_float, expr)
    value = writer.known(key)
    if value is None:
        value = _written(writer, expr, dtype)
        writer.remember(key, value)
    return value


def _written(writer: NodeWriter, expr: Expr, dtype: DType) -> Value:
    op = expr[0]
    if op == DIM:
        dim = _dims(writer, expr[1], expr[2], expr[2] + 1)
        return writer.cast(dim, dtype)
    if op == ARG:
        return writer.cast(writer.reshape(writer.model.scalars[expr[1]], (1,)), dtype)
    if dtype is float64 and not _has_fraction(writer, expr):
        return writer.cast(write(writer, expr, False), dtype)
    fraction = dtype is float64
    a = write(writer, expr[1], fraction)
    if op == NEG:
        return writer.node("Neg", a)
    b = write(writer, expr[2], fraction)
    if op in (FLOORDIV, MOD):
        return _divided(writer, op, expr, a, b)
    if op == NE:
        return writer.cast(writer.node("Not", writer.node("Equal", a, b, dtype=bool_)), dtype)
    if op >= EQ:
        return writer.cast(writer.node(_NODES[op], a, b, dtype=bool_), dtype)
    return writer.node(_NODES[op], a, b)


def _divided(writer: NodeWriter, op: int, expr: Expr, a: Value, b: Value) -> Value:
    """Python's quotient or remainder: ONNX rounds the quotient of integers towards zero."""
    if a.dtype is float64:
        quotient = writer.node("Floor", writer.node("Div", a, b))
        if op == FLOORDIV:
            return quotient
        return writer.node("Sub", a, writer.node("Mul", quotient, b))
    if op == MOD:
        return writer.node("Mod", a, b)
    if not (_not_negative(expr[1]) and _not_negative(expr[2])):
        a = writer.node("Sub", a, writer.node("Mod", a, b))
    return writer.node("Div", a, b)


def _not_negative(expr: Expr) -> bool:
    if type(expr) is not tuple:
        return bool(expr >= 0)
    if expr[0] == DIM:
        return True
    if expr[0] == MAX:
        return _not_negative(expr[1]) or _not_negative(expr[2])
    if expr[0] in (ADD, MUL, MIN, FLOORDIV):
        return _not_negative(expr[1]) and _not_negative(expr[2])
    return False


def _has_fraction(writer: NodeWriter, expr: Expr) -> bool:
    """Whether an expression is not of integers alone."""
    if type(expr) is not tuple:
        return type(expr) is float
    op = expr[0]
    if op == DIM:
        return False
    if op == ARG:
        return bool(writer.model.scalars[expr[1]].dtype.category >= FLOAT)
    if op in (DIV, POW):
        return True
    return any(_has_fraction(writer, part) for part in expr[1:])
