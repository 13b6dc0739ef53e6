"""Adagrad."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import GraphError
from wend._frontend.toolkit import Tensor, ops
from wend.optim._op_method import OpMethod, State
from wend.optim._rows import Rows
from wend.optim._stepping import Params, checked, decay_of, filled_for, number, setting

__all__ = ["Adagrad"]


class Adagrad(OpMethod):
    """Steps divided by the root of the sum of all squared gradients (Duchi et al., 2011)."""

    _op = staticmethod(ops.adagrad_step)
    _tensors = ("sum",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        order = (
            "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize "
            "differentiable fused"
        )
        names = "lr lr_decay weight_decay initial_accumulator_value eps"
        super().__init__(params, checked(locals(), names, order))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(self._fresh(group, p))

    def _fresh(self, group: dict[str, Any], p: Tensor) -> State:
        return {"step": 0.0, "sum": filled_for(p, group["initial_accumulator_value"])}

    def share_memory(self) -> None:
        """Share the sums with other processes."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _factors(self, group: dict[str, Any], state: State) -> tuple[Any, ...]:
        return (state["step"],)

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return setting(group["lr"]), float(group["lr_decay"]), group["eps"], decay_of(group)

    def _update_sparse(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        if number(group["weight_decay"]) != 0:
            raise GraphError("weight_decay option is not compatible with sparse gradients")
        for p in parameters:
            sparse: Any = p.grad
            state = self.state[p]
            if not state:  # a group added later
                state.update(self._fresh(group, p))
            state["step"] += 1.0
            rate = number(group["lr"]) / (1 + (state["step"] - 1) * float(group["lr_decay"]))
            rows = Rows(-sparse if group["maximize"] else sparse)
            square = rows.values * rows.values
            root = (rows.of(state["sum"]) + square).sqrt() + group["eps"]
            rows.add(state["sum"], square)
            rows.add(p, rows.values / root, -rate)
