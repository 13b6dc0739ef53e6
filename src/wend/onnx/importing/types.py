"""Element types and tensors of ONNX, checked against the bytes that are there, as Wend's tensors.

Wend lacks some element types. The values are carried in the next wider type of Wend that holds
each: uint16 in int32, uint32 and uint64 in int64, small ints in int8 and uint8, small
floats in float32.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import wend
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import DTypeError, FormatError, NotImplementedInWend, ShapeError
from wend._engine.core._hot import Tensor

if TYPE_CHECKING:
    from onnx import SparseTensorProto, TensorProto, ValueInfoProto

#: A sparse tensor becomes dense, and the file may name any shape: the most elements.
MOST_DENSE = 1 << 28
MOST_DIM = 1 << 62

#: TensorProto.DataType: name in ONNX, bits of an element, and Wend's type.
ELEMENTS: dict[int, tuple[str, int, DType]] = {
    1: ("float32", 32, wend.float32),
    2: ("uint8", 8, wend.uint8),
    3: ("int8", 8, wend.int8),
    4: ("uint16", 16, wend.int32),
    5: ("int16", 16, wend.int16),
    6: ("int32", 32, wend.int32),
    7: ("int64", 64, wend.int64),
    9: ("bool", 8, wend.bool),
    10: ("float16", 16, wend.float16),
    11: ("float64", 64, wend.float64),
    12: ("uint32", 32, wend.int64),
    13: ("uint64", 64, wend.int64),
    14: ("complex64", 64, wend.complex64),
    15: ("complex128", 128, wend.complex128),
    16: ("bfloat16", 16, wend.bfloat16),
    17: ("float8_e4m3fn", 8, wend.float32),
    18: ("float8_e4m3fnuz", 8, wend.float32),
    19: ("float8_e5m2", 8, wend.float32),
    20: ("float8_e5m2fnuz", 8, wend.float32),
    21: ("uint4", 4, wend.uint8),
    22: ("int4", 4, wend.int8),
    23: ("float4_e2m1fn", 4, wend.float32),
    24: ("float8_e8m0fnu", 8, wend.float32),
    25: ("uint2", 2, wend.uint8),
    26: ("int2", 2, wend.int8),
}
#: Types whose values are carried in a wider type, and arithmetic of which Wend has none.
CARRIED = frozenset((4, 12, 13, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26))
ELEMENT_OF_DTYPE = {
    dtype: element for element, (_, _, dtype) in ELEMENTS.items() if element not in CARRIED
}
STRING = 8
_NAMES = {name: element for element, (name, _, _) in ELEMENTS.items()}


@dataclass(frozen=True)
class Carried:
    """Values of an element type that Wend lacks, in a tensor of a type that holds all."""

    tensor: Tensor
    element: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return self.tensor.shape


@dataclass(frozen=True)
class Text:
    """Strings in a shape: no tensor of Wend holds strings."""

    flat: list[str]
    shape: tuple[int, ...]

    def nested(self) -> str | list[Any]:
        """The strings in lists of lists; a string alone for no dims."""
        lists: Any = self.flat
        for size in reversed(self.shape[1:]):
            lists = [lists[i : i + size] for i in range(0, len(lists), size)] if size else []
        return lists if self.shape else lists[0]


def text_value(strings: Any, where: str) -> Text:
    """Strings from a NumPy array, or from lists of lists. Raises DTypeError."""
    lists = strings.tolist() if hasattr(strings, "tolist") else strings
    shape = []
    level = lists
    while isinstance(level, list):
        shape.append(len(level))
        level = level[0] if level else None
    flat = [lists] if not shape else lists
    for _ in shape[1:]:
        flat = [value for row in flat for value in row]
    if math.prod(shape) != len(flat) or not all(isinstance(value, str) for value in flat):
        raise DTypeError(f"onnx: {where} must be strings, in an array or in lists of equal lengths")
    whole = tuple(strings.shape) if hasattr(strings, "shape") else tuple(shape)
    return Text(flat, whole)


def element_of(value: Tensor | Carried | Text) -> int:
    """The ONNX number of the element type of a value."""
    if isinstance(value, Text):
        return STRING
    if isinstance(value, Carried):
        return value.element
    return ELEMENT_OF_DTYPE[value.dtype]


def plain(value: Tensor | Carried) -> Tensor:
    """The tensor of a value."""
    return value.tensor if isinstance(value, Carried) else value


def is_tensor(value: object) -> TypeGuard[Tensor | Carried | Text]:
    """Whether a value is a tensor, and not a sequence or nothing."""
    return isinstance(value, wend.Tensor | Carried | Text)


def with_element(tensor: Tensor, element: int) -> Tensor | Carried:
    """A tensor that already holds values of the element type, as a value of that type."""
    return Carried(tensor, element) if element in CARRIED else tensor


def check_element(element: int, where: str) -> None:
    """Raises NotImplementedInWend for strings, and FormatError for an unknown number."""
    if element == STRING:
        raise NotImplementedInWend(
            f"onnx.load: {where} holds strings, which no tensor of Wend does"
        )
    if element not in ELEMENTS:
        raise FormatError(f"onnx.load: {where} has element type {element}, which ONNX has none of")


def dtype_of(element: int, where: str = "a value") -> DType:
    """Wend's type for an element type of ONNX."""
    check_element(element, where)
    return ELEMENTS[element][2]


