"""Wend's own list of names: PyTorch's functions that put tensors together, and plain containers."""

from __future__ import annotations

import functools
import importlib
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wend._engine.base.devices import META, device
from wend._engine.base.dtypes import ABSENT, ALL, NAMES, DType
from wend._engine.base.errors import WendError
from wend._engine.base.shapes import Size, is_contiguous
from wend._engine.core._hot import Tensor
from wend._frontend.creation import at_place, empty_strided
from wend._frontend.formats import (
    Float8Package,
    is_float8,
    jagged,
    layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from wend._frontend.parameters.parameter import Parameter
from wend._frontend.qschemes import QSCHEMES
from wend.serialization._errors import CheckpointError, short
from wend.serialization._names import Meaning
from wend.serialization._storages import (
    QUANTIZED_STORAGES,
    STORAGE_NAMES,
    Allowance,
    StorageKind,
    TypedStorage,
)
from wend.serialization._tensors import conjugated, tensor_from_array, view_of

__all__ = ["default_meanings"]

MAX_DIMS = 64
# Bytes of a tensor's handles, and of the step that makes the tensor if it is a strided view. Honest
# files have fewer of these than hostile files: half of that is taken for granted.
TENSOR_COST = 2400
HANDLE_COST = 900
MAX_BYTES = 2**62  # of a tensor, and of a stride: NumPy's and the core's are 64-bit numbers


def rebuild_tensor(storage: object, offset: object, size: object, stride: object) -> Tensor:
    """The tensor of the given size and strides, in elements, that starts at `offset` in a storage.

    Raises CheckpointError if any element would lie outside.
    """
    if type(storage) is not TypedStorage or storage.dtype is None:
        raise CheckpointError("load: the file makes a tensor of something that is no typed storage")
    return _tensor(storage, storage.dtype, offset, size, stride)


def _tensor(storage: TypedStorage, dtype: DType, offset: Any, size: Any, stride: Any) -> Tensor:
    stored = storage.stored
    count = stored.nbytes() // dtype.itemsize
    elements = _check_view(count, dtype.itemsize, offset, size, stride)
    size, stride = tuple(size), tuple(stride)
    if stored.device is META:
        return empty_strided(size, stride, dtype=dtype, device=META)
    whole = elements == count and offset == 0 and is_contiguous(size, stride)
    first = stored.first
    if first is None:
        memory = stored.elements(dtype)
        first = tensor_from_array(memory.reshape(size) if whole else memory)
        first = stored.first = at_place(first, stored.device)
        if whole:
            return first
    if first.dtype is not dtype:
        raise CheckpointError(
            f"load: one storage is read as {first.dtype} and as {dtype}, which no torch.save writes"
        )
    if not whole:
        stored.allowance.charge(elements * dtype.itemsize)
    return view_of(first, size, stride, offset)


def _check_view(count: int, itemsize: int, offset: Any, size: Any, stride: Any) -> int:
    """The number of elements. Raises CheckpointError unless all lie among the storage's `count`."""
    tuples = isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride)
    if not tuples or len(size) > MAX_DIMS:
        raise CheckpointError(f"load: a tensor of size {short(size)}, strides {short(stride)}")
    limit = MAX_BYTES // itemsize
    if not all(type(n) is int and 0 <= n < limit for n in (offset, *size, *stride)):
        raise CheckpointError(
            f"load: a tensor's size {short(size)}, strides {short(stride)} and offset "
            f"{short(offset)} must all be ints, not negative and not beyond 64 bits"
        )
    room = math.prod(max(n, 1) for n in size)  # factors beside dims of size 0 are multiplied, too
    if room >= limit:
        raise CheckpointError(f"load: a tensor of size {short(size)} is larger than any memory")
    if 0 in size:
        return 0
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if last >= count:
        raise CheckpointError(
            f"load: a tensor of size {short(size)}, strides {short(stride)} and offset "
            f"{short(offset)} reaches element {short(last)} of a storage of {count}"
        )
    return room


def rebuild_tensor_v2(
    storage: Any,
    offset: object,
    size: object,
    stride: object,
    requires_grad: Any,
    backward_hooks: object,
    metadata: Any = None,
) -> Tensor:
    """`rebuild_tensor` with requires_grad and the flags of lazy conjugation and negation."""
    tensor = rebuild_tensor(storage, offset, size, stride)
    return _finished(tensor, storage.stored.allowance, requires_grad, metadata)


