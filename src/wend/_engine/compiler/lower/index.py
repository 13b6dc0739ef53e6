"""Lowering of the ops that index, to pick elements or to put elements."""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.ir.layout import symbolic_call
from wend._engine.compiler.ir.loops import FOLD, MAP, SCATTER, Emit, Fold, Op, Read, shared
from wend._engine.compiler.ir.symbolic_extents import ONE, Extents, Poly, product, sub
from wend._engine.compiler.lower.lowering import Lowering, same_element
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.ops.elementwise.family import widened
from wend._engine.ops.indexing.index import LAST_STAYS
from wend._engine.ops.indexing.index_dim import Embedding, EmbeddingAdjoint
from wend._engine.ops.views.scatters import DiagonalScatter, SelectScatter, SliceScatter
from wend._engine.ops.views.slicing import counted_index, slice_bounds
from wend._engine.ops.views.strided import diagonal_bounds, diagonal_dims

#: Writes to single slices on a path that become kernels.
MOST_PUTS = 16


def pick(low: Lowering, node: Node) -> bool:
    """gather of a single element a row: a fold that lets only that element pass."""
    f = low.function
    x, index = node.inputs
    out = node.outputs[0]
    rank = len(f.shape(x))
    dim = node.prim.place(rank) if rank else 0
    shape = f.shape(index)
    if not low.kernel_types(node) or rank == 0 or len(shape) < rank or shape[dim] != ONE:
        return False
    if any(n != m for d, (n, m) in enumerate(zip(f.shape(x), shape)) if d != dim):
        return False
    dtype = f.dtypes[out]
    if dtype.category != dtypes.FLOAT:
        return False
    space = f.shape(x)
    follow = tuple(-1 if d == dim else d for d in range(rank))
    reads = [Read(x, tuple(range(rank))), Read(index, follow)]
    wide = widened(dtype)
    fold = Fold(add, -0.0, wide, True)
    op = Op(FOLD, node, node.outputs, reads, space, follow, _picked(dim, wide), fold=fold)
    op.placed = True
    low.folding(op)
    return True


