"""The schema of an operator, as PyTorch writes schemas, from the annotations of a function."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from wend._engine.base.devices import device
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor

__all__ = ["infer_schema"]

#: Types by annotation, and whether lists of these are arguments.
_NUMBER = typing.Union[int, float, bool]  # noqa: UP007 (a value to compare with)
_WORDS: dict[Any, tuple[str, bool]] = {
    Tensor: ("Tensor", True),
    int: ("SymInt", True),
    float: ("float", True),
    bool: ("bool", True),
    str: ("str", False),
    _NUMBER: ("Scalar", True),
    DType: ("ScalarType", False),
    device: ("Device", False),
}
_RETURNS: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    _NUMBER: "Scalar",
}
_LISTS = (list, collections.abc.Sequence)
_UNIONS = (typing.Union, types.UnionType)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: object = (),
) -> str:
    """`(Tensor x, float p=0.5) -> Tensor` for a function with annotations of these types.

    mutates_args: names of the arguments that the function changes in place, or "unknown"
    op_name: is put in front     tags: accepted; schemas of in-place functions say so anyway
    Raises ArgumentError for annotations that no operator has.
    """
    signature = inspect.signature(prototype_function)

    def fault(words: str) -> NoReturn:
        raise ArgumentError(f"infer_schema(func): {words} Got func with signature {signature}")

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ArgumentError(
            "infer_schema(func): mutates_args must either be a sequence of the names of the "
            "arguments that are mutated or the string 'unknown'."
        )
    mutated = None if isinstance(mutates_args, str) else set(mutates_args)
    if mutated is not None and mutated - set(signature.parameters):
        fault(f"{mutated - set(signature.parameters)} in mutates_args were not found.")
    words, starred = [], False
    for k, p in enumerate(signature.parameters.values()):
        if p.kind is p.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        elif p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            fault("We do not support positional-only args, varargs, or varkwargs.")
        if p.annotation is p.empty:
            fault(f"Parameter {p.name} must have a type annotation.")
        word = _word(_evaluated(p.annotation, prototype_function, fault))
        if word is None:
            fault(f"Parameter {p.name} has unsupported type {p.annotation}.")
        if p.name in mutated if mutated is not None else word.startswith("Tensor"):
            if not word.startswith("Tensor"):
                fault(f"Parameter {p.name} is in mutates_args but is no Tensor.")
            word = f"Tensor(a{k}!){word.removeprefix('Tensor')}"
        tail = "" if p.default is p.empty else f"={_default(p, fault)}"
        words.append(f"{word} {p.name}{tail}")
    annotation = _evaluated(signature.return_annotation, prototype_function, fault)
    return f"{op_name or ''}({', '.join(words)}) -> {_result(annotation, fault)}"


def _evaluated(
    annotation: object, function: Callable[..., Any], fault: Callable[[str], NoReturn]
) -> Any:
    """The type of an annotation, of which parts may be texts."""
    if isinstance(annotation, str):
        try:
            return eval(annotation, inspect.unwrap(function).__globals__)
        except Exception as error:
            # The text of an annotation names no type: ArgumentError says so, with the error.
            fault(f"Unsupported type annotation {annotation}. It is not a type ({error}).")
    origin = typing.get_origin(annotation)
    if origin is None:
        return annotation
    parts = tuple([_evaluated(part, function, fault) for part in typing.get_args(annotation)])
    if origin in _UNIONS:
        return functools.reduce(operator.or_, parts)
    return types.GenericAlias(origin, parts)


def _word(kind: object) -> str | None:
    """The word of an argument's type; None if operators have no such arguments."""
    if kind in _WORDS:
        return _WORDS[kind][0]
    inner = _without_none(kind)
    if inner is not None:
        word = _word(inner)
        return None if word is None or word.endswith("?") else f"{word}?"
    if typing.get_origin(kind) in _LISTS:
        (item,) = typing.get_args(kind)
        inner = _without_none(item)
        if inner is Tensor:
            return "Tensor?[]"
        if item in _WORDS and _WORDS[item][1]:
            return f"{_WORDS[item][0]}[]"
    return None


def _without_none(kind: object) -> Any:
    """`X` of `Optional[X]`; None for all else."""
    parts = typing.get_args(kind)
    if typing.get_origin(kind) not in _UNIONS or type(None) not in parts:
        return None
    return functools.reduce(operator.or_, [part for part in parts if part is not type(None)])


def _default(parameter: inspect.Parameter, fault: Callable[[str], NoReturn]) -> str:
    value = parameter.default
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, (str, device)):
        return f'"{value}"'
    if isinstance(value, DType):
        return str(value).removeprefix("torch.")
    fault(f"Parameter {parameter.name} has an unsupported default value type {type(value)}.")


def _result(kind: object, fault: Callable[[str], NoReturn]) -> str:
    """The words of what a function returns."""
    if kind is None or kind is type(None):
        return "()"
    if kind is inspect.Signature.empty:
        fault("No return type annotation was provided. Please add one.")
    if typing.get_origin(kind) is tuple and kind not in _RETURNS:
        parts = [
            _RETURNS.get(part) or fault(f"Return has unsupported type {part}.")
            for part in typing.get_args(kind)
        ]
        return f"({', '.join(parts)})"
    if typing.get_origin(kind) is list and typing.get_args(kind)[0] in _RETURNS:
        return f"{_RETURNS[typing.get_args(kind)[0]]}[]"
    return _RETURNS.get(kind) or fault(f"Return has unsupported type {kind}.")
