"""Resilient propagation."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._stepping import (
    check,
    check_modes,
    filled_for,
    number,
    take,
    zeros_for,
)
from wend.optim.optimizer import Optimizer

__all__ = ["Rprop"]

_rprop_step = ops.rprop_step


class Rprop(Optimizer):
    """Steps by the sign of the gradient, of sizes that grow and shrink (Riedmiller, Braun, 1993).

    etas: factors where the sign turned, and where it stayed     step_sizes: bounds of the sizes
    """

    _counters = ("step",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(number(lr) >= 0.0, "learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        check_modes("Rprop", differentiable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        less, more = group["etas"]
        least, most = group["step_sizes"]
        for p in parameters:
            state = self.state[p]
            if not state:
                state["step"] = 0.0
                state["prev"] = zeros_for(p)
                state["step_size"] = filled_for(p, float(number(group["lr"])))
            state["step"] += 1.0
            handles = [p, state["prev"], state["step_size"]]
            results = _rprop_step(
                p,
                p.grad,
                handles[1],
                handles[2],
                less,
                more,
                least,
                float(most),
                maximize=group["maximize"],
            )
            take(handles, results)
