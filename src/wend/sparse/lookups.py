"""Look-ups in a table whose gradient is a sparse tensor.

A look-up is recorded as `embedding(weight, indices) + nothing`. The table gets no gradient by the
first op. `nothing` is -0.0 everywhere, so that the sum is bit for bit the rows that were picked. It
counts as a result of an earlier flush: of a segment that stands for the look-ups of one trace. So
executors, groups and plans take a look-up as any two ops, and the gradient of each look-up comes to
this segment. Its backward pass makes one sparse gradient of them all.
"""

from __future__ import annotations

import math
from typing import Any

from wend._engine.base.dtypes import int64
from wend._engine.core import _hot
from wend._engine.core._hot import Record, Segment, Tensor, Value
from wend._engine.core._types import off_mode
from wend._engine.core.primitive import ops
from wend._engine.runtime.batching.deferred_backward import LazyPath
from wend._engine.runtime.batching.split_flush import leaf_record
from wend._engine.transforms.grad import with_grad
from wend._engine.transforms.hooks import MADE_OF_PARTS
from wend._frontend.creation import held
from wend._frontend.interop import places as arrays
from wend._frontend.interop.exchange import array_of
from wend.sparse.layouts import Coordinates
from wend.sparse.tensor import SparseTensor, wrap

#: Most traces, and most shapes of `nothing`, that are kept.
MOST_OPEN, MOST_SHAPES = 1024, 64
#: The segments of look-ups, by (serial of the trace, id of the table's leaf). A segment keeps the
#: leaf, so that no other leaf has this id meanwhile.
_open: dict[tuple[int, int], Segment] = {}
#: Arrays of -0.0 by type. Being kept here, too, no array is overwritten by a flush.
_nothing: dict[Any, Any] = {}


class Lookups:
    """The backward pass of a trace's look-ups in a table (`PathGraph.later`).

    indices: of each look-up     padding: of each, the row without a gradient; negative for none
    """

    by_groups = False

    def __init__(self, table: Value) -> None:
        self.table = _hot.slim(table)
        self.indices: list[Value] = []
        self.padding: list[int] = []
        self.types = [table.type]

    def enter(self, segment: Segment, rows: Tensor, value: Value, padding_idx: int) -> Tensor:
        """Note a look-up of these rows; return the `nothing` that its gradient comes to.

        value: the indices
        """
        type_ = _hot.value_of(rows).type
        self.indices.append(value)
        self.padding.append(padding_idx)
        self.types += [value.type, type_]
        array = _nothing.get(type_)
        if array is None:
            if len(_nothing) >= MOST_SHAPES:
                _nothing.clear()
            array = _nothing[type_] = arrays.negative_zeros(type_.dims, type_.dtype.numpy)
        at = 2 * len(self.indices)
        nothing: Tensor = _hot.wrap(_hot.held_in_segment(type_, array, segment, at))
        return nothing

    def content(self) -> tuple[list[Any], list[Any], list[Any]]:
        """The look-ups as steps, the types of all values, and the sizes that the steps read."""
        table = leaf_record(self.table, 0)
        steps, mode = [table], _hot.current_trace().mode
        prim = ops.embedding.primitive.of(("T", "T", "I"))
        for k, value in enumerate(self.indices):
            steps.append(leaf_record(_hot.held(value.type, None), 2 * k + 1))
            step = Record.__new__(Record)
            step.prim, step.mode = prim, with_grad(mode, True)
            step.program, (step.out_type,) = prim.typed([self.table.type, value.type], [-1])
            step.i0, step.i1, step.i2, step.n_in = 0, 2 * k + 1, -1, 2
            step.first, step.n_out, step.arg0 = 2 * k + 2, 1, k
            step.requires_grad = True
            steps.append(step)
        return steps, self.types, self.padding

    # -- backward -------------------------------------------------------------------------------

    def pass_on(self, owner: Any, segment: Segment, seeds: dict[int, Any]) -> bool:
        """Hand the table its gradient; True, as no nodes are needed.

        owner: the pass
        seeds: the gradients of look-ups
        """
        leaf = self.table.leaf
        if leaf is not None and leaf.requires_grad:
            owner.contribute(segment.inputs[0], self.gradient(seeds, owner.create))
        return True

    def gradient(self, seeds: dict[int, Any], create: bool) -> Tensor:
        """The gradients of look-ups as one sparse tensor, that of the latest look-up first.

        create: whether the gradients have gradients
        """
        if not MADE_OF_PARTS:
            MADE_OF_PARTS.append(SparseTensor)
        count, width = self.table.type.dims
        order = sorted(seeds, reverse=True)
        grads = [seeds[k] for k in order]
        indices = [self.indices[k // 2 - 1] for k in order]
        padding = [self.padding[k // 2 - 1] for k in order]
        if create or any(_hot.value_of(g).buffer is None for g in grads):
            sizes = [math.prod(value.type.dims) for value in indices]
            flat = [ops.reshape(g, (n, width)) for g, n in zip(grads, sizes, strict=True)]
            values = ops.cat(flat, 0) if len(flat) > 1 else flat[0]
        else:
            values = held(arrays.end_to_end([array_of(g) for g in grads], (width,)))
        if max(padding) < 0 and any(value.buffer is None for value in indices):
            flat = [ops.reshape(_hot.wrap(value), (-1,)) for value in indices]
            joined = ops.cat(flat, 0) if len(flat) > 1 else flat[0]
            return wrap(Coordinates((count,), tensor=joined.unsqueeze(0).to(int64)), values)
        parts = [array_of(_hot.wrap(value)) for value in indices]
        at = arrays.integers(arrays.end_to_end(parts, ()))
        kept = arrays.apart_from(at, parts, padding)
        if kept is not None:
            at, values = at[kept], ops.index_select(values, 0, held(kept))
        return wrap(Coordinates((count,), at[None]), values)


def lookup(weight: Tensor, indices: Tensor, padding_idx: int, rows: Tensor | None = None) -> Tensor:
    """weight[indices]; each look-up is an element of the sparse gradient, in the given order.

    weight: a leaf that requires grad     padding_idx: this row gets no gradient; negative for none
    rows: weight[indices] without gradients, if somebody has looked them up
    """
    trace = _hot.current_trace()
    table = _hot.value_of(weight)
    key = trace.serial, id(table.leaf)
    segment = _open.get(key)
    if segment is None or segment.structure.is_made:  # nodes that were read stay as they are
        segment = _begin(key, table, trace.fiber is None)
    value = _hot.value_of(indices)
    if value.extra is not None and value.buffer is not None:  # others may write to this memory
        value = _hot.held(value.type, value.buffer.copy())
    if rows is None:
        mode = trace.mode
        trace.mode = off_mode(mode)
        try:
            rows = ops.embedding(weight, _hot.wrap(value))  # nobody else writes to this handle
        finally:
            trace.mode = mode
    return rows + segment.structure.later.enter(segment, rows, value, padding_idx)


def _begin(key: tuple[int, int], table: Value, alone: bool) -> Segment:
    """Begin the segment of a trace's look-ups.

    alone: whether the thread's earlier traces have ended, as no fibers take turns
    """
    if alone or len(_open) >= MOST_OPEN:
        for other in [k for k in list(_open) if k[0] != key[0] or not alone]:
            _open.pop(other, None)
    lookups = Lookups(table)
    path = LazyPath(lookups.content)
    path.wait(lookups)
    segment = Segment(_hot.fresh_serial(), path)
    segment.inputs = {0: lookups.table}
    segment.types, segment.args, segment.saved = lookups.types, [], {}
    _open[key] = segment
    return segment
