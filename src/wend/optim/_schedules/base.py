"""`LRScheduler`: the base of all schedules."""

from __future__ import annotations

import warnings
import weakref
from functools import wraps
from typing import Any

from wend._frontend.toolkit import Tensor
from wend.optim.optimizer import Optimizer

EPOCH_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Give a group a learning rate, in place for a rate that is a tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def checked_optimizer(optimizer: Any) -> Optimizer:
    """The optimizer; raises TypeError for anything else."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def per_group(values: Any, optimizer: Optimizer, message: str) -> list[Any]:
    """A value for each group, of a list or of a single value.

    message: of the ValueError for a list of another length; {} are both lengths
    """
    count = len(optimizer.param_groups)
    if not isinstance(values, (list, tuple)):
        return [values] * count
    if len(values) != count:
        raise ValueError(message.format(len(values), count))
    return list(values)


class LRScheduler:
    """Sets the learning rates of an optimizer's groups anew at each `step()`.

    last_epoch: how many steps were made, -1 to begin
    Subclasses define `get_lr`: a rate for each group at `self.last_epoch`, from the current one.
    """

    __module__ = "wend.optim.lr_scheduler"

    #: Whether the step is the constructor's: a schedule that resumes leaves the rates unchanged.
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer: Optimizer = checked_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _plain(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in "
                    f"param_groups[{i}] when resuming scheduler with last_epoch >= 0"
                )
        self.base_lrs: list[Any] = [_plain(g["initial_lr"]) for g in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        _count_steps(optimizer)
        self._initial_step()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("wend.optim._schedule"):
            cls.__module__ = "wend.optim.lr_scheduler"

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """The schedule's settings and position."""
        return self._state_without("optimizer")

    def _state_without(self, *names: str) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """A rate for each group; defined by every schedule."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch (or, deprecated, of a given epoch)."""
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_WARNING, UserWarning, stacklevel=2)
        self._advance(epoch)

    def _warn_of_order(self) -> None:
        step = self.optimizer.step
        if not hasattr(step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                "`lr_scheduler.step()`.",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch "
                "skipping the first value of the learning rate schedule.",
                UserWarning,
                stacklevel=3,
            )

    def _advance(self, epoch: int | None) -> None:
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if closed is None else closed()
        self._set_rates(rates)

    def _set_rates(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = self._rates()

    def _rates(self) -> list[Any]:
        """The current rates; tensors are copied, as those of the groups are written in place."""
        return [_plain(group["lr"]) for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> list[Any]:
        """The current rates times a factor."""
        return [rate * factor for rate in self._rates()]


def _plain(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, Tensor) else rate


def _count_steps(optimizer: Optimizer) -> None:
    """Let the optimizer note each step; a schedule warns of a missing step."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    reference = weakref.ref(optimizer)
    function = optimizer.step.__func__  # type: ignore[attr-defined]

    @wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        owner = reference()
        owner._opt_called = True  # type: ignore[union-attr]
        return function.__get__(owner, type(owner))(*args, **kwargs)

    counted._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = counted  # type: ignore[method-assign]