def rebuild_tensor_v3(
    storage: object,
    offset: object,
    size: object,
    stride: object,
    requires_grad: object,
    backward_hooks: object,
    dtype: object,
    metadata: object = None,
) -> Tensor:
    """`rebuild_tensor_v2` of an untyped storage, with the element type given beside the storage."""
    if type(storage) is TypedStorage and is_float8(dtype):
        making: Any = Float8Package.load()
        bits = _tensor(storage, NAMES["uint8"], offset, size, stride)
        return making.of_bits(bits, dtype)  # type: ignore[no-any-return]
    if type(storage) is not TypedStorage or type(dtype) is not DType:
        raise CheckpointError("load: the file makes a tensor of something that is no storage")
    tensor = _tensor(storage, dtype, offset, size, stride)
    return _finished(tensor, storage.stored.allowance, requires_grad, metadata)


def _finished(
    tensor: Tensor, allowance: Allowance, requires_grad: object, metadata: object
) -> Tensor:
    if metadata is not None and not isinstance(metadata, dict):
        raise CheckpointError("load: a tensor's metadata is no dict")
    for flag, on in (metadata or {}).items():
        if flag not in ("conj", "neg"):
            raise CheckpointError(
                f"load: a tensor has a flag that Wend does not know: {short(flag)}"
            )
        if on is True:
            allowance.charge(tensor.numel() * tensor.dtype.itemsize)
            tensor = conjugated(tensor) if flag == "conj" else -tensor
    if requires_grad is True:
        tensor.requires_grad_()
    return tensor


def rebuild_meta(dtype: Any, size: Any, stride: Any, requires_grad: object) -> Tensor:
    """A tensor on the device meta, which the file has no data of."""
    if type(dtype) is not DType:
        raise CheckpointError("load: the file makes a tensor without data, of no dtype")
    _check_view(MAX_BYTES, dtype.itemsize, 0, size, stride)
    tensor = empty_strided(tuple(size), tuple(stride), dtype=dtype, device=META)
    return tensor.requires_grad_() if requires_grad is True else tensor


def rebuild_parameter(data: object, requires_grad: object, backward_hooks: object) -> Parameter:
    """The parameter that views `data`."""
    if not isinstance(data, Tensor):
        raise CheckpointError(f"load: the file makes a Parameter of a {type(data).__name__}")
    return Parameter(data, requires_grad is True)


def rebuild_parameter_with_state(
    data: object, requires_grad: object, backward_hooks: object, state: object
) -> Parameter:
    """`rebuild_parameter` with attributes of the user."""
    parameter = rebuild_parameter(data, requires_grad, backward_hooks)
    _set_attributes(parameter, state)
    return parameter


def _set_attributes(tensor: Tensor, state: Any) -> None:
    if isinstance(state, tuple) and len(state) == 2 and not state[1]:
        state = state[0]
    if state and not (type(state) is dict and all(type(name) is str for name in state)):
        raise CheckpointError("load: a tensor's attributes are no dict with names as keys")
    if state:
        tensor.__dict__.update(state)


def rebuild_from_type(function: object, cls: object, arguments: object, state: object) -> Tensor:
    """function(*arguments), a tensor of class `cls` with further attributes."""
    make = next((make for make in REBUILD.values() if make is function), None)
    if make is None or type(arguments) is not tuple:
        raise CheckpointError("load: the file makes a tensor by something else than a rebuild call")
    tensor: Tensor = make(*arguments)
    if cls is not Tensor and cls is not type(tensor):
        if not (isinstance(cls, type) and issubclass(cls, Tensor)):
            raise CheckpointError("load: the file makes a tensor of a class that is no tensor")
        tensor = tensor.as_subclass(cls)
    _set_attributes(tensor, state)
    return tensor


REBUILD: Mapping[str, Callable[..., Any]] = {
    "rebuild_meta_tensor_no_storage": rebuild_meta,
} | {
    function.__name__: function
    for function in (
        rebuild_tensor,
        rebuild_tensor_v2,
        rebuild_tensor_v3,
        rebuild_parameter,
        rebuild_parameter_with_state,
    )
}


