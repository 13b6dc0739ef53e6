"""Types as archives write them: `Optional[List[int]]`, `Tensor`, names of the archive's classes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.base.devices import device
from wend._engine.base.errors import ArgumentTypeError, FormatError
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._values import Member, Number0d, Record, ScriptObject

__all__ = ["ANY", "Kind", "type_of"]


class Kind(NamedTuple):
    """A type: the text, the test of a value, and the kinds inside."""

    name: str
    text: str
    items: tuple[Kind, ...] = ()

    def holds(self, value: Any) -> bool:
        """Whether a value is of the type.  An empty container is of each type of containers."""
        test = TESTS.get(self.name)
        if test is not None:
            return test(self, value)
        if isinstance(value, ScriptObject):
            return bool(value.kind.path == self.text)
        if isinstance(value, Member):
            return value.kind == self.text
        if isinstance(value, Record):
            return type(value).__qualname__ == self.text
        kind = getattr(value, "_kind", None)
        return kind is not None and kind.path == self.text

    def taken(self, value: Any, what: str) -> Any:
        """An argument, converted as PyTorch converts.  Raises ArgumentTypeError."""
        if self.name == "float" and type(value) is int:
            return float(value)
        if self.name == "Optional" and value is not None:
            return self.items[0].taken(value, what)
        if self.name in ("List", "Tuple") and isinstance(value, (list, tuple)):
            value = self._items_taken(value, what)
        if not self.holds(value):
            raise ArgumentTypeError(
                f"{what} must be {self.text}, not {type(value).__name__}: the archive says so"
            )
        return value

    def _items_taken(self, value: Any, what: str) -> Any:
        if self.name == "List":
            return [self.items[0].taken(v, f"{what}: an item") for v in value]
        if len(value) != len(self.items):
            return value
        return tuple(k.taken(v, f"{what}: an item") for k, v in zip(self.items, value, strict=True))


def _is_int(_: Kind, value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or _is_symbolic(value)


def _is_symbolic(value: Any) -> bool:
    """Whether a value is a size of an explored graph."""
    return type(value).__name__ == "SymInt"


def _is_number(kind: Kind, value: Any) -> bool:
    return isinstance(value, (int, float, complex)) or _is_symbolic(value)


def _is_dict(kind: Kind, value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    keys, values = kind.items
    return all(keys.holds(k) and values.holds(v) for k, v in value.items())


def _is_tuple(kind: Kind, value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != len(kind.items):
        return False
    return all(k.holds(v) for k, v in zip(kind.items, value, strict=True))


def _nothing(_: Kind, value: Any) -> bool:
    return value is None


TESTS: dict[str, Callable[[Kind, Any], bool]] = {
    "Tensor": lambda _, v: isinstance(v, (Tensor, Number0d)),
    "int": _is_int,
    "float": lambda _, v: isinstance(v, float),
    "complex": lambda _, v: isinstance(v, complex),
    "bool": lambda _, v: isinstance(v, bool),
    "str": lambda _, v: isinstance(v, str),
    "NoneType": _nothing,
    "None": _nothing,
    "Any": lambda _, v: True,
    "AnyType": lambda _, v: True,
    "number": _is_number,
    "Scalar": _is_number,
    "Device": lambda _, v: isinstance(v, device),
    "List": lambda k, v: isinstance(v, list) and all(k.items[0].holds(x) for x in v),
    "list": lambda k, v: isinstance(v, list),
    "Dict": _is_dict,
    "dict": lambda k, v: isinstance(v, dict),
    "Tuple": _is_tuple,
    "tuple": lambda k, v: isinstance(v, tuple),
    "Optional": lambda k, v: v is None or k.items[0].holds(v),
    "Union": lambda k, v: any(x.holds(v) for x in k.items),
    "Final": lambda k, v: k.items[0].holds(v),
    "Future": lambda k, v: True,
    "Await": lambda k, v: True,
    "Generator": lambda k, v: True,
    "Stream": lambda k, v: True,
}
_COUNTS = {"List": 1, "Optional": 1, "Final": 1, "Dict": 2, "Future": 1, "Await": 1}
ANY = Kind("Any", "Any")
#: Types without further types in brackets.
_OTHER_NAMES = {"Device": "Device", "torch.device": "Device", "torch.Tensor": "Tensor"}


def type_of(node: ast.expr | None) -> Kind:
    """The type that an expression writes.  Raises FormatError."""
    if node is None:
        return ANY
    if isinstance(node, ast.Constant) and node.value is None:
        return Kind("NoneType", "NoneType")
    text = ast.unparse(node)
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = _OTHER_NAMES.get(text, text)
        if name in _COUNTS:  # without a type inside: a test of the container alone
            return Kind(name.lower() if name in ("List", "Dict") else "Any", text)
        return Kind(name, text)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        name, inner = node.value.id, node.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if name in TESTS and len(parts) == _COUNTS.get(name, len(parts)):
            return Kind(name, text, tuple(type_of(part) for part in parts))
        if name == "InferredType" or name == "RRef":
            return ANY
    raise FormatError(f"torch.jit.load: line {node.lineno}: {text[:80]!r} is no type")
