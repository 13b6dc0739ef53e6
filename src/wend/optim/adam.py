"""Adam and SparseAdam."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.transforms.hooks import made_of_parts
from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod, State
from wend.optim._rows import Rows
from wend.optim._stepping import Params, check, checked, decay_of, number, setting, zeros_for
from wend.optim.optimizer import Optimizer

__all__ = ["Adam", "SparseAdam"]


class Adam(OpMethod):
    """Steps by running means of the gradient and of the squared gradient (Kingma and Ba, 2015).

    amsgrad: divide by the greatest mean so far (Reddi et al., 2018)
    decoupled_weight_decay: as in `AdamW`     foreach, fused, capturable: accepted, no difference
    """

    _op = staticmethod(ops.adam_step)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        order = (
            "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
            "decoupled_weight_decay"
        )
        super().__init__(params, checked(locals(), "lr eps betas weight_decay", order))

    def _names(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return "exp_avg", "exp_avg_sq", "max_exp_avg_sq" if group["amsgrad"] else None

    def _factors(self, group: dict[str, Any], state: State) -> tuple[Any, ...]:
        return (state["step"],)

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        betas = (setting(beta) for beta in group["betas"])
        return setting(group["lr"]), *betas, group["eps"], decay_of(group)


class SparseAdam(Optimizer):
    """Adam for sparse gradients: only entries that have a gradient change, and their means."""

    _counters = ()

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check(number(lr) > 0.0, "learning rate", lr)
        check(eps > 0.0, "epsilon value", eps)
        super().__init__(params, checked(locals(), "betas"))
        self._refuse("Sparse", made_of_parts, "requires dense parameter tensors")
        self._refuse("Complex", Tensor.is_complex, "does not support complex parameters")

    def _refuse(self, kind: str, is_kind: Callable[[Any], bool], why: str) -> None:
        """Raises ValueError with the places, by group, of parameters of a kind."""
        places = [
            [i, k]
            for i, group in enumerate(self.param_groups)
            for k, p in enumerate(group["params"])
            if is_kind(p)
        ]
        if places:
            raise ValueError(f"{kind} params at indices {places}: SparseAdam {why}")

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        raise GraphError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )

    def _update_sparse(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, eps = number(group["lr"]), group["eps"]
        beta1, beta2 = (float(number(beta)) for beta in group["betas"])
        for p in parameters:
            sparse: Any = p.grad
            state = self.state[p]
            if not state:
                state.update(step=0, exp_avg=zeros_for(p), exp_avg_sq=zeros_for(p))
            state["step"] += 1
            rows = Rows(-sparse if group["maximize"] else sparse)
            values = rows.values
            mean, square = rows.of(state["exp_avg"]), rows.of(state["exp_avg_sq"])
            change, growth = (values - mean) * (1 - beta1), (values * values - square) * (1 - beta2)
            rows.add(state["exp_avg"], change)
            rows.add(state["exp_avg_sq"], growth)
            scale = math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
            step = (mean + change) / ((square + growth).sqrt() + eps)
            rows.add(p, step, -lr * scale)
