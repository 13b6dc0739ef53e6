"""torch.fx.operator_schemas: arguments of calls put in the order of the function's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import wend.nn.modules as layers
from wend.nn.modules.module import Module

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call with the defaults of those left out; None if the call does not fit.

    normalize_to_only_use_kwargs: all arguments are given by keyword
    arg_types, kwarg_types: accepted; functions tell their parameters without
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # a function of Python's own without a signature
        return None
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """As `normalize_function`, for the submodule at a path; None for modules not of `torch.nn`.

    Raises RuntimeError for a path without a module.
    """
    try:
        submodule = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize arguments to module target {target} but root did not have that "
            "target"
        ) from error
    if getattr(layers, type(submodule).__name__, None) is not type(submodule):
        return None
    signature = inspect.signature(submodule.forward)
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalized(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], by_word: bool
) -> ArgsKwargsPair | None:
    rows = signature.parameters.values()
    if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in rows):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the call does not fit: the result says so
        return None
    bound.apply_defaults()
    first: list[Any] = []
    named: dict[str, Any] = {}
    for k, (name, value) in enumerate(bound.arguments.items()):
        if not by_word and k < len(args):
            first.append(value)
        else:
            named[name] = value
    return ArgsKwargsPair(tuple(first), named)
