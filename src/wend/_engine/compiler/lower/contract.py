"""Lowering of contractions: how the result is stored, and which operands are copied first.

Rows that no strides merge are a loop of products, of few rows perhaps. There are three remedies: to
store the result in another order, to copy an operand, or to make a product for each place, the
larger dim as rows. The first sizes of the path decide which remedy is cheapest.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product as pairs
from math import prod
from typing import Any, NamedTuple

from wend._engine.base import dtypes
from wend._engine.compiler.ir.layout import is_dense, ordered, orders_read
from wend._engine.compiler.ir.loops import CONTRACT, MAP, Function, Layout, Op, Read, View
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, FirstSizes
from wend._engine.compiler.llvm_ir.values import HALVES
from wend._engine.compiler.lower.contraction import (
    MOVED,
    Axes,
    Axis,
    MatrixOperand,
    Product,
    cost_of,
    is_one,
    product_of,
    summed_order,
)
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.ops.contract import Contract
from wend._engine.ops.views.family import View as ViewOp

Order = tuple[int, ...]


@lowers(Contract)
def lower_contract(low: Any, node: Node) -> bool:
    """Add a matrix product of floats, behind copies of operands where copies pay.

    Operands of half precision are widened first, each value once; the sums are rounded at the end.
    """
    f: Function = low.function
    out = node.outputs[0]
    dtype = f.dtypes[out]
    if dtype not in (dtypes.float32, dtypes.float64, *HALVES):
        return bool(low.refuse("matrix products are made for floats"))
    for i in node.inputs:
        low.materialise(i)
    if dtype not in HALVES:
        return add_product(low, node, list(node.inputs), out)
    shape = f.shape(out)
    sums = f.fresh(shape, dtypes.float32)
    if not add_product(low, node, [low.widened(i) for i in node.inputs], sums):
        return False
    every = tuple(range(len(shape)))

    def rounded(code: Any, operands: list[Any]) -> Any:
        return code.b.convert(operands[0], dtype)

    op = Op(MAP, node, (out,), [Read(sums, every)], shape, every, rounded, cheap=True)
    op.name = "round"
    f.add(op)
    return True


def add_product(low: Any, node: Node, operands: list[int], out: int) -> bool:
    """Add the product of two values, with the axes of a node, as value `out`; return if it can be.

    operands, out: of one dtype, float32 or float64
    """
    f: Function = low.function
    contraction = _Contraction(low, node, operands, out)
    way = contraction.best()
    if way is None:
        return bool(low.refuse("no order of its dims makes a matrix product"))
    f.layouts[out] = way.layout
    inputs = [
        i if order is None else low.shared_copy(i, order)
        for i, order in zip(operands, way.copies, strict=True)
    ]
    reads = [Read(i, tuple(range(len(f.shape(i))))) for i in inputs]
    op = Op(CONTRACT, node, (out,), reads)
    op.product = way.product
    if inputs != operands:
        x, y = (MatrixOperand(f.layout(i), f.shape(i)) for i in inputs)
        op.product = product_of(f.extents, x, y, way.layout, way.axes, contraction.turns)
    f.add(op)
    return True


class _Way(NamedTuple):
    """How a contraction may be computed.

    layout: the layout of the result
    copies: the dims of each operand in the order of the copy, None for an operand without a copy
    axes: the axes of the operands or copies that are read
    """

    product: Product
    layout: Layout
    copies: tuple[Order | None, Order | None]
    axes: Axes


class _Contraction:
    """The ways to compute a contraction."""

    def __init__(self, low: Any, node: Node, operands: list[int], out: int) -> None:
        self.low = low
        self.function: Function = low.function
        self.out = out
        self.shape = self.function.shape(self.out)
        f, (x, y) = self.function, operands
        self.x, self.y = (MatrixOperand(f.layout(i), f.shape(i)) for i in (x, y))
        prim: Any = node.prim
        self.axes: Axes = prim.layout(len(self.x.shape), len(self.y.shape))

    @cached_property
    def sizes(self) -> list[int]:
        """The sizes of the result's dims, when the path was met first."""
        return [self.low.sizes(n) for n in self.shape]

    def turns(self, axis: Axis) -> int:
        """Return how many turns a loop took then."""
        return prod([self.sizes[d] for d in axis.dims])

    def best(self) -> _Way | None:
        """Return the first way that is one product without copies, or else the cheapest way."""
        stored: list[tuple[Order, Layout, int]] = []
        ways: list[tuple[float, _Way]] = []
        for order in self.orders():
            layout = Layout(self.out, ordered(self.shape, order), ZERO)
            way = self.way(layout, order, (False, False))
            whole = way is not None and is_one(way.product, len(self.axes[0]))
            if whole and not stored:
                return way
            after = sum(1 for _ in self.copied_after(self.out, layout))
            if whole and not after:
                return way
            stored.append((order, layout, after))
            if way is not None:
                ways.append((self.cost(way, after), way))
        for copies in (((True, False), (False, True)), ((True, True),)):
            for copied, (order, layout, after) in pairs(copies, stored):
                way = self.way(layout, order, copied)
                if way is not None:
                    ways.append((self.cost(way, after), way))
            if any(is_one(w.product, len(self.axes[0])) for _, w in ways):
                break  # a second copy would gain nothing
        return min(ways, key=lambda pair: pair[0])[1] if ways else None

    def orders(self) -> list[Order]:
        """Return orders in which the result may be stored; the order of an only view is best."""
        plain = tuple(range(len(self.shape)))
        if self.out in self.low.needed:
            return [plain]
        shown = self.shown(self.out, plain)
        return [*shown, plain] if len(shown) == 1 and plain not in shown else [plain]

    def shown(self, i: int, plain: Order) -> set[Order]:
        """Return the orders of dims in which a value is read, behind all permutations."""
        orders: set[Order] = set()
        for node in self.low.consumers.get(i, ()):
            (order,) = orders_read([node.prim], len(plain))
            last = order == plain or node.outputs[0] in self.low.needed
            later = {plain} if last else self.shown(node.outputs[0], plain)
            orders |= {tuple([order[d] for d in dims]) for dims in later}
        return orders

    def way(self, layout: Layout, order: Order, copied: tuple[bool, bool]) -> _Way | None:
        """Return the product after copies of these operands, or None."""
        bx, sx, fx, by, sy, fy = self.axes
        x, y = self.x, self.y
        # The copied operand is summed in the order in which the other operand lies.
        turns: Order | None = tuple(range(len(sx)))
        if copied == (True, False):
            turns = summed_order(self.function.extents, y, sy)
        elif copied == (False, True):
            turns = summed_order(self.function.extents, x, sx)
        if turns is None:
            return None
        nb, nm = len(bx), len(fx)
        copy_x = copy_y = None
        if copied[0]:
            free = [fx[d - nb] for d in order if nb <= d < nb + nm]
            copy_x = self.copied(x, bx, tuple(free), tuple([sx[k] for k in turns]))
            x = x.copied(copy_x)
            bx, sx, fx = (tuple(map(copy_x.index, dims)) for dims in (bx, sx, fx))
        if copied[1]:
            free = [fy[d - nb - nm] for d in order if d >= nb + nm]
            copy_y = self.copied(y, by, tuple([sy[k] for k in turns]), tuple(free))
            y = y.copied(copy_y)
            by, sy, fy = (tuple(map(copy_y.index, dims)) for dims in (by, sy, fy))
        axes = bx, sx, fx, by, sy, fy
        product = product_of(self.function.extents, x, y, layout, axes, self.turns)
        return None if product is None else _Way(product, layout, (copy_x, copy_y), axes)

    def copied(self, operand: MatrixOperand, batch: Order, outer: Order, inner: Order) -> Order:
        """Return the order of a copy. Elements side by side stay so; else inner dims become so."""
        strides = operand.layout.strides
        turned = ONE in [strides[d] for d in outer] and ONE not in [strides[d] for d in inner]
        return (*batch, *inner, *outer) if turned else (*batch, *outer, *inner)

    def cost(self, way: _Way, after: int) -> float:
        """Return nanoseconds, roughly: of the product, copies before, and `after` copies behind."""
        size: FirstSizes = self.low.sizes
        depth = prod(size(self.x.shape[d]) for d in self.axes[1])
        copied = [
            prod(map(size, operand.shape))
            for operand, order in zip((self.x, self.y), way.copies, strict=True)
            if order is not None
        ]
        copied += [prod(self.sizes)] * after
        return cost_of(way.product, self.turns, depth) + MOVED * sum(copied)

    def copied_after(self, i: int, layout: Layout) -> Iterator[int]:
        """Yield the views of a value that would need copies if the value had this layout."""
        f = self.function
        if i in self.low.needed and not is_dense(f.shape(i), layout.strides):
            yield i
        for node in self.low.consumers.get(i, ()):
            if isinstance(node.prim, ViewOp) and len(node.inputs) == 1:
                shown = node.outputs[0]
                placement = self.low.shown(View(shown, i, node), layout)
                if placement is None:
                    yield shown
                else:
                    yield from self.copied_after(shown, Layout(self.out, *placement))
