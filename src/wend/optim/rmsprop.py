"""RMSprop."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod
from wend.optim._stepping import Params, checked, decay_of, setting

__all__ = ["RMSprop"]


class RMSprop(OpMethod):
    """Steps divided by the root of a running mean of squares (Tieleman and Hinton, 2012).

    centered: by the root of an estimate of the variance (Graves, 2013)
    """

    _op = staticmethod(ops.rmsprop_step)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
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
        order = (
            "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
        )
        super().__init__(params, checked(locals(), "lr eps momentum weight_decay alpha", order))

    def _names(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        buffer = "momentum_buffer" if group["momentum"] > 0 else None
        return "square_avg", buffer, "grad_avg" if group["centered"] else None

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        lr, momentum = setting(group["lr"]), float(group["momentum"])
        return lr, group["alpha"], group["eps"], decay_of(group), momentum
