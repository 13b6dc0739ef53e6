"""Muon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wend._frontend.toolkit import Tensor, ops
from wend.optim._stepping import Params, check_range, number, settings_of, take, zeros_for
from wend.optim.optimizer import Optimizer

__all__ = ["Muon"]

_muon_step = ops.muon_step

#: Factors of the learning rate by the shape of a matrix, as `adjust_lr_fn` names them.
_ADJUSTMENTS: dict[str | None, Callable[[int, int], float]] = {
    None: lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}
#: More rounds than these are a mistake.
_MOST_ROUNDS = 100


class Muon(Optimizer):
    """Steps along running means of the gradient, made about orthogonal (Jordan, 2024).

    For matrices alone. The update is brought near an orthogonal matrix by `ns_steps` rounds of a
    Newton-Schulz iteration in bfloat16, with the coefficients `ns_coefficients`.

    adjust_lr_fn: 'original' (None) or 'match_rms_adamw', how lr depends on the shape of a matrix
    """

    _needs_wholes = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        settings = settings_of(locals())
        check_range(number(lr) >= 0.0, "Learning rate", ">= 0", lr)
        check_range(momentum >= 0.0, "momentum", ">= 0", momentum)
        check_range(weight_decay >= 0.0, "weight decay", ">= 0", weight_decay)
        if adjust_lr_fn not in _ADJUSTMENTS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, settings)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, rounds = float(number(group["lr"])), group["ns_steps"]
        if rounds >= _MOST_ROUNDS:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(group["ns_coefficients"]) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        for p in parameters:
            if p.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
            state = self.state[p]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = zeros_for(p)
            rows, columns = p.shape
            results = _muon_step(
                p,
                p.grad,
                state["momentum_buffer"],
                group["momentum"],
                lr * _ADJUSTMENTS[group["adjust_lr_fn"]](rows, columns),
                lr * group["weight_decay"],
                group["eps"],
                *group["ns_coefficients"],
                nesterov=group["nesterov"],
                rounds=rounds,
                tall=rows > columns,
            )
            take((p, state["momentum_buffer"]), results)
