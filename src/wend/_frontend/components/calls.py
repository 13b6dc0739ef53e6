"""A call of an op on composite tensors: its name, its operands, and its arguments by signature."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from wend._engine.core._hot import Tensor
from wend._engine.core.signature import Binder, Param

__all__ = ["BoundCall", "Call", "forms_of", "is_dim", "mapped", "tensors_in"]

_DIM_NAME = re.compile(r"(.*_)?dims?\d?")


class Call:
    """A call of a function, method or op.

    name: as called     base: the name without the underscore of a form in place
    out: the argument `out=`, once that is no longer among the keywords
    """

    __slots__ = ("args", "base", "func", "in_place", "kwargs", "name", "out")

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.out: Any = None
        self.name: str = getattr(func, "__name__", "") or str(func)
        self.in_place = self.name[-1:] == "_" and self.name[-2:] != "__"
        self.base = self.name[:-1] if self.in_place else self.name

    @property
    def op(self) -> str:
        """The name of the op itself, of which the name as called may be an alias."""
        primitive = getattr(self.func, "primitive", None)
        return self.base if primitive is None else str(primitive.name)

    def take_out(self) -> None:
        """Part `out=` from the keywords: the call is that of the plain form from there on."""
        if "out" in self.kwargs:
            self.kwargs = dict(self.kwargs)
            self.out = self.kwargs.pop("out")

    def __call__(self) -> Any:
        """The result of the function itself."""
        return self.func(*self.args, **self.kwargs)


def tensors_in(values: Any, cls: type = Tensor) -> Iterator[Any]:
    """The tensors of a class among arguments, those inside of lists and tuples included."""
    for value in values:
        if isinstance(value, cls):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value, cls)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """function(x) in the place of each x, in lists, tuples and named tuples as well."""
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([mapped(function, x) for x in value])
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make([mapped(function, x) for x in value])
    return function(value)


def forms_of(func: Any) -> list[Binder]:
    """The forms in which an op may be called, one for each overload; none for other functions."""
    binder = getattr(func, "binder", None)
    forms = getattr(binder, "binders", [binder])
    return forms if isinstance(forms[0], Binder) else []


class BoundCall:
    """A call of an op, taken apart by a form of its signature.

    given: (parameter, value) of each argument of the call
    dims: the values of parameters that name dims, by name
    Raises ArgumentTypeError for arguments that do not fit the form.
    """

    def __init__(
        self, func: Any, binder: Binder, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.func = func
        self.name: str = func.__name__
        self.binder = binder
        self.prim: Any = binder.cls
        rows = zip(binder.params, binder.match(args, kwargs), strict=True)
        self.given: list[tuple[Param, Any]] = [(p, v) for p, (v, raw) in rows if raw != -1]
        self.dims = {p.name: v for p, v in self.given if is_dim(p) and v is not None}

    def arranged(
        self, value_of: Callable[[Param, Any], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(positional, keyword arguments), with value_of(parameter, value) for each value."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        positional = iter(self.binder.positional)
        in_order = True
        for p, value in self.given:
            in_order = in_order and next(positional, None) is p
            if in_order:
                args.append(value_of(p, value))
            else:
                kwargs[p.name] = value_of(p, value)
        return tuple(args), kwargs


def is_dim(p: Param) -> bool:
    """Whether a parameter names dims."""
    return p.kind in ("dim", "dims") or (
        p.kind in ("int", "ints") and _DIM_NAME.fullmatch(p.name) is not None
    )
