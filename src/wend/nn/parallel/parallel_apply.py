"""Calls of several modules, each with arguments of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.devices import usable
from wend._engine.base.errors import ArgumentError

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """The results of modules, called in turn with inputs; an input that is no tuple is the only.

    kwargs_tup: keyword arguments of each call   devices: the CPU, or None, for each
    Raises ArgumentError (a ValueError) for lists of unlike lengths, DeviceError for other devices.
    """
    rows = [{}] * len(modules) if kwargs_tup is None else list(kwargs_tup)
    places = [None] * len(modules) if devices is None else list(devices)
    if not len(modules) == len(inputs) == len(rows) == len(places):
        raise ArgumentError(
            f"parallel_apply: {len(modules)} modules, {len(inputs)} inputs, {len(rows)} keyword "
            f"arguments and {len(places)} devices: the numbers must agree"
        )
    for place in places:
        usable(place, "parallel_apply")
    return [
        module(*(args if isinstance(args, (list, tuple)) else (args,)), **kwargs)
        for module, args, kwargs in zip(modules, inputs, rows, strict=True)
    ]
