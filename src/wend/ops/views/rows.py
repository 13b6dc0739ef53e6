"""A sequence taken apart into steps at once.

As views, T steps would make T gradients of the whole sequence; here the gradient is a single `cat`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend.base.errors import ShapeError
from wend.core.primitive import Primitive, Sample, Spec, ops
from wend.core.symbolic import hints
from wend.ops.views.family import ANY_DTYPE


class SplitRows(Primitive):
    """(y[0], y[1], ...) = parts of the given numbers of rows, in order; copies, not views.

    input: (sum of sizes, ...)   ->   y[k]: (sizes[k], ...)
    Raises ShapeError unless the sizes are not negative and add up.
    """

    signature = "input, sizes: sizes"
    supports = ANY_DTYPE
    result = tuple
    grad_name = "SplitWithSizesBackward0"

    def infer(self, x: Spec, sizes: Any) -> Any:
        if not x.shape or not sizes:
            raise ShapeError(
                "split_rows: expects a tensor of at least 1 dim and at least one size, not shape "
                f"{hints(x.shape)} and {len(sizes)} sizes"
            )
        total: Any = 0
        for size in sizes:
            if size < 0:
                raise ShapeError(f"split_rows: sizes must not be negative: {hints(sizes)}")
            total = total + size
        if not total == x.shape[0]:
            raise ShapeError(
                f"split_rows: the sizes add up to {total}, and the input has {x.shape[0]} rows"
            )
        return tuple(Spec((size, *x.shape[1:]), x.dtype) for size in sizes)

    def reference(self, x: np.ndarray, sizes: Any) -> Any:
        ends = np.cumsum(sizes)
        return tuple(x[end - size : end] for size, end in zip(sizes, ends, strict=True))

    def vjp(self, g: Any, y: Any, x: Any, sizes: Any) -> Any:
        return (ops.cat(list(g), 0),)

    def onnx(self, g: Any, x: Any, sizes: Any) -> Any:
        if len(sizes) == 1:
            return (x,)
        parts = g.node("Split", x, g.sizes(sizes), axis=0, outputs=len(sizes))
        return tuple(g.retyped(part, x.dtype) for part in parts)

    def batch(self, batched: Any, size: Any, x: Any, sizes: Any) -> Any:
        parts = ops.split_rows(ops.transpose(x, 0, 1), sizes)
        return tuple(ops.transpose(part, 0, 1) for part in parts)

    def samples(self, rng: Any) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(6, 2)), (3, 1, 2))
        yield Sample(rng.normal(size=(4,)), (0, 4))
        yield Sample(rng.normal(size=(3, 0, 2)), (2, 1))
        yield Sample(rng.normal(size=(2, 2)), (2,))
