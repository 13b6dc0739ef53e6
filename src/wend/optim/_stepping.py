"""Common code of the optimizers: checks of settings, fresh states, taking over results."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from functools import cache
from inspect import signature
from typing import Any, TypeAlias

from wend._engine.base.errors import GraphError
from wend._frontend.toolkit import (
    Tensor,
    assign,
    float32,
    float64,
    full_beside,
    get_default_dtype,
    is_grad_enabled,
)

#: Parameters to optimize: tensors, groups of tensors with settings, or tensors with names.
Params: TypeAlias = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]
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

    Raises ValueError for the first of the names whose setting is out of range. Raises GraphError
    for a fused step that is differentiable, or by `foreach` too. `foreach`, `fused` and
    `capturable` change nothing else.
    """
    settings = settings_of(scope)
    for name in names.split():
        _check_setting(name, settings[name])
    if settings.get("fused"):
        name = type(scope["self"]).__name__
        if settings["differentiable"]:
            raise GraphError(
                f"{name}: `fused` does not support `differentiable`: leave one of the two out"
            )
        if settings["foreach"]:
            raise GraphError(f"{name}: `fused` and `foreach` cannot be `True` together.")
    return {name: settings[name] for name in order.split()} if order else settings


def number(setting: Any) -> float:
    """A setting that may be a one-element tensor, as a number."""
    return setting.item() if isinstance(setting, Tensor) else setting


def setting(value: Any) -> Any:
    """A setting as an operand of a step: a number, or a tensor that is to get a gradient."""
    if not isinstance(value, Tensor):
        return value
    return value.reshape(()) if value.requires_grad and is_grad_enabled() else value.item()


@cache
def differentiable_op(op: Any) -> Callable[..., Any]:
    """The body of an op of steps: each op inside is recorded by itself, with its gradient.

    Settings may be tensors there.
    """
    body: Callable[..., Any] = op.primitive.body
    if "differentiable" not in signature(body).parameters:
        return body
    return lambda *operands, **flags: body(*operands, **flags, differentiable=True)


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


def decay_of(group: dict[str, Any]) -> Any:
    """The group's weight decay; None for none, so that nothing is added then."""
    decay = setting(group["weight_decay"])
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
