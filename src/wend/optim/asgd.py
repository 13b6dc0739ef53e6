"""Averaged gradient descent."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._stepping import (
    as_counter,
    check,
    check_modes,
    decay_of,
    number,
    take,
    zeros_for,
)
from wend.optim.optimizer import Optimizer

__all__ = ["ASGD"]

_asgd_step = ops.asgd_step


class ASGD(Optimizer):
    """Gradient descent with an average of the parameters (Polyak and Juditsky, 1992).

    The average is in `state[p]["ax"]`, from step t0 on.
    """

    _counters = ("step", "eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check(number(lr) >= 0.0, "learning rate", lr)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check_modes("ASGD", differentiable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, lambd, decay = float(number(group["lr"])), group["lambd"], decay_of(group)
        for p in parameters:
            state = self.state[p]
            if not state:
                state["step"] = 0.0
                state["eta"] = as_counter(lr)
                state["mu"] = 1.0
                state["ax"] = zeros_for(p)
            state["step"] = step = state["step"] + 1.0
            results = _asgd_step(
                p,
                p.grad,
                state["ax"],
                state["eta"],
                1.0 - lambd * state["eta"],
                state["mu"] if state["mu"] != 1.0 else None,
                decay,
                maximize=group["maximize"],
            )
            take((p, state["ax"]), results)
            state["eta"] = as_counter(lr / (1.0 + lambd * lr * step) ** group["alpha"])
            state["mu"] = as_counter(1.0 / max(1.0, step - group["t0"]))
