"""`FloatStorage` and the like: older names of storages by the type of their elements."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import NAMES, DType
from wend._frontend import creation
from wend._frontend.storage import TypedStorage

__all__ = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
]


class _OfType(type):
    """The class of these names: their instances are the typed storages of a dtype."""

    dtype: DType

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype


class _Storage(metaclass=_OfType):
    """Storage(n) of n elements, Storage(sequence) of given elements."""

    def __new__(cls, content: Any = 0) -> Any:
        if isinstance(content, int):
            return TypedStorage(creation.zeros(content, dtype=cls.dtype))
        return TypedStorage(creation.tensor(list(content), dtype=cls.dtype))


def _made(name: str, dtype: str) -> type:
    members = {"dtype": NAMES[dtype], "__doc__": f"A storage of elements of {NAMES[dtype]}."}
    return _OfType(name, (_Storage,), {**members, "__module__": __name__})


FloatStorage, DoubleStorage = _made("FloatStorage", "float32"), _made("DoubleStorage", "float64")
HalfStorage, BFloat16Storage = _made("HalfStorage", "float16"), _made("BFloat16Storage", "bfloat16")
LongStorage, IntStorage = _made("LongStorage", "int64"), _made("IntStorage", "int32")
ShortStorage, CharStorage = _made("ShortStorage", "int16"), _made("CharStorage", "int8")
ByteStorage, BoolStorage = _made("ByteStorage", "uint8"), _made("BoolStorage", "bool")
