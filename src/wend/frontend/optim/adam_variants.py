"""Relatives of Adam: Adamax, NAdam, RAdam."""

from __future__ import annotations

import math
from typing import Any

from wend.frontend.optim._stepping import (
    as_counter,
    check,
    check_betas,
    check_modes,
    decay_of,
    number,
    take,
    zeros_for,
)
from wend.frontend.optim.optimizer import Optimizer
from wend.frontend.toolkit import Tensor, ops

__all__ = ["Adamax", "NAdam", "RAdam"]


class _Variant(Optimizer):
    """A method whose step is one op over a parameter, its gradient and two running means."""

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
        """What the op needs besides, by the number of the step."""
        return ()


class Adamax(_Variant):
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


class NAdam(_Variant):
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


class RAdam(_Variant):
    """Adam whose first steps, of unsure variance, are made without it (Liu et al., 2020)."""

    _op = staticmethod(ops.radam_step)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            decoupled_weight_decay=decoupled_weight_decay,
            differentiable=differentiable,
        )

    def _factors(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        return (_rectification(group["betas"][1], state["step"]),)


def _rectification(beta2: float, step: float) -> float | None:
    """The factor of the paper's variance rectification; None while the variance is unsure."""
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * step * beta2**step / (1 - beta2**step)
    if length <= 5.0:
        return None
    top = (length - 4) * (length - 2) * limit
    return math.sqrt(top / ((limit - 4) * (limit - 2) * length))