def rebuild_sparse(*arguments: object) -> Tensor:
    """The sparse tensor of a layout and (indices, values, size, coalesced), or as compressed."""
    kind, parts = arguments if len(arguments) == 2 else (None, ())
    if type(kind) is not layout or type(parts) is not tuple or not 3 <= len(parts) <= 4:
        raise CheckpointError("load: the file makes a sparse tensor of something else than parts")
    coordinates = kind.name == "sparse_coo"
    count = 2 if coordinates else 3
    dense, (size, *more) = parts[:count], parts[count:] or (None,)
    if not all(type(part) is Tensor for part in dense) or not isinstance(size, tuple):
        raise CheckpointError("load: the parts of a sparse tensor are no tensors and a size")
    if not all(type(n) is int and 0 <= n < MAX_BYTES for n in size):
        raise CheckpointError("load: the size of a sparse tensor is made of other things than ints")
    making: Any = importlib.import_module("wend.sparse.creation")
    try:
        if coordinates:
            return making.sparse_coo_tensor(*dense, size, is_coalesced=more == [True])
        return making.sparse_compressed_tensor(*dense, size, layout=kind)
    except WendError as error:
        raise CheckpointError(f"load: a sparse tensor's parts do not fit: {error}") from error


def rebuild_quantized(
    storage: object, offset: object, size: object, stride: object, facts: object, *more: object
) -> Tensor:
    """The quantised tensor of whole numbers in a storage, with scales and zero points."""
    whole = rebuild_tensor(storage, offset, size, stride)
    if type(facts) is not tuple or whole.dtype not in [
        own for _, own in QUANTIZED_STORAGES.values()
    ]:
        raise CheckpointError("load: the file makes a quantised tensor of something else")
    making: Any = importlib.import_module("wend._frontend.quantized.tensor")
    scheme, *numbers = facts
    if scheme is QSCHEMES["per_tensor_affine"] and [*map(type, numbers)] == [float, int]:
        return making.wrapped(whole, *numbers)
    if scheme is QSCHEMES["per_channel_affine"] and len(numbers) == 3:
        scales, points, axis = numbers
        fits = type(scales) is type(points) is Tensor and type(axis) is int
        fits = fits and 0 <= axis < whole.ndim
        if fits and scales.shape == points.shape == whole.shape[axis : axis + 1]:
            return making.wrapped(whole, scales, points, axis)
    raise CheckpointError("load: the scales of a quantised tensor do not fit")


def _layout(name: object) -> Any:
    layout = LAYOUTS.get(name) if type(name) is str else None
    if layout is None:
        raise CheckpointError(f"load: {short(name)} is no layout")
    return layout


LAYOUTS = {
    repr(kind): kind
    for kind in (strided, jagged, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
}


def _lacking(what: str) -> Callable[..., Any]:
    def call(*arguments: object) -> Any:
        raise CheckpointError(f"load: the file holds a {what} tensor, which Wend does not have")

    return call


def _ordered_dict(items: Iterable[Any] = ()) -> OrderedDict[Any, Any]:
    return OrderedDict(_dict_of(items))


def _counter(items: Iterable[Any] = ()) -> Counter[Any]:
    return Counter(_dict_of(items))


def _dict_of(items: Iterable[Any]) -> dict[Any, Any]:
    return items if isinstance(items, dict) else {key: value for key, value in _pairs(items)}  # noqa: C416 (pairs may be lists)


def _pairs(items: object) -> Any:
    if not isinstance(items, (list, tuple)) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in items
    ):
        raise CheckpointError("load: a dict is made of something else than pairs")
    return items


def _keys_of_dict(items: Iterable[Any] = ()) -> Iterable[Any]:
    return items.keys() if isinstance(items, dict) else [pair[0] for pair in _pairs(items)]


def _items_of_set(items: Iterable[Any] = ()) -> list[Any] | tuple[Any, ...]:
    if not isinstance(items, (list, tuple)):
        raise CheckpointError("load: a set is made of something else than a list")
    return items


def _set(items: Iterable[Any] = ()) -> set[Any]:
    return set(_items_of_set(items))


def _frozenset(items: Iterable[Any] = ()) -> frozenset[Any]:
    return frozenset(_items_of_set(items))


