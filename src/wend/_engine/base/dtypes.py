"""Element types: the table, promotion, NumPy's counterparts, numeric limits.

Promotion is PyTorch's: a lattice over types (`promote_types`), and three ranks of operands
(`result_dtype`): tensors with dims outrank 0-d tensors, which outrank Python numbers, unless the
lower rank is of a higher category (bool < int < float < complex).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import ml_dtypes
import numpy as np

from wend._engine.base.errors import ArgumentTypeError, DataRefused, DTypeError

BOOL: Final = 0
INT: Final = 1
FLOAT: Final = 2
COMPLEX: Final = 3
CATEGORY_NAMES: Final = ("bool", "int", "float", "complex")


class DType:
    """An element type. There is a single instance of each: compare with `is`.

    name: as in PyTorch     numpy: the np.dtype     itemsize: bytes     id: dense, from 0
    category: 0 bool, 1 int, 2 float, 3 complex
    """

    __slots__ = (
        "__weakref__",
        "abbr",
        "category",
        "id",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
    )

    name: str
    abbr: str
    numpy: np.dtype[Any]
    itemsize: int
    category: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    id: int

    def __new__(cls, *args: object, **kwargs: object) -> DType:
        raise ArgumentTypeError("dtype: cannot create instances; use torch.float32 and its like")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self

    def to_complex(self) -> DType:
        """The complex type of this precision. Raises DTypeError for bool and ints."""
        if self.category < FLOAT:
            raise DTypeError(f"to_complex: there is no complex type for {self}")
        return _COMPLEX_OF.get(self, complex64)

    def to_real(self) -> DType:
        """The type of the real part; a real type gives itself."""
        return {complex64: float32, complex128: float64}.get(self, self)


def _define(id: int, name: str, abbr: str, scalar: Any, category: int) -> DType:
    dtype = object.__new__(DType)
    dtype.name = name
    dtype.abbr = abbr
    dtype.numpy = np.dtype(scalar)
    dtype.itemsize = dtype.numpy.itemsize
    dtype.category = category
    dtype.is_floating_point = category == FLOAT
    dtype.is_complex = category == COMPLEX
    dtype.is_signed = name != "bool" and not name.startswith("uint")
    dtype.id = id
    return dtype


# The order is that in which promotion climbs, but for the pairs that `_promote` names.
bool_ = _define(0, "bool", "b8", np.bool_, BOOL)
uint8 = _define(1, "uint8", "u8", np.uint8, INT)
int8 = _define(2, "int8", "i8", np.int8, INT)
int16 = _define(3, "int16", "i16", np.int16, INT)
int32 = _define(4, "int32", "i32", np.int32, INT)
int64 = _define(5, "int64", "i64", np.int64, INT)
float16 = _define(6, "float16", "f16", np.float16, FLOAT)
bfloat16 = _define(7, "bfloat16", "bf16", ml_dtypes.bfloat16, FLOAT)
float32 = _define(8, "float32", "f32", np.float32, FLOAT)
float64 = _define(9, "float64", "f64", np.float64, FLOAT)
complex64 = _define(10, "complex64", "c64", np.complex64, COMPLEX)
complex128 = _define(11, "complex128", "c128", np.complex128, COMPLEX)
uint16 = _define(12, "uint16", "u16", np.uint16, INT)
uint32 = _define(13, "uint32", "u32", np.uint32, INT)
uint64 = _define(14, "uint64", "u64", np.uint64, INT)

ALL: Final[tuple[DType, ...]] = (
    bool_,
    uint8,
    int8,
    int16,
    int32,
    int64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
    uint16,
    uint32,
    uint64,
)


class AbsentDType:
    """An element type of PyTorch's that can be named and compared; there are no tensors of it.

    name: as in PyTorch     itemsize: bytes     category: as of DType
    """

    def __init__(self, name: str, itemsize: int, category: int, is_signed: bool = True) -> None:
        self.name = name
        self.itemsize = itemsize
        self.category = category
        self.is_floating_point: bool = category == FLOAT
        self.is_complex: bool = category == COMPLEX
        self.is_signed = is_signed

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The np.dtype. Raises DTypeError if there is none."""
        name = self.name.lstrip("q")
        scalar = getattr(ml_dtypes, name, None) or getattr(np, name, None)
        if scalar is None:
            raise DTypeError(f"{self}: NumPy has no such type")
        array_type: np.dtype[Any] = np.dtype(scalar)
        return array_type

    def to_real(self) -> DType | AbsentDType:
        """The type of the real part; a real type gives itself."""
        return float16 if self.is_complex else self

    def __reduce__(self) -> tuple[Any, ...]:
        return _absent, (self.name,)

    def __copy__(self) -> AbsentDType:
        return self

    def __deepcopy__(self, memo: object) -> AbsentDType:
        return self


def _absent(name: str) -> AbsentDType:
    return ABSENT[name]


