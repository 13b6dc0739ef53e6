"""AdamW, Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor
from wend.optim._stepping import Params, settings_of
from wend.optim.adam import Adam

__all__ = ["AdamW"]


class AdamW(Adam):
    """`Adam` whose weight decay shrinks the parameter itself (Loshchilov and Hutter, 2019)."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, **settings_of(locals()), decoupled_weight_decay=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
