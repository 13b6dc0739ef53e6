"""Adaptive pooling: a fixed number of windows, as even as the input's extent allows.

Window i of `out` over n elements is [i * n // out, ceil((i + 1) * n / out)).  The windows are
gathered, with a mask for windows shorter than the longest: exact for infinities too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints, numel
from wend._engine.ops.composites.layers.conv import as_batch
from wend._engine.ops.composites.layers.pool import pool_nodes
from wend._engine.ops.composites.reduce import widened
from wend._engine.ops.gradient_nodes import NodeBuilder
from wend._engine.ops.numeric import FLOATING, accumulator, require
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


class Bins:
    """The windows along a dim: indices (out, longest), which of these count, and how many."""

    def __init__(self, n: Size, out: Size) -> None:
        self.out = out
        self.longest = (n + out - 1) // out + 1
        i = ops.arange(0, out, 1, out, dtype=int64)
        start = ops.floor_divide(ops.mul(i, n), out)
        end = ops.floor_divide(ops.add(ops.mul(ops.add(i, 1), n), out - 1), out)
        self.count = ops.sub(end, start)
        self.start = start
        along = ops.arange(0, self.longest, 1, self.longest, dtype=int64)
        indices = ops.add(ops.unsqueeze(start, 1), along)
        self.inside = ops.lt(indices, ops.unsqueeze(end, 1))
        # Elements outside are masked; the index must only be valid.
        self.indices = ops.minimum(indices, n - 1)

    def gather(self, x: Tensor, dim: int) -> Tensor:
        """x with dim replaced by two dims: which window, which element of the window."""
        flat = ops.reshape(self.indices, (self.out * self.longest,))
        shape = (*x.shape[:dim], self.out, self.longest, *x.shape[dim + 1 :])
        return ops.reshape(ops.index_select(x, dim, flat), shape)


def output_sizes(op: str, output_size: Any, size: Sequence[Any]) -> tuple[Any, ...]:
    """Number of windows per dim; None keeps the extent. Raises ShapeError."""
    nd = len(size)
    entries = output_size if isinstance(output_size, tuple) else (output_size,) * nd
    if len(entries) == 1:
        entries = entries * nd
    if len(entries) != nd:
        raise ShapeError(f"{op}: output_size must be an int or have {nd} entries: {output_size}")
    if any(entry is not None and entry < 0 for entry in entries):
        raise ShapeError(f"{op}: elements of output_size must be greater than or equal to 0")
    return tuple(n if entry is None else entry for entry, n in zip(entries, size, strict=True))


def _refusal(x: Tensor, output_size: Any, nd: int) -> type[Exception]:
    """The error for an input of too few dims: in PyTorch another for an extent per dim."""
    listed = nd > 1 and isinstance(output_size, tuple) and len(output_size) >= len(x.shape)
    return ArgumentError if listed else ShapeError


def _equal_windows(size: Sequence[Any], out: tuple[Any, ...]) -> bool:
    """Whether windows are of the same extent, side by side, in every dim."""
    return all(count > 0 and n % count == 0 for n, count in zip(size, out, strict=True))


def _require_content(op: str, x: Tensor) -> None:
    for n in x.shape[1:]:
        if n == 0:
            raise ShapeError(
                f"{op}: expected input to have non-zero size for non-batch dimensions, but input "
                f"has shape {hints(x.shape)}"
            )


def adaptive_average(x: Tensor, out: tuple[Any, ...]) -> Tensor:
    """The mean of each window; x: (N, C, *S), out: number of windows per spatial dim."""
    nd = len(out)
    if all(isinstance(n, int) and n == 1 for n in out):
        return ops.mean(x, tuple(range(2, 2 + nd)), True)
    y = widened(x)
    for i, count in enumerate(out):
        dim = 2 + i
        if not isinstance(count, int) and y.shape[dim] == count:
            continue  # the input's own extent, asked for by None
        bins = Bins(y.shape[dim], count)
        trail = (1,) * (nd - 1 - i)
        inside = ops.reshape(bins.inside, (count, bins.longest, *trail))
        total = ops.sum(ops.where(inside, bins.gather(y, dim), 0), dim + 1)
        y = ops.div(total, ops.reshape(bins.count, (count, *trail)))
    return ops.clone(y) if y is x else ops.cast(y, x.dtype)


def _adaptive_average(op: str, nd: int, x: Tensor, output_size: Any) -> Tensor:
    require(op, FLOATING, x.dtype)
    x, batched = as_batch(op, x, nd, refusal=_refusal(x, output_size, nd))
    _require_content(op, x)
    y = adaptive_average(x, output_sizes(op, output_size, x.shape[2:]))
    return y if batched else ops.squeeze(y, 0)


def _adaptive_max(op: str, nd: int, x: Tensor, output_size: Any) -> Any:
    require(op, FLOATING, x.dtype)
    x, batched = as_batch(op, x, nd, refusal=_refusal(x, output_size, nd))
    _require_content(op, x)
    size = x.shape[2:]
    out = output_sizes(op, output_size, size)
    windows = [Bins(n, count) for n, count in zip(size, out, strict=True)]
    y, inside = x, None
    for i, bins in enumerate(windows):
        y = bins.gather(y, 2 + 2 * i)
        trail = (1, 1) * (nd - 1 - i)
        mask = ops.reshape(bins.inside, (bins.out, bins.longest, *trail))
        inside = mask if inside is None else ops.logical_and(inside, mask)
    order = (0, 1, *range(2, 2 + 2 * nd, 2), *range(3, 3 + 2 * nd, 2))
    lowest = float("-inf") if x.dtype.is_floating_point else -(2 ** (8 * x.dtype.itemsize - 1))
    y = ops.permute(ops.where(inside, y, lowest), order)
    y = ops.reshape(y, (*x.shape[:2], *out, numel(tuple(b.longest for b in windows))))
    values, within = ops.max_dim(y, -1)
    indices = _flat_position(within, windows, size, nd)
    if not batched:
        values, indices = ops.squeeze(values, 0), ops.squeeze(indices, 0)
    return values, indices


def _flat_position(within: Any, windows: list[Bins], size: Any, nd: int) -> Any:
    """Position in the flat input of element `within` of each window."""
    position: Any = None
    for i in range(nd - 1, -1, -1):
        bins = windows[i]
        start = ops.reshape(bins.start, (bins.out, *(1,) * (nd - 1 - i)))
        at = ops.add(start, ops.remainder(within, bins.longest))
        within = ops.floor_divide(within, bins.longest)
        at = ops.mul(at, numel(size[i + 1 :]))
        position = at if position is None else ops.add(position, at)
    return position


def _average_samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, *(7, 6, 5)[:nd]))
    for out in (1, 2, 4, 9):
        yield Sample(x, out)
    yield Sample(x[0], (3,) * nd)
    yield Sample(x[:0], 2)


def _max_samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    shape = (2, 2, *(7, 6, 5)[:nd])
    x = rng.permutation(int(np.prod(shape))).reshape(shape) / 3.0
    for out in (1, 2, 4, 9):
        yield Sample(x, out)
    yield Sample(x[0], (3,) * nd)
    yield Sample(x[:0], 2)


_OVER = """
    input: (N, C, *S) or (C, *S)   output_size: int or one per dim (None: the input's)
    Raises ShapeError for empty dims or another number of entries.
    """


def _average_nodes(n: NodeBuilder, nd: int, x: object, size: object) -> object:
    if any(k != 1 for k in (size if isinstance(size, tuple) else (size,))):
        return pool_nodes(n, nd, "AdaptiveAvgPool{}D", x)
    return n.Squeeze1(n.Mean1(n.Unsqueeze(x))) if nd == 1 else n.Mean1(x)


def _onnx_average(self: Any, g: OnnxBuilder, x: OnnxValue) -> Any:
    nd, size = int(self.name[-2]), self.output_size
    if any(n != 1 for n in (size if isinstance(size, tuple) else (size,))):
        return NotImplemented
    axes = g.sizes(range(x.rank - nd, x.rank))
    return g.cast(g.node("ReduceMean", g.cast(x, accumulator(x.dtype)), axes), x.dtype)


def _define(nd: int) -> None:
    """Make the adaptive pooling functions over nd dims."""
    average, greatest = f"adaptive_avg_pool{nd}d", f"adaptive_max_pool{nd}d"

    def mean_body(input: Tensor, output_size: Any) -> Tensor:
        return _adaptive_average(average, nd, input, output_size)

    def max_body(input: Tensor, output_size: Any) -> Any:
        return _adaptive_max(greatest, nd, input, output_size)

    mean_body.__doc__ = "y = the mean of each of output_size windows." + _OVER
    max_body.__doc__ = (
        "(y, indices): the greatest element of each of output_size windows, and its flat position."
        + _OVER
    )
    composite(
        "input, output_size: attr",
        name=average,
        format_of="first" if nd < 3 else "none",
        onnx=_onnx_average,
        functional=(average,),
        grad_nodes=lambda n, x, size: _average_nodes(n, nd, x, size),
        supports=frozenset({"float"}),
        samples=lambda rng: _average_samples(rng, nd),
    )(mean_body)
    composite(
        "input, output_size: attr",
        name=greatest,
        format_of="first" if nd < 3 else "none",
        functional=(greatest + "_with_indices",),
        grad_nodes=lambda n, x, _: pool_nodes(n, nd, "AdaptiveMaxPool{}D", x),
        supports=frozenset({"int", "float"}),
        result=tuple,
        samples=lambda rng: _max_samples(rng, nd),
    )(max_body)


for _nd in (1, 2, 3):
    _define(_nd)