_FLOAT8: Final = "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split()
#: Programs name these in tables and comparisons. A function that is given one raises.
ABSENT: Final[dict[str, AbsentDType]] = {
    dtype.name: dtype
    for dtype in (
        *(AbsentDType(name, 1, FLOAT) for name in _FLOAT8),
        AbsentDType("float4_e2m1fn_x2", 1, FLOAT),
        AbsentDType("complex32", 4, COMPLEX),
        AbsentDType("qint8", 1, INT),
        AbsentDType("quint8", 1, INT, False),
        AbsentDType("qint32", 4, INT),
    )
}
ALIASES: Final[dict[str, DType]] = {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
}
NAMES: Final[dict[str, DType]] = {dtype.name: dtype for dtype in ALL}
_COMPLEX_OF: Final[dict[DType, DType]] = {
    float64: complex128,
    complex64: complex64,
    complex128: complex128,
}
_FROM_NUMPY: Final[dict[np.dtype[Any], DType]] = {dtype.numpy: dtype for dtype in ALL}
_FROM_KIND: Final[dict[tuple[str, int], DType]] = {
    (dtype.numpy.kind, dtype.itemsize): dtype for dtype in ALL if dtype is not bfloat16
}
_FROM_PYTHON: Final[dict[type, DType]] = {bool: bool_, int: int64, complex: complex128}


def named(name: str) -> DType:
    """The type of that name, aliases included. Raises ArgumentTypeError."""
    dtype = NAMES.get(name) or ALIASES.get(name)
    if dtype is None:
        raise ArgumentTypeError(f"dtype: there is no type named {name!r}; there are {list(NAMES)}")
    return dtype


def from_numpy(numpy_type: Any) -> DType:
    """The type of a NumPy dtype (or of anything np.dtype() takes). Raises ArgumentTypeError."""
    array_type = np.dtype(numpy_type)
    dtype = _FROM_NUMPY.get(array_type)
    if dtype is None and array_type.isnative:
        # NumPy has several integer types of equal size (long, longlong).
        dtype = _FROM_KIND.get((array_type.kind, array_type.itemsize))
    if dtype is not None:
        return dtype
    if not array_type.isnative:
        raise DataRefused(
            f"from_numpy: {array_type} is not in this machine's byte order; "
            "convert with array.astype(array.dtype.newbyteorder('='))"
        )
    supported = ", ".join(dtype.name for dtype in ALL)
    raise ArgumentTypeError(
        f"from_numpy: no tensor can hold elements of NumPy type {array_type}; "
        f"convert to one of {supported}"
    )


def of_python(number_type: type) -> DType:
    """The type of Python's bool, int, float (the default type) or complex."""
    if number_type is float:
        return _default
    if number_type is complex:
        return _default.to_complex()
    dtype = _FROM_PYTHON.get(number_type)
    if dtype is None:
        raise ArgumentTypeError(f"dtype: {number_type.__name__} is no number type")
    return dtype


def dtype_of_scalar_category(category: int, default: DType | None = None) -> DType:
    """The type that a Python number of this category becomes by itself.

    category: 0 bool, 1 int, 2 float, 3 complex     default: the float type; None: the current
    """
    if category <= INT:
        return bool_ if category == BOOL else int64
    default = _default if default is None else default
    return default if category == FLOAT else default.to_complex()


# --- promotion ---------------------------------------------------------------


_SIGNED_BY_SIZE: Final = {1: int8, 2: int16, 4: int32, 8: int64}


def _promote(a: DType, b: DType) -> DType | None:
    """The rule behind the table, in words; a is not above b in the order of ALL."""
    if a is b:
        return a
    if b.id > complex128.id:  # an unsigned type
        if a.category != INT:
            return b if a.category == BOOL else a
        if not a.is_signed:
            return max(a, b, key=lambda dtype: dtype.itemsize)
        if a.itemsize > b.itemsize:
            return a
        return _SIGNED_BY_SIZE.get(2 * b.itemsize)  # None: no type holds uint64 and signs
    if a is uint8 and b is int8:
        return int16  # neither holds the range of the second
    if a is float16 and b is bfloat16:
        return float32  # neither holds the range or precision of the second
    if a is float64 and b is complex64:
        return complex128
    return b


_PROMOTED: Final[tuple[tuple[DType | None, ...], ...]] = tuple(
    tuple(_promote(*sorted((a, b), key=ALL.index)) for b in ALL) for a in ALL
)


def promote_types(a: DType, b: DType) -> DType:
    """The smallest type that both convert to without losing category, as in PyTorch's table.

    Raises DTypeError for uint64 beside a signed integer type.
    """
    try:
        promoted = _PROMOTED[a.id][b.id]
    except AttributeError:
        if a is b and isinstance(a, AbsentDType):
            return a
        wrong = b if isinstance(a, DType) else a
        raise ArgumentTypeError(
            f"promote_types: takes two dtypes, not {type(wrong).__name__}"
        ) from None
    if promoted is None:
        raise DTypeError(
            f"promote_types: no integer type holds both {a} and {b}; convert an operand, for "
            "example by .to(torch.int64)"
        )
    return promoted


