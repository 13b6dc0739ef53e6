"""`torch.Tensor(...)` and the typed constructors, `torch.FloatTensor(...)` and its siblings.

All read their arguments in the old way: ints are a size, a sequence is data, a tensor is taken
over. `isinstance(x, torch.FloatTensor)` asks for the type of the elements.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.devices import META, MetaPackage, device, placement, usable
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentTypeError
from wend._engine.base.shapes import Size
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import held, is_index, sizes_of
from wend._frontend.interop.arrays import Op, array_from_data
from wend._frontend.interop.memory import is_array

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


def legacy_tensor(
    name: str, dtype: DType | None, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Tensor:
    """The tensor that `name(*args, **keywords)` makes; no `dtype`: the default, or a tensor's own.

    name(): no elements.   name(2, 3), name(Size): of a size.   name(data): of a sequence.
    name(tensor): an alias of the tensor. Raises ArgumentTypeError for anything else.
    """
    keywords = dict(keywords)
    place, data, size = (keywords.pop(key, None) for key in ("device", "data", "size"))
    if keywords:
        raise ArgumentTypeError(f"{name}: unexpected keyword argument {next(iter(keywords))!r}")
    if place is not None and placement(place, name) is META:
        return MetaPackage.load().placed(
            legacy_tensor(name, dtype, args, {"data": data, "size": size})
        )
    if data is not None:
        args = (data, *args)
    wanted = dtype or dtypes.get_default_dtype()
    if size is not None or not args:
        return _of_size(sizes_of(name, args, size) if size is not None else (0,), wanted)
    first = args[0]
    if isinstance(first, Tensor) and len(args) == 1:
        return _of_tensor(name, dtype, first)
    if isinstance(first, Size) or (is_index(first) and not isinstance(first, bool)):
        return _of_size(sizes_of(name, args), wanted)
    if len(args) > 1:
        raise ArgumentTypeError(
            f"{name}: takes a size as ints, or one sequence of data, not "
            f"{', '.join(type(a).__name__ for a in args)}"
        )
    if not (is_array(first) or (hasattr(first, "__len__") and hasattr(first, "__getitem__"))):
        raise ArgumentTypeError(
            f"{name}: data must be a sequence (got {type(first).__name__}); "
            "use torch.tensor for a number"
        )
    return held(array_from_data(first, wanted, Op(name, Tensor)))


def _of_size(size: tuple[int, ...], dtype: DType) -> Tensor:
    zeros: Tensor = ops.full(size, 0, dtype=dtype)
    return zeros


def _of_tensor(name: str, dtype: DType | None, source: Tensor) -> Tensor:
    if dtype is not None and source.dtype is not dtype:
        raise ArgumentTypeError(
            f"{name}: expected a tensor of {dtype} and got one of {source.dtype}; "
            "convert with tensor.to(dtype)"
        )
    alias: Tensor = ops.alias(source)
    return alias


def tensor_init(handle: Tensor, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """The work of `Tensor.__init__`, unless a subclass's `__new__` has made the value already."""
    if getattr(handle, "value", None) is not None:
        return
    source = legacy_tensor("Tensor", None, args, keywords)
    handle.value = source.value
    handle.alias = source.alias


class TypedConstructor(type):
    """The metaclass of `FloatTensor` and its siblings: calls make tensors, isinstance asks them."""

    dtype: DType
    is_cuda = False

    def __call__(cls, *args: object, **keywords: object) -> Tensor:
        return legacy_tensor(cls.__name__, cls.dtype, args, keywords)

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, Tensor) or instance.is_meta:
            return False
        return instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def type_name(op: str, tensor_type: object) -> str:
    """The bare name of a type: "FloatTensor" of torch.FloatTensor and of "torch.FloatTensor".

    Raises DeviceError for a type of a device that is not there, such as torch.cuda.FloatTensor.
    """
    if isinstance(tensor_type, str):
        *packages, name = tensor_type.split(".")
    else:
        name = getattr(tensor_type, "__name__", str(tensor_type))
        packages = ["torch", *(["cuda"] if getattr(tensor_type, "is_cuda", False) is True else [])]
    if len(packages) > 1 and packages[1] != "sparse":
        usable(device(packages[1]), op)
    return name


def _constructor(name: str, dtype_name: str) -> type:
    dtype = dtypes.NAMES[dtype_name]
    members = {
        "__doc__": f"Tensors of {dtype}: {name}(2, 3), {name}([1, 2]), {name}(tensor).",
        "__module__": "wend",
        "dtype": dtype,
    }
    return TypedConstructor(name, (), members)


FloatTensor = _constructor("FloatTensor", "float32")
DoubleTensor = _constructor("DoubleTensor", "float64")
HalfTensor = _constructor("HalfTensor", "float16")
BFloat16Tensor = _constructor("BFloat16Tensor", "bfloat16")
ByteTensor = _constructor("ByteTensor", "uint8")
CharTensor = _constructor("CharTensor", "int8")
ShortTensor = _constructor("ShortTensor", "int16")
IntTensor = _constructor("IntTensor", "int32")
LongTensor = _constructor("LongTensor", "int64")
BoolTensor = _constructor("BoolTensor", "bool")

_hot.set_slot("tensor_init", tensor_init)
