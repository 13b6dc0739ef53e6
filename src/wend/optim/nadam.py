"""NAdam."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod
from wend.optim._stepping import Params, as_counter, checked, decay_of, setting

__all__ = ["NAdam"]


class NAdam(OpMethod):
    """Adam with Nesterov's momentum (Dozat, 2016)."""

    _counters = ("step", "mu_product")
    _tensors = ("exp_avg", "exp_avg_sq")
    _op = staticmethod(ops.nadam_step)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
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
        order = (
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach "
            "capturable differentiable"
        )
        names = "momentum_decay lr eps betas weight_decay"
        super().__init__(params, checked(locals(), names, order))

    def _factors(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        beta, fall, step = group["betas"][0], group["momentum_decay"], state["step"]
        mu = beta * (1.0 - 0.5 * 0.96 ** (step * fall))
        mu_next = beta * (1.0 - 0.5 * 0.96 ** ((step + 1) * fall))
        # The product over all steps begins at 1.
        product = as_counter((state["mu_product"] if step > 1 else 1.0) * as_counter(mu))
        state["mu_product"] = product
        return step, mu, mu_next, product

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return setting(group["lr"]), *group["betas"], group["eps"], decay_of(group)
