"""NAdam."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import ops
from wend.optim._adam_variant import AdamVariant
from wend.optim._stepping import (
    as_counter,
    check,
)

__all__ = ["NAdam"]


class NAdam(AdamVariant):
    """Adam with Nesterov's momentum (Dozat, 2016)."""

    _counters = ("step", "mu_product")
    _op = staticmethod(ops.nadam_step)

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
        check(momentum_decay >= 0.0, "momentum_decay value", momentum_decay)
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )

    def _factors(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        beta, fall, step = group["betas"][0], group["momentum_decay"], state["step"]
        mu = beta * (1.0 - 0.5 * 0.96 ** (step * fall))
        mu_next = beta * (1.0 - 0.5 * 0.96 ** ((step + 1) * fall))
        # The product over all steps begins at 1.
        product = as_counter((state["mu_product"] if step > 1 else 1.0) * as_counter(mu))
        state["mu_product"] = product
        return mu, mu_next, product