def can_cast(source: DType, target: DType) -> bool:
    """Whether PyTorch allows an in-place op to cast source to target: not down in category."""
    return source.category <= target.category


def _merge(a: DType | None, b: DType | None) -> DType | None:
    if a is None or b is None:
        return a or b
    return promote_types(a, b)


def _outrank(high: DType | None, low: DType | None) -> DType | None:
    """The type that the higher rank of operands becomes when the lower rank joins it."""
    if high is None or low is None:
        return high or low
    if high.category == COMPLEX:
        return high
    if high.category == FLOAT:
        return high.to_complex() if low.category == COMPLEX else high
    if high.category == BOOL or low.category >= FLOAT:
        return _merge(high, low)
    return high


def result_dtype(
    entries: Iterable[tuple[DType, bool, bool]], default: DType | None = None
) -> DType:
    """The common type of an op's operands.

    entries: (dtype, 0-d or not, Python number or not) of each operand. From a Python number only
    the category counts: a float counts as the default type. Raises ArgumentTypeError for no
    entries.
    """
    dims: DType | None = None
    zero: DType | None = None
    number: DType | None = None
    for dtype, is_zero_dim, is_scalar in entries:
        if is_scalar:
            number = _merge(number, dtype_of_scalar_category(dtype.category, default))
        elif is_zero_dim:
            zero = _merge(zero, dtype)
        else:
            dims = _merge(dims, dtype)
    result = _outrank(dims, _outrank(zero, number))
    if result is None:
        raise ArgumentTypeError("result_type: no operands given")
    return result


# --- the default type ----------------------------------------------------------

_default: DType = float32
_default_lock = threading.Lock()


def get_default_dtype() -> DType:
    """The type of a float made from Python numbers (process-wide, float32 at first)."""
    return _default


def set_default_dtype(dtype: DType) -> None:
    """Set the type that Python floats become. Raises ArgumentTypeError for a type that is not
    floating.
    """
    global _default
    if not isinstance(dtype, DType) or dtype.category != FLOAT:
        raise ArgumentTypeError(
            "set_default_dtype: only floating-point types are supported as the default type, "
            f"not {dtype!r}"
        )
    with _default_lock:
        _default = dtype
    for listener in DEFAULT_LISTENERS:
        listener()


#: Called after a change of the default type: type rules may have answered for the former type.
DEFAULT_LISTENERS: list[Callable[[], None]] = []


# --- limits --------------------------------------------------------------------


def _checked(name: str, dtype: object) -> DType | AbsentDType:
    if not isinstance(dtype, DType | AbsentDType):
        raise ArgumentTypeError(
            f"{name}: argument 'type' must be a dtype, not {type(dtype).__name__}"
        )
    return dtype


@functools.cache
def _limits(real: DType | AbsentDType) -> tuple[float, float, float, float, float]:
    """eps, max, min, resolution and smallest_normal of a float type."""
    info: Any = ml_dtypes.finfo(real.numpy)  # type: ignore[no-untyped-call]
    digits = info.precision if real.itemsize > 1 else 0  # as PyTorch counts
    numbers = info.eps, info.max, info.min, f"1e-{digits}", info.smallest_normal
    return tuple(map(float, numbers))  # type: ignore[return-value]


class finfo:
    """Limits of a float type (complex: of the real part; no type given: of the default type).

    bits, eps (distance from 1 to the next number), min, max, smallest_normal (= tiny),
    resolution (10**-digits), dtype (the name). Raises ArgumentTypeError for bool and ints.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float

    def __init__(self, type: DType | AbsentDType | None = None) -> None:
        dtype = get_default_dtype() if type is None else _checked("finfo", type)
        if dtype.category <= INT:
            raise ArgumentTypeError(f"finfo: {dtype} is not a floating-point type; use iinfo")
        real = dtype.to_real()
        self.bits: int = real.itemsize * 8
        self.dtype: str = real.name
        self.eps, self.max, self.min, self.resolution, self.smallest_normal = _limits(real)
        self.tiny: float = self.smallest_normal

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash((finfo, self.dtype))


class iinfo:
    """Limits of an integer type: bits, min, max, dtype (the name).

    Raises ArgumentTypeError for all other types.
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: DType | AbsentDType) -> None:
        dtype = _checked("iinfo", type)
        if dtype.category == BOOL:
            raise ArgumentTypeError("iinfo: torch.bool is not an integer type")
        if dtype.category != INT:
            raise ArgumentTypeError(f"iinfo: {dtype} is not an integer type; use finfo")
        info = np.iinfo(dtype.numpy)
        self.bits: int = info.bits
        self.dtype: str = dtype.name
        self.max: int = int(info.max)
        self.min: int = int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash((iinfo, self.dtype))
