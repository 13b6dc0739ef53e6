"""The type of quantised tensors: x = (q - zero_point) * scale, for whole numbers q.

A `QuantizedTensor` is a tensor of its whole numbers, of int8, uint8 or int32. Scale and zero point
are attributes: a number each, or numbers for each slice along an axis. `table` says how ops act.
"""

from __future__ import annotations

from typing import Any, ClassVar

from wend._engine.base.dtypes import ABSENT, float32, float64, int8, int32, int64, uint8
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend
from wend._engine.core._hot import refreshed
from wend._frontend.components import OpTable, refused
from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.qschemes import QScheme, per_channel_affine, per_tensor_affine
from wend._frontend.toolkit import Tensor, native_new, ops

__all__ = ["DTYPES", "QuantizedTensor", "limits", "wrapped"]

#: The types of whole numbers, by the quantised type.
DTYPES = {ABSENT["qint8"]: int8, ABSENT["quint8"]: uint8, ABSENT["qint32"]: int32}
_LIMITS = {int8: (-128, 127), uint8: (0, 255), int32: (-(2**31), 2**31 - 1)}
TABLE = OpTable(
    refused(
        NotImplementedInWend,
        "{name} is not implemented for quantised tensors; use x.dequantize(), or a module of "
        "torch.ao.nn.quantized",
    ),
    within=DisableTorchFunctionSubclass,
)


def limits(dtype: Any) -> tuple[int, int]:
    """The least and greatest whole number of a quantised type.

    Raises ArgumentTypeError for another type.
    """
    if dtype not in DTYPES:
        raise ArgumentTypeError(
            f"dtype: {dtype} is no quantised type; there are {', '.join(map(repr, DTYPES))}"
        )
    return _LIMITS[DTYPES[dtype]]


class QuantizedTensor(Tensor):
    """Whole numbers with a scale and a zero point; made by `quantize_per_tensor` and the like."""

    _whole: Tensor
    _scale: Any
    _zero: Any
    _axis: int | None
    #: For pickles of checkpoints.
    made_of_whole_numbers = True

    __torch_function__: ClassVar[Any] = TABLE.torch_function

    # -- parts ------------------------------------------------------------------------------

    def int_repr(self) -> Tensor:
        """A copy of the whole numbers, as a tensor of int8, uint8 or int32."""
        return ops.clone(self._whole)

    def dequantize(self) -> Tensor:
        """(q - zero_point) * scale, in float32."""
        scale, zero = self._scale, self._zero
        whole = self._whole
        if self._axis is not None:
            shape = [1] * whole.ndim
            shape[self._axis] = -1
            scale, zero = (ops.cast(x, float64).reshape(shape) for x in (scale, zero))
            return ops.cast((ops.cast(whole, float64) - zero) * scale, float32)
        if whole.dtype is int32:  # zero points are 0, and numbers may be large
            return ops.mul(ops.cast(whole, float32) - zero, scale)
        return ops.mul(ops.sub(ops.cast(whole, float32), zero), scale)

    def q_scale(self) -> float:
        """The scale. Raises ArgumentError for a tensor with a scale per channel."""
        return float(self._of_tensor("q_scale")._scale)

    def q_zero_point(self) -> int:
        """The zero point. Raises ArgumentError for a tensor with zero points per channel."""
        return int(self._of_tensor("q_zero_point")._zero)

    def q_per_channel_scales(self) -> Tensor:
        """The scales, in float64. Raises ArgumentError for a tensor with a single scale."""
        return ops.cast(self._of_channels("q_per_channel_scales")._scale, float64)

    def q_per_channel_zero_points(self) -> Tensor:
        """The zero points, in int64. Raises ArgumentError for a tensor with a single zero point."""
        return ops.cast(self._of_channels("q_per_channel_zero_points")._zero, int64)

    def q_per_channel_axis(self) -> int:
        """The axis of the channels. Raises ArgumentError for a tensor with a single scale."""
        return self._of_channels("q_per_channel_axis")._axis or 0

    def qscheme(self) -> QScheme:
        """torch.per_tensor_affine or torch.per_channel_affine."""
        return per_tensor_affine if self._axis is None else per_channel_affine

    def _of_tensor(self, name: str) -> QuantizedTensor:
        if self._axis is not None:
            raise ArgumentError(f"{name}: Expected quantizer->qscheme() == kPerTensorAffine")
        return self

    def _of_channels(self, name: str) -> QuantizedTensor:
        if self._axis is None:
            raise ArgumentError(f"{name}: Expected quantizer->qscheme() == kPerChannelAffine")
        return self

    @property
    def is_quantized(self) -> bool:
        """True."""
        return True

    @property
    def dtype(self) -> Any:
        """torch.qint8, torch.quint8 or torch.qint32."""
        own = self._whole.dtype
        return next(name for name, dtype in DTYPES.items() if dtype is own)

    def with_data(self, data: Tensor) -> QuantizedTensor:
        """New whole numbers, with this tensor's scale and zero point."""
        return wrapped(data, self._scale, self._zero, self._axis)

    def numpy(self, *, force: bool = False) -> Any:
        """The whole numbers as an array."""
        return self._whole.numpy(force=force)

    def cpu(self, memory_format: Any = None) -> QuantizedTensor:
        """The tensor itself: there is no other device."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> QuantizedTensor:
        """The tensor itself, for a device. Raises NotImplementedInWend for a dtype."""
        for place in (*args, *kwargs.values()):
            if type(place).__name__ in ("DType", "AbsentDType") and place is not self.dtype:
                raise NotImplementedInWend(f"to: a quantised tensor is not converted to {place}")
        return self

    # -- Python -----------------------------------------------------------------------------

    def __deepcopy__(self, memo: Any) -> QuantizedTensor:
        copy = memo[id(self)] = self.with_data(self._whole.clone())
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        return wrapped, (self._whole, self._scale, self._zero, self._axis)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        facts = [
            f"size={tuple(self.shape)}",
            f"dtype={self.dtype}",
            f"quantization_scheme={self.qscheme()}",
        ]
        if self._axis is None:
            facts += [f"scale={self.q_scale()}", f"zero_point={self.q_zero_point()}"]
        else:
            facts += [
                f"scale={self.q_per_channel_scales()!r}",
                f"zero_point={self.q_per_channel_zero_points()!r}",
                f"axis={self._axis}",
            ]
        text = repr(self.dequantize())
        text = text[: text.rindex("]") + 1] if "]" in text else text.removesuffix(")")
        at = len(text) - text.rfind("\n")
        for fact in facts:
            if at + len(fact) + 2 > _WIDTH:
                text += ",\n" + " " * _INDENT + fact
                at = _INDENT + len(fact)
            else:
                text += ", " + fact
                at += len(fact) + 2
        return text + ")"


_WIDTH, _INDENT = 80, len("tensor(")


def wrapped(data: Tensor, scale: Any, zero: Any, axis: int | None = None) -> QuantizedTensor:
    """The quantised tensor of whole numbers.

    scale, zero: numbers; of a tensor with an axis, tensors of an entry for each slice
    """
    # Nothing writes to a quantised tensor in place: the handle needs no place among aliases.
    result: Any = native_new(QuantizedTensor)
    result.value, result.leaf = refreshed(data), data.leaf
    result._whole, result._scale, result._zero, result._axis = data, scale, zero, axis
    return result  # type: ignore[no-any-return]


def spread(parameter: Tensor, rank: int, axis: int) -> Tensor:
    """A number for each slice along an axis, as a tensor of that rank."""
    shape = [1] * rank
    shape[axis] = -1
    return parameter.reshape(shape)
