"""Averaged gradient descent and resilient propagation."""

from __future__ import annotations

from typing import Any

from wend.frontend.optim._stepping import (
    as_counter,
    check,
    check_modes,
    decay_of,
    number,
    take,
    zeros_for,
)
from wend.frontend.optim.optimizer import Optimizer
from wend.frontend.toolkit import Tensor, ops

__all__ = ["ASGD", "Rprop"]

_asgd_step = ops.asgd_step
_rprop_step = ops.rprop_step


class ASGD(Optimizer):
    """Gradient descent with an average of the parameters (Polyak and Juditsky, 1992).

    The average is in `state[p]["ax"]`; it begins at step t0.
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


class Rprop(Optimizer):
    """Steps by the sign of the gradient, of sizes that grow and shrink (Riedmiller, Braun, 1993).

    etas: factors where the sign turned, and where it stayed     step_sizes: their bounds
    """

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
                state["step_size"] = ops.full(
                    tuple(p.shape), float(number(group["lr"])), dtype=p.dtype
                )
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
