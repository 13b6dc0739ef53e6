"""Relatives of Adam: Adamax, NAdam, RAdam."""

from __future__ import annotations

import math
from typing import Any

from wend.frontend.nn._core import Tensor, ops
from wend.frontend.optim._stepping import (
    check,
    check_betas,
    check_modes,
    decay_of,
    number,
    take,
    zeros_for,
)
from wend.frontend.optim.optimizer import Optimizer

__all__ = ["Adamax", "NAdam", "RAdam"]

_adamax_step = ops.adamax_step
_nadam_step = ops.nadam_step
_radam_step = ops.radam_step


def _check(name: str, lr: Any, eps: float, betas: Any, decay: float, differentiable: bool) -> None:
    check(number(lr) >= 0.0, "learning rate", lr)
    check(eps >= 0.0, "epsilon value", eps)
    check_betas(betas)
    check(decay >= 0.0, "weight_decay value", decay)
    check_modes(name, differentiable)


class Adamax(Optimizer):
    """Adam by the infinity norm (Kingma and Ba, 2015)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check("Adamax", lr, eps, betas, weight_decay, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, decay = number(group["lr"]), decay_of(group)
        beta1, beta2 = group["betas"]
        for p in parameters:
            state = self.state[p]
            if not state:
                state["step"] = 0.0
                state["exp_avg"] = zeros_for(p)
                state["exp_inf"] = zeros_for(p)
            state["step"] += 1.0
            handles = [p, state["exp_avg"], state["exp_inf"]]
            results = _adamax_step(
                p,
                p.grad,
                handles[1],
                handles[2],
                state["step"],
                lr,
                beta1,
                beta2,
                group["eps"],
                decay,
                maximize=group["maximize"],
            )
            take(handles, results)


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat, 2016)."""

    _counters = ("step", "mu_product")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check("NAdam", lr, eps, betas, weight_decay, differentiable)
        check(momentum_decay >= 0.0, "momentum_decay value", momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, decay = number(group["lr"]), decay_of(group)
        beta1, beta2 = group["betas"]
        fall = group["momentum_decay"]
        for p in parameters:
            state = self.state[p]
            if not state:
                state["step"] = 0.0
                state["mu_product"] = 1.0
                state["exp_avg"] = zeros_for(p)
                state["exp_avg_sq"] = zeros_for(p)
            state["step"] = step = state["step"] + 1.0
            mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * fall))
            mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * fall))
            state["mu_product"] = product = state["mu_product"] * mu
            handles = [p, state["exp_avg"], state["exp_avg_sq"]]
            results = _nadam_step(
                p,
                p.grad,
                handles[1],
                handles[2],
                step,
                mu,
                mu_next,
                product,
                lr,
                beta1,
                beta2,
                group["eps"],
                decay,
                maximize=group["maximize"],
                decoupled=group["decoupled_weight_decay"],
            )
            take(handles, results)


class RAdam(Optimizer):
    """Adam whose first steps, of unsure variance, are made without it (Liu et al., 2020)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
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
        _check("RAdam", lr, eps, betas, weight_decay, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, decay = number(group["lr"]), decay_of(group)
        beta1, beta2 = group["betas"]
        for p in parameters:
            state = self.state[p]
            if not state:
                state["step"] = 0.0
                state["exp_avg"] = zeros_for(p)
                state["exp_avg_sq"] = zeros_for(p)
            state["step"] = step = state["step"] + 1.0
            handles = [p, state["exp_avg"], state["exp_avg_sq"]]
            results = _radam_step(
                p,
                p.grad,
                handles[1],
                handles[2],
                step,
                _rectification(beta2, step),
                lr,
                beta1,
                beta2,
                group["eps"],
                decay,
                maximize=group["maximize"],
                decoupled=group["decoupled_weight_decay"],
            )
            take(handles, results)


def _rectification(beta2: float, step: float) -> float | None:
    """The factor of the paper's variance rectification; None while the variance is unsure."""
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * step * beta2**step / (1 - beta2**step)
    if length <= 5.0:
        return None
    top = (length - 4) * (length - 2) * limit
    return math.sqrt(top / ((limit - 4) * (limit - 2) * length))
