"""Places and counts: combinations, products, flat places as positions, histograms."""

from __future__ import annotations

import itertools
import math
from collections import namedtuple
from typing import Any

from wend._engine.base.dtypes import FLOAT, float64, int64, uint64
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeNotImplemented,
    ShapeError,
)
from wend._engine.base.tracebacks import short_errors
from wend._engine.core.kinds import Tensor
from wend._engine.core.primitive import ops, return_type
from wend._engine.core.symbolic import hints, numel
from wend._engine.ops.elementwise.family import is_number
from wend._engine.ops.placing import beside, full_beside
from wend._engine.ops.sugar import overridable, same_tensors, spelled, sugar


@sugar(functions=("cartesian_prod",))
@overridable
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """(product of lengths, number of vectors): all tuples of an element of each, in order."""
    tensors = same_tensors(tensors)
    for t in tensors:
        if len(t.shape) != 1:
            raise ShapeError(f"cartesian_prod: expects 1-d vectors, and got {hints(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack([ops.ravel(grid) for grid in ops.meshgrid(*tensors)], 1)


@sugar(functions=("combinations",), methods=("combinations",))
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """(count, r): all choices of r elements of a vector, in the order of places."""
    if len(input.shape) != 1:
        raise ShapeError(f"combinations: expects a 1-d vector, and got {hints(input.shape)}")
    if r < 0:
        raise ShapeError(f"combinations: expects a non-negative number, and r is {r}")
    if r == 0:
        return full_beside(input, (0,), 0)
    n = input.shape[0]
    if r == 1 or n == 0:
        return ops.unsqueeze(input, 1) if r == 1 else full_beside(input, (0, r), 0)
    grids = ops.meshgrid(*[beside(input, ops.arange(0, n, 1, n, dtype=int64))] * r)
    rises = ops.le if with_replacement else ops.lt
    chosen = rises(grids[0], grids[1])
    for a, b in itertools.pairwise(grids[1:]):
        chosen = ops.logical_and(chosen, rises(a, b))
    count = math.comb(n + r - 1, r) if with_replacement else math.comb(n, r)
    places = ops.nonzero_static(chosen, size=count)
    return ops.index(input, [places], (0,))


@sugar(functions=("unravel_index",))
def unravel_index(indices: Tensor, shape: Any) -> tuple[Any, ...]:
    """The positions, a tensor per dim, of places in the row-major order of `shape`.

    indices: ints   shape: an int or a sequence of ints   ->   int64.
    Raises ArgumentTypeError, ArgumentError.
    """
    if indices.dtype.category >= FLOAT or indices.dtype.category == 0:
        raise ArgumentTypeError(
            f"unravel_index: expected 'indices' to be integer dtype, but got {indices.dtype}"
        )
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in shape):
        raise ArgumentError(f"unravel_index: shape cannot have negative values, but got {shape}")
    columns: list[Any] = []
    indices = ops.cast(indices, int64)
    behind = 1
    for n in reversed(shape):
        columns.insert(0, ops.remainder(ops.floor_divide(indices, behind), n))
        behind *= n
    return tuple(columns)


Histogram = namedtuple("Histogram", ("hist", "bin_edges"))


@sugar(functions=("histogram",), methods=("histogram",))
@spelled(out=True)
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """(hist, bin_edges): the number of elements (or the sum of their weights) in each bin.

    bins: the number of equal bins over `range` (by default the data's range), or the edges
    density: divide by the total and by the width of the bins. The last bin holds the right edge.
    Raises ShapeError, ArgumentError.
    """
    if not input.dtype.is_floating_point:
        raise ArgumentTypeError(f"histogram: not implemented for {input.dtype}")
    input = ops.detach(input)
    edges = _bin_edges(input, bins, range) if is_number(bins) else bins
    if len(edges.shape) != 1 or hints(edges.shape)[0] < 2:
        raise ShapeError(f"histogram: bins must be a vector of edges, not {hints(edges.shape)}")
    if weight is not None and hints(weight.shape) != hints(input.shape):
        raise ShapeError(
            "histogram: weight must have the shape of input: "
            f"{hints(weight.shape)} and {hints(input.shape)}"
        )
    flat, count = ops.ravel(input), edges.shape[0] - 1
    place, inside = _bins_of(flat, edges)
    mass = full_beside(input, flat.shape, 1) if weight is None else ops.ravel(weight)
    zero = ops.full((), 0, dtype=input.dtype)
    mass = ops.where(inside, ops.cast(mass, input.dtype), zero)
    place = ops.where(inside, place, 0)
    hist = ops.index_add(full_beside(input, (count,), 0), 0, place, mass)
    if density:
        widths = ops.sub(ops.slice(edges, 0, 1), ops.slice(edges, 0, 0, count))
        hist = hist / (ops.sum(hist) * widths)
    return Histogram(hist, edges)


def _bins_of(values: Tensor, edges: Tensor) -> tuple[Any, Any]:
    """(the bin of each value, whether that is a bin); the last bin holds its right edge."""
    count = edges.shape[0] - 1
    place = ops.sub(ops.searchsorted(edges, values, right=True), 1)
    place = ops.where(ops.eq(values, ops.select(edges, 0, -1)), count - 1, place)
    return place, ops.logical_and(ops.ge(place, 0), ops.lt(place, count))


