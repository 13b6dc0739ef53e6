"""Shared by the functions of linear algebra: their calls, and failures told at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from wend._engine.base.errors import ArgumentTypeError, WendError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops, publish, return_type
from wend._engine.ops.linalg.family import raise_where
from wend._frontend.interop.exchange import array_of

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["at_once", "completed", "entry", "named", "pending"]


def entry(
    *names: str, functions: tuple[str, ...] = (), methods: tuple[str, ...] = ()
) -> Callable[[F], F]:
    """Make a public function: an overriding class is asked first, and `out=` is written.

    names: of parameters that must be tensors, the first ones
    """

    def make(function: F) -> F:
        shown = inspect.signature(function)
        kinds = {name: p.kind for name, p in shown.parameters.items()}
        positional = [
            name for name, kind in kinds.items() if kind is not inspect.Parameter.KEYWORD_ONLY
        ]
        place = positional.index("out") if "out" in positional else None

        @functools.wraps(function)
        def public(*args: object, **kwargs: object) -> Any:
            try:
                for position, name in enumerate(names):
                    if position < len(args):
                        _require_tensor(public.__name__, name, args[position])
                    elif name in kwargs:
                        _require_tensor(public.__name__, name, kwargs[name])
                if any(map(_hot.has_override, (*args, *kwargs.values()))):
                    return _hot.slot("torch_function")(public, args, kwargs)
                if place is not None and len(args) > place and "out" not in kwargs:
                    kwargs["out"] = args[place]
                    args = args[:place]
                if kwargs.get("out") is None:
                    return function(*args, **kwargs)
                out = kwargs.pop("out")
                result = function(*args, **kwargs)
                return _hot.slot("call_out")(named(public.__name__, result), (), {"out": out})
            except WendError as error:
                error.shorten()
                raise

        if "out" not in shown.parameters:
            last = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
            facts: Any = public
            facts.__signature__ = shown.replace(parameters=[*shown.parameters.values(), last])
        publish(public, functions, methods)
        return public  # type: ignore[return-value]

    return make


def named(name: str, result: object) -> Callable[[], Any]:
    """A function that gives a result, called by the name that errors are to begin with."""

    def give() -> Any:
        return result

    give.__name__ = name
    return give


def _require_tensor(function: str, name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise ArgumentTypeError(
            f"{function}(): argument '{name}' must be Tensor, not {type(value).__name__}"
        )


def pending() -> bool:
    """Whether ops have no values yet: inside of vmap, of a rule, or of a graph being explored."""
    return _hot.current_trace().symbolic is not None


def completed(op: str, x: Tensor, info: Tensor, fault: str) -> Tensor:
    """x, an algorithm's result; LinAlgError if a code in `info` is not 0.

    fault: the text of the error, in which {0} stands for the code
    """
    if pending():
        return ops.linalg_completed(x, info, op=op, fault=fault)  # type: ignore[no-any-return]
    raise_where(op, array_of(info), fault)
    return x


def at_once(result: Any) -> Any:
    """The result of an op that may fail, computed."""
    if not pending():
        array_of(result[0] if isinstance(result, tuple) else result)
    return result


@functools.cache
def results(name: str, fields: str) -> Any:
    """The named tuple of a function's results, which prints as PyTorch's."""
    return return_type(name, tuple(fields.split()))
