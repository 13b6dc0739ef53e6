"""Activations as modules."""

from __future__ import annotations

import warnings
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError, RequirementError
from wend._frontend.toolkit import Tensor, empty, ops
from wend.nn import functional as F
from wend.nn import init
from wend.nn.modules._attention import MultiheadAttention
from wend.nn.modules.module import Module
from wend.nn.parameter import fresh_parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]

_celu = ops.celu
_elu = ops.elu
_hardsigmoid = ops.hardsigmoid
_hardswish = ops.hardswish
_hardtanh = ops.hardtanh
_leaky_relu = ops.leaky_relu
_mish = ops.mish
_relu = ops.relu
_relu6 = ops.relu6
_selu = ops.selu
_silu = ops.silu
_threshold = ops.threshold
_sigmoid = ops.sigmoid
_tanh = ops.tanh


class _InplaceActivation(Module):
    """An activation whose only setting is whether to overwrite the input."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InplaceActivation):
    """y = max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        return input.relu_() if self.inplace else _relu(input)


class ReLU6(_InplaceActivation):
    """y = min(max(x, 0), 6)."""

    def forward(self, input: Tensor) -> Tensor:
        result = _relu6(input)
        return input.copy_(result) if self.inplace else result

    @property
    def min_val(self) -> float:
        """The least value."""
        return 0.0

    @property
    def max_val(self) -> float:
        """The greatest value."""
        return 6.0


class SELU(_InplaceActivation):
    """Scaled ELU (Klambauer et al., 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        result = _selu(input)
        return input.copy_(result) if self.inplace else result


class SiLU(_InplaceActivation):
    """y = x sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        result = _silu(input)
        return input.copy_(result) if self.inplace else result


class Mish(_InplaceActivation):
    """y = x tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        result = _mish(input)
        return input.copy_(result) if self.inplace else result


class Hardswish(_InplaceActivation):
    """y = x relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        result = _hardswish(input)
        return input.copy_(result) if self.inplace else result

    def extra_repr(self) -> str:
        return ""


class Hardsigmoid(_InplaceActivation):
    """y = relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        result = _hardsigmoid(input)
        return input.copy_(result) if self.inplace else result

    def extra_repr(self) -> str:
        return ""


class _AlphaActivation(_InplaceActivation):
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_AlphaActivation):
    """y = x where x > 0, else alpha (exp(x) - 1)."""

    def forward(self, input: Tensor) -> Tensor:
        result = _elu(input, self.alpha)
        return input.copy_(result) if self.inplace else result


class CELU(_AlphaActivation):
    """y = max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""

    def forward(self, input: Tensor) -> Tensor:
        result = _celu(input, self.alpha)
        return input.copy_(result) if self.inplace else result


class LeakyReLU(_InplaceActivation):
    """y = x where x > 0, else negative_slope x."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        result = _leaky_relu(input, self.negative_slope)
        return input.copy_(result) if self.inplace else result

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class RReLU(_InplaceActivation):
    """`LeakyReLU` whose slope, in training, is drawn from U(lower, upper) for each element."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (
            ", inplace=True" if self.inplace else ""
        )


class Hardtanh(_InplaceActivation):
    """y = min(max(x, min_val), max_val)."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for former, value in (("min_val", min_value), ("max_val", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{former}ue` is deprecated and rename to `{former}`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val = min_val if min_value is None else min_value
        self.max_val = max_val = max_val if max_value is None else max_value
        if max_val <= min_val:
            raise RequirementError(
                f"max_val must be greater than min_val, got min_val={min_val}, max_val={max_val}"
            )

    def forward(self, input: Tensor) -> Tensor:
        result = _hardtanh(input, self.min_val, self.max_val)
        return input.copy_(result) if self.inplace else result

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (
            ", inplace=True" if self.inplace else ""
        )


class Threshold(_InplaceActivation):
    """y = x where x > threshold, else value."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def forward(self, input: Tensor) -> Tensor:
        result = _threshold(input, self.threshold, self.value)
        return input.copy_(result) if self.inplace else result

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (
            ", inplace=True" if self.inplace else ""
        )


class Sigmoid(Module):
    """y = 1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        return _sigmoid(input)


class Tanh(Module):
    """y = tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return _tanh(input)


class LogSigmoid(Module):
    """y = log(sigmoid(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """y = x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """y = x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class GELU(Module):
    """y = x Φ(x), or an approximation by tanh (Hendrycks and Gimpel, 2016)."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """y = a sigmoid(b), a and b the halves of x along a dim."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """y = x where |x| > lambd, else 0."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """y = x moved towards 0 by lambd, and no further."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Softplus(Module):
    """y = log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """y = x where x > 0, else weight x; the weight is learnt, for all channels or for each."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = fresh_parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the weight with the first value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _Softmax(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "dim" not in self.__dict__:
            self.dim = None

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_Softmax):
    """y = exp(x) / sum(exp(x)) along a dim."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmin(_Softmax):
    """y = softmax(-x) along a dim."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_Softmax):
    """y = x - log(sum(exp(x))) along a dim."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ArgumentError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)
