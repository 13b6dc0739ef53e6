"""Activations that may overwrite their input, or draw random numbers."""

from __future__ import annotations

from wend.frontend.nn._core import Tensor, empty_like, ops, zeros_like

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gumbel_softmax",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "mish",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "silu",
    "threshold",
    "threshold_",
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
_softmax = ops.softmax
_threshold = ops.threshold


def _overwrite(input: Tensor, result: Tensor) -> Tensor:
    """The in-place form of an activation."""
    return input.copy_(result)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """y = max(x, 0)."""
    return input.relu_() if inplace else _relu(input)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return input.relu_()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """y = min(max(x, 0), 6)."""
    return _overwrite(input, _relu6(input)) if inplace else _relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else negative_slope x."""
    result = _leaky_relu(input, negative_slope)
    return _overwrite(input, result) if inplace else result


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, inplace=True)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else alpha (exp(x) - 1)."""
    result = _elu(input, alpha)
    return _overwrite(input, result) if inplace else result


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return elu(input, alpha, inplace=True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with the scale and alpha that keep mean 0 and variance 1 (Klambauer et al., 2017)."""
    result = _selu(input)
    return _overwrite(input, result) if inplace else result


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return selu(input, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """y = max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    result = _celu(input, alpha)
    return _overwrite(input, result) if inplace else result


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return celu(input, alpha, inplace=True)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """y = x sigmoid(x)."""
    result = _silu(input)
    return _overwrite(input, result) if inplace else result


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """y = x tanh(softplus(x))."""
    result = _mish(input)
    return _overwrite(input, result) if inplace else result


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """y = x relu6(x + 3) / 6."""
    result = _hardswish(input)
    return _overwrite(input, result) if inplace else result


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """y = relu6(x + 3) / 6."""
    result = _hardsigmoid(input)
    return _overwrite(input, result) if inplace else result


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """y = min(max(x, min_val), max_val)."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    result = _hardtanh(input, min_val, max_val)
    return _overwrite(input, result) if inplace else result


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, inplace=True)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """y = x where x > threshold, else value."""
    result = _threshold(input, threshold, value)
    return _overwrite(input, result) if inplace else result


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return _overwrite(input, _threshold(input, threshold, value))


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """`leaky_relu` whose slope, in training, is drawn from U(lower, upper) for each element."""
    if training:
        slope = empty_like(input).uniform_(lower, upper)
        result = ops.where(input < 0, input * slope, input)
    else:
        result = _leaky_relu(input, (lower + upper) / 2)
    return _overwrite(input, result) if inplace else result


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + Gumbel noise) / tau) (Jang et al., 2017; Maddison et al., 2017).

    hard: one-hot values with the gradient of the soft ones.
    """
    gumbels = -empty_like(logits).exponential_().log()
    soft = _softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one_hot = zeros_like(soft).scatter(dim, index, 1.0)
    return one_hot - soft.detach() + soft
