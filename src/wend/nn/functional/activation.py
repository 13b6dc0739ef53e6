"""Activations that may overwrite their input, or draw random numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ValueRefused
from wend._engine.base.tracebacks import short_errors
from wend._engine.core.primitive import PublicOp
from wend._engine.core.provenance import user_level
from wend._frontend.toolkit import Tensor, empty_like, make_function, ops, zeros_like
from wend.nn.functional._extended import with_inplace

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
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "silu",
    "softmax",
    "softmin",
    "threshold",
    "threshold_",
]


def _with_any_dim(op: PublicOp[Any]) -> Callable[..., Any]:
    """The op, for which a dim is chosen, with a warning, where none is given."""
    function = make_function(op.__name__, op.binder, op.__doc__)

    def of_some_dim(
        input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
    ) -> Any:
        if dim is None:
            warnings.warn(
                f"Implicit dimension choice for {op.__name__} has been deprecated. "
                "Change the call to include dim=X as an argument.",
                stacklevel=user_level(),  # `_stacklevel` knows only PyTorch's frames
            )
            dim = 0 if input.dim() in (0, 1, 3) else 1
        return op(input, dim, dtype)

    def general(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        has_dim = (len(args) == 2 and args[1] is not None) or kwargs.get("dim") is not None
        if has_dim and len(args) < 3 and "_stacklevel" not in kwargs:
            return NotImplemented
        return of_some_dim(*args, **kwargs)

    function.general = general
    return function


celu = with_inplace(ops.celu)
elu = with_inplace(ops.elu)
hardsigmoid = with_inplace(ops.hardsigmoid)
hardswish = with_inplace(ops.hardswish)
hardtanh = with_inplace(ops.hardtanh)
leaky_relu = with_inplace(ops.leaky_relu)
mish = with_inplace(ops.mish)
relu = with_inplace(ops.relu)
relu6 = with_inplace(ops.relu6)
selu = with_inplace(ops.selu)
silu = with_inplace(ops.silu)
threshold = with_inplace(ops.threshold)

log_softmax = _with_any_dim(ops.log_softmax)
softmax = _with_any_dim(ops.softmax)
softmin = _with_any_dim(ops.softmin)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return input.relu_()


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return input.copy_(ops.leaky_relu(input, negative_slope))


def elu_(input: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """`elu` in place, times `scale`, of an input whose negative part is multiplied first."""
    if scale == input_scale == 1:
        return input.copy_(ops.elu(input, alpha))
    falling = (ops.exp(input * input_scale) - 1) * (alpha * scale)
    return input.copy_(ops.where(input > 0, input * scale, falling))


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return input.copy_(ops.selu(input))


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return input.copy_(ops.celu(input, alpha))


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return input.copy_(ops.hardtanh(input, min_val, max_val))


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return input.copy_(ops.threshold(input, threshold, value))


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """`leaky_relu` whose slope, in training, is drawn from U(lower, upper) for each element."""
    for word, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise ValueRefused(f"rrelu: {word} bound must be finite, got {bound}")
    if lower > upper:
        raise ValueRefused("rrelu: Lower bound should be less than or equal to the upper bound")
    if training:
        slope = empty_like(input).uniform_(lower, upper)
        result = ops.where(input < 0, input * slope, input)
    else:
        result = ops.leaky_relu(input, (lower + upper) / 2)
    return input.copy_(result) if inplace else result


@short_errors
def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


@short_errors
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + Gumbel noise) / tau) (Jang et al., 2017; Maddison et al., 2017).

    hard: one-hot values with the gradient of the soft values.
    """
    gumbels = -empty_like(logits).exponential_().log()
    soft = ops.softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one_hot = zeros_like(soft).scatter(dim, index, 1.0)
    return one_hot - soft.detach() + soft
