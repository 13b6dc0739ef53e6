"""Adamax."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod, State
from wend.optim._stepping import Params, checked, decay_of, setting

__all__ = ["Adamax"]


class Adamax(OpMethod):
    """Adam by the infinity norm (Kingma and Ba, 2015)."""

    _tensors = ("exp_avg", "exp_inf")
    _op = staticmethod(ops.adamax_step)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, checked(locals(), "lr eps betas weight_decay"))

    def _factors(self, group: dict[str, Any], state: State) -> tuple[Any, ...]:
        return (state["step"],)

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return setting(group["lr"]), *group["betas"], group["eps"], decay_of(group)
