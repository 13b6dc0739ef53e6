"""RAdam."""

from __future__ import annotations

import math
from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod
from wend.optim._stepping import Params, checked, decay_of, setting

__all__ = ["RAdam"]


class RAdam(OpMethod):
    """Adam whose first steps, of unsure variance, go without the variance (Liu et al., 2020)."""

    _tensors = ("exp_avg", "exp_avg_sq")
    _op = staticmethod(ops.radam_step)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        order = (
            "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay "
            "differentiable"
        )
        super().__init__(params, checked(locals(), "lr eps betas weight_decay", order))

    def _factors(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        return state["step"], _rectification(group["betas"][1], state["step"])

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return setting(group["lr"]), *group["betas"], group["eps"], decay_of(group)


def _rectification(beta2: float, step: float) -> float | None:
    """The factor of the paper's variance rectification; None while the variance is unsure."""
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * step * beta2**step / (1 - beta2**step)
    if length <= 5.0:
        return None
    top = (length - 4) * (length - 2) * limit
    return math.sqrt(top / ((limit - 4) * (limit - 2) * length))
