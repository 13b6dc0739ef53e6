"""Ops of a file: attributes and operands are those of the op's signature."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.core.primitive import Primitive
from wend._engine.core.signature import Param
from wend.export import _strict as strict
from wend.export._strict import damaged

__all__ = ["MOST_DIMS", "check_attributes", "check_form", "counts_of"]

MOST_DIMS = 64
MOST_COUNT = 1 << 20  # of sizes and of tensors in a list
#: Attributes and numbers of a file are those that 64 bits hold.
INTS = range(-(1 << 63), 1 << 63)
_OPTIONAL = frozenset(("tensor?", "size?", "sizes?", "scalar?"))


def check_attributes(cls: type[Primitive], attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an op in the order of the signature.

    Raises FormatError for those that are missing, unknown, or of another kind.
    """
    params = [p for p in cls.params if p.is_attr]
    if attributes.keys() != {p.name for p in params}:
        odd = min(attributes.keys() ^ {p.name for p in params})
        raise damaged(f"{cls.name}: the attribute {strict.short(odd)} is missing or unknown")
    for p in params:
        if not _fits(p, attributes[p.name]):
            raise damaged(
                f"{cls.name}: the attribute {p.name!r} is {strict.short(attributes[p.name])}, "
                f"and is to be of kind {p.kind}"
            )
    return {p.name: attributes[p.name] for p in params}


def _fits(p: Param, x: object) -> bool:
    """Whether the signature makes such an attribute of an argument."""
    if x is None and (p.kind in ("dim", "dims", "dtype") or p.default is None):
        return True
    if p.kind in ("dim", "int"):
        return type(x) is int and x in INTS
    if p.kind in ("dims", "ints"):
        return type(x) is tuple and all(type(n) is int and n in INTS for n in x)
    if p.kind in ("bool", "str"):
        return type(x) is (bool if p.kind == "bool" else str)
    if p.kind == "dtype":
        return isinstance(x, DType)
    return _is_plain(x)


def _is_plain(x: object) -> bool:
    """Whether a constant is a number, a text, a dtype, None, or a tuple of such."""
    if type(x) is tuple:
        return all(map(_is_plain, x))
    if type(x) is int:
        return x in INTS
    return x is None or type(x) in (bool, float, str) or isinstance(x, DType)


def check_form(cls: type[Primitive], form: object) -> None:
    """Raise FormatError unless the signature makes such entries of arguments."""
    params = [p for p in cls.params if not p.is_attr]
    if type(form) is not tuple or len(form) != len(params):
        raise damaged(f"{cls.name}: the form of the operands is {strict.short(form)}")
    for p, entry in zip(params, form, strict=True):
        if not _is_entry(p, entry):
            raise damaged(f"{cls.name}: the form of {p.name!r} is {strict.short(entry)}")


def _is_entry(p: Param, entry: object) -> bool:
    """Whether an entry of a form fits a parameter."""
    if entry is None:
        return p.kind in _OPTIONAL or p.default is None
    kind = p.kind.removesuffix("?")
    if type(entry) is str:
        return entry == ("I" if kind == "size" else "T") and kind in ("size", "tensor", "operand")
    if type(entry) is not tuple or len(entry) != 2 or type(entry[1]) is not int:
        return False
    letter, number = entry
    if letter == "N":
        return kind in ("operand", "scalar") and 0 <= number <= 2
    wanted = {"tensors": "L", "sizes": "S"}.get(kind)
    return letter == wanted and 0 <= number <= MOST_COUNT


def counts_of(form: tuple[Any, ...]) -> tuple[int, int]:
    """How many tensors and how many numbers an op with this form takes."""
    tensors = numbers = 0
    for entry in form:
        if entry == "T":
            tensors += 1
        elif entry is not None and entry[0] == "L":
            tensors += entry[1]
        elif entry is not None:
            numbers += entry[1] if entry[0] == "S" else 1
    return tensors, numbers
