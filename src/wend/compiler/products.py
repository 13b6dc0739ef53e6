"""Contractions as matrix products: which dims are rows, columns, summed, or a batch of products."""

from __future__ import annotations

from typing import Any, NamedTuple

from wend.compiler.extents import ONE, ZERO, Poly, mul
from wend.compiler.ir import Function, Layout


class Axis(NamedTuple):
    """A loop of a product: its extent, and the elements apart in x, y and the result.

    dims: those of the result that it goes along, the fastest last
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


MAX_BATCH = 2
_UNIT = Axis(ONE, ZERO, ZERO, ZERO)


def product_of(function: Function, x: int, y: int, out: int, axes: Any) -> Product | None:
    """The product that a contraction is, or None if an operand has to be copied first."""
    bx, sx, fx, by, sy, fy = axes
    lx, ly, lo = function.layout(x), function.layout(y), function.layout(out)
    shape_x, shape_y = function.shape(x), function.shape(y)
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
    batch, m, n, k = (merged(function, axis) for axis in (batch, m, n, k))
    if len(k) > 1:
        return None
    # What does not merge into one loop of rows or columns is done product by product.
    batch = merged(function, [*batch, *m[:-1], *n[:-1]])
    rows, columns = m[-1] if m else _UNIT, n[-1] if n else _UNIT
    inner = k[0] if k else _UNIT
    if columns.extent != ONE and columns.out != ONE:
        lx, ly = ly, lx
        rows, columns = swapped(columns), swapped(rows)
        inner = swapped(inner)
        batch = [swapped(a) for a in batch]
    if columns.extent != ONE and columns.out != ONE:
        return None
    if len(batch) > MAX_BATCH:
        return None
    return Product(lx, ly, lo, tuple(batch), rows, columns, inner)


def swapped(axis: Axis) -> Axis:
    """The axis with the roles of x and y exchanged."""
    return axis._replace(x=axis.y, y=axis.x)


def merged(function: Function, axes: list[Axis]) -> list[Axis]:
    """Neighbouring loops in one where all strides allow it; loops of one turn dropped."""
    canonical = function.extents.canonical
    result: list[Axis] = []
    for axis in axes:
        if axis.extent == ONE:
            continue
        if result:
            last = result[-1]
            if all(
                canonical(mul(axis.extent, inner)) == outer
                for inner, outer in zip(axis[1:4], last[1:4], strict=True)
            ):
                extent = canonical(mul(last.extent, axis.extent))
                result[-1] = axis._replace(extent=extent, dims=last.dims + axis.dims)
                continue
        result.append(axis)
    return result
