"""Values that programs of an archive have, beside those of Python and tensors."""

from __future__ import annotations

import operator
from typing import Any

from wend._engine.base.dtypes import NAMES, DType
from wend._engine.base.errors import FormatError, WendError
from wend._engine.core._hot import Tensor

__all__ = [
    "Member",
    "Number0d",
    "Record",
    "ScriptObject",
    "ScriptRaised",
    "as_tensors",
    "dtype_number",
    "dtype_of",
    "outgoing",
    "record_type",
]


class ScriptRaised(WendError, RuntimeError):
    """An error that a program from an archive raises by `raise`."""


#: PyTorch's numbers of element types, in the order of `c10::ScalarType`.
_ORDER = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool "
    "qint8 quint8 qint32 bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 "
    "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64"
).split()
_DTYPES = {i: NAMES[name] for i, name in enumerate(_ORDER) if name in NAMES}
_NUMBERS = {id(dtype): i for i, dtype in _DTYPES.items()}


def dtype_of(number: Any) -> Any:
    """The dtype of a number of PyTorch's; None and dtypes stay.  Raises FormatError."""
    if number is None or isinstance(number, DType):
        return number
    dtype = _DTYPES.get(number) if isinstance(number, int) else None
    if dtype is None:
        name = _ORDER[number] if isinstance(number, int) and 0 <= number < len(_ORDER) else number
        raise FormatError(f"TorchScript: Wend has no dtype {name!r}")
    return dtype


def dtype_number(dtype: DType) -> int:
    """PyTorch's number of a dtype."""
    return _NUMBERS[id(dtype)]


class Number0d:
    """A tensor without dims that holds an int known here, such as a size in a trace.

    Sums and products of these stay numbers, so that a size costs no flush. All further ops see a
    tensor.
    """

    __slots__ = ("_tensor", "value")

    def __init__(self, value: Any, tensor: Tensor | None = None) -> None:
        self.value = value
        self._tensor = tensor

    def tensor(self) -> Tensor:
        """The tensor, of dtype int64."""
        if self._tensor is None:
            from wend._frontend.creation import tensor

            self._tensor = tensor(self.value, dtype=NAMES["int64"])
        return self._tensor


def as_tensors(value: Any) -> Any:
    """A value with tensors in place of known numbers; lists and tuples are looked into once."""
    if isinstance(value, Number0d):
        return value.tensor()
    if type(value) in (list, tuple) and any(isinstance(v, Number0d) for v in value):
        return type(value)(as_tensors(v) for v in value)
    return value


class ScriptObject:
    """An instance of a class of the archive that is no module."""

    __slots__ = ("fields", "kind")

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.fields: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<{self.kind.name} of a TorchScript archive>"


class Member:
    """A member of an enum of the archive."""

    __slots__ = ("kind", "name", "value")

    def __init__(self, kind: str, name: str, value: Any) -> None:
        self.kind, self.name, self.value = kind, name, value

    def __repr__(self) -> str:
        return f"<{self.kind}.{self.name}: {self.value!r}>"


class Record(tuple[Any, ...]):
    """A named tuple of the archive; the fields are attributes."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        items = ", ".join(f"{k}={v!r}" for k, v in self._asdict().items())
        return f"{type(self).__name__}({items})"


def record_type(name: str, fields: tuple[str, ...]) -> type[Record]:
    """A class of named tuples.  Names of fields that begin with an underscore have no attribute."""
    members: dict[str, Any] = {"__slots__": (), "_fields": fields}
    for i, field in enumerate(fields):
        if not field.startswith("_") and not hasattr(Record, field):
            members[field] = property(operator.itemgetter(i))
    return type(name, (Record,), members)


def outgoing(value: Any) -> Any:
    """A result as the caller sees it: known numbers are tensors."""
    if isinstance(value, Number0d):
        return value.tensor()
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(outgoing(v) for v in value)
    if kind is dict:
        return {k: outgoing(v) for k, v in value.items()}
    if isinstance(value, Record):
        return tuple.__new__(kind, [outgoing(v) for v in value])
    return value
