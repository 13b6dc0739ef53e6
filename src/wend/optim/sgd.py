"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import GraphError
from wend._frontend.toolkit import Tensor, assign, ops
from wend.optim._stepping import Params, checked, decay_of, differentiable_op, number, setting
from wend.optim.optimizer import Optimizer

__all__ = ["SGD"]

_sgd_step: Any = ops.sgd_step


class SGD(Optimizer):
    """param -= lr * v, v = momentum * v + (1 - dampening) * (grad + weight_decay * param).

    nesterov: the step looks ahead by the momentum (Sutskever et al., 2013)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = checked(locals(), "lr momentum weight_decay")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        op = differentiable_op(_sgd_step) if self.defaults.get("differentiable") else _sgd_step
        lr, decay = setting(group["lr"]), decay_of(group)
        momentum = group["momentum"] if group["momentum"] != 0 else None
        dampening, maximize = group["dampening"], group["maximize"]
        if momentum is None:
            for p in parameters:
                (new,) = op(
                    p, p.grad, None, lr, None, 0.0, decay, nesterov=False, maximize=maximize
                )
                assign(p, new)
            return
        for p in parameters:
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            new, new_buffer = op(
                p,
                p.grad,
                buffer,
                lr,
                momentum,
                dampening,
                decay,
                nesterov=group["nesterov"],
                maximize=maximize,
                first=buffer is None,
            )
            assign(p, new)
            if buffer is None:
                state["momentum_buffer"] = new_buffer
            else:
                assign(buffer, new_buffer)

    def _update_sparse(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, momentum = number(group["lr"]), group["momentum"]
        if number(group["weight_decay"]) != 0:
            raise GraphError(
                "SGD: weight_decay would make sparse gradients dense; set weight_decay to 0"
            )
        for p in parameters:
            gradient: Any = p.grad
            grad = -gradient if group["maximize"] else gradient
            if momentum != 0:
                state = self.state[p]
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = grad.clone()
                else:
                    buffer = (buffer * momentum).add(grad, alpha=1 - group["dampening"]).coalesce()
                state["momentum_buffer"] = buffer
                grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
            p.add_(grad, alpha=-lr)
