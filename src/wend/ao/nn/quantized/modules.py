"""Quantised modules: bytes go in, and bytes come out, with a scale and zero point of the module."""

from __future__ import annotations

from collections import OrderedDict
from copy import copy
from types import SimpleNamespace
from typing import Any, ClassVar

from wend._engine.base.dtypes import ABSENT, uint8
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend
from wend._engine.core.primitive import ops
from wend._frontend.quantized.functions import quantize_per_channel, quantize_per_tensor
from wend._frontend.quantized.tensor import QuantizedTensor, wrapped
from wend._frontend.toolkit import Tensor, no_grad, tensor, zeros
from wend.ao.nn.quantized._packing import PackedWeight
from wend.nn.modules import pooling
from wend.nn.modules.container import Sequential
from wend.nn.modules.module import Module
from wend.nn.utils.fusion import fuse_conv_bn_weights

__all__ = [
    "ELU",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "DeQuantize",
    "Dropout",
    "GroupNorm",
    "Hardswish",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "Quantize",
    "ReLU6",
    "Sigmoid",
    "WeightedModule",
    "quantized_weight",
]

qint8, quint8 = ABSENT["qint8"], ABSENT["quint8"]


def quantized_weight(weight: Tensor, observer: Any) -> QuantizedTensor:
    """A weight quantised by the range that an observer finds for it."""
    observer(weight)
    scale, zero = observer.calculate_qparams()
    with no_grad():
        if scale.numel() == 1:
            whole: QuantizedTensor = quantize_per_tensor(
                weight.detach(), scale, zero, observer.dtype
            )
            return whole
        return quantize_per_channel(
            weight.detach(), scale, zero, getattr(observer, "ch_axis", 0), observer.dtype
        )


def bytes_of(x: Tensor, module: Module) -> Tensor:
    """The bytes of a module's input. Raises ArgumentTypeError for a tensor without."""
    if not isinstance(x, QuantizedTensor):
        raise ArgumentTypeError(
            f"{type(module).__name__}: the input is {x.dtype} and not quantised; put a QuantStub "
            "in front of the module before prepare() and convert()"
        )
    data = x._whole
    if data.dtype is not uint8 or x._axis is not None:
        raise NotImplementedInWend(
            f"{type(module).__name__}: an input of {x.dtype} and {x.qscheme()}; kernels take "
            "torch.quint8 with a single scale"
        )
    return data


class Quantize(Module):
    """Floats as a quantised tensor: y = round(x / scale) + zero_point."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: Any, zero_point: Any, dtype: Any, factory_kwargs: Any = None) -> None:
        super().__init__()
        self.register_buffer("scale", tensor([float(scale)]))
        self.register_buffer("zero_point", tensor([int(zero_point)]))
        self.dtype = dtype
        self._read: Any = (None, None, 0.0, 0)

    def forward(self, X: Tensor) -> Any:
        scale, zero = self.scale, self.zero_point
        if self._read[0] is not scale or self._read[1] is not zero:
            self._read = scale, zero, float(scale), int(zero)
        _, _, scale, zero = self._read
        return quantize_per_tensor(X, scale, zero, self.dtype)

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._read = (None, None, 0.0, 0)  # values may have been written in place

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Quantize:
        """The module for a stub with an observer."""
        observer: Any = mod.activation_post_process
        scale, zero = observer.calculate_qparams()
        return Quantize(scale, zero, observer.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """The floats of a quantised tensor."""

    def forward(self, Xq: Any) -> Tensor:
        return Xq.dequantize() if isinstance(Xq, QuantizedTensor) else Xq

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """The module for a stub."""
        return DeQuantize()


class WeightedModule(Module):
    """Base of the modules with a weight: scale and zero point of the result, saving and loading."""

    scale: float
    zero_point: int
    packed: PackedWeight
    groups: int = 1
    relu: ClassVar[bool] = False

    def weight(self) -> QuantizedTensor:
        """The quantised weight."""
        return self.packed.weight

    def bias(self) -> Tensor | None:
        """The bias, in float32, or None."""
        return self.packed.bias

    def _weight_bias(self) -> tuple[QuantizedTensor, Tensor | None]:
        return self.packed.weight, self.packed.bias

    def set_weight_bias(self, w: QuantizedTensor, b: Tensor | None) -> None:
        """Take another weight and bias; the weight is packed for the kernels."""
        self.packed = PackedWeight(w, b, self.groups)

    def _saved(self, prefix: str) -> dict[str, Any]:
        """The entries of a weight and bias in a state dict."""
        return {prefix + "weight": self.weight(), prefix + "bias": self.bias()}

    def _loaded(self, state: dict[str, Any], prefix: str) -> tuple[Any, Any]:
        return state.pop(prefix + "weight"), state.pop(prefix + "bias")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = tensor(self.scale)
        destination[prefix + "zero_point"] = tensor(self.zero_point)
        destination.update(self._saved(prefix))

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        own = {key: x for key, x in state_dict.items() if key.startswith(prefix)}
        if prefix + "scale" not in own:
            missing_keys.append(prefix + "scale")
            return
        self.scale = float(own.pop(prefix + "scale"))
        self.zero_point = int(own.pop(prefix + "zero_point"))
        self.set_weight_bias(*self._loaded(own, prefix))
        if strict:
            unexpected_keys.extend(key for key in own if "." not in key[len(prefix) :])

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantised module of a float module with observers, or of a trained module."""
        inner = fused_weights(mod[0] if isinstance(mod, Sequential) else mod)
        quantized = cls._like(inner)
        observer = getattr(inner, "weight_fake_quant", None) or mod.qconfig.weight()
        quantized.set_weight_bias(quantized_weight(inner.weight, observer), inner.bias)
        scale, zero = mod.activation_post_process.calculate_qparams()
        quantized.scale, quantized.zero_point = float(scale), int(zero)
        return quantized

    @classmethod
    def _like(cls, mod: Any) -> Any:
        """A new module of the sizes of a float module."""
        raise NotImplementedError


