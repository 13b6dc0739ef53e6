"""Public functions that only parse arguments and call ops: nothing else is recorded."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from wend._engine.base.errors import ArgumentTypeError, WendError
from wend._engine.core import _hot
from wend._engine.core.primitive import ops, publish

Function = TypeVar("Function", bound=Callable[..., Any])


def sugar(
    *, functions: tuple[str, ...] = (), methods: tuple[str, ...] = (), name: str | None = None
) -> Callable[[Function], Function]:
    """Make a plain function available as `ops.name` and under all public names."""

    def bind(function: Function) -> Function:
        setattr(ops, name or function.__name__, function)
        publish(function, functions, methods)
        return function

    return bind


def overridable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Has the class of an operand asked first, if that class overrides ops.

    Operands are the first argument, or all of a variadic function.
    """
    first = next(iter(inspect.signature(function).parameters.values()))
    variadic = first.kind is inspect.Parameter.VAR_POSITIONAL

    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        try:
            operands = same_tensors(args) if variadic else args[:1]
            if any(map(_hot.has_override, operands)):
                return _hot.slot("torch_function")(getattr(ops, function.__name__), args, kwargs)
            return function(*args, **kwargs)
        except WendError as error:
            error.shorten()
            raise

    return asking


def spelled(*, out: bool = False, **names: str) -> Callable[[Function], Function]:
    """Let calls give parameters by the further keywords that PyTorch has for them.

    names: of parameters, by the other keyword     out: whether calls may ask for `out=`
    """

    def make(function: Function) -> Function:
        @functools.wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            try:
                if kwargs:
                    for word in kwargs.keys() & names.keys():
                        if names[word] in kwargs:
                            raise ArgumentTypeError(
                                f"{function.__name__}() got multiple values for '{names[word]}'"
                            )
                        kwargs[names[word]] = kwargs.pop(word)
                    if out and "out" in kwargs:
                        return _hot.slot("call_out")(function, args, kwargs)
                return function(*args, **kwargs)
            except WendError as error:
                error.shorten()
                raise

        shown = inspect.signature(function)
        rows = list(shown.parameters.values())
        if out and rows[-1].kind is not inspect.Parameter.VAR_KEYWORD:
            rows.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
            shown = shown.replace(parameters=rows)
        facts: Any = public
        facts.__signature__ = shown
        facts.spellings = names
        return facts  # type: ignore[no-any-return]

    return make


def with_out(
    function: Any, place: int, args: tuple[Any, ...], kwargs: dict[str, Any], *behind: str
) -> Any:
    """A call of an op whose `out` PyTorch also takes by position; NotImplemented for other calls.

    place: the position of `out`     behind: names of the parameters that follow `out`
    """
    if not place < len(args) <= place + 1 + len(behind):
        return NotImplemented
    more = dict(zip(behind, args[place + 1 :], strict=False))
    if not kwargs.keys().isdisjoint(more):
        raise ArgumentTypeError(f"{function.__name__}() got multiple values for an argument")
    kwargs = {**kwargs, **more}
    return _hot.slot("call_out")(function, args[:place], {**kwargs, "out": args[place]})


def same_tensors(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a variadic function that also takes a list or tuple of operands."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(tensors[0])
    return tensors
