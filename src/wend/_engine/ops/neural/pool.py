"""Max pooling: the greatest element of each window, and its place.

Windows overlap the padded input; padding is never chosen.  All extents are run-time sizes.  The
public functions, and all other pooling, are in `composites/pool.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import float64, int16, int32, int64
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.op_facts import OpFacts
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import numel, sym_min
from wend._engine.core.types import Spec
from wend._engine.ops.neural.patches import tap_slices, taps
from wend._engine.ops.numeric import Array, accumulator, choose, require, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape


class MaxWindows(Primitive):
    """(values, indices): the greatest element of each window over the trailing dims.

    input: (..., *S)   kernel, stride, padding, dilation: an entry per trailing dim
    counts: how many windows, per dim (windows may reach beyond the high padding)
    indices: of the chosen element in the flat trailing dims (int64); ties go to the first
    """

    signature = (
        "input, kernel: sizes, stride: sizes, padding: sizes, dilation: sizes, counts: sizes"
    )
    facts = OpFacts(supports=frozenset({"int", "float"}))
    result = ("values", "indices")

    def infer(
        self, x: Spec, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes
    ) -> tuple[Spec, ...]:
        require("max_pool", self.facts.supports, x.dtype)
        shape = (*x.shape[: x.rank - len(kernel)], *counts)
        return Spec(shape, x.dtype), Spec(shape, int64)

    def reference(
        self, x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes
    ) -> tuple[np.ndarray, ...]:
        nd = len(kernel)
        front, size = x.shape[: x.ndim - nd], x.shape[x.ndim - nd :]
        wide = widen(x)
        spans = [
            (n - 1) * s + d * (k - 1) + 1
            for n, s, d, k in zip(counts, stride, dilation, kernel, strict=True)
        ]
        lowest = -np.inf if wide.dtype.kind == "f" else np.iinfo(wide.dtype).min
        ends = [(p, max(0, span - p - n)) for p, span, n in zip(padding, spans, size, strict=True)]
        where = np.arange(math.prod(size), dtype=np.int64).reshape(size)
        pads = any(map(any, ends))
        if pads:
            wide = np.pad(wide, [(0, 0)] * len(front) + ends, constant_values=lowest)
            where = np.pad(where, ends, constant_values=-1)
        best: Any = None
        at: Any = None
        for tap in taps(kernel):
            place = tap_slices(tap, counts, stride, dilation)
            everywhere: Any = (..., *place)
            value, index = (
                np.ascontiguousarray(wide[everywhere]),
                np.ascontiguousarray(where[place]),
            )
            if best is None:
                best, at = value.copy(), np.broadcast_to(index, value.shape).copy()
                continue
            better = value > best
            if wide.dtype.kind == "f":
                better |= value != value
            if pads:  # the first element that is not padding is taken, whatever its value
                better |= at < 0
                better &= index >= 0
            best = choose(better, value, best, best)
            at = choose(better, index, at, at)
        return best.astype(x.dtype, copy=False), at

    def vjp(
        self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], x: Tensor, *sizes: Any
    ) -> tuple[Any, ...]:
        nd = len(sizes[0])
        front, size = x.shape[: len(x.shape) - nd], x.shape[len(x.shape) - nd :]
        counts = sizes[4]
        flat = ops.full((*front, numel(size)), 0, dtype=g[0].dtype)
        indices = ops.reshape_to(y[1], (*front, numel(counts)))
        values = ops.reshape_to(g[0], (*front, numel(counts)))
        flat = ops.scatter_add(flat, len(front), indices, values)
        return (ops.reshape_to(flat, x.shape),)

    def onnx(
        self,
        g: OnnxBuilder,
        x: OnnxValue,
        kernel: Sizes,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        counts: Sizes,
    ) -> Any:
        # Rows that ONNX numbers through, of which the places are wanted in each row.
        nd = len(kernel)
        size = x.shape[x.rank - nd :]
        how: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "dilations": dilation}
        for name, sizes in how.items():
            how[name] = [g.fixed(n) for n in sizes]
            if None in how[name]:
                raise g.unsupported(f"{name} depends on sizes at run time")
        ends = self._onnx_ends(g, size, kernel, stride, padding, dilation, counts)
        wide = accumulator(x.dtype)
        if x.dtype in (int16, int32):
            wide = float64  # which holds all of these, and which MaxPool takes
        rows, plain = g.cast(x, wide), x.rank == nd + 2
        if not plain:
            rows = g.reshape(rows, (1, numel(x.shape[: x.rank - nd]), *size))
        values, places = g.node("MaxPool", rows, outputs=2, **how, **ends)
        places = g.node("Mod", places, g.size(numel(size)))
        if not plain:
            values, places = (g.reshape(y, g.out[0].shape) for y in (values, places))
        return g.cast(values, x.dtype), places

    @staticmethod
    def _onnx_ends(
        g: OnnxBuilder,
        size: Sequence[Any],
        kernel: Sizes,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        counts: Sizes,
    ) -> Any:
        """The attributes of MaxPool that give as many windows as `counts` says."""
        pads = [g.fixed(p) for p in padding]
        if None in pads:
            raise g.unsupported("the padding depends on sizes at run time")
        reach = [
            n + 2 * p - d * (k - 1) - 1
            for n, p, d, k in zip(size, padding, dilation, kernel, strict=True)
        ]
        down = [r // s + 1 for r, s in zip(reach, stride, strict=True)]
        if all(g.fixed(n - m) == 0 for n, m in zip(down, counts, strict=True)):
            return {"pads": pads * 2}
        # As many windows as begin within the input or the low padding, in ONNX as in PyTorch.
        up = [
            sym_min(-(-r // s) + 1, (n + p - 1) // s + 1)
            for r, s, n, p in zip(reach, stride, size, padding, strict=True)
        ]
        if all(g.fixed(n - m) == 0 for n, m in zip(up, counts, strict=True)):
            return {"pads": pads * 2, "ceil_mode": 1}
        spans = [
            g.fixed((n - 1) * s + d * (k - 1) + 1 - p - m)
            for n, s, d, k, p, m in zip(
                counts, stride, dilation, kernel, padding, size, strict=True
            )
        ]
        ends = [max(span, 0) for span in spans if span is not None]
        if len(ends) < len(spans):
            raise g.unsupported("the number of windows follows no rule that ONNX has")
        return {"pads": pads + ends}

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, *sizes: Any
    ) -> tuple[Tensor, ...]:
        values, indices = ops.max_windows(x, *sizes)
        return values, indices

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        def sample(shape: Shape, *sizes: Any) -> Sample:
            return Sample(rng.permutation(math.prod(shape)).reshape(shape) / 3.0, *sizes)

        yield sample((2, 7), (3,), (2,), (0,), (1,), (3,))
        yield sample((2, 7), (3,), (2,), (1,), (1,), (4,))
        yield sample((2, 3, 5, 4), (2, 3), (1, 2), (1, 1), (2, 1), (5, 2))
        yield sample((1, 4, 4), (3, 3), (2, 2), (0, 0), (1, 1), (2, 2))
        yield sample((0, 4), (2,), (2,), (0,), (1,), (2,))
