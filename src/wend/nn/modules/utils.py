"""Arguments given as a number or as a number per dimension."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend._engine.base.errors import ArgumentTypeError
from wend.nn.common_types import size_any_t

__all__ = ["consume_prefix_in_state_dict_if_present", "factory_kwargs"]


def _ntuple(value: size_any_t, count: int) -> tuple[Any, ...]:
    """A value per dimension."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(value)
    return (value,) * count


def _single(value: size_any_t) -> tuple[Any, ...]:
    return _ntuple(value, 1)


def _pair(value: size_any_t) -> tuple[Any, ...]:
    return _ntuple(value, 2)


def _triple(value: size_any_t) -> tuple[Any, ...]:
    return _ntuple(value, 3)


def _quadruple(value: size_any_t) -> tuple[Any, ...]:
    return _ntuple(value, 4)


def _reverse_repeat_tuple(values: tuple[Any, ...], times: int) -> tuple[Any, ...]:
    """Each value `times` times, the last dimension first: the order in which `F.pad` counts."""
    return tuple(value for value in reversed(values) for _ in range(times))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Strip a prefix from all keys of a state dict, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        if key == prefix.rstrip("."):
            metadata[""] = metadata.pop(key)
        elif key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The keywords device, dtype and memory_format, also from a keyword `factory_kwargs`.

    Raises TypeError for further keywords, and for a keyword given twice.
    """
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    unknown = kwargs.keys() - names - {"factory_kwargs"}
    if unknown:
        raise ArgumentTypeError(f"unexpected kwargs {unknown}")
    settings = dict(kwargs.get("factory_kwargs", {}))
    if settings.keys() - names:
        raise ArgumentTypeError(f"unexpected factory_kwargs {settings.keys() - names}")
    for name in names & kwargs.keys():
        if name in settings:
            raise ArgumentTypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        settings[name] = kwargs[name]
    return settings
