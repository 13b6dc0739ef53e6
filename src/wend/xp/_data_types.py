"""Types of the array API: conversions, promotion, and facts about the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import wend
from wend._engine.base import dtypes
from wend._engine.base.devices import CPU
from wend._engine.base.dtypes import BOOL, COMPLEX, FLOAT, INT, DType
from wend._engine.base.errors import ArgumentTypeError, DTypeError, ValueRefused
from wend.xp._operands import Array, of_number

__all__ = [
    "__array_namespace_info__",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]

_NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
)
_TYPES = {name: dtypes.NAMES[name] for name in _NAMES.split()}
_KINDS = {
    "bool": lambda d: d.category == BOOL,
    "signed integer": lambda d: d.category == INT and d.is_signed,
    "unsigned integer": lambda d: d.category == INT and not d.is_signed,
    "integral": lambda d: d.category == INT,
    "real floating": lambda d: d.category == FLOAT,
    "complex floating": lambda d: d.category == COMPLEX,
    "numeric": lambda d: d.category >= INT,
}


def astype(x: Array, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Array:
    """x converted to `dtype`; a copy even where the type stays, unless copy=False."""
    return x.clone() if copy and x.dtype is dtype else x.to(dtype)


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether promotion of the types gives `to`."""
    source = from_.dtype if isinstance(from_, wend.Tensor) else from_
    try:
        return dtypes.promote_types(source, to) is to
    except DTypeError:  # no type holds both
        return False


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether the type is of that kind: a type, a kind's name, or a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueRefused(f"isdtype: unknown kind {kind!r}; kinds are {', '.join(_KINDS)}")
        return _KINDS[kind](dtype)
    return dtype is kind


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type of a result of operands of these types; Python numbers are weak."""
    common_type: DType | None = None
    numbers = []
    for x in arrays_and_dtypes:
        if isinstance(x, (bool, int, float, complex)):
            numbers.append(x)
            continue
        dtype = x.dtype if isinstance(x, wend.Tensor) else x
        common_type = dtype if common_type is None else dtypes.promote_types(common_type, dtype)
    if common_type is None:
        raise ArgumentTypeError("result_type: at least one array or dtype is needed")
    for number in numbers:
        common_type = of_number(number, common_type)
    return common_type


@dataclass(frozen=True)
class FloatLimits:
    """Limits of a float type; of a complex type, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerLimits:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a float or complex type, or of an array's type."""
    dtype = type.dtype if isinstance(type, wend.Tensor) else type
    limits, real = dtypes.finfo(dtype), dtype.to_real()
    return FloatLimits(
        limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, real
    )


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer type, or of an array's type."""
    dtype = type.dtype if isinstance(type, wend.Tensor) else type
    limits = dtypes.iinfo(dtype)
    return IntegerLimits(limits.bits, limits.max, limits.min, dtype)


class _Info:
    """Facts about the library, as `__array_namespace_info__` gives."""

    def capabilities(self) -> dict[str, Any]:
        """The optional behaviour: indexing by masks, shapes that depend on data, rank."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> Any:
        """The device of new arrays."""
        return CPU

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The types of new arrays, by kind."""
        real = dtypes.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def devices(self) -> list[Any]:
        """All devices."""
        return [CPU]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The types, by name; of a kind, if given."""
        if kind is None:
            return dict(_TYPES)
        return {name: dtype for name, dtype in _TYPES.items() if isdtype(dtype, kind)}


def __array_namespace_info__() -> _Info:
    """Facts about the library: capabilities, devices, types."""
    return _Info()