def from_array(array: Any, where: str) -> Tensor | Carried:
    """A value from a NumPy array, or anything that `wend.as_tensor` takes."""
    name = getattr(getattr(array, "dtype", None), "name", None)
    if name in _NAMES:
        element = _NAMES[name]
        if element not in CARRIED:
            return wend.as_tensor(array)
        carrier = ELEMENTS[element][2]
        return Carried(wend.as_tensor(array.astype(str(carrier).removeprefix("torch."))), element)
    if name is not None:
        raise DTypeError(f"onnx: {where} has dtype {name}, which no tensor of Wend holds")
    return wend.as_tensor(array)


def count_elements(dims: Sequence[int], where: str) -> int:
    """The product of dims. Raises FormatError for a negative or an absurd dim."""
    for dim in dims:
        if not 0 <= dim < MOST_DIM:
            raise FormatError(f"onnx.load: {where} has dims {list(dims)}: {dim} is no size")
    return math.prod(dims)


#: Where the elements of each type lie, if not in raw_data.
_FIELDS = {
    1: "float_data",
    7: "int64_data",
    11: "double_data",
    12: "uint64_data",
    13: "uint64_data",
}
_COMPLEX = {14: "float_data", 15: "double_data"}


def tensor_value(proto: TensorProto, folder: str | None) -> Any:
    """The value of a TensorProto; `folder` is where external data may lie, None for nowhere."""
    from onnx import TensorProto, numpy_helper

    where = f"tensor {proto.name!r}"
    if proto.data_type == STRING:
        return strings_value(proto, where)
    check_element(proto.data_type, where)
    count = count_elements(proto.dims, where)
    bits = ELEMENTS[proto.data_type][1]
    expected = (count * bits + 7) // 8
    if proto.data_location == TensorProto.EXTERNAL:
        data = external_data(proto, folder, expected, where)
        inner = TensorProto(data_type=proto.data_type, dims=proto.dims, raw_data=data)
        return from_array(numpy_helper.to_array(inner), where)
    if proto.HasField("segment"):
        raise NotImplementedInWend(
            f"onnx.load: {where} is a segment of a tensor, which is no value"
        )
    if proto.HasField("raw_data"):
        length, unit = len(proto.raw_data), "bytes"
    elif proto.data_type in _COMPLEX:
        length, expected = len(getattr(proto, _COMPLEX[proto.data_type])), 2 * count
        unit = "numbers"
    else:
        length, unit = len(getattr(proto, _FIELDS.get(proto.data_type, "int32_data"))), "numbers"
        expected = (count * bits + 7) // 8 if bits < 8 else count
    if length != expected:
        raise FormatError(
            f"onnx.load: {where} of dims {list(proto.dims)} needs {expected} {unit}, "
            f"and the file holds {length}"
        )
    return from_array(numpy_helper.to_array(proto), where)


def strings_value(proto: TensorProto, where: str) -> Text:
    """The strings of a TensorProto."""
    count = count_elements(proto.dims, where)
    if count != len(proto.string_data):
        raise FormatError(
            f"onnx.load: {where} of dims {list(proto.dims)} needs {count} strings, "
            f"and the file holds {len(proto.string_data)}"
        )
    flat = [data.decode("utf-8", "replace") for data in proto.string_data]
    return Text(flat, tuple(proto.dims))


