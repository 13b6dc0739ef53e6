"""Adadelta."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod
from wend.optim._stepping import Params, checked, decay_of, setting

__all__ = ["Adadelta"]


class Adadelta(OpMethod):
    """Steps in the unit of the parameter: divided by the gradients', times the steps' history.

    Zeiler, 2012.
    """

    _op = staticmethod(ops.adadelta_step)
    _tensors = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        order = "lr rho eps weight_decay maximize capturable foreach differentiable"
        super().__init__(params, checked(locals(), "lr rho eps weight_decay", order))

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return setting(group["lr"]), group["rho"], group["eps"], decay_of(group)
