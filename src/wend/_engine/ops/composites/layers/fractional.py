"""Fractional max pooling (Graham, 2014): windows that begin at random places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints, numel
from wend._engine.ops.composites.layers.conv import as_batch, per_dim
from wend._engine.ops.numeric import FLOATING


def _starts(samples: Tensor, n: Size, window: Size, count: Size) -> Tensor:
    """(N, C, count): where the windows along a dim begin; samples: (N, C), uniform in [0, 1).

    The last window ends with the input; the others step by (n - window) / (count - 1), rounded.
    """
    last = ops.full((*samples.shape, 1), n - window, dtype=int64)
    if count == 1:
        return last
    step = (n - window) / (count - 1)
    shift = ops.unsqueeze(samples, -1)
    place = ops.cast(ops.arange(0, count - 1, 1, count - 1), samples.dtype)
    begin = ops.trunc((place + shift) * step) - ops.trunc(shift * step)
    return ops.cat([ops.cast(begin, int64), last], -1)


def _fractional(
    op: str, nd: int, input: Tensor, samples: Tensor, kernel: Sizes, output_size: Sizes
) -> tuple[Tensor, ...]:
    x, batched = as_batch(op, input, nd)
    window = per_dim(op, "kernel_size", kernel, nd)
    counts = per_dim(op, "output_size", output_size, nd)
    size, front = x.shape[2:], x.shape[:2]
    for n, k, m in zip(size, window, counts, strict=True):
        if m < 1 or m + k - 1 > n:
            raise ShapeError(
                f"{op}: pool size {hints(window)} too large relative to input {hints(size)} for "
                f"an output of {hints(counts)}"
            )
    if hints(samples.shape) != (*hints(front), nd):
        raise ShapeError(
            f"{op}: expected random samples of shape {(*hints(front), nd)}, got "
            f"{hints(samples.shape)}"
        )
    # In two dims the first sample is for the last dim.
    order = range(nd) if nd == 3 else reversed(range(nd))
    flat: Any = 0
    for i, column in enumerate(order):
        begin = _starts(ops.select(samples, -1, column), size[i], window[i], counts[i])
        inside = ops.arange(0, window[i], 1, window[i])
        places = ops.unsqueeze(begin, -1) + inside
        shape = [1] * (2 * nd)
        shape[i], shape[nd + i] = counts[i], window[i]
        flat = flat * size[i] + ops.reshape(places, (*front, *shape))
    flat = ops.reshape(flat, (*front, numel(counts), numel(window)))
    everywhere = ops.reshape(flat, (*front, numel(counts) * numel(window)))
    elements = ops.gather(ops.reshape(x, (*front, numel(size))), 2, everywhere)
    values, best = ops.max_dim(ops.reshape(elements, flat.shape), -1)
    places = ops.squeeze(ops.gather(flat, -1, ops.unsqueeze(best, -1)), -1)
    results = [ops.reshape(y, (*front, *counts)) for y in (values, places)]
    return tuple(results if batched else [ops.squeeze(y, 0) for y in results])


def _samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    size = (7, 6, 5)[:nd]
    x = rng.permutation(int(np.prod((2, 3, *size)))).reshape(2, 3, *size) / 3.0
    places = rng.uniform(0, 1, size=(2, 3, nd))
    yield Sample(x, places, 2, 3)
    yield Sample(x, places, (3,) * nd, (2,) * nd)
    yield Sample(x[0], places[:1], 2, 1)


def _define(nd: int) -> None:
    name = f"fractional_max_pool{nd}d_with_samples"

    def body(
        input: Tensor, samples: Tensor, kernel_size: Sizes, output_size: Sizes
    ) -> tuple[Tensor, ...]:
        return _fractional(
            f"fractional_max_pool{nd}d", nd, input, samples, kernel_size, output_size
        )

    body.__module__ = __name__
    body.__doc__ = """(y, indices): the greatest element of windows that begin at random places.

    input: (N, C, *S) or (C, *S)   samples: (N, C, dims), uniform in [0, 1)   ->   (N, C, *O)
    indices: the flat places of these elements in S. Raises ShapeError for windows that do not fit.
    """
    composite(
        "input, samples, kernel_size: sizes, output_size: sizes",
        name=name,
        samples=lambda rng: _samples(rng, nd),
        supports=FLOATING,
        result=tuple,
        grad_nodes=lambda n, x, *_: getattr(n, f"FractionalMaxPool{nd}D")(x),
    )(body)


for _nd in (2, 3):
    _define(_nd)