def fused_weights(mod: Any) -> Any:
    """A module itself; the weight and bias of a convolution with the batch norm inside."""
    norm = getattr(mod, "bn", None)
    if norm is None:
        return mod
    weight, bias = fuse_conv_bn_weights(
        mod.weight, mod.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    return SimpleNamespace(**{**_facts(mod), "weight": weight, "bias": bias})


def _facts(mod: Any) -> dict[str, Any]:
    names = "in_channels out_channels kernel_size stride padding dilation groups padding_mode"
    return {name: getattr(mod, name) for name in (*names.split(), "weight_fake_quant")}


class Linear(WeightedModule):
    """y = x @ weight.T + bias of bytes, as bytes.

    x: (..., in_features) quint8   ->   y: (..., out_features) quint8
    """

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scale, self.zero_point = 1.0, 0
        weight = zeros((out_features, in_features))
        self.set_weight_bias(
            quantize_per_tensor(weight, 1.0, 0, qint8), zeros(out_features) if bias_ else None
        )

    def forward(self, x: Any) -> Any:
        data, packed = bytes_of(x, self), self.packed
        q = packed.requantization(x._scale, x._zero, self.scale, self.zero_point, self.relu)
        y = ops.linear_int8(data, packed.panels, q.offset, q.factor, q.shift, q.limits)
        return wrapped(y, self.scale, self.zero_point)

    def _saved(self, prefix: str) -> dict[str, Any]:
        return {
            prefix + "_packed_params.dtype": qint8,
            prefix + "_packed_params._packed_params": self._weight_bias(),
        }

    def _loaded(self, state: dict[str, Any], prefix: str) -> tuple[Any, Any]:
        state.pop(prefix + "_packed_params.dtype", None)
        weight, bias = state.pop(prefix + "_packed_params._packed_params")
        return weight, bias

    @classmethod
    def _like(cls, mod: Any) -> Any:
        return cls(mod.in_features, mod.out_features, mod.bias is not None)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def _get_name(self) -> str:
        return "QuantizedLinear"


class _ConvNd(WeightedModule):
    """Base of convolutions over bytes. Padding is with the zero point, which is 0."""

    nd: ClassVar[int]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if padding_mode != "zeros" or isinstance(padding, str):
            raise NotImplementedInWend(
                f"{self._get_name()}: padding {padding!r} of mode {padding_mode!r}; kernels take "
                "numbers and padding_mode='zeros'"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding, self.dilation = (
            self._sides(x) for x in (kernel_size, stride, padding, dilation)
        )
        one, sides = (1,) * (2 - self.nd), (self.kernel_size, self.stride, self.dilation)
        self.sides = (*(one + side for side in sides), (0,) * len(one) + self.padding)
        self.groups, self.padding_mode = groups, padding_mode
        self.scale, self.zero_point = 1.0, 0
        weight = zeros((out_channels, in_channels // groups, *self.kernel_size))
        self.set_weight_bias(
            quantize_per_tensor(weight, 1.0, 0, qint8), zeros(out_channels) if bias else None
        )

    def _sides(self, x: Any) -> tuple[int, ...]:
        return (x,) * self.nd if isinstance(x, int) else tuple(x)

    def set_weight_bias(self, w: QuantizedTensor, b: Tensor | None) -> None:
        """Take another weight and bias; the weight is packed for the kernels."""
        packed = w if self.nd == 2 else w.with_data(w._whole.unsqueeze(2))
        self.packed = PackedWeight(packed, b, self.groups)
        self._weight = w

    def weight(self) -> QuantizedTensor:
        return self._weight

    def forward(self, input: Any) -> Any:
        data, packed = bytes_of(input, self), self.packed
        if data.ndim != self.nd + 2:
            raise ArgumentError(
                f"{self._get_name()}: Input shape must be of {self.nd + 2} dims, got {data.ndim}"
            )
        zero = input._zero
        q = packed.requantization(input._scale, zero, self.scale, self.zero_point, self.relu)
        kernel, stride, dilation, padding = self.sides
        more = self.nd == 1
        x = data.unsqueeze(2) if more else data
        if packed.depthwise is not None:
            y = ops.depthwise_int8(
                x, packed.depthwise, q.offset, q.factor, q.shift, q.limits, padding,
                kernel, stride, dilation,
            )  # fmt: skip
        else:
            y = ops.conv2d_int8(
                x, packed.panels, q.offset, q.factor, q.shift, q.limits, zero, padding,
                kernel, stride, dilation,
            )  # fmt: skip
        return wrapped(ops.squeeze(y, 2) if more else y, self.scale, self.zero_point)

    @classmethod
    def _like(cls, mod: Any) -> Any:
        return cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding,
            mod.dilation, mod.groups, mod.bias is not None, mod.padding_mode,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}"
        )
        if any(self.padding):
            text += f", padding={self.padding}"
        if any(d != 1 for d in self.dilation):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + (", bias=False" if self.bias() is None else "")

    def _get_name(self) -> str:
        return f"QuantizedConv{self.nd}d"


class Conv1d(_ConvNd):
    """A convolution over a single dim: (N, C, L) quint8 -> (N, F, L') quint8."""

    nd = 1


class Conv2d(_ConvNd):
    """A convolution over two dims: (N, C, H, W) quint8 -> (N, F, H', W') quint8."""

    nd = 2


class ReLU6(Module):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        six = min(255, input._zero + round(6 / input._scale))
        return input.with_data(ops.clamp(input._whole, input._zero, six))

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """The module for a float module."""
        return ReLU6(mod.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"


class MaxPool2d(Module):
    """Greatest numbers of windows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.pool = pooling.MaxPool2d(*args, **kwargs)

    def forward(self, input: Any) -> Any:
        return self.pool(input)


class Dropout(Module):
    """The input itself: a quantised model is not trained."""

    def forward(self, input: Any) -> Any:
        return input

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Dropout:
        """The module for a float module."""
        return Dropout()

    def _get_name(self) -> str:
        return "QuantizedDropout"


class _Rounded(Module):
    """Base of modules that compute floats, rounded by the scale of the module."""

    def __init__(self, module: Any, scale: float, zero_point: int) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("scale", tensor(scale))
        self.register_buffer("zero_point", tensor(zero_point))
        self.numbers = float(scale), int(zero_point)

    def forward(self, input: Any) -> Any:
        y = self.module(input.dequantize())
        return quantize_per_tensor(y, *self.numbers, quint8)

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self.numbers = float(self.scale), int(self.zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module for a float module with an observer."""
        scale, zero = mod.activation_post_process.calculate_qparams()
        plain = copy(mod)
        plain._modules = {}
        for hooks in ("_forward_hooks", "_forward_pre_hooks"):
            setattr(plain, hooks, OrderedDict())
        return cls(plain, float(scale), int(zero))

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


class BatchNorm2d(_Rounded):
    """A batch norm of an image."""


class Hardswish(_Rounded):
    """x relu6(x + 3) / 6."""


class ELU(_Rounded):
    """max(x, 0) + min(alpha (exp(x) - 1), 0)."""


class LeakyReLU(_Rounded):
    """x, or a part of x below 0."""


class Sigmoid(_Rounded):
    """1 / (1 + exp(-x))."""


class LayerNorm(_Rounded):
    """Rows less the mean, over the deviation."""


class GroupNorm(_Rounded):
    """Groups of channels less the mean, over the deviation."""