@cache
def _picked(dim: int, wide: DType) -> Emit:
    """Return a rule that gives the element at the indexed place of a dim, and -0.0 elsewhere."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        value, place = b.convert(operands[0], wide), code.checked_place(operands[1], dim)
        # Adding -0.0 leaves every number unchanged.
        return b.select(b.eq(code.place(dim), place), value, code.constant(-0.0, wide))

    return shared(emit)


def drop(low: Lowering, node: Node) -> bool:
    """scatteradd of a single element a row: added where the loop comes to the indexed place."""
    if low.function.dtypes[node.inputs[0]] is dtypes.bool_ or not _single(low, node):
        return False
    return _at_places(low, node, add)


def put(low: Lowering, node: Node) -> bool:
    """scatter of a single element a row: put where the loop comes to the indexed place."""
    if dtypes.COMPLEX in node.prim.categories or not _single(low, node):
        return low.refuse(LAST_STAYS)
    return _may_put(low, node.inputs[0]) and _at_places(low, node, _new_element)


def _new_element(b: Any, x: Any, y: Any) -> Any:
    return y


def _single(low: Lowering, node: Node) -> bool:
    """Whether an index names a single place in each row of the operand, and sizes fit."""
    f = low.function
    base, index, *sources = node.inputs
    space, count = f.shape(base), f.shape(index)
    rank = len(space)
    if not low.kernel_types(node) or rank == 0 or len(count) < rank:
        return False
    wanted = list(space)
    wanted[node.prim.place(rank)] = ONE
    return all(f.shape(i) == tuple(wanted) for i in (index, *sources))


def _at_places(low: Lowering, node: Node, combine: Any) -> bool:
    """Combine the operand's element at each indexed place with the source's, as a loop.

    The source is the third operand, or a number.
    """
    f = low.function
    base, index, *sources = node.inputs
    space = f.shape(base)
    rank = len(space)
    dim = node.prim.place(rank)
    follow = tuple(-1 if d == dim else d for d in range(rank))
    every = tuple(range(rank))
    reads = [Read(base, every), *(Read(i, follow) for i in (index, *sources))]
    emit = _combined_at(dim, bool(sources), combine, f.dtypes[base])
    op = Op(MAP, node, node.outputs, reads, space, every, emit, node.args, cheap=True)
    op.placed = True
    f.add(op)
    return True


@cache
def _combined_at(dim: int, has_source: bool, combine: Any, dtype: DType) -> Emit:
    """Return the rule of `_at_places`."""
    wide = widened(dtype)

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        source = operands[2] if has_source else code.number(0)
        x, y = b.convert(operands[0], wide), b.convert(source, wide)
        here = b.eq(code.place(dim), code.checked_place(operands[1], dim))
        return b.convert(b.select(here, combine(b, x, y), x), dtype)

    return shared(emit)


@lowers(Embedding)
def rows(low: Lowering, node: Node) -> bool:
    """embedding: rows of a table, by an index."""
    f = low.function
    table, index = node.inputs
    if not low.kernel_types(node):
        return False
    low.materialise(table)
    space = f.shape(node.outputs[0])
    rank = len(space)
    reads = [
        Read(table, (-1, rank - 1), row=1),
        Read(index, tuple(range(rank - 1))),
    ]
    f.add(Op(MAP, node, node.outputs, reads, space, tuple(range(rank)), same_element))
    return True


@lowers(EmbeddingAdjoint)
def add_rows(low: Lowering, node: Node) -> bool:
    """The adjoint of embedding: rows added up by an index."""
    f = low.function
    x, index = node.inputs
    dtype = f.dtypes[x]
    if node.prim.scale_grad_by_freq:
        return low.refuse("the gradient of a row is divided by the number of look-ups")
    if not low.kernel_types(node) or dtype not in (dtypes.float32, dtypes.float64):
        return low.refuse("rows are added up for float32 and float64")
    space = f.shape(x)
    rank = len(space)
    reads = [Read(x, tuple(range(rank))), Read(index, tuple(range(rank - 1)))]
    emit = _without_padding(f.dtypes[index], dtype)
    fold = Fold(add, 0, dtype, True)
    f.add(Op(SCATTER, node, node.outputs, reads, space, (-1, rank - 1), emit, node.args, fold))
    return True


@cache
def _without_padding(index: DType, dtype: DType) -> Emit:
    """Return a rule that gives 0 for rows of the padding, whose place is a run-time number."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        left_out = b.eq(operands[1], b.convert(code.number(1), index))
        return b.select(left_out, code.constant(0.0, dtype), operands[0])

    return shared(emit)


@lowers(SliceScatter)
def inject(low: Lowering, node: Node) -> bool:
    """slice_scatter: a part of the input replaced."""
    f = low.function
    x, source = node.inputs
    if not low.kernel_types(node):
        return False
    space = f.shape(x)
    rank = len(space)
    dim = node.prim.dim % rank
    first = slice_start(low.extents, node, space, dim)
    if first is None:
        return low.refuse("the slice has a step, or sizes decide where it begins")
    every = tuple(range(rank))
    part = f.shape(source)
    if any(n != m for d, (n, m) in enumerate(zip(part, space)) if d != dim):
        return False
    reads = [Read(x, every), Read(source, every, ((dim, first, part[dim]),))]
    f.add(Op(MAP, node, node.outputs, reads, space, every, _replaced(f.dtypes[x])))
    return True


