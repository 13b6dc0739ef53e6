"""Weights of quantised modules, packed once for the kernels, and operands that depend on scales."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import float32, int8, int32
from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core.primitive import ops
from wend._frontend.quantized.tensor import QuantizedTensor
from wend._frontend.toolkit import Tensor, no_grad, tensor, zeros

__all__ = ["PackedWeight", "Requantization", "scales_of"]


def scales_of(weight: QuantizedTensor) -> Tensor:
    """The scale of each filter, in float32: (F,).

    Raises NotImplementedInWend for numbers that are not int8, or zero points that are not 0.
    """
    whole, filters = weight._whole, weight.shape[0]
    if whole.dtype is not int8 or (weight._axis or 0) != 0:
        raise NotImplementedInWend(
            f"weight: quantised to {weight.dtype} along axis {weight._axis}; kernels take "
            "torch.qint8 with a scale, or a scale for each filter (axis 0)"
        )
    if weight._axis is None:
        points = [weight.q_zero_point()]
        scales = tensor([weight.q_scale()] * filters, dtype=float32)
    else:
        points = weight._zero.tolist()
        scales = ops.cast(weight._scale, float32)
    if any(points):
        raise NotImplementedInWend(
            "weight: zero points other than 0; use a symmetric scheme (torch.per_tensor_symmetric)"
        )
    return scales


class PackedWeight:
    """A weight and a bias, as a quantised module keeps them.

    weight: (F, K) or (F, C, ...)   scales, totals: (F,), the sums of the rows in int32
    """

    def __init__(self, weight: QuantizedTensor, bias: Tensor | None, groups: int = 1) -> None:
        self.weight, self.bias, self.groups = weight, bias, groups
        whole = weight._whole
        self.dims = weight.ndim
        with no_grad():
            self.scales = scales_of(weight)
            filters = weight.shape[0]
            rows = whole.reshape(filters, -1)
            self.totals = ops.sum(ops.cast(rows, int32), 1, dtype=int32)
            self.shift = zeros(filters) if bias is None else ops.cast(bias.detach(), float32)
            self.depthwise = None
            if self.dims == 2:
                self.panels = ops.pack_int8(whole.unsqueeze(0))
            elif groups == filters and weight.shape[1] == 1 and groups > 1:
                self.depthwise = rows.t().contiguous()
                self.panels = self.depthwise
            else:
                self.panels = self._of_filters(whole)
        self.by_scales: dict[Any, Requantization] = {}

    def _of_filters(self, whole: Tensor) -> Tensor:
        """The panels of a convolution, with channels last and a multiple of four of these."""
        filters, channels, height, width = whole.shape
        x = ops.pad(whole.permute(0, 2, 3, 1), (0, -channels % 4))
        x = x.reshape(self.groups, filters // self.groups, height * width * x.shape[3])
        return ops.pack_int8(x)

    def requantization(
        self, scale: float, zero: int, out_scale: float, out_zero: int, relu: bool
    ) -> Requantization:
        """The operands that take sums to bytes.

        scale, zero: of the input     out_scale, out_zero: of the result
        """
        key = scale, zero, out_scale, out_zero, relu
        known = self.by_scales.get(key)
        if known is None:
            with no_grad():
                known = self.by_scales[key] = Requantization(self, *key)
        return known

    def __reduce__(self) -> Any:
        return PackedWeight, (self.weight, self.bias, self.groups)


class Requantization:
    """Operands of a kernel's epilogue, for the scales of an input and of a result.

    offset, factor, shift: (G, F / G)   limits: (G, 3); of depthwise filters (F,) and (4,)
    """

    def __init__(
        self, packed: PackedWeight, scale: float, zero: int, out_scale: float, out_zero: int,
        relu: bool,
    ) -> None:  # fmt: skip
        groups = packed.groups
        offset = packed.totals * zero
        factor = packed.scales * tensor(scale, dtype=float32) / tensor(out_scale, dtype=float32)
        shift = packed.shift / tensor(out_scale, dtype=float32)
        limits = [out_zero, out_zero if relu else 0, 255]
        if packed.depthwise is not None:
            self.offset, self.factor, self.shift = offset, factor, shift
            self.limits = tensor([*limits, zero], dtype=int32)
            return
        shape = (groups, -1)
        self.offset = offset.reshape(shape)
        self.factor, self.shift = factor.reshape(shape), shift.reshape(shape)
        self.limits = tensor([limits] * groups, dtype=int32)
