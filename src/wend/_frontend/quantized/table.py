"""The rules of ops on quantised tensors.

moved     elements move or are picked: on the whole numbers, of a single scale
kept      the order of numbers is that of the whole numbers: maxima, ReLU
computed  floats are computed, and rounded by the operand's own scale
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import ArgumentError
from wend._frontend.components import Call
from wend._frontend.quantized.functions import quantize_per_tensor
from wend._frontend.quantized.tensor import TABLE, QuantizedTensor
from wend._frontend.toolkit import Tensor, ops

MOVED = (
    "__getitem__ chunk contiguous clone detach alias expand flatten flip movedim narrow permute "
    "repeat reshape select split squeeze swapaxes t transpose unbind unflatten unsqueeze view "
    "view_as pixel_shuffle pixel_unshuffle channel_shuffle"
).split()
KEPT = "max_pool1d max_pool2d max_pool3d relu threshold".split()
COMPUTED = (
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "interpolate upsample mean hardtanh relu6 leaky_relu clamp dropout pad"
).split()
QUERIES = (
    "__len__ __format__ __hash__ __set__ __delete__ size dim ndimension numel stride "
    "storage_offset is_contiguous is_same_size element_size get_device is_floating_point "
    "is_complex is_signed is_inference is_shared data_ptr requires_grad_ tolist"
).split()


def _whole(x: QuantizedTensor) -> Tensor:
    return x._whole


def _each(result: Any, like: QuantizedTensor) -> Any:
    if isinstance(result, Tensor):
        return like.with_data(result)
    return type(result)(_each(x, like) for x in result)


def _plain(call: Call, change: Any) -> Any:
    """The call with changed tensors in the place of quantised tensors."""

    def of(x: Any) -> Any:
        return change(x) if isinstance(x, QuantizedTensor) else x

    return call.func(*map(of, call.args), **{k: of(x) for k, x in call.kwargs.items()})


def _operand(call: Call) -> QuantizedTensor:
    x = call.args[0] if call.args else call.kwargs["input"]
    if not isinstance(x, QuantizedTensor):
        raise ArgumentError(f"{call.name}: the first operand is not quantised")
    return x


def moved(call: Call, rule: None) -> Any:
    """The op on the whole numbers; of a tensor with scales per channel, copies only."""
    x = _operand(call)
    if x._axis is not None and call.base not in ("contiguous", "clone", "detach", "alias"):
        raise ArgumentError(f"{call.name}: not for scales per channel; use x.dequantize()")
    return _each(_plain(call, _whole), x)


def kept(call: Call, rule: None) -> Any:
    """The greatest numbers are those of the greatest whole numbers; ReLU's zero is the point."""
    x = _operand(call)
    if call.base in ("relu", "threshold"):
        return x.with_data(ops.clamp(x._whole, x.q_zero_point(), None))
    return x.with_data(_plain(call, _whole))


def computed(call: Call, rule: None) -> Any:
    """The op on floats, rounded by the operand's scale and zero point."""
    x = _operand(call)
    y = _plain(call, QuantizedTensor.dequantize)
    return quantize_per_tensor(y, x.q_scale(), x.q_zero_point(), x.dtype)


def attribute(call: Call, rule: None) -> Any:
    """An attribute; a tensor, as `x.T`, has the same scale."""
    value = call()
    return _operand(call).with_data(value) if isinstance(value, Tensor) else value


def asked(call: Call, rule: None) -> Any:
    """Asked for something else than a tensor."""
    return call()


def _cat(tensors: Any, dim: int = 0) -> QuantizedTensor:
    """All joined, by the scale of the first."""
    first = tensors[0]
    y = ops.cat([x.dequantize() for x in tensors], dim)
    result: QuantizedTensor = quantize_per_tensor(
        y, first.q_scale(), first.q_zero_point(), first.dtype
    )
    return result


TABLE.family(moved, MOVED)
TABLE.family(kept, KEPT)
TABLE.family(computed, COMPUTED)
TABLE.family(asked, QUERIES)
TABLE.family(attribute, ["__get__"])
TABLE.family(lambda call, rule: rule(*call.args, **call.kwargs), {"cat": _cat})
TABLE.family(lambda call, rule: bool(ops.equal(*(x._whole for x in call.args))), ["equal"])
