"""Adadelta."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._stepping import check, check_modes, decay_of, number, take, zeros_for
from wend.optim.optimizer import Optimizer

__all__ = ["Adadelta"]

_adadelta_step = ops.adadelta_step


class Adadelta(Optimizer):
    """Steps in the unit of the parameter: divided by the gradients', times the steps' history.

    Zeiler, 2012.
    """

    _counters = ("step",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(number(lr) >= 0.0, "learning rate", lr)
        check(0.0 <= rho <= 1.0, "rho value", rho)
        check(eps >= 0.0, "epsilon value", eps)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check_modes("Adadelta", differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        rho, decay = group["rho"], decay_of(group)
        for p in parameters:
            state = self.state[p]
            if not state:
                state["step"] = 0.0
                state["square_avg"] = zeros_for(p)
                state["acc_delta"] = zeros_for(p)
            state["step"] += 1.0
            handles = [p, state["square_avg"], state["acc_delta"]]
            results = _adadelta_step(
                p,
                p.grad,
                handles[1],
                handles[2],
                number(group["lr"]),
                rho,
                group["eps"],
                decay,
                maximize=group["maximize"],
            )
            take(handles, results)
