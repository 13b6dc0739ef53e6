"""Averages of parameters over training (Izmailov et al., 2018)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Literal

from wend._frontend.toolkit import Tensor, int64, no_grad, tensor
from wend.nn.modules.batchnorm import _BatchNorm
from wend.nn.modules.module import Module
from wend.optim._schedules.base import LRScheduler
from wend.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """average = decay * average + (1 - decay) * new."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )

    def average(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return decay * averaged + (1 - decay) * current

    return average


def get_swa_avg_fn() -> Average:
    """The plain mean of all."""

    def average(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return averaged + (current - averaged) / (num_averaged + 1)

    return average


def _for_all(fn: Average) -> Callable[[Any, Any, Any], None]:
    def average(averaged: Any, current: Any, num_averaged: Any) -> None:
        with no_grad():
            for old, new in zip(averaged, current, strict=True):
                old.copy_(fn(old, new, num_averaged))

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """`get_ema_avg_fn` for lists of tensors, in place."""
    return _for_all(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """`get_swa_avg_fn` for lists of tensors, in place."""
    return _for_all(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are the average over all updates.

    avg_fn: (averaged, new, how many) -> averaged; the plain mean by default
    use_buffers: average the buffers too, instead of leaving them as copied
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _tensors(self, model: Module) -> Iterable[Tensor]:
        if self.use_buffers:
            return itertools.chain(model.parameters(), model.buffers())
        return model.parameters()

    def update_parameters(self, model: Module) -> None:
        """Take a model's parameters into the average."""
        own = list(self._tensors(self.module))
        new = [t.detach() for t in self._tensors(model)]
        with no_grad():
            if int(self.n_averaged) == 0:
                for old, value in zip(own, new, strict=True):
                    old.copy_(value)
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn([t.detach() for t in own], new, self.n_averaged)
            else:
                average = self.avg_fn if self.avg_fn is not None else get_swa_avg_fn()
                for old, value in zip(own, new, strict=True):
                    old.copy_(average(old.detach(), value, self.n_averaged))
            if not self.use_buffers:
                for buffer, other in zip(self.module.buffers(), model.buffers(), strict=True):
                    buffer.copy_(other)
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch norms anew, in a pass over the data."""
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    with no_grad():
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """lr goes to swa_lr in anneal_epochs, and stays there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = (
            swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        )
        if len(rates) != len(optimizer.param_groups):
            raise ValueError(
                "swa_lr must have the same length as optimizer.param_groups: swa_lr has "
                f"{len(rates)}, optimizer.param_groups has {len(optimizer.param_groups)}"
            )
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t: float) -> float:
        """How far the rate has gone at a fraction t of the way."""
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[Any]:
        step = self._step_count - 1
        span = max(1, self.anneal_epochs)
        before = self._share(max(0, min(1, (step - 1) / span)))
        now = self._share(max(0, min(1, step / span)))
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            start = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
