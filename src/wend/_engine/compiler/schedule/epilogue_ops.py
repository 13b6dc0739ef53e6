"""Elementwise work on the finished elements of a product or a convolution: its *tail*.

The tail of a region is all of its ops except the product. A tail is computed tile by tile, while a
tile is in the first-level cache. So every operand and result of a tail must be a matrix along the
product's own loops. Columns must be neighbours in memory, or must all be the same element.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.ir.loops import CONTRACT, CONVOLVE, MAP, Function, Op, Read
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Poly, add, known, mul
from wend._engine.compiler.schedule.fusion_group import Region
from wend._engine.compiler.schedule.loop_order import Access

#: Kinds of ops that may have a tail.
HEADS = frozenset({CONTRACT, CONVOLVE})
#: The number of loops of a product: two of a batch, rows, columns.
LOOPS = 4
_ELEMENTS = (dtypes.FLOAT, dtypes.BOOL)


def may_have_tail(op: Op) -> bool:
    """Whether an op hands tiles of the result to an epilogue."""
    return op.kind == CONTRACT or (op.kind == CONVOLVE and op.name == "convolve")


def head_of(region: Region) -> Op:
    """Return the product or convolution of a region."""
    return next(op for op in region.ops if op.kind in HEADS)


def place_head(function: Function, region: Region, op: Op) -> None:
    """Add a product to an empty region, whose axes become the dims of the product's result."""
    placed = []
    for extent in function.shape(op.out):
        placed.append(-1 if extent == ONE else len(region.axes))
        if extent != ONE:
            region.axes.append(extent)
    region.ops.append(op)
    region.loops[op.out] = region.places[op.out] = tuple(placed)


def is_tail_op(function: Function, op: Op) -> bool:
    """Whether an op is plain elementwise work that cannot fail."""
    if op.kind != MAP or op.placed or not op.reads:
        return False
    facts, dtypes_ = op.node.prim.facts, function.dtypes
    if facts.random or (facts.fallible and not facts.only_ints_fail):  # a tail has floats only
        return False
    for read in op.reads:
        if read.shifts or read.row >= 0 or dtypes_[read.value].category not in _ELEMENTS:
            return False
    return dtypes_[op.out].category in _ELEMENTS


class Tail:
    """The accesses of a tail's operands and results, with strides along the product's loops.

    fits: whether all accesses have such strides
    """

    def __init__(self, function: Function, region: Region) -> None:
        self.function = function
        self.head = head_of(region)
        self.ops: list[Op] = []
        self.loads: dict[tuple[int, int], Access] = {}  # (result of an op, operand) -> its access
        self.stores: dict[int, Access] = {}
        self.inside: dict[tuple[int, int], int] = {}  # (result, operand) -> value of this region
        self.fits = True
        self.loops = _loops(function, region, self.head)
        for op in region.ops:
            if op is not self.head:
                self.add(region, op)
            else:
                self.stores[op.out] = self._find_store(region, op)

    def add(self, region: Region, op: Op) -> None:
        """Add the last op of the region."""
        self.ops.append(op)
        for k, read in enumerate(op.reads):
            self._find_load(region, op, k, read)
        self.stores[op.out] = self._find_store(region, op)

    def take_back(self) -> None:
        """Take back the op that was added last, with which the tail does not fit."""
        op = self.ops.pop()
        del self.stores[op.out]
        for k in range(len(op.reads)):
            self.loads.pop((op.out, k), None)
            self.inside.pop((op.out, k), None)
        self.fits = True

    @property
    def lane_bytes(self) -> int:
        """The bytes of a sum."""
        return self.function.dtypes[self.head.out].itemsize

    def _find_load(self, region: Region, op: Op, k: int, read: Read) -> None:
        f = self.function
        base = f.base(read.value)
        if base in f.uniform:
            return
        if base in region.places:
            self.inside[op.out, k] = base
            return
        layout = f.layout(read.value)
        strides = [ZERO] * len(region.axes)
        for d, loop in enumerate(read.dims):
            axis = region.loops[op.out][loop] if loop >= 0 else -1
            if axis >= 0:
                strides[axis] = add(strides[axis], layout.strides[d])
        offset = f.extents.canonical(layout.offset)
        access = Access(layout.base, f.dtypes[read.value], strides, offset)
        self.loads[op.out, k] = self._along(region, access)

    def _find_store(self, region: Region, op: Op) -> Access:
        f = self.function
        layout, places = f.layout(op.out), region.places[op.out]
        strides = [ZERO] * len(region.axes)
        for d, axis in enumerate(places):
            if axis >= 0:
                strides[axis] = add(strides[axis], layout.strides[d])
            elif op is not self.head and f.shape(op.out)[d] != ONE:
                self.fits = False
        store = self._along(region, Access(op.out, f.dtypes[op.out], strides, layout.offset))
        whole = {a for a in places if a >= 0} == set(range(len(region.axes)))
        self.fits &= whole and store.strides[-1] != ZERO
        return store

    def _along(self, region: Region, access: Access) -> Access:
        """Return an access, changed to strides along the loops of the product."""
        f = self.function
        canonical = f.extents.canonical
        strides = []
        for axes, step in self.loops:
            for outer, inner in pairwise(axes):
                step_in = canonical(mul(region.axes[inner], access.strides[inner]))
                self.fits &= access.strides[outer] == step_in
            stride = access.strides[axes[-1]] if axes else ZERO
            strides.append(canonical(mul(step, stride)))
        access.strides = strides
        self.fits &= known(strides[-1]) in (0, 1)
        return access


def tail_of(function: Function, region: Region) -> Tail:
    """Return the tail of a region: the one made with the region, if no op was dropped."""
    tail: Tail | None = region.tail
    if tail is not None and [tail.head, *tail.ops] == region.ops:
        return tail
    return Tail(function, region)


def _loops(function: Function, region: Region, op: Op) -> list[tuple[tuple[int, ...], Poly]]:
    """For each loop of a product, the axes that it merges, and the elements of a turn."""
    places = region.places[op.out]

    def axes(dims: Any) -> tuple[int, ...]:
        return tuple(places[d] for d in dims if places[d] >= 0)

    if op.kind == CONVOLVE:
        filters = axes((1,))
        return [
            (axes((0,)), ONE),
            (filters, function.filters_of_group(op)),
            (filters, ONE),
            (axes(range(2, len(places))), ONE),
        ]
    p = op.product
    batch = [axes(axis.dims) for axis in p.batch]
    while len(batch) < LOOPS - 2:
        batch.insert(0, ())
    return [(loop_axes, ONE) for loop_axes in (*batch, axes(p.m.dims), axes(p.n.dims))]
