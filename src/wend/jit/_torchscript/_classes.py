"""Classes of an archive: modules, plain classes, named tuples, enums."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import ArgumentTypeError, FormatError
from wend.jit._torchscript._types import Kind
from wend.jit._torchscript._values import Member, Record, ScriptObject, record_type

__all__ = ["ArchiveClass", "read", "write"]


class ArchiveClass:
    """A class of an archive.

    path: the full name     base: `Module`, `NamedTuple`, `Enum`, `Interface`, or `` if none
    fields: types by name     constants: values of `Final` fields and of enums' members
    methods: code by name     parameters, buffers: names of tensors in the state of a module
    """

    def __init__(self, path: str, base: str) -> None:
        self.path, self.base = path, base
        self.name = path.rpartition(".")[2]
        self.fields: dict[str, Kind] = {}
        self.defaults: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}
        self.parameters: frozenset[str] = frozenset()
        self.buffers: frozenset[str] = frozenset()
        self.members: dict[str, Member] = {}
        self.hooks = False
        self.unit: Any = None
        self._record: type[Record] | None = None

    @property
    def record(self) -> type[Record]:
        """The class of named tuples."""
        if self._record is None:
            self._record = record_type(self.name, tuple(self.fields))
            self._record.__qualname__ = self.path
        return self._record

    def member(self, value: Any, by_name: bool = False) -> Member:
        """The member of the enum with a value, or a name.  Raises FormatError."""
        for name, constant in self.constants.items():
            if name == value if by_name else (type(constant) is type(value) and constant == value):
                return self.members.setdefault(name, Member(self.path, name, constant))
        raise FormatError(f"TorchScript: the enum {self.name} has no member {str(value)[:80]!r}")

    def call(self, args: list[Any], keywords: dict[str, Any] | None = None) -> Any:
        """A named tuple, an enum's member, or a new object.  Raises FormatError."""
        named = keywords or {}
        if self.base == "NamedTuple" and len(args) <= len(self.fields):
            rest = list(self.fields)[len(args) :]
            values = {**self.defaults, **named}
            if set(named) <= set(rest) <= set(values):
                return tuple.__new__(self.record, [*args, *[values[f] for f in rest]])
        elif self.base == "Enum" and len(args) == 1 and not named:
            return self.member(args[0])
        elif not self.base:
            instance = ScriptObject(self)
            self.method("__init__").call([instance, *args], named)
            return instance
        raise FormatError(f"TorchScript: the class {self.name} is called as no archive does")

    def method(self, name: str) -> Any:
        """The code of a method.  Raises FormatError."""
        code = self.methods.get(name)
        if code is None:
            raise FormatError(f"TorchScript: the class {self.name} has no method {name[:80]!r}")
        return code


def read(value: Any, name: str) -> Any:
    """An attribute of a value of a program.  Only fields are seen, nothing of Python's."""
    kind = getattr(type(value), "_archive_read", None)
    if kind is not None:
        return kind(value, name)
    if isinstance(value, ScriptObject):
        if name in value.fields:
            return value.fields[name]
        if name in value.kind.constants:
            return value.kind.constants[name]
    elif isinstance(value, Record):
        if name in value._fields:
            return tuple.__getitem__(value, value._fields.index(name))
    elif isinstance(value, Member):
        if name in ("name", "value"):
            return value.name if name == "name" else value.value
    elif isinstance(value, ArchiveClass) and value.base == "Enum":
        return value.member(name, by_name=True)
    raise ArgumentTypeError(f"TorchScript: a {type(value).__name__} has no attribute {name[:80]!r}")


def write(value: Any, name: str, item: Any) -> None:
    """Set an attribute of a module or an object of the archive.  Raises ArgumentTypeError."""
    kind = getattr(type(value), "_archive_write", None)
    if kind is not None:
        kind(value, name, item)
    elif isinstance(value, ScriptObject):
        value.fields[name] = item
    else:
        raise ArgumentTypeError(f"TorchScript: no attribute of a {type(value).__name__} can be set")