def external_data(proto: TensorProto, folder: str | None, expected: int, where: str) -> bytes:
    """The bytes of a tensor that lie in a file of the model's folder.

    Raises FormatError if the file lies elsewhere, by name or by a link, or is too short.
    """
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise FormatError(
            f"onnx.load: {where} lies in the file {location!r}: load the model by path, not bytes"
        )
    if not location or os.path.isabs(location) or ".." in location.replace("\\", "/").split("/"):
        raise FormatError(
            f"onnx.load: {where} asks for the file {location!r}, and data may only lie in the "
            f"folder of the model"
        )
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if os.path.commonpath((root, path)) != root:
        raise FormatError(
            f"onnx.load: {where} asks for {location!r}, a link out of the folder of the model"
        )
    if not os.path.isfile(path):
        raise FormatError(f"onnx.load: {where} asks for {location!r}, and there is no such file")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", expected))
    except ValueError as error:
        raise FormatError(f"onnx.load: {where} has offset or length that is no number") from error
    size = os.path.getsize(path)
    if offset < 0 or length != expected or offset + length > size:
        raise FormatError(
            f"onnx.load: {where} needs {expected} bytes, and asks for {length} at {offset} of "
            f"{location!r}, which has {size}"
        )
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def sparse_value(proto: SparseTensorProto, folder: str | None) -> Tensor | Carried:
    """A SparseTensorProto as a dense value."""
    where = f"sparse tensor {proto.values.name!r}"
    count = count_elements(proto.dims, where)
    if count > MOST_DENSE:
        raise FormatError(
            f"onnx.load: {where} of dims {list(proto.dims)} would be {count} dense elements; "
            f"at most {MOST_DENSE} are made of a sparse tensor"
        )
    values, indices = tensor_value(proto.values, folder), tensor_value(proto.indices, folder)
    tensor = plain(values)
    if indices.ndim == 2:
        flat = wend.zeros(indices.shape[0], dtype=wend.int64)
        for axis, dim in enumerate(proto.dims):
            flat = flat * dim + indices[:, axis]
    else:
        flat = indices
    if flat.numel() and not (int(flat.min()) >= 0 and int(flat.max()) < count):
        raise FormatError(f"onnx.load: {where} has an index outside of dims {list(proto.dims)}")
    dense = wend.zeros(count, dtype=tensor.dtype).index_copy(0, flat, tensor)
    return with_element(dense.reshape(tuple(proto.dims)), element_of(values))


@dataclass(frozen=True)
class Expected:
    """The type of a graph input, as the file declares; None for anything left open."""

    name: str
    element: int | None
    sizes: tuple[int, ...] | None  # 0 for a size that is left open

    def take(self, feed: Any) -> Any:
        """The value of an input that was fed. Raises DTypeError or ShapeError."""
        if feed is None:
            return None
        if isinstance(feed, list | tuple) and self.element is None:
            return [self.take(one) for one in feed]
        where = f"input {self.name!r}"
        if self.element == STRING:
            return feed if isinstance(feed, Text) else text_value(feed, where)
        value = feed if isinstance(feed, wend.Tensor | Carried) else from_array(feed, where)
        if self.element is None:
            return value
        name, _, dtype = ELEMENTS[self.element]
        if isinstance(value, wend.Tensor) and self.element in CARRIED and value.dtype is dtype:
            value = Carried(value, self.element)
        if element_of(value) != self.element:
            value_name = ELEMENTS[element_of(value)][0]
            raise DTypeError(f"onnx: {where} must have dtype {name}, and {value_name} was given")
        if self.sizes is not None and len(value.shape) != len(self.sizes):
            raise ShapeError(
                f"onnx: {where} must have {len(self.sizes)} dims, "
                f"not those of shape {tuple(value.shape)}"
            )
        return value


def expected_input(info: ValueInfoProto) -> Expected:
    """The expectation that a ValueInfoProto states."""
    if info.type.WhichOneof("value") != "tensor_type":
        return Expected(info.name, None, None)
    tensor = info.type.tensor_type
    if tensor.elem_type not in (0, STRING):
        check_element(tensor.elem_type, f"input {info.name!r}")
    sizes = tuple(max(dim.dim_value, 0) for dim in tensor.shape.dim)
    return Expected(
        info.name, tensor.elem_type or None, sizes if tensor.HasField("shape") else None
    )
