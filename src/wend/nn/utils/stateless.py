"""A module called with given parameters instead of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from wend._engine.ops.sugar import spelled
from wend._frontend.toolkit import Tensor
from wend.nn.modules.module import Module

__all__ = ["functional_call"]


@spelled(parameter_and_buffer_dicts="parameters_and_buffers")
def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with given tensors in place of the parameters and buffers of those names.

    parameters_and_buffers: a dict by dotted path, or several dicts
    tie_weights: a name that shares a parameter with a replaced name is replaced too
    strict: every parameter and buffer must be given. Raises RuntimeError.
    """
    replacements = parameters_and_buffers
    if isinstance(replacements, (list, tuple)):
        merged: dict[str, Tensor] = {}
        for part in replacements:
            for name, value in part.items():
                if name in merged:
                    raise ValueError(f"{name} appears in multiple dictionaries")
                merged[name] = value
        replacements = merged
    if not isinstance(replacements, Mapping):
        raise ValueError(
            "Expected parameters_and_buffers to be a dict, or a list/tuple of dicts, "
            f"but got {type(replacements)}"
        )
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _replaced(module, dict(replacements), tie_weights, strict):
        return module(*args, **(kwargs or {}))


def _own(module: Module) -> dict[str, Tensor]:
    named: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    named.update(module.named_buffers(remove_duplicate=False))
    return named


def _with_ties(module: Module, replacements: dict[str, Tensor]) -> dict[str, Tensor]:
    """The given tensors, under all names of the replaced tensors."""
    own = _own(module)
    by_identity = {id(own[name]): value for name, value in replacements.items() if name in own}
    tied = {name: by_identity[id(value)] for name, value in own.items() if id(value) in by_identity}
    return {**tied, **replacements}


@contextmanager
def _replaced(
    module: Module, replacements: dict[str, Tensor], tie_weights: bool, strict: bool
) -> Iterator[None]:
    if strict:
        own = _own(module)
        unknown, missing = (
            sorted(set(replacements) - set(own)),
            sorted(set(own) - set(replacements)),
        )
        if unknown or missing:
            raise RuntimeError(f"Unexpected key(s): {unknown}. Missing key(s): {missing}.")
    if tie_weights:
        replacements = _with_ties(module, replacements)
    restore: list[tuple[Any, str, Any]] = []
    try:
        for path, value in replacements.items():
            parent, _, name = path.rpartition(".")
            holder = module.get_submodule(parent)
            members = _members_with(holder, name)
            restore.append((members, name, members[name]))
            members[name] = value
        yield
    finally:
        for members, name, value in reversed(restore):
            members[name] = value


def _members_with(holder: Any, name: str) -> Any:
    for members in (holder._parameters, holder._buffers):
        if name in members:
            return members
    raise AttributeError(f"{holder._get_name()} has no attribute `{name}`")
