"""Lowering of the ops that move elements: pad, cat, roll, flip."""

from __future__ import annotations

from functools import cache
from itertools import product as pairs_of
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.shapes import normalize_dim, normalize_dims
from wend._engine.compiler.ir.loops import MAP, Emit, Layout, Op, Read, View, shared
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Poly, add, mul, scale, sub
from wend._engine.compiler.lower.lowering import Lowering
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.ops.joining import Flip, Pad, Roll

#: The most tensors of a `cat`, or parts of a `roll`, that a loop nest reads in place.
MAX_PARTS = 16


@lowers(Flip)
def flip(low: Lowering, node: Node) -> bool:
    """The elements of the operand, read backwards."""
    f = low.function
    source, out = node.inputs[0], node.outputs[0]
    if source in f.uniform:
        low.spread(node, *f.uniform[source])
        return True
    shape, layout = f.shape(source), f.layout(source)
    if not shape:
        return low.alias(node, source)
    strides, offset = list(layout.strides), layout.offset
    for d in normalize_dims(node.prim.dims, len(shape), "flip"):
        last = sub(shape[d], ONE)
        offset = add(offset, mul(last, strides[d]))
        strides[d] = scale(strides[d], -1)
    f.views[out] = View(out, source, node)
    f.layouts[out] = Layout(layout.base, tuple(strides), low.extents.canonical(offset))
    return True


@lowers(Pad)
def pad(low: Lowering, node: Node) -> bool:
    """The operand with numbers around the elements."""
    f = low.function
    x, out = node.inputs[0], node.outputs[0]
    n = len(node.args) - 1
    if node.prim.categories[-1] == dtypes.COMPLEX:
        return False
    shape = f.shape(x)
    rank = len(shape)
    sizes = [low.extents.canonical(low.extents.path_expr(e)) for e in node.args[:n]]
    shifts = tuple(
        (rank - 1 - k, sizes[2 * k], shape[rank - 1 - k])
        for k in range(n // 2)
        if sizes[2 * k] != ZERO or sizes[2 * k + 1] != ZERO
    )
    if not shifts:
        return low.alias(node, x)
    every = tuple(range(rank))
    reads = [Read(x, every, shifts)]
    emit = _surrounded(n, f.dtypes[out])
    f.add(Op(MAP, node, node.outputs, reads, f.shape(out), every, emit, node.args))
    return True


@cache
def _surrounded(n: int, dtype: DType) -> Emit:
    """Return a rule that gives the run-time number `n` where the operand has no element."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        return b.select(code.inside(0), operands[0], b.convert(code.number(n), dtype))

    return shared(emit)


def joined(low: Lowering, node: Node) -> list[int] | None:
    """Return the operands of a `cat`; None where no kernel can join the operands."""
    f = low.function
    rank = len(f.shape(node.outputs[0]))
    inputs = [i for i in node.inputs if len(f.shape(i)) == rank]
    if not inputs:
        return None
    # An operand of another rank has no elements, of which nothing is known here.
    return inputs if len(inputs) == len(node.inputs) else None


def cat(low: Lowering, node: Node, inputs: list[int]) -> bool:
    """Tensors in a row: each is read where the loop has come to that tensor.

    More than `MAX_PARTS` are joined in several rows first.
    """
    f = low.function
    out = node.outputs[0]
    space = f.shape(out)
    dim = normalize_dim(node.prim.dim, len(space), "cat")
    for i in inputs:
        if any(n != m for d, (n, m) in enumerate(zip(f.shape(i), space)) if d != dim):
            return low.refuse("operands are not known to be of the same size beside the joined dim")
    while len(inputs) > MAX_PARTS:
        rows = []
        for k in range(0, len(inputs), MAX_PARTS):
            some = inputs[k : k + MAX_PARTS]
            extent = ZERO
            for i in some:
                extent = add(extent, f.shape(i)[dim])
            row = f.fresh((*space[:dim], extent, *space[dim + 1 :]), f.dtypes[out])
            _join(low, node, some, row, dim)
            rows.append(row)
        inputs = rows
    _join(low, node, inputs, out, dim)
    return True


def _join(low: Lowering, node: Node, inputs: list[int], out: int, dim: int) -> None:
    """Add the loops that put values in a row along a dim."""
    f = low.function
    space = f.shape(out)
    every = tuple(range(len(space)))
    reads, first = [], ZERO
    for i in inputs:
        reads.append(Read(i, every, ((dim, first, f.shape(i)[dim]),)))
        first = add(first, f.shape(i)[dim])
    f.add(Op(MAP, node, (out,), reads, space, every, _one_of(f.dtypes[out])))


@cache
def _one_of(dtype: DType) -> Emit:
    """Return a rule that gives the element of the operand that has one here."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        value = b.convert(operands[-1], dtype)
        for k in reversed(range(len(operands) - 1)):
            value = b.select(code.inside(k), b.convert(operands[k], dtype), value)
        return value

    return shared(emit)


@lowers(Roll)
def roll(low: Lowering, node: Node) -> bool:
    """Each dim in two parts, which change places."""
    f = low.function
    x = node.inputs[0]
    shape = f.shape(x)
    rank = len(shape)
    dims = [normalize_dim(d, rank, "roll") for d in node.prim.dims or ()]
    if not dims and rank == 1:
        dims = [0]
    if not dims or len(set(dims)) < len(dims) or 2 ** len(dims) > MAX_PARTS:
        return low.refuse("it rolls all elements as one row, a dim twice, or too many dims")
    choices: list[list[tuple[int, Poly, Poly]]] = []
    for d, expr in zip(dims, node.args, strict=True):
        shift = low.extents.path_expr(expr)
        first = low.extents.remainder(shift, shape[d])
        choices.append([(d, first, shape[d]), (d, sub(first, shape[d]), shape[d])])
    every = tuple(range(rank))
    reads = [Read(x, every, shifts) for shifts in pairs_of(*choices)]
    f.add(Op(MAP, node, node.outputs, reads, shape, every, _one_of(f.dtypes[x])))
    return True
