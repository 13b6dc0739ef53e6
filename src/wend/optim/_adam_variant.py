"""The step that Adamax, NAdam and RAdam share."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor
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


class AdamVariant(Optimizer):
    """A method whose step is an op over a parameter, a gradient and two running means."""

    _counters = ("step",)

    _means = ("exp_avg", "exp_avg_sq")
    _op: Any

    def __init__(self, params: Any, **defaults: Any) -> None:
        check(number(defaults["lr"]) >= 0.0, "learning rate", defaults["lr"])
        check(defaults["eps"] >= 0.0, "epsilon value", defaults["eps"])
        check_betas(defaults["betas"])
        check(defaults["weight_decay"] >= 0.0, "weight_decay value", defaults["weight_decay"])
        check_modes(type(self).__name__, defaults["differentiable"])
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, decay = number(group["lr"]), decay_of(group)
        flags = {"maximize": group["maximize"]}
        if "decoupled_weight_decay" in group:
            flags["decoupled"] = group["decoupled_weight_decay"]
        for p in parameters:
            state = self.state[p]
            if not state:
                state.update(dict.fromkeys(self._counters, 0.0))
                state.update((name, zeros_for(p)) for name in self._means)
            state["step"] += 1.0
            handles = [p, *(state[name] for name in self._means)]
            results = self._op(
                p, p.grad, *handles[1:], state["step"], *self._factors(group, state), lr,
                *group["betas"], group["eps"], decay, **flags,
            )  # fmt: skip
            take(handles, results)

    def _factors(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        """Further operands of the op, by the number of the step."""
        return ()
