"""Lowering of the ops that pick rows, or add up rows, by an index.

The index says the place along a dim of the operand, or of the result. No vectors go along the loops
of that dim; all other loops are as in any nest.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.scalar_ops import rounded_to
from wend._engine.compiler.ir.loops import MAP, SCATTER, Emit, Fold, Op, Read, shared
from wend._engine.compiler.ir.symbolic_extents import Poly
from wend._engine.compiler.lower.index import add, drop, pick
from wend._engine.compiler.lower.lowering import NO_DIMS, NO_SUMS, Lowering, same_element
from wend._engine.compiler.lower.registry import lowers
from wend._engine.compiler.lower.several import by_one_index, merged, placed, show
from wend._engine.core.graph import Node
from wend._engine.ops.elementwise.family import widened
from wend._engine.ops.indexing.gather import Gather, ScatterAdd
from wend._engine.ops.indexing.index import LAST_STAYS, Index, IndexPut, adjacent
from wend._engine.ops.indexing.index_dim import IndexSelect

SEVERAL = "tensors index dims that are not neighbours"
WIDE = "the index is not int32 or int64"
UNLIKE = "operand, index and source are not known to have sizes that fit"


@lowers(IndexSelect, Index)
def select(low: Lowering, node: Node) -> bool:
    """index_select, and index by tensors of neighbouring dims: slices in the order of the index."""
    f = low.function
    x, *indices = node.inputs
    several = len(indices) > 1
    if several:
        dims = node.prim.place(len(f.shape(x)))
        if not adjacent(dims) or not low.kernel_types(node):
            return low.refuse(SEVERAL)
        extents = tuple([f.shape(x)[d] for d in dims])
        flat = placed(low, node, extents, indices)
        if flat is None:
            return low.refuse(UNLIKE)
        x, index = merged(low, node, x, dims[0], len(dims)), flat
    else:
        (index,) = indices
    rank, depth = len(f.shape(x)), len(f.shape(index))
    indexed_dim = dims[0] if several else _indexed_dim(node, rank)
    if indexed_dim is None or not _is_index(low, index) or not low.kernel_types(node):
        return low.refuse(NO_DIMS if rank == 0 else WIDE)
    low.materialise(x)
    low.materialise(index)
    dim = indexed_dim
    space = f.shape(node.outputs[0])
    if len(space) != rank - 1 + depth:
        return low.refuse(UNLIKE)
    dims = tuple(d if d < dim else -1 if d == dim else d + depth - 1 for d in range(rank))
    reads = [Read(x, dims, row=1, row_dim=dim), Read(index, tuple(range(dim, dim + depth)))]
    op = Op(MAP, node, node.outputs, reads, space, tuple(range(len(space))), same_element)
    op.wraps = isinstance(node.prim, Index) and not several
    f.add(op)
    return True


def _indexed_dim(node: Node, rank: int) -> int | None:
    if rank == 0:
        return None
    place = node.prim.place(rank)
    return int(place[0] if isinstance(node.prim, Index) else place)


def _is_index(low: Lowering, index: int) -> bool:
    return low.function.dtypes[index] in (dtypes.int32, dtypes.int64)


@lowers(Gather)
def gather(low: Lowering, node: Node) -> bool:
    """gather: of a single element a row by comparison, of more by address."""
    if pick(low, node):
        return True
    f = low.function
    x, index = node.inputs
    rank = len(f.shape(x))
    if not _alike(low, node, x, index) or not _is_index(low, index):
        return low.refuse(UNLIKE if rank else NO_DIMS)
    low.materialise(x)
    low.materialise(index)
    dim = node.prim.place(rank)
    every = tuple(range(rank))
    dims = tuple(-1 if d == dim else d for d in every)
    reads = [Read(x, dims, row=1, row_dim=dim), Read(index, every)]
    op = Op(MAP, node, node.outputs, reads, f.shape(index), every, same_element)
    op.within = not _fits(dim, f.shape(x), f.shape(index))
    f.add(op)
    return True


def _alike(low: Lowering, node: Node, whole: int, index: int) -> bool:
    """Whether an index has as many dims as the operand, and kernels can take both."""
    rank = len(low.function.shape(whole))
    return 0 < rank == len(low.function.shape(index)) and low.kernel_types(node)


def _fits(dim: int, whole: tuple[Poly, ...], part: tuple[Poly, ...]) -> bool:
    """Whether an index is known to have the operand's extents, but along the indexed dim.

    The index may be smaller: then the rest of the operand takes no part.
    """
    return all(n == m for d, (n, m) in enumerate(zip(whole, part, strict=True)) if d != dim)


def scatter_reduce(low: Lowering, node: Node) -> bool:
    """scatter_reduce: sums that begin with the operand, which are those of scatter_add."""
    prim: Any = node.prim
    return prim.reduce == "sum" and prim.include_self and scatter_add(low, node)


@lowers(ScatterAdd)
def scatter_add(low: Lowering, node: Node) -> bool:
    """scatter_add: of a single element a row by comparison, of more by address."""
    if drop(low, node):
        return True
    f = low.function
    base, index, source = node.inputs
    rank = len(f.shape(base))
    if not _alike(low, node, base, index) or not _is_index(low, index):
        return low.refuse(UNLIKE if rank else NO_DIMS)
    if f.shape(source) != f.shape(index):
        return low.refuse(UNLIKE)
    dim = node.prim.place(rank)
    within = not _fits(dim, f.shape(base), f.shape(index))
    every = tuple(range(rank))
    follow = tuple(-1 if d == dim else d for d in every)
    reads = [Read(source, every), Read(index, every)]
    return _into(low, node, base, reads, f.shape(source), follow, dim, within=within)


def add_slices(low: Lowering, node: Node) -> bool:
    """index_add, and index_put that accumulates: slices added up by the index."""
    put = isinstance(node.prim, IndexPut)
    if put and not node.prim.accumulate:
        return low.refuse(LAST_STAYS)
    if not low.kernel_types(node):
        return False
    one = by_one_index(low, node)
    if one is None:
        return low.refuse(SEVERAL)
    single, dim = one
    if not _add_slices(low, single, dim, put):
        return False
    show(low, node, single)
    return True


def _add_slices(low: Lowering, node: Node, dim: int, put: bool) -> bool:
    """Add slices along a dim by an index. put: whether places may count from the end"""
    f = low.function
    base, index, source = node.inputs
    rank, depth = len(f.shape(base)), len(f.shape(index))
    space = f.shape(source)
    if rank == 0 or len(space) != rank - 1 + depth:
        return low.refuse(UNLIKE if rank else NO_DIMS)
    if not _is_index(low, index):
        return low.refuse(WIDE)
    along = f.shape(index)
    wanted = (*f.shape(base)[:dim], *along, *f.shape(base)[dim + 1 :])
    if wanted != space:
        return low.refuse(UNLIKE)
    every = tuple(range(len(space)))
    reads = [Read(source, every), Read(index, tuple(range(dim, dim + depth)))]
    follow = tuple(d if d < dim else -1 if d == dim else d + depth - 1 for d in range(rank))
    return _into(low, node, base, reads, space, follow, dim, wraps=put)


def _into(
    low: Lowering, node: Node, base: int, reads: list[Read], space: tuple[Poly, ...],
    follow: tuple[int, ...], dim: int, wraps: bool = False, within: bool = False,
) -> bool:  # fmt: skip
    """Add to each element of the base the sum of the source's elements for that place."""
    f = low.function
    out = node.outputs[0]
    dtype = f.dtypes[out]
    if dtype is dtypes.bool_:
        return low.refuse(NO_SUMS)
    for read in reads:
        low.materialise(read.value)
    wide = widened(dtype)
    shape = f.shape(out)
    empty = base in f.uniform and f.uniform[base][0] == 0
    sums = out if empty and wide is dtype else f.fresh(shape, wide)
    emit, fold = rounded_to(wide), Fold(add, 0, wide, True)
    op = Op(SCATTER, node, (sums,), reads, space, follow, emit, fold=fold)
    op.row_dim = dim
    op.wraps = wraps
    op.within = within
    f.add(op)
    if sums == out:
        return True
    every = tuple(range(len(shape)))
    total_reads = [Read(base, every), Read(sums, every)]
    f.add(Op(MAP, node, (out,), total_reads, shape, every, _total(wide, dtype), cheap=True))
    return True


@cache
def _total(wide: DType, dtype: DType) -> Emit:
    """Return a rule that adds a sum in a wide dtype to an element."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        return b.convert(b.add(b.convert(operands[0], wide), operands[1]), dtype)

    return shared(emit)
