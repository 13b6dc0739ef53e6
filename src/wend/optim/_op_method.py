"""The step that most methods share: an op over each parameter, its gradient and its state."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import RequirementError
from wend._frontend.toolkit import Tensor
from wend.optim._stepping import differentiable_op, take, zeros_for
from wend.optim.optimizer import Optimizer

State = dict[str, Any]


class OpMethod(Optimizer):
    """Base: a method whose step is an op over parameters, gradients and tensors of like size.

    op(p, grad, *tensors, *factors, *constants, **flags) gives the new p and tensors. A member
    defines the op; the names of the tensors, zeros to begin with; and the numbers behind: factors
    that differ from step to step, and constants of a group.
    """

    _counters = ("step",)
    _op: Any
    _tensors: tuple[str, ...] = ()

    def _names(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        """The names of the tensors in the order of the op; None for a tensor that is left out."""
        return self._tensors

    def _fresh(self, group: dict[str, Any], p: Tensor) -> State:
        """The state of a parameter before the first step."""
        names = [name for name in self._names(group) if name is not None]
        return dict.fromkeys(self._counters, 0.0) | {name: zeros_for(p) for name in names}

    def _factors(self, group: dict[str, Any], state: State) -> tuple[Any, ...]:
        """Operands that differ from step to step; the number of the step is already this one's."""
        return ()

    def _constants(self, group: dict[str, Any]) -> tuple[Any, ...]:
        """Operands that are settings of the group."""
        raise NotImplementedError

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        names, constants = self._names(group), self._constants(group)
        flags = {"maximize": group["maximize"]}
        if "decoupled_weight_decay" in group:
            flags["decoupled"] = group["decoupled_weight_decay"]
        op = self._op
        if self.defaults.get("differentiable"):
            if group.get("foreach"):
                raise RequirementError(
                    f"{type(self).__name__}: foreach=True does not support differentiable=True "
                    "(_foreach ops don't support autograd): leave `foreach` out"
                )
            op = differentiable_op(op)
        for p in parameters:
            state = self.state[p]
            if not state:
                state.update(self._fresh(group, p))
            state["step"] += 1.0
            tensors = [None if name is None else state[name] for name in names]
            factors = self._factors(group, state)
            results = op(p, p.grad, *tensors, *factors, *constants, **flags)
            take([p, *(x for x in tensors if x is not None)], results)
