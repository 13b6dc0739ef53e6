"""Schedules of rise and fall, stepped after every batch, for rates and momentum."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, Literal

from wend.optim._schedules.base import LRScheduler, checked_optimizer, per_group, set_rate
from wend.optim.optimizer import Optimizer


def _per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    message = (
        f"{name} must have the same length as optimizer.param_groups. {name} has {{0}} values, "
        "param_groups has {1}."
    )
    return per_group(value, optimizer, message)


def _uses_beta1(optimizer: Optimizer) -> bool:
    """Whether the momentum is the first of the betas.

    Raises ValueError for an optimizer without momentum.
    """
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def _start_momentum(optimizer: Optimizer, lows: list[Any], highs: list[Any]) -> None:
    """Begin with the high momentum of each group."""
    for most, least, group in zip(highs, lows, optimizer.param_groups, strict=True):
        _set_momentum(group, most)
        group["max_momentum"] = most
        group["base_momentum"] = least


def _set_momentum(group: dict[str, Any], value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """lr between base_lr and max_lr, up in step_size_up steps, down in step_size_down.

    Smith, 2017. mode: 'triangular', 'triangular2' (half the height each cycle) or 'exp_range'
    (height times gamma^steps), or a scale_fn of the 'cycle' or of 'iterations' (scale_mode)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer: Optimizer = checked_optimizer(optimizer)
        lows = _per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lows, strict=True):
                set_rate(group, rate)
        self.max_lrs: list[Any] = _per_group("max_lr", optimizer, max_lr)
        down = float(step_size_down) if step_size_down is not None else float(step_size_up)
        self.total_size: float = float(step_size_up) + down
        self.step_ratio: float = float(step_size_up) / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1: bool = _uses_beta1(optimizer)
            self.base_momentums: list[Any] = _per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums: list[Any] = _per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                _start_momentum(optimizer, self.base_momentums, self.max_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """The height of a cycle (or of a step)."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        lows = self.base_lrs
        rates = [
            low + (high - low) * height * scale
            for low, high in zip(lows, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            groups = zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            )
            for least, most, group in groups:
                _set_momentum(group, most - (most - least) * height * scale)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """As for all schedules; a scale function is left out unless it is an object."""
        state = super().state_dict()
        custom = self._scale_fn_custom
        plain = custom is None or isinstance(custom, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else dict(custom.__dict__)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`."""
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(LRScheduler):
    """lr up from max_lr / div_factor to max_lr, then down to far below; momentum the other way.

    Smith and Topin, 2018. The rise takes pct_start of total_steps (or epochs * steps_per_epoch).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer: Optimizer = checked_optimizer(optimizer)
        self.total_steps: int = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            highs = _per_group("max_lr", optimizer, max_lr)
            for group, high in zip(optimizer.param_groups, highs, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1: bool = _uses_beta1(optimizer)
            if last_epoch == -1:
                highs = _per_group("max_momentum", optimizer, max_momentum)
                lows = _per_group("base_momentum", optimizer, base_momentum)
                _start_momentum(optimizer, lows, highs)
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: float, end: float, share: float) -> float:
        """From start to end, by a cosine or straight."""
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, phase in enumerate(self._schedule_phases):
                if step <= phase["end_step"] or i == len(self._schedule_phases) - 1:
                    share = (step - start) / (phase["end_step"] - start)
                    rates.append(
                        self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share)
                    )
                    if self.cycle_momentum:
                        momentum = self._anneal_func(
                            group[phase["start_momentum"]], group[phase["end_momentum"]], share
                        )
                        _set_momentum(group, momentum)
                    break
                start = phase["end_step"]
        return rates


def _total_steps(total: Any, epochs: Any, per_epoch: Any) -> int:
    if total is not None:
        if total <= 0 or not isinstance(total, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total}")
        return total
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if not isinstance(epochs, int) or epochs <= 0:
        raise ValueError(f"Expected positive integer epochs, but got {epochs}")
    if not isinstance(per_epoch, int) or per_epoch <= 0:
        raise ValueError(f"Expected positive integer steps_per_epoch, but got {per_epoch}")
    return epochs * per_epoch


def _phases(total: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """The end of each phase, and the two settings of a group that the phase goes between."""

    def phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": lr[0],
            "end_lr": lr[1],
            "start_momentum": momentum[0],
            "end_momentum": momentum[1],
        }

    up, down = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
    rise = float(pct_start * total) - 1
    if not three_phase:
        return [
            phase(rise, ("initial_lr", "max_lr"), up),
            phase(total - 1, ("max_lr", "min_lr"), down),
        ]
    return [
        phase(rise, ("initial_lr", "max_lr"), up),
        phase(float(2 * pct_start * total) - 2, ("max_lr", "initial_lr"), down),
        phase(total - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
    ]