def _encode(text: object, encoding: object = "latin1") -> bytes:
    # How pickles of protocol 2 write bytes.
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise CheckpointError("load: bytes are written in a way that pickle does not write them")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    # How pickles of protocol 2 write b"".
    return b""


def _bytearray(data: object = b"", encoding: object = None) -> bytearray:
    if encoding is not None:
        data = _encode(data, encoding)
    if type(data) is not bytes:
        # bytearray(n) would allocate n bytes.
        raise CheckpointError("load: a bytearray is made of something else than bytes")
    return bytearray(data)


def _complex(real: object, imag: object) -> complex:
    if type(real) is not float or type(imag) is not float:
        raise CheckpointError("load: a complex number is made of something else than two floats")
    return complex(real, imag)


def _size(items: object = ()) -> Size:
    if not isinstance(items, (tuple, list)) or not all(type(n) is int for n in items):
        raise CheckpointError("load: a Size is made of something else than ints")
    return Size(items)


def _device(kind: object, index: object = None) -> device:
    if type(kind) is not str or len(kind) > 40 or not (index is None or type(index) is int):
        raise CheckpointError("load: a device is named by something else than a short str")
    return device(kind, index)


def _set_ordered_dict_attributes(instance: object, state: object) -> None:
    # `state_dict()` keeps `_metadata` as an attribute.
    if type(state) is not dict or not all(type(name) is str for name in state):
        raise CheckpointError("load: the attributes of an OrderedDict are no dict")
    instance.__dict__.update(state)


@functools.cache
def default_meanings() -> Mapping[str, Meaning]:
    """The names that a default load hands out."""
    table = {
        "collections.OrderedDict": Meaning(
            OrderedDict, _ordered_dict, _set_ordered_dict_attributes, keys=_keys_of_dict
        ),
        "collections.Counter": Meaning(Counter, _counter, keys=_keys_of_dict),
        "_codecs.encode": Meaning(_encode, _encode),
        "builtins.bytes": Meaning(bytes, _no_bytes),
        "builtins.bytearray": Meaning(bytearray, _bytearray),
        "builtins.set": Meaning(set, _set, keys=_items_of_set),
        "builtins.frozenset": Meaning(frozenset, _frozenset, keys=_items_of_set),
        "builtins.complex": Meaning(complex, _complex),
        "torch.Size": Meaning(Size, _size),
        "torch.device": Meaning(device, _device),
        "torch.Tensor": Meaning(Tensor),
        "torch.nn.parameter.Parameter": Meaning(Parameter),
        "torch._tensor._rebuild_from_type_v2": Meaning(
            rebuild_from_type, rebuild_from_type, cost=TENSOR_COST
        ),
        "torch._utils._rebuild_sparse_tensor": Meaning(
            rebuild_sparse, rebuild_sparse, cost=TENSOR_COST
        ),
        "torch.serialization._get_layout": Meaning(_layout, _layout),
        "torch.storage.UntypedStorage": Meaning(UNTYPED),
        "torch.storage.TypedStorage": Meaning(UNTYPED),
        "torch.UntypedStorage": Meaning(UNTYPED),
    }
    for name, function in REBUILD.items():
        cost = TENSOR_COST if name.startswith("rebuild_tensor") else HANDLE_COST
        table[f"torch._utils._{name}"] = Meaning(function, function, cost=cost)
    lacking = _lacking("nested")
    table["torch._utils._rebuild_nested_tensor"] = Meaning(lacking, lacking)
    make = rebuild_quantized
    table["torch._utils._rebuild_qtensor"] = Meaning(make, make, cost=TENSOR_COST)
    for name, (quantized, dtype) in QUANTIZED_STORAGES.items():
        table[f"torch.{name}"] = Meaning(StorageKind(name, dtype))
        table[f"torch.{quantized.name}"] = Meaning(quantized)
    for name, eight in ABSENT.items():
        if is_float8(eight):
            table[f"torch.{name}"] = Meaning(eight)
    for scheme in QSCHEMES.values():
        table[f"torch.{scheme.name}"] = Meaning(scheme)
    for name, dtype in STORAGE_NAMES.items():
        table[f"torch.{name}"] = Meaning(StorageKind(name, dtype))
    for dtype in ALL:
        table[f"torch.{dtype.name}"] = Meaning(dtype)
    return table


UNTYPED = StorageKind("UntypedStorage", None)
