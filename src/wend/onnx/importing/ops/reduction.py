"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import wend
from wend._engine.base.dtypes import DType
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.support import axes_of, in_float32, is_float
from wend.onnx.importing.registry import OpNode, op


def _total(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    return wend.sum(x, axes, keepdim=keep, dtype=x.dtype)


def _product(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = wend.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def _mean(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    if is_float(x):
        return wend.mean(x, axes, keepdim=keep)
    count = math.prod(x.shape[axis] for axis in axes)
    return wend.div(_total(x, axes, keep), count, rounding_mode="trunc")


def _largest(x: Tensor, axes: Sequence[int], keep: bool, sign: int = 1) -> Tensor:
    if any(x.shape[axis] == 0 for axis in axes):
        shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
        kept = [n for i, n in enumerate(x.shape) if i not in axes]
        return wend.full(shape if keep else kept, _bound(x.dtype, -sign), dtype=x.dtype)
    if x.dtype is wend.bool:
        return _largest(x.to(wend.uint8), axes, keep, sign) != 0
    return (wend.amax if sign > 0 else wend.amin)(x, axes, keepdim=keep)


def _bound(dtype: DType, sign: int) -> float:
    """The least or greatest value of a type."""
    if dtype is wend.bool:
        return sign > 0
    if dtype.is_floating_point:
        return sign * math.inf
    limits = wend.iinfo(dtype)
    return limits.max if sign > 0 else limits.min


def _log_sum_exp(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    if is_float(x):
        return wend.logsumexp(x, axes, keepdim=keep)
    return wend.logsumexp(x.double(), axes, keepdim=keep).to(x.dtype)


def _root(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    y = in_float32(x) if is_float(x) else x.double()
    return wend.sqrt(_total(y * y, axes, keep)).to(x.dtype)


REDUCTIONS = {
    "ReduceSum": _total,
    "ReduceProd": _product,
    "ReduceMean": _mean,
    "ReduceMax": _largest,
    "ReduceMin": lambda x, axes, keep: _largest(x, axes, keep, -1),
    "ReduceL1": lambda x, axes, keep: _total(wend.abs(x), axes, keep),
    "ReduceL2": _root,
    "ReduceSumSquare": lambda x, axes, keep: _total(x * x, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: wend.log(_total(x, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
}


@op(*REDUCTIONS)
def reduced(node: OpNode, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """Over the given axes; without any over all, or with `noop_with_empty_axes` over none."""
    axes = node.get("axes") if axes is None else axes
    which = [] if axes is None else axes_of(axes, x.ndim)
    if not which and not node.get("noop_with_empty_axes"):
        which = list(range(x.ndim))
    if not which:
        pointwise = {
            "ReduceL1": wend.abs,
            "ReduceL2": wend.abs,
            "ReduceSumSquare": wend.square,
            "ReduceLogSum": wend.log,
        }
        return pointwise.get(node.op_type, lambda y: y)(x)
    return REDUCTIONS[node.op_type](x, tuple(sorted(which)), bool(node.get("keepdims", 1)))
