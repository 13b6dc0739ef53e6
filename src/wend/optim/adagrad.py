"""Adagrad."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import GraphError
from wend._frontend.toolkit import Tensor, ops
from wend.optim._stepping import check, check_modes, decay_of, filled_for, number, take
from wend.optim.optimizer import Optimizer

__all__ = ["Adagrad"]

_adagrad_step = ops.adagrad_step


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients (Duchi et al., 2011)."""

    _counters = ("step",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check(number(lr) >= 0.0, "learning rate", lr)
        check(lr_decay >= 0.0, "lr_decay value", lr_decay)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check(
            initial_accumulator_value >= 0.0,
            "initial_accumulator_value value",
            initial_accumulator_value,
        )
        check(eps >= 0.0, "epsilon value", eps)
        check_modes("Adagrad", differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                self._prepare(p, group["initial_accumulator_value"])

    def _prepare(self, p: Tensor, value: float) -> None:
        state = self.state[p]
        state["step"] = 0.0
        state["sum"] = filled_for(p, value)

    def share_memory(self) -> None:
        """Share the sums with other processes."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, decay = number(group["lr"]), decay_of(group)
        for p in parameters:
            if "sum" not in self.state[p]:  # a group added later
                self._prepare(p, group["initial_accumulator_value"])
            state = self.state[p]
            state["step"] += 1.0
            results = _adagrad_step(
                p,
                p.grad,
                state["sum"],
                state["step"],
                lr,
                float(group["lr_decay"]),
                group["eps"],
                decay,
                maximize=group["maximize"],
            )
            take((p, state["sum"]), results)

    def _update_sparse(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        if number(group["weight_decay"]) != 0:
            raise GraphError("weight_decay option is not compatible with sparse gradients")
        for p in parameters:
            given: Any = p.grad
            if "sum" not in self.state[p]:
                self._prepare(p, group["initial_accumulator_value"])
            state = self.state[p]
            state["step"] += 1.0
            rate = number(group["lr"]) / (1 + (state["step"] - 1) * float(group["lr_decay"]))
            grad = (-given if group["maximize"] else given).coalesce()
            values = grad.values()
            state["sum"].add_(grad.with_values(values * values))
            root = state["sum"].sparse_mask(grad).values().sqrt() + group["eps"]
            p.add_(grad.with_values(values / root), alpha=-rate)
