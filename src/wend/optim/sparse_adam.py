"""SparseAdam."""

from __future__ import annotations

from typing import Any

from wend.frontend.toolkit import NotImplementedInWend, Tensor
from wend.optim._stepping import check, check_betas, number
from wend.optim.optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients: its `step` raises, as all gradients are dense here."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check(number(lr) > 0.0, "learning rate", lr)
        check(eps > 0.0, "epsilon value", eps)
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        raise NotImplementedInWend(
            "SparseAdam does not support dense gradients, please consider Adam instead: gradients "
            "are dense in Wend, also those of nn.Embedding(sparse=True)"
        )
