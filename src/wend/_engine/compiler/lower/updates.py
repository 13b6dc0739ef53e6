"""Lowering of changes of a few elements, at places that an index names, to steps of a plan.

Accelerators have a kernel for changes along a dim. Processors have a kernel for rows of a
leaf alone, see `kernels.row_updates`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.ir.loops import (
    MAP,
    UPDATES,
    Emit,
    Layout,
    Op,
    Read,
    contiguous,
    shared,
)
from wend._engine.compiler.ir.symbolic_extents import ZERO
from wend._engine.compiler.lower.index import put
from wend._engine.compiler.lower.lowering import NO_DIMS, NO_SUMS, Lowering, every
from wend._engine.compiler.lower.registry import lowers
from wend._engine.compiler.lower.rows import SEVERAL, UNLIKE, WIDE
from wend._engine.compiler.lower.rows import scatter_reduce as sums_of_elements
from wend._engine.compiler.lower.several import by_one_index, checked_place, merged, show
from wend._engine.core.graph import Node
from wend._engine.ops.elementwise.family import widened
from wend._engine.ops.indexing.gather import ScatterSrc, ScatterValue
from wend._engine.ops.indexing.index import IndexPut
from wend._engine.ops.indexing.index_dim import IndexAdd
from wend._engine.ops.indexing.scatter_reduce import ScatterReduce


def adds(prim: Any) -> bool:
    """Whether an op adds slices, instead of copying slices."""
    return isinstance(prim, IndexAdd) or (isinstance(prim, IndexPut) and prim.accumulate)


def checked_places(low: Lowering, node: Node, index: int, dim: int, wraps: bool) -> int:
    """Add a step that checks an index along a dim; returns the places, as int64 from 0 on.

    wraps: whether places may count from the end
    """
    f = low.function
    shape = f.shape(index)
    loops = every(len(shape))
    places = f.fresh(shape, dtypes.int64)
    op = Op(MAP, node, (places,), [Read(index, loops)], shape, loops, _checked(wraps))
    op.name, op.sizes = "places", (f.shape(node.inputs[0])[dim],)
    f.add(op)
    return places


@cache
def _checked(wraps: bool) -> Emit:
    """Return a rule that checks a place. wraps: whether places may count from the end"""

    def emit(code: Any, operands: list[Any]) -> Any:
        return checked_place(code.b, operands[0], code.size(0), wraps)

    return shared(emit)


def lower_slices(low: Lowering, node: Node) -> bool:
    """Lower a change of slices along a dim, which tensors name, to a step of an accelerator.

    Slices are added to a leaf alone: loops add to all else.
    """
    f = low.function
    base, dtype, prim = node.inputs[0], f.dtypes[node.outputs[0]], node.prim
    if adds(prim) and (base not in f.inputs or not _may_add(dtype)):
        return low.refuse(NO_SUMS)
    if not f.shape(base):
        return low.refuse(NO_DIMS)
    one = by_one_index(low, node) if low.kernel_types(node) else None
    if one is None:
        return low.refuse(SEVERAL)
    single, dim = one
    base, index, source = single.inputs
    shape, along = f.shape(base), f.shape(index)
    region = (*shape[:dim], *along, *shape[dim + 1 :])
    read = low.read(source, region)
    depth = len(along)
    if read is None or depth == 0:
        return low.refuse(UNLIKE)
    if depth > 1:
        index = merged(low, node, index, 0, depth)
        inner = [d for d in read.dims if dim <= d < dim + depth]
        if inner and f.shape(source) != region:
            return low.refuse(UNLIKE)
        if inner:
            read = Read(merged(low, node, source, dim, depth), every(len(shape)))
        else:
            read = Read(source, tuple([d if d < dim else d - depth + 1 for d in read.dims]))
        inputs = base, index, read.value
        single = Node(prim, node.program, inputs, single.outputs, node.args, node.grad)
    wraps = isinstance(prim, IndexPut)
    if not _lower_updates(low, single, dim, (dim,), read, wraps):
        return False
    show(low, node, single)
    return True


def _may_add(dtype: dtypes.DType) -> bool:
    """Whether sums are rounded alike, when each term is added in memory."""
    return dtype is not dtypes.bool_ and widened(dtype) is dtype


@lowers(ScatterSrc, ScatterValue)
def scatter(low: Lowering, node: Node) -> bool:
    """scatter of a single element a row by loops, of more by a step of an accelerator."""
    return put(low, node) or (low.is_device and _lower_elements(low, node))


@lowers(ScatterReduce)
def scatter_reduce(low: Lowering, node: Node) -> bool:
    """scatter_reduce: plain sums by loops, else by a step of an accelerator, but for means."""
    prim: Any = node.prim
    if sums_of_elements(low, node):
        return True
    if not low.is_device or prim.reduce == "mean":
        return False
    dtype = low.function.dtypes[node.outputs[0]]
    if dtype is dtypes.bool_ or (prim.reduce in ("sum", "prod") and not _may_add(dtype)):
        return False
    return _lower_elements(low, node)


def _lower_elements(low: Lowering, node: Node) -> bool:
    """Lower scatter, by elements of a source or by a number, to a step."""
    f = low.function
    base, index, *source = node.inputs
    rank = len(f.shape(base))
    if rank == 0 or len(f.shape(index)) != rank:
        return low.refuse(NO_DIMS)
    if source and len(f.shape(source[0])) != rank:
        return low.refuse(UNLIKE)
    if source:
        read = Read(source[0], every(rank))
    elif dtypes.COMPLEX in node.prim.categories or not low.kernel_types(node):
        return False
    else:
        read = Read(low.number(node, f.dtypes[base]), ())
    return _lower_updates(low, node, node.prim.place(rank), every(rank), read, False)


def _lower_updates(
    low: Lowering, node: Node, dim: int, loops: tuple[int, ...], source: Read, wraps: bool
) -> bool:
    """Add the steps that check an index, and change the elements along a dim that it names.

    loops: the dims that the index follows
    wraps: whether places may count from the end
    """
    f = low.function
    base, index = node.inputs[:2]
    if not low.kernel_types(node):
        return False
    if f.dtypes[index] not in (dtypes.int32, dtypes.int64):
        return low.refuse(WIDE)
    for i in (*node.inputs, source.value):
        low.materialise(i)
    shape = f.shape(base)
    (out,) = node.outputs
    f.layouts[out] = Layout(out, contiguous(shape), ZERO)
    places = checked_places(low, node, index, dim, wraps)
    reads = [Read(base, every(len(shape))), Read(places, loops), source]
    op = Op(UPDATES, node, node.outputs, reads, shape)
    op.row_dim = dim
    f.add(op)
    return True
