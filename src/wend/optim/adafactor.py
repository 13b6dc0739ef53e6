"""Adafactor."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import finfo
from wend._frontend.toolkit import Tensor, full_beside, ops
from wend.optim._stepping import Params, check_range, number, settings_of, take
from wend.optim.optimizer import Optimizer

__all__ = ["Adafactor"]

_adafactor_step = ops.adafactor_step


class Adafactor(Optimizer):
    """Steps divided by roots of factored mean squares of the gradient (Shazeer and Stern, 2018).

    The state of a matrix is a mean for each row and for each column.

    lr: the largest step, relative to the mean square of the parameter
    beta2_decay: power of the step's number by which new squares count less and less
    eps: least divisor (None for that of the dtype), least size of a parameter
    d: a larger root of the mean square of an update is scaled down to it
    """

    _counters = ("step",)

    _needs_wholes = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        settings = settings_of(locals())
        check_range(number(lr) >= 0.0, "Learning rate", ">= 0", lr)
        check_range(beta2_decay <= 0.0, "beta2_decay", "<= 0", beta2_decay)
        check_range(eps[0] is None or eps[0] >= 0.0, "epsilon1", ">= 0", eps[0])
        check_range(eps[1] >= 0.0, "epsilon2", ">= 0", eps[1])
        check_range(d >= 1.0, "Clipping threshold d", ">= 1", d)
        check_range(weight_decay >= 0.0, "weight_decay", ">= 0", weight_decay)
        super().__init__(params, settings)

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        lr, (eps1, eps2) = float(number(group["lr"])), group["eps"]
        for p in parameters:
            if p.is_complex():
                raise RuntimeError("Adafactor does not support complex parameters")
            state = self.state[p]
            if not state:
                state["step"] = 0.0
                state.update(_means_for(p))
            step = state["step"] = state["step"] + 1.0
            handles = [p, *(value for key, value in state.items() if key != "step")]
            results = _adafactor_step(
                p,
                p.grad,
                handles[1],
                handles[2] if len(handles) > 2 else None,
                step ** group["beta2_decay"],
                min(lr, step**-0.5),
                lr * group["weight_decay"],
                finfo(p.dtype).eps if eps1 is None else eps1,
                eps2,
                group["d"],
                maximize=group["maximize"],
            )
            take(handles, results)


def _means_for(p: Tensor) -> dict[str, Tensor]:
    """The fresh mean squares of a parameter's gradient."""
    shape = tuple(p.shape)
    if len(shape) < 2:
        return {"variance": full_beside(p, shape, 0.0)}
    return {
        "row_var": full_beside(p, (*shape[:-1], 1), 0.0),
        "col_var": full_beside(p, (*shape[:-2], 1, shape[-1]), 0.0),
    }
