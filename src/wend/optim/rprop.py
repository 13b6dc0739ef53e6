"""Resilient propagation."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod, State
from wend.optim._stepping import Params, checked, filled_for, number

__all__ = ["Rprop"]


class Rprop(OpMethod):
    """Steps by the sign of the gradient, of sizes that grow and shrink (Riedmiller, Braun, 1993).

    etas: factors where the sign turned, and where it stayed     step_sizes: bounds of the sizes
    """

    _op = staticmethod(ops.rprop_step)
    _tensors = ("prev", "step_size")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        order = "lr etas step_sizes foreach maximize differentiable capturable"
        super().__init__(params, checked(locals(), "lr etas", order))

    def _fresh(self, group: dict[str, Any], p: Tensor) -> State:
        return super()._fresh(group, p) | {"step_size": filled_for(p, float(number(group["lr"])))}

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        least, most = group["step_sizes"]
        return *group["etas"], least, float(most)