_Grid: Any = return_type("histogramdd", ("hist", "bin_edges"))


@sugar(functions=("histogramdd",))
@short_errors
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """(hist, bin_edges): the number of points (or the sum of their weights) in each cell of a grid.

    input: (..., d), points of d numbers   bins: a number of bins, one per dim, or edges per dim
    range: (low, high, low, high, ...), a pair per dim; by default the range of the data
    density: divide by the total and by the volume of the cells
    Raises ShapeError, ArgumentError, DTypeNotImplemented.
    """
    op = "histogramdd"
    if len(input.shape) < 2:
        raise ShapeError(f"{op}: input tensor should have at least 2 dimensions")
    if not input.dtype.is_floating_point:
        raise DTypeNotImplemented(f"{op}: not implemented for {input.dtype}")
    nd = hints(input.shape)[-1]
    listed = [bins] * nd if is_number(bins) else list(bins)
    if len(listed) != nd:
        raise ShapeError(
            f"{op}: The size of bins must be equal to the innermost dimension of the input"
        )
    if range is not None and len(range) != 2 * nd:
        raise ShapeError(
            f"{op}: for a {nd}-dimensional histogram range should have {2 * nd} elements, but got "
            f"{len(range)}"
        )
    if weight is not None and hints(weight.shape) != hints(input.shape)[:-1]:
        raise ShapeError(
            f"{op}: the weight must have the shape of the input without its last dim: "
            f"{hints(weight.shape)} and {hints(input.shape)}"
        )
    points = ops.detach(ops.reshape(input, (-1, nd)))
    edges = []
    for d, spec in enumerate(listed):
        ends = None if range is None else range[2 * d : 2 * d + 2]
        boundaries = _bin_edges(ops.select(points, 1, d), spec, ends) if is_number(spec) else spec
        edges.append(boundaries)
    place = inside = None
    for d, along in enumerate(edges):
        mine, within = _bins_of(ops.select(points, 1, d), along)
        place = mine if place is None else place * (along.shape[0] - 1) + mine
        inside = within if inside is None else ops.logical_and(inside, within)
    counts = tuple(along.shape[0] - 1 for along in edges)
    ones = full_beside(input, (points.shape[0],), 1)
    mass = ones if weight is None else ops.cast(ops.ravel(weight), input.dtype)
    mass = ops.where(inside, mass, ops.full((), 0, dtype=input.dtype))
    empty = full_beside(input, (math.prod(counts),), 0)
    hist = ops.reshape(ops.index_add(empty, 0, ops.where(inside, place, 0), mass), counts)
    if density:
        total = ops.sum(hist)
        for d, along in enumerate(edges):
            widths = ops.sub(ops.slice(along, 0, 1), ops.slice(along, 0, 0, counts[d]))
            hist = hist / ops.reshape(widths, (counts[d], *(1,) * (nd - 1 - d)))
        hist = hist / total
    return _Grid(hist, tuple(edges))


def _bin_edges(input: Tensor, bins: int, range: Any) -> Tensor:
    """The edges of equal bins; bins of width 1 around a range that is a point."""
    if bins < 1:
        raise ShapeError(f"histogram: bins must be > 0, but got {bins}")
    if range is not None:
        low, high = range
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ArgumentError(f"histogram: range {tuple(range)} is not finite and in order")
        if low == high:
            low, high = low - 0.5, high + 0.5
        return beside(input, ops.linspace(low, high, bins + 1, dtype=input.dtype))
    if numel(input.shape) == 0:
        return beside(input, ops.linspace(0.0, 1.0, bins + 1, dtype=input.dtype))
    low, high = ops.amin(input), ops.amax(input)
    half = ops.cast(ops.eq(low, high), input.dtype) * 0.5
    low, high = low - half, high + half
    share = beside(input, ops.linspace(0.0, 1.0, bins + 1, dtype=input.dtype))
    rise, fall = (high - low) * share, (high - low) * (1 - share)
    return ops.where(share < 0.5, low + rise, high - fall)  # both ends are exact


@sugar(functions=("hash_tensor",), methods=("hash_tensor",))
@spelled(out=True)
def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """y = the exclusive or of the elements over `dim`, as 64-bit floats or ints (uint64).

    dim: () and None for all dims   mode: 0, the only hash there is
    Raises ArgumentError for another mode and for no elements, DTypeNotImplemented for complex
    numbers.
    """
    if mode != 0:
        raise ArgumentError(f"hash_tensor: Unknown hash_tensor mode: {mode}; the only mode is 0")
    x = ops.detach(input)
    if x.dtype.is_complex:
        raise DTypeNotImplemented(f"hash_tensor: not implemented for {x.dtype}; hash view_as_real")
    if x.dtype.is_floating_point:
        x = ops.reinterpret(ops.cast(x, float64), int64)
    elif x.dtype.itemsize < 8 or not x.dtype.category:
        x = ops.cast(x, int64)
    elif x.dtype is not int64:
        x = ops.reinterpret(x, int64)
    return ops.reinterpret(ops.xor_sum(x, dim, keepdim), uint64)
