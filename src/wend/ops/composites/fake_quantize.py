"""Numbers rounded to those that a quantized type would hold, for training that foresees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend.base.errors import ShapeError, ValueRefused
from wend.base.shapes import normalize_dim
from wend.core.primitive import Sample, composite, ops
from wend.core.symbolic import hints
from wend.ops.elementwise.family import is_number
from wend.ops.numeric import FLOATING, require

_BOUNDS = "quant_min: int, quant_max: int"


def _check_bounds(op: str, low: int, high: int) -> None:
    if low > high:
        raise ValueRefused(
            f"{op}: `quant_min` should be less than or equal to `quant_max`, but got {low} and "
            f"{high}"
        )


def _rounded(input: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    """The nearest numbers (k - zero_point) * scale with low <= k <= high.

    The gradient is that of the identity, and 0 where the nearest k lies beyond the bounds.
    """
    if not is_number(zero_point):
        zero_point = ops.cast(zero_point, input.dtype)
    k = ops.round(input * (1 / scale)) + zero_point
    inside = ops.logical_and(ops.ge(k, low), ops.le(k, high))
    y = (ops.clamp(k, min=low, max=high) - zero_point) * scale
    return ops.graft(ops.stop_gradient(ops.cast(y, input.dtype)), ops.where(inside, input, 0))


def _tensor_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 4))
    yield Sample(x, 0.1, 3, 0, 15)
    yield Sample(x, np.asarray(0.25), np.asarray(2), -4, 3)
    yield Sample(x[:0], 0.5, 0, 0, 255)


@composite(
    f"input, scale: operand, zero_point: operand, {_BOUNDS}",
    functions=("fake_quantize_per_tensor_affine",),
    grad_name="FakeQuantizePerTensorAffineCachemaskBackward0",
    samples=_tensor_samples,
    supports=FLOATING,
)
def fake_quantize_per_tensor_affine(
    input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Any:
    """y = the nearest numbers that integers quant_min to quant_max stand for.

    An integer k stands for (k - zero_point) * scale. scale, zero_point: numbers or 0-d tensors
    """
    op = "fake_quantize_per_tensor_affine"
    require(op, FLOATING, input.dtype)
    _check_bounds(op, quant_min, quant_max)
    return _rounded(input, scale, zero_point, quant_min, quant_max)


def _channel_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 4))
    scale = rng.uniform(0.1, 0.5, size=(4,))
    yield Sample(x, scale, np.array([0, 1, 2, 3], np.int32), 1, 0, 7)
    yield Sample(x, scale[:3], np.zeros(3, np.int32), 0, -8, 7)


@composite(
    f"input, scale, zero_point, axis: int, {_BOUNDS}",
    functions=("fake_quantize_per_channel_affine",),
    grad_name="FakeQuantizePerChannelAffineCachemaskBackward0",
    samples=_channel_samples,
    supports=FLOATING,
)
def fake_quantize_per_channel_affine(
    input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> Any:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each place along `axis`.

    scale, zero_point: (n), n the size of that dim. Raises ShapeError for other sizes.
    """
    op = "fake_quantize_per_channel_affine"
    require(op, FLOATING, input.dtype)
    _check_bounds(op, quant_min, quant_max)
    rank = len(input.shape)
    dim = normalize_dim(axis, rank, op)
    for name, x in (("scale", scale), ("zero-point", zero_point)):
        if len(x.shape) != 1 or x.shape[0] != input.shape[dim]:
            raise ShapeError(
                f"{op}: dimensions of {name} are not consistent with input tensor: expected "
                f"({hints(input.shape)[dim]},), got {hints(x.shape)}"
            )
    shape = tuple(input.shape[dim] if d == dim else 1 for d in range(rank))
    scale, zero_point = ops.reshape_to(scale, shape), ops.reshape_to(zero_point, shape)
    return _rounded(input, scale, zero_point, quant_min, quant_max)
