"""Ops under the signatures of `torch.nn.functional`, where those have an extra argument.

Calls without that argument go to the op itself, with no Python frame in between; the core asks
`general` about calls of new forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.core.primitive import PublicOp
from wend._frontend.toolkit import make_function


def _taken(
    op: PublicOp[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """(value of the argument behind the op's parameters, further arguments); None if not given."""
    own = len(op.binder.params)
    if name in kwargs:
        kwargs = dict(kwargs)
        return kwargs.pop(name), args, kwargs
    if len(args) == own + 1:
        return args[own], args[:own], kwargs
    return None, args, kwargs


def extended(op: PublicOp[Any], name: str, handle: Callable[..., Any]) -> Callable[..., Any]:
    """The op with an extra, last argument: calls with it go to handle(value, args, kwargs)."""
    function = make_function(op.__name__, op.binder, op.__doc__)

    def general(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value, args, kwargs = _taken(op, name, args, kwargs)
        return NotImplemented if value is None else handle(value, args, kwargs)

    function.general = general
    return function


def with_inplace(op: PublicOp[Any]) -> Callable[..., Any]:
    """The op with a last argument `inplace`: overwrite the input by the result."""

    def handle(inplace: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = op(*args, **kwargs)
        if not inplace:
            return result
        return (args[0] if args else kwargs["input"]).copy_(result)

    return extended(op, "inplace", handle)


def with_indices(op: PublicOp[Any], both: PublicOp[Any]) -> Callable[..., Any]:
    """The op with a last argument `return_indices`: call `both` instead."""

    def handle(wanted: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return (both if wanted else op)(*args, **kwargs)

    return extended(op, "return_indices", handle)
