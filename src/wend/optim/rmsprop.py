"""RMSprop."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._stepping import check, check_modes, decay_of, number, take, zeros_for
from wend.optim.optimizer import Optimizer

__all__ = ["RMSprop"]

_rmsprop_step = ops.rmsprop_step


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squares (Tieleman and Hinton, 2012).

    centered: by the root of an estimate of the variance (Graves, 2013)
    """

    _counters = ("step",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(number(lr) >= 0.0, "learning rate", lr)
        check(eps >= 0.0, "epsilon value", eps)
        check(momentum >= 0.0, "momentum value", momentum)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check(alpha >= 0.0, "alpha value", alpha)
        check_modes("RMSprop", differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, decay = number(group["lr"]), decay_of(group)
        alpha, momentum = group["alpha"], float(group["momentum"])
        for p in parameters:
            state = self.state[p]
            if not state:
                state["step"] = 0.0
                state["square_avg"] = zeros_for(p)
                if momentum > 0:
                    state["momentum_buffer"] = zeros_for(p)
                if group["centered"]:
                    state["grad_avg"] = zeros_for(p)
            state["step"] += 1.0
            mean = state["grad_avg"] if group["centered"] else None
            buffer = state["momentum_buffer"] if momentum > 0 else None
            results = _rmsprop_step(
                p,
                p.grad,
                state["square_avg"],
                buffer,
                mean,
                lr,
                alpha,
                group["eps"],
                decay,
                momentum,
                maximize=group["maximize"],
            )
            handles = [p, state["square_avg"], buffer, mean]
            take([handle for handle in handles if handle is not None], results)
