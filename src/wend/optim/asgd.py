"""Averaged gradient descent."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod, State
from wend.optim._stepping import Params, as_counter, checked, decay_of, number, zeros_for

__all__ = ["ASGD"]


class ASGD(OpMethod):
    """Gradient descent with an average of the parameters (Polyak and Juditsky, 1992).

    The average is in `state[p]["ax"]`, from step t0 on.
    """

    _counters = ("step", "eta", "mu")
    _op = staticmethod(ops.asgd_step)
    _tensors = ("ax",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, checked(locals(), "lr weight_decay"))

    def _fresh(self, group: dict[str, Any], p: Tensor) -> State:
        eta = as_counter(float(number(group["lr"])))
        return {"step": 0.0, "eta": eta, "mu": 1.0, "ax": zeros_for(p)}

    def _factors(self, group: dict[str, Any], state: State) -> tuple[Any, ...]:
        lr, lambd, step = float(number(group["lr"])), group["lambd"], state["step"]
        eta, mu = state["eta"], state["mu"]
        state["eta"] = as_counter(lr / (1.0 + lambd * lr * step) ** group["alpha"])
        state["mu"] = as_counter(1.0 / max(1.0, step - group["t0"]))
        return eta, 1.0 - lambd * eta, mu if mu != 1.0 else None

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return (decay_of(group),)
