"""Common code of the optimizers: checks of settings, fresh states, taking over results."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

from wend._frontend.toolkit import (
    NotImplementedInWend,
    Tensor,
    assign,
    float32,
    float64,
    full_beside,
    get_default_dtype,
)

_SINGLE = struct.Struct("f")


def check(condition: bool, what: str, value: Any) -> None:
    """Raise ValueError if a setting is out of range."""
    if not condition:
        raise ValueError(f"Invalid {what}: {value}")


def check_range(condition: bool, what: str, least: str, value: Any) -> None:
    """Raise ValueError if a setting is out of range, in the words of the newer optimizers."""
    if not condition:
        raise ValueError(f"{what} should be {least} but is: {value}")


def _check_setting(name: str, value: Any) -> None:
    """Raise ValueError if a setting of this name is out of range."""
    if name == "betas":
        for i in (0, 1):
            check(0.0 <= float(value[i]) < 1.0, f"beta parameter at index {i}", value[i])
    elif name == "etas":
        check(0.0 < value[0] < 1.0 < value[1], "eta values", f"{value[0]}, {value[1]}")
    elif name == "rho":
        check(0.0 <= value <= 1.0, "rho value", value)
    else:
        words = {"lr": "learning rate", "eps": "epsilon value"}.get(name, f"{name} value")
        check(number(value) >= 0.0, words, value)


def settings_of(scope: dict[str, Any]) -> dict[str, Any]:
    """The settings among the `locals()` of a constructor."""
    return {k: v for k, v in scope.items() if k not in ("self", "params", "__class__")}


def checked(scope: dict[str, Any], names: str, order: str = "") -> dict[str, Any]:
    """The settings among the `locals()` of a constructor, in that order or as listed in `order`.

    Raises ValueError for the first of the names whose setting is out of range, and for a
    differentiable step; `foreach`, `fused` and `capturable` change nothing.
    """
    settings = settings_of(scope)
    for name in names.split():
        _check_setting(name, settings[name])
    if settings.get("differentiable"):
        raise NotImplementedInWend(
            f"{type(scope['self']).__name__}: differentiable=True is not available: compute the "
            "update with ops and keep the new parameters, for instance with "
            "torch.func.functional_call"
        )
    return {name: settings[name] for name in order.split()} if order else settings


def number(setting: Any) -> float:
    """A setting that may be a one-element tensor, as a number."""
    return setting.item() if isinstance(setting, Tensor) else setting


def counter_dtype() -> Any:
    """The dtype of the numbers in a parameter's state, as state dicts show them."""
    return float64 if get_default_dtype() is float64 else float32


def as_counter(value: float) -> float:
    """A number as a state dict keeps it: a run and a run resumed from a state go on alike."""
    if counter_dtype() is float64:
        return value
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:  # a number beyond float32 is infinity, as IEEE 754 rounds it
        return math.copysign(math.inf, value)


def decay_of(group: dict[str, Any]) -> float | None:
    """The group's weight decay; None for none, so that nothing is added then."""
    decay = number(group["weight_decay"])
    return decay if decay != 0 else None


def zeros_for(parameter: Tensor) -> Tensor:
    """A state of zeros like a parameter."""
    return full_beside(parameter, tuple(parameter.shape), 0.0)


def filled_for(parameter: Tensor, value: float) -> Tensor:
    """A state like a parameter, filled with a number; both parts of a complex state are that."""
    filled = complex(value, value) if parameter.is_complex() else value
    return full_beside(parameter, tuple(parameter.shape), filled)


def take(handles: Iterable[Tensor], results: Iterable[Tensor]) -> None:
    """Make each result the new value of the handle."""
    for handle, result in zip(handles, results, strict=True):
        assign(handle, result)
