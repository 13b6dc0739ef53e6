"""Adam and SparseAdam."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.transforms.hooks import made_of_parts
from wend._frontend.toolkit import Tensor, ops
from wend.optim._stepping import (
    check,
    check_betas,
    check_modes,
    decay_of,
    number,
    take,
    zeros_for,
)
from wend.optim.optimizer import Optimizer

__all__ = ["Adam", "SparseAdam"]

_adam_step = ops.adam_step


class Adam(Optimizer):
    """Steps by running means of the gradient and of the squared gradient (Kingma and Ba, 2015).

    amsgrad: divide by the greatest mean so far (Reddi et al., 2018)
    decoupled_weight_decay: as in `AdamW`     foreach, fused, capturable: accepted, no difference
    """

    _counters = ("step",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check(number(lr) >= 0.0, "learning rate", lr)
        check(eps >= 0.0, "epsilon value", eps)
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check_modes(type(self).__name__, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _state_of(self, p: Tensor, amsgrad: bool) -> dict[str, Any]:
        state: dict[str, Any] = self.state[p]
        if not state:
            state["step"] = 0.0
            state["exp_avg"] = zeros_for(p)
            state["exp_avg_sq"] = zeros_for(p)
            if amsgrad:
                state["max_exp_avg_sq"] = zeros_for(p)
        return state

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, decay, eps = number(group["lr"]), decay_of(group), group["eps"]
        beta1, beta2 = (number(beta) for beta in group["betas"])
        amsgrad, maximize = group["amsgrad"], group["maximize"]
        decoupled = group["decoupled_weight_decay"]
        for p in parameters:
            state = self._state_of(p, amsgrad)
            state["step"] += 1.0
            handles = [p, state["exp_avg"], state["exp_avg_sq"]]
            if amsgrad:
                handles.append(state["max_exp_avg_sq"])
            results = _adam_step(
                p,
                p.grad,
                handles[1],
                handles[2],
                handles[3] if amsgrad else None,
                state["step"],
                lr,
                beta1,
                beta2,
                eps,
                decay,
                maximize=maximize,
                decoupled=decoupled,
            )
            take(handles, results)


class SparseAdam(Optimizer):
    """Adam for sparse gradients: only entries that have a gradient change, and their means."""

    _counters = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check(number(lr) > 0.0, "learning rate", lr)
        check(eps > 0.0, "epsilon value", eps)
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        self._refuse("Sparse", made_of_parts, "requires dense parameter tensors")
        self._refuse("Complex", Tensor.is_complex, "does not support complex parameters")

    def _refuse(self, kind: str, is_kind: Callable[[Any], bool], why: str) -> None:
        """Raises ValueError with the places, by group, of parameters of a kind."""
        places = [
            [i, k]
            for i, group in enumerate(self.param_groups)
            for k, p in enumerate(group["params"])
            if is_kind(p)
        ]
        if places:
            raise ValueError(f"{kind} params at indices {places}: SparseAdam {why}")

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        raise GraphError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )

    def _update_sparse(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, eps = number(group["lr"]), group["eps"]
        beta1, beta2 = (float(number(beta)) for beta in group["betas"])
        for p in parameters:
            given: Any = p.grad
            state = self.state[p]
            if not state:
                state.update(step=0, exp_avg=zeros_for(p), exp_avg_sq=zeros_for(p))
            state["step"] += 1
            grad = (-given if group["maximize"] else given).coalesce()
            values = grad.values()
            mean = state["exp_avg"].sparse_mask(grad).values()
            square = state["exp_avg_sq"].sparse_mask(grad).values()
            change, growth = (values - mean) * (1 - beta1), (values * values - square) * (1 - beta2)
            state["exp_avg"].add_(grad.with_values(change))
            state["exp_avg_sq"].add_(grad.with_values(growth))
            scale = math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
            step = (mean + change) / ((square + growth).sqrt() + eps)
            p.add_(grad.with_values(step), alpha=-lr * scale)
