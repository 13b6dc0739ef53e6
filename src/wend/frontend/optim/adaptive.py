"""Steps scaled by the gradient's history: RMSprop, Adagrad, Adadelta."""

from __future__ import annotations

from typing import Any

from wend.frontend.optim._stepping import check, check_modes, decay_of, number, take, zeros_for
from wend.frontend.optim.optimizer import Optimizer
from wend.frontend.toolkit import Tensor, ops

__all__ = ["Adadelta", "Adagrad", "RMSprop"]

_adadelta_step = ops.adadelta_step
_adagrad_step = ops.adagrad_step
_rmsprop_step = ops.rmsprop_step


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squares (Tieleman and Hinton, 2012).

    centered: by the root of an estimate of the variance (Graves, 2013)
    """

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


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients (Duchi et al., 2011)."""

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
        state["sum"] = ops.full(tuple(p.shape), value, dtype=p.dtype)

    def share_memory(self) -> None:
        """Let other processes see the sums."""
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


class Adadelta(Optimizer):
    """Steps in the unit of the parameter: divided by the gradients', times the steps' history.

    Zeiler, 2012.
    """

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
