"""scatter_reduce: sums, products, means and extremes of elements that share a place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import ValueRefused
from wend._engine.core.kinds import Tensor
from wend._engine.core.op_facts import OpSchedule, TorchCall
from wend._engine.core.primitive import Sample, ops
from wend._engine.core.types import Spec
from wend._engine.ops.elementwise.arithmetic import FloorDivide
from wend._engine.ops.indexing.gather import IntoElements, scatter_samples, unfitted
from wend._engine.ops.numeric import accumulator, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.slicing import zeros_of

Pair = tuple[Tensor, Tensor]

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


class ScatterReduce(IntoElements):
    """y = input, with y[index[i, j], j] reduced with all src[i, j] that go there, for dim 0, ...

    reduce: sum, prod, mean, amax or amin     include_self: whether the input's own element counts
    Elements that no index names stay the input's. Raises as scatter_add.
    """

    signature = "input, dim: int, index, src, reduce: str, *, include_self: bool = True"
    reduce: str
    include_self: bool
    schedule = OpSchedule(unlowered="kernels combine the elements for a place by sums alone")
    torch = TorchCall(names=("scatter_reduce",), inplace=True)

    def __init__(self, attrs: dict[str, Any], form: tuple[Any, ...]) -> None:
        name = attrs["reduce"]  # PyTorch takes the short names, too
        super().__init__({**attrs, "reduce": {"max": "amax", "min": "amin"}.get(name, name)}, form)

    def infer(self, x: Spec, index: Spec, src: Spec) -> Spec:
        if self.reduce not in _REDUCTIONS:
            raise ValueRefused(
                f"scatter_reduce: reduce argument must be one of {', '.join(_REDUCTIONS)}, "
                f"not {self.reduce!r}"
            )
        return super().infer(x, index, src)

    def write(self, x: np.ndarray, key: tuple[Any, ...], src: np.ndarray) -> None:
        if not self.include_self:
            x[key] = _identity(self.reduce, x.dtype)
        if self.reduce == "mean":
            self._write_mean(x, key, src)
            return
        combine: Any = {
            "sum": np.logical_or if x.dtype == bool else np.add,
            "prod": np.multiply,
            "amax": np.maximum,
            "amin": np.minimum,
        }[self.reduce]
        combine.at(x, key, src)

    def _write_mean(self, x: np.ndarray, key: tuple[Any, ...], src: np.ndarray) -> None:
        total, counts = widen(x).copy(), np.full(x.shape, int(self.include_self))
        np.add.at(total, key, widen(src))
        np.add.at(counts, key, 1)
        met = np.zeros(x.shape, dtype=bool)
        met[key] = True
        # PyTorch rounds the mean of integers down.
        divide: Any = np.floor_divide if x.dtype.kind in "iub" else np.divide
        x[met] = divide(total[met], counts[met].astype(total.dtype)).astype(x.dtype)

    def again(self, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        return ops.scatter_reduce(x, dim, index, src, self.reduce, include_self=self.include_self)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor) -> tuple[Any, ...]:
        rule = {"sum": self._vjp_sum, "mean": self._vjp_mean, "prod": self._vjp_prod}.get(
            self.reduce, self._vjp_extreme
        )
        g_x, g_picked = rule(g, y, x, index, fitted(src, index))
        if not self.include_self:
            g_x = ops.scatter(g_x, self.dim, index, 0)
        return g_x, None, unfitted(g_picked, index, src)

    def _vjp_sum(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor) -> Pair:
        return g, ops.gather(g, self.dim, index)

    def _vjp_mean(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor) -> Pair:
        counts = ops.full(x.shape, 1 if self.include_self else 0, dtype=x.dtype)
        ones = ops.full(index.shape, 1, dtype=x.dtype)
        counts = ops.maximum(ops.scatter_add(counts, self.dim, index, ones), 1)
        share = g / counts
        return share, ops.gather(share, self.dim, index)

    def _vjp_prod(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor) -> Pair:
        # The product without a factor of zero replaces a division by that factor.
        x_is_zero = ops.eq(x, 0)
        others = self.again(ops.where(x_is_zero, 1, x), self.dim, index, src)
        g_x = g * others / ops.where(x_is_zero, 1, x)
        src_is_zero = ops.eq(src, 0)
        zeros = ops.scatter_add(zeros_of(x), self.dim, index, ops.cast(src_is_zero, x.dtype))
        alone = ops.logical_and(src_is_zero, ops.eq(ops.gather(zeros, self.dim, index), 1))
        rest = self.again(x, self.dim, index, ops.where(alone, 1, src))
        g_alone = ops.gather(g * rest, self.dim, index)
        g_plain = ops.gather(g * y, self.dim, index) / ops.where(src_is_zero, 1, src)
        return g_x, ops.where(alone, g_alone, g_plain)

    def _vjp_extreme(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor) -> Pair:
        x_is = ops.cast(ops.eq(x, y), g.dtype)
        src_is = ops.cast(ops.eq(src, ops.gather(y, self.dim, index)), g.dtype)
        ties = ops.scatter_add(x_is, self.dim, index, src_is)
        share = g / ties
        return x_is * share, src_is * ops.gather(share, self.dim, index)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, index: OnnxValue, src: OnnxValue) -> Any:
        whole, places, values = (self.onnx_whole(g, t) for t in (x, index, src))
        dim, values = self.place(whole.rank), g.corner(values, places.shape)
        start = whole
        if not self.include_self:
            identity = g.constant(_identity(self.reduce, x.dtype.numpy), x.dtype)
            start = g.scatter(whole, places, g.expand(identity, places.shape), dim)
        name = {"prod": "mul", "amax": "max", "amin": "min"}.get(self.reduce, "add")
        y = g.scatter(start, places, values, dim, name)
        if self.reduce == "mean":
            y = self.onnx_mean(g, whole, places, y, dim)
        return y if x.shape else g.reshape(y, ())

    def onnx_mean(
        self, g: OnnxBuilder, x: OnnxValue, places: OnnxValue, total: OnnxValue, dim: int
    ) -> Any:
        """The totals, divided by how many elements each has."""
        b, wide = g.elements, accumulator(x.dtype)
        ones = g.expand(g.constant(1, int64), places.shape)
        counts = g.expand(g.constant(int(self.include_self), int64), x.shape)
        counts = g.cast(g.scatter(counts, places, ones, dim, "add"), wide)
        counts = b.maximum(counts, b.constant(1, counts))
        if wide.is_floating_point:
            return g.cast(b.div(g.cast(total, wide), counts), x.dtype)
        return FloorDivide.of(("T", "T")).emit(b, total, counts)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for args in scatter_samples(rng, repeats=True):
            for reduce in _REDUCTIONS:
                yield Sample(*args, reduce)
        for reduce in _REDUCTIONS:
            yield Sample(*args, reduce, include_self=False)


def fitted(src: Tensor, index: Tensor) -> Tensor:
    """The elements of src that the index meets, in the shape of the index."""
    if len(src.shape) != len(index.shape):
        return ops.reshape_to(src, index.shape)
    for d in range(len(src.shape)):
        if src.shape[d] != index.shape[d]:
            src = ops.slice(src, d, 0, index.shape[d])
    return src


def _identity(reduce: str, dtype: np.dtype[Any]) -> Any:
    """The element that a reduction starts from."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if reduce == "amax" else info.max
    return -np.inf if reduce == "amax" else np.inf
