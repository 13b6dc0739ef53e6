"""Contractions as matrix products: which dims are rows, columns, summed, or a batch of products."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, permutations
from math import prod
from typing import NamedTuple

from wend._engine.compiler.ir.loops import Layout, contiguous
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Extents, Poly


class Axis(NamedTuple):
    """A loop of a product: its extent, and the elements apart in x, y and the result.

    dims: the dims of the result along the loop, the fastest last
    """

    extent: Poly
    x: Poly
    y: Poly
    out: Poly
    dims: tuple[int, ...] = ()


class Product(NamedTuple):
    """out[b, m, n] = sum over k of x[b, m, k] * y[b, k, n].

    In the result n has stride 1.
    """

    x: Layout
    y: Layout
    out: Layout
    batch: tuple[Axis, ...]
    m: Axis
    n: Axis
    k: Axis


#: Dims of the operands: (batch, sum, free) of x, then of y, as `Contract.layout` says.
Axes = tuple[tuple[int, ...], ...]
MAX_BATCH = 2
#: Orders of loops that are looked at: all orders of up to four loops.
_ORDERS = 24
_UNIT = Axis(ONE, ZERO, ZERO, ZERO)


class MatrixOperand(NamedTuple):
    """A matrix, or several matrices: the layout and the extents."""

    layout: Layout
    shape: tuple[Poly, ...]

    def copied(self, order: tuple[int, ...]) -> MatrixOperand:
        """Return a dense copy, with the operand's dims in this order."""
        shape = tuple([self.shape[d] for d in order])
        return MatrixOperand(Layout(self.layout.base, contiguous(shape), ZERO), shape)


def product_of(
    extents: Extents,
    x: MatrixOperand,
    y: MatrixOperand,
    out: Layout,
    axes: Axes,
    turns: Callable[[Axis], int],
) -> Product | None:
    """Return a contraction as a product, or None if an operand has to be copied first.

    turns: how many turns a loop took once. Where loops do not merge, this decides which loop
    becomes the rows
    """
    bx, sx, fx, by, sy, fy = axes
    (lx, shape_x), (ly, shape_y), lo = x, y, out
    nb, nm = len(bx), len(fx)
    batch = [
        Axis(shape_x[i], lx.strides[i], ly.strides[j], lo.strides[k], (k,))
        for k, (i, j) in enumerate(zip(bx, by, strict=True))
    ]
    m = [
        Axis(shape_x[i], lx.strides[i], ZERO, lo.strides[k], (k,))
        for k, i in enumerate(fx, start=nb)
    ]
    n = [
        Axis(shape_y[j], ZERO, ly.strides[j], lo.strides[k], (k,))
        for k, j in enumerate(fy, start=nb + nm)
    ]
    k = [Axis(shape_x[i], lx.strides[i], ly.strides[j], ZERO) for i, j in zip(sx, sy, strict=True)]
    batch, m, n, k = (shortest(extents, axis) for axis in (batch, m, n, k))
    if len(k) > 1:
        return None
    across = n and n[-1].out == ONE
    if n and not across:  # else columns of x are columns of the result
        if not m or m[-1].out != ONE:
            return None
        lx, ly = ly, lx
        batch, m, n, k = ([swapped(a) for a in axis] for axis in (batch, n, m, k))
    # Loops that do not merge into a single loop of rows or columns run product by product.
    rows = m[-1] if len(m) == 1 else max(reversed(m), key=turns, default=_UNIT)
    columns = n[-1] if n else _UNIT
    apart = [a for a in m if a is not rows]
    apart = [*apart, *n[:-1]] if across or not n else [*n[:-1], *apart]
    batch = shortest(extents, [*batch, *apart])
    if len(batch) > MAX_BATCH:
        return None
    return Product(lx, ly, lo, tuple(batch), rows, columns, k[0] if k else _UNIT)


#: Nanoseconds, roughly: of a multiplication and addition, of an element that is packed or copied.
_FMA, MOVED = 0.02, 0.2
#: Rows of a tile: fewer take as long.
_ROWS = 6


def is_one(p: Product, batch: int) -> bool:
    """Whether there is a single product for each entry of a batch of so many dims."""
    return all(d < batch for axis in p.batch for d in axis.dims)


def summed_order(
    extents: Extents, x: MatrixOperand, dims: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return positions in `dims` of an operand, in an order that forms a single loop, or None."""
    axes = [Axis(x.shape[d], x.layout.strides[d], ZERO, ZERO, (k,)) for k, d in enumerate(dims)]
    loops = shortest(extents, axes)
    if len(loops) > 1:
        return None
    inside = loops[0].dims if loops else ()
    return (*[k for k in range(len(dims)) if k not in inside], *inside)


def cost_of(p: Product, turns: Callable[[Axis], int], depth: int) -> float:
    """Return nanoseconds, roughly, of products that each pack their right operand."""
    rows, columns = turns(p.m), turns(p.n)
    count = prod(map(turns, p.batch))
    return count * depth * columns * (-(-rows // _ROWS) * _ROWS * _FMA + MOVED)


def swapped(axis: Axis) -> Axis:
    """The axis with the roles of x and y exchanged."""
    return axis._replace(x=axis.y, y=axis.x)


def shortest(extents: Extents, axes: list[Axis]) -> list[Axis]:
    """Return as few loops as strides allow, in any order; steps in the result become smaller."""
    axes = [a for a in axes if a.extent != ONE]
    if len(axes) < 2:
        return axes
    key = tuple(axes)
    loops = extents.loops.get(key)
    if loops is None:
        loops = extents.loops[key] = _fewest(extents, axes)
    return loops


def _fewest(extents: Extents, axes: list[Axis]) -> list[Axis]:
    best = merged(extents, axes)
    for order in islice(permutations(axes), 1, _ORDERS):
        if len(best) == 1:
            break
        loops = merged(extents, list(order))
        if len(loops) < len(best):
            best = loops
    if len(best) > 1 and best[-1].out != ONE:
        best.sort(key=lambda a: a.out == ONE)
    return best


def merged(extents: Extents, axes: list[Axis]) -> list[Axis]:
    """Return loops, merged with neighbours where all strides allow, without loops of one turn."""
    times = extents.times
    result: list[Axis] = []
    for axis in axes:
        if axis.extent == ONE:
            continue
        if result:
            last = result[-1]
            if all(
                times(axis.extent, inner) == outer
                for inner, outer in zip(axis[1:4], last[1:4], strict=True)
            ):
                extent = times(last.extent, axis.extent)
                result[-1] = axis._replace(extent=extent, dims=last.dims + axis.dims)
                continue
        result.append(axis)
    return result
