"""Adamax."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import ops
from wend.optim._adam_variant import AdamVariant

__all__ = ["Adamax"]


class Adamax(AdamVariant):
    """Adam by the infinity norm (Kingma and Ba, 2015)."""

    _means = ("exp_avg", "exp_inf")
    _op = staticmethod(ops.adamax_step)

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
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