@cache
def _replaced(dtype: DType) -> Emit:
    """Return a rule that gives the second operand's element where that operand has one."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        return b.select(code.inside(1), b.convert(operands[1], dtype), operands[0])

    return shared(emit)


@lowers(SelectScatter)
def put_slice(low: Lowering, node: Node) -> bool:
    """select_scatter: a slice of the input replaced."""
    f = low.function
    x, source = node.inputs
    if not low.kernel_types(node):
        return False
    space = f.shape(x)
    if not _may_put(low, x):
        return False
    rank = len(space)
    dim = node.prim.dim % rank
    every = tuple(range(rank))
    others = tuple(d for d in every if d != dim)

    def rule(symbols: Any, marks: Any, sizes: list[Any]) -> Any:
        index = node.prim.arrange([None, None], sizes)[2]
        return counted_index("select_scatter", index, symbols[dim], dim), None

    evaluation = symbolic_call(low.extents, node, rule, space, space, node.args)
    if evaluation is None or f.shape(source) != tuple(space[d] for d in others):
        return False
    (index, _), poly = evaluation
    place = low.extents.canonical(poly(index))
    reads = [Read(x, every), Read(source, others)]
    emit = _put_at(dim, f.dtypes[x])
    op = Op(MAP, node, node.outputs, reads, space, every, emit, cheap=True)
    op.placed, op.sizes = True, (place,)
    f.add(op)
    return True


@cache
def _put_at(dim: int, dtype: DType) -> Emit:
    """Return a rule that gives the second operand's element at a place of a dim."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        here = b.eq(code.place(dim), code.size(0))
        return b.select(here, b.convert(operands[1], dtype), operands[0])

    return shared(emit)


@lowers(DiagonalScatter)
def put_diagonal(low: Lowering, node: Node) -> bool:
    """diagonal_scatter: a diagonal of the input replaced."""
    f = low.function
    x, source = node.inputs
    if not low.kernel_types(node) or not _may_put(low, x):
        return False
    space, part = f.shape(x), f.shape(source)
    every = tuple(range(len(space)))
    dim1, dim2 = diagonal_dims("diagonal_scatter", node.prim.dim1, node.prim.dim2, len(space))
    rest = tuple(d for d in every if d not in (dim1, dim2))

    def rule(symbols: Any, marks: Any, sizes: list[Any]) -> Any:
        offset = node.prim.arrange([None, None], sizes)[2]
        return diagonal_bounds(symbols[dim1], symbols[dim2], offset)[:2], None

    evaluation = symbolic_call(low.extents, node, rule, space, space, node.args)
    if evaluation is None or part[:-1] != tuple(space[d] for d in rest):
        return False
    ((row, column), _), poly = evaluation
    first, apart = poly(row), low.extents.canonical(sub(poly(column), poly(row)))
    reads = [Read(x, every), Read(source, (*rest, dim1), ((len(rest), first, part[-1]),))]
    emit = _put_on_diagonal(dim1, dim2, f.dtypes[x])
    op = Op(MAP, node, node.outputs, reads, space, every, emit)
    op.placed, op.sizes = True, (apart,)
    f.add(op)
    return True


@cache
def _put_on_diagonal(dim1: int, dim2: int, dtype: DType) -> Emit:
    """Return a rule that gives the second operand's element on a diagonal of two dims."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        on = b.eq(code.place(dim2), b.add(code.place(dim1), code.size(0)))
        here = b.bitwise_and(code.inside(1), on)
        return b.select(here, b.convert(operands[1], dtype), operands[0])

    return shared(emit)


def _may_put(low: Lowering, x: int) -> bool:
    """Count a write to a part; return whether a kernel may go through all of the operand for it.

    The reference need not go through the operand.
    """
    f = low.function
    if x in f.uniform:
        return True
    low.puts += 1
    low.refusal = f"the path has more than {MOST_PUTS} writes to parts"
    if low.puts <= MOST_PUTS and f.base(x) in f.inputs:
        f.small.append(product(f.shape(x)))
    return low.puts <= MOST_PUTS


def slice_start(extents: Extents, node: Node, shape: tuple[Poly, ...], dim: int) -> Poly | None:
    """Return the first place of a slice of step 1 along a dim, as a polynomial; None if unknown."""

    def rule(symbols: Any, marks: Any, sizes: list[Any]) -> Any:
        start, end, step = node.prim.arrange([None, None], sizes)[2:]
        first, _, _ = slice_bounds("slice", symbols[dim], start, end, step)
        return first, 1 if step == 1 else 0

    evaluation = symbolic_call(extents, node, rule, shape, shape, node.args)
    if evaluation is None:
        return None
    (first, dense), poly = evaluation
    return poly(first) if dense else None


def add(b: Any, a: Any, x: Any) -> Any:
    """How a sum combines."""
    return b.add(a, x)
