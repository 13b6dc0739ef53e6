"""Functions that make tensors: of data, of constants, of ranges.

Data becomes a held value (`tensor`, `as_tensor`); constants and ranges are recorded as ops. A
`zeros` in a loop costs a step and no memory until somebody looks at the value.
"""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from wend._engine.base import dtypes
from wend._engine.base.devices import (
    AWAY,
    CPU,
    META,
    DeviceLike,
    MetaPackage,
    accelerator_kind,
    place_asked,
)
from wend._engine.base.devices import device as Device
from wend._engine.base.dtypes import DType, promote_types
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    DTypeError,
    DTypeNotImplemented,
    ValueRefused,
    WendError,
)
from wend._engine.base.shapes import int_of
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.signature import weak_number
from wend._engine.core.symbolic import SymInt, SymNumber, category_of
from wend._engine.ops.creation import arange_count
from wend._engine.ops.placing import beside, full_beside
from wend._frontend import accelerators as _accelerators  # noqa: F401 (registers devices)
from wend._frontend.aliasing.outside_memory import adopt
from wend._frontend.formats import (
    Float8Package,
    SparsePackage,
    check_layout,
    is_float8,
    is_sparse_layout,
    layout,
    memory_format,
)
from wend._frontend.interop import arrays as interop_arrays
from wend._frontend.interop.memory import (
    array_of_buffer,
    array_of_memory,
    is_array,
    sharable,
)
from wend._frontend.memory_order import as_asked, like

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "range",
    "scalar_tensor",
    "tensor",
    "zeros",
    "zeros_like",
]

PYTHON_TYPES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def checked_dtype(op: str, dtype: object) -> DType | None:
    """A dtype argument: a DType, None, or Python's bool, int, float or complex."""
    if dtype is None or type(dtype) is DType:
        return dtype
    name = PYTHON_TYPES.get(dtype) if isinstance(dtype, type) else None
    if name is None:
        raise ArgumentTypeError(
            f"{op}: argument 'dtype' must be torch.dtype, not {_described(dtype)}"
        )
    return dtypes.NAMES[name]


def _described(value: object) -> str:
    return repr(value) if isinstance(value, (str, type)) else type(value).__name__


class TensorOptions(TypedDict, total=False):
    """The keyword arguments that these functions take through `**keywords`."""

    dtype: DType | None
    device: DeviceLike
    layout: layout | None
    requires_grad: bool
    pin_memory: bool
    out: Tensor | None
    memory_format: memory_format | None


class Options:
    """The keyword arguments that all of these functions take, checked."""

    __slots__ = ("dtype", "float8", "out", "pin", "place", "requires_grad")

    def __init__(
        self,
        op: str,
        dtype: DType | None = None,
        device: Any = None,
        layout: layout | None = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        out: Tensor | None = None,
        memory_format: memory_format | None = None,
    ) -> None:
        self.float8 = dtype if is_float8(dtype) else None  # made of float32
        self.dtype = dtypes.float32 if self.float8 is not None else checked_dtype(op, dtype)
        self.place = CPU if device is None and not AWAY else place_asked(device, op)
        if layout is not None:
            check_layout(op, layout)
        self.pin = bool(pin_memory)
        if pin_memory and accelerator_kind() is None:
            raise DeviceError(
                f"{op}: pin_memory=True speeds up copies to an accelerator, and there is none; "
                "leave it out"
            )
        if out is not None:
            if not isinstance(out, Tensor):
                raise ArgumentTypeError(f"{op}: out must be a Tensor, not {type(out).__name__}")
            if self.dtype is None:
                self.dtype = out.dtype
            elif self.dtype is not out.dtype:
                raise DTypeError(
                    f"{op}: dtype {self.dtype} does not match dtype of out tensor ({out.dtype})"
                )
        self.out = out
        if not isinstance(requires_grad, bool):
            raise ArgumentTypeError(
                f"{op}: argument 'requires_grad' must be bool, not {type(requires_grad).__name__}"
            )
        self.requires_grad = requires_grad


def finished(op: Any, output: Tensor, options: Options) -> Tensor:
    """The tensor that was made, written to `out=` or marked as a variable where asked for.

    op: public name, or a function of that name
    """
    if options.out is not None:
        output = beside(options.out, output)

        def result() -> Tensor:
            return output

        result.__name__ = op if isinstance(op, str) else op.__name__
        written: Tensor = _hot.slot("call_out")(result, (), {"out": options.out})
        return written
    if options.place is META:
        output = MetaPackage.load().placed(output)
    elif options.place is not output.device:
        output = at_place(output, options.place)
    if options.pin:
        output = _pinned(op, output)
    if options.float8 is not None:
        output = Float8Package.load().cast(output, options.float8)
    if options.requires_grad:
        output.requires_grad_()
    return output


def _pinned(op: Any, output: Tensor) -> Tensor:
    """The tensor, pinned. Raises DeviceError on an accelerator."""
    if not output.is_cpu:
        name = op if isinstance(op, str) else op.__name__
        raise DeviceError(f"{name}: only dense CPU tensors can be pinned")
    from wend._frontend.devices.pinned import marked

    return marked(output)


def at_place(source: Tensor, place: Device) -> Tensor:
    """A tensor on the CPU or an accelerator; itself if it lies there already."""
    there = source.device
    if there is place:
        return source
    moved: Tensor = ops.to_device(source, place, there)
    return moved


def shared(array: object) -> Tensor:
    """The tensor that shares an array's memory."""
    return adopt(array)


def held(array: Any) -> Tensor:
    """A tensor that owns an ndarray."""
    type_ = _types.intern_type(tuple(array.shape), dtypes.from_numpy(array.dtype), CPU)
    value = _hot.held(type_, array)
    value.inference = _hot.current_trace().mode.inference
    result: Tensor = _hot.wrap(value)
    return result


# --- of data --------------------------------------------------------------------------------------


_TENSOR = interop_arrays.Op("tensor", Tensor)


def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor with a copy of the data: a number, a (nested) sequence, an array or a tensor.

    dtype: by default bool, int64 or the default float type, as the numbers ask for; arrays and
    NumPy's numbers keep their type. Raises ArgumentError naming the position where sequences are
    ragged, ArgumentTypeError for data that is no number.
    """
    options = Options("tensor", dtype, device, None, requires_grad, pin_memory)
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        output = _copy(data, options.dtype)
        if device is None:
            options.place = data.device
    elif _hot.current_trace().symbolic is not None and _has_symbols(data):
        output = _of_symbols(data, options.dtype or _dtype_of_symbols(data))
    else:
        if hasattr(data, "__dlpack__") and not is_array(data):
            data = array_of_memory(data)
        output = held(interop_arrays.array_from_data(data, options.dtype, _TENSOR))
    return finished("tensor", output, options)


def _has_symbols(data: object) -> bool:
    """Whether there are numbers among the data that are only known when an explored graph runs."""
    if isinstance(data, (list, tuple)):
        return any(map(_has_symbols, data))
    return isinstance(data, (SymInt, SymNumber))


def _dtype_of_symbols(data: object) -> DType:
    """The type of a tensor of such data."""
    if isinstance(data, (list, tuple)):
        return functools.reduce(promote_types, map(_dtype_of_symbols, data))
    return dtypes.dtype_of_scalar_category(category_of(data))


def _of_symbols(data: object, dtype: DType) -> Tensor:
    """A tensor of such data."""
    if isinstance(data, (list, tuple)):
        return ops.stack([_of_symbols(part, dtype) for part in data])
    return ops.full((), data, dtype=dtype)


def _copy(source: Tensor, dtype: DType | None) -> Tensor:
    plain = ops.detach(source)
    if dtype is None or dtype is source.dtype:
        return ops.clone(plain)
    return ops.cast(plain, dtype)


def as_tensor(data: Any, dtype: DType | None = None, device: DeviceLike = None) -> Tensor:
    """A tensor of the data, without a copy for a tensor or an array of the right type.

    A tensor keeps its history, an array shares its memory.
    """
    options = Options("as_tensor", dtype, device)
    if isinstance(data, Tensor):
        return moved(data, options, device is not None)
    return finished("as_tensor", _shared_or_copied("as_tensor", data, options.dtype), options)


def moved(source: Tensor, options: Options, asked: bool) -> Tensor:
    """A tensor itself, or converted; on the device of the options where a device was asked for."""
    if asked and (options.place is META or source.is_meta):
        output: Tensor = MetaPackage.load().moved(source, options.dtype, options.place)
        return output
    output = _shared_or_copied("as_tensor", source, options.dtype)
    return at_place(output, options.place) if asked else output


def _shared_or_copied(name: str, data: Any, dtype: DType | None) -> Tensor:
    if isinstance(data, Tensor):
        same = dtype is None or dtype is data.dtype
        return data if same else ops.cast(data, dtype)
    if is_array(data):
        output = shared(sharable(name, data))
        return output if dtype in (None, output.dtype) else ops.cast(output, dtype)
    if _hot.current_trace().symbolic is not None and _has_symbols(data):
        return _of_symbols(data, dtype or _dtype_of_symbols(data))
    if hasattr(data, "__dlpack__"):
        return _shared_or_copied(name, array_of_memory(data), dtype)
    op = interop_arrays.Op(name, Tensor)
    return held(interop_arrays.array_from_data(data, dtype, op))


@short_errors
def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: DeviceLike = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor of any data, an array, or an object with DLPack or the buffer protocol.

    A buffer that is no array is read as elements of `dtype`, by default of the default float type.
    copy: True always copies, False raises ArgumentError if a copy cannot be avoided, None copies
    where needed. requires_grad: marks a tensor that is passed itself, unless it is copied.
    """
    options = Options("asarray", dtype, device, None, bool(requires_grad))
    source = obj
    if isinstance(obj, Tensor) and (options.place is META or obj.is_meta):
        return moved(obj, options, device is not None)
    if not isinstance(obj, Tensor) and not is_array(obj):
        obj = array_of_memory(obj, options.dtype or dtypes.get_default_dtype())
    output = _shared_or_copied("asarray", obj, options.dtype)
    shares = isinstance(obj, Tensor) or is_array(obj)
    copied = not shares or options.dtype not in (None, _dtype_of(obj))
    if copy is False and copied:
        raise ArgumentError(f"asarray: can't alias a {type(source).__name__} of another type")
    if copy and not copied:
        output = ops.clone(output)
    if requires_grad and not output.requires_grad:
        output.requires_grad_()
    elif output.requires_grad and (
        requires_grad is False or not (requires_grad or isinstance(obj, Tensor))
    ):
        output = ops.detach(output)
    if options.place is META:
        return MetaPackage.load().placed(output)  # type: ignore[no-any-return]
    keeps = device is None and isinstance(obj, Tensor)
    return output if keeps else at_place(output, options.place)


def _dtype_of(source: Any) -> DType:
    return source.dtype if isinstance(source, Tensor) else dtypes.from_numpy(source.dtype)


def from_numpy(ndarray: Any) -> Tensor:
    """The tensor that shares an array's memory: writes to either show in both.

    Raises ArgumentTypeError for anything but an ndarray of a type that tensors have,
    ArgumentError for negative strides. A read-only array is copied.
    """
    if not is_array(ndarray):
        raise ArgumentTypeError(
            f"from_numpy: expected np.ndarray (got {type(ndarray).__name__}); "
            "use torch.tensor for other data"
        )
    return shared(sharable("from_numpy", ndarray))


def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """The 1-d tensor that shares the memory of an object with the buffer protocol.

    dtype: of the elements.   count: how many, -1 for all.   offset: of the first, in bytes.
    Raises ArgumentError if the buffer is too small or its size does not fit.
    """
    checked = checked_dtype("frombuffer", dtype)
    if checked is None:
        raise ArgumentTypeError("frombuffer: argument 'dtype' must be torch.dtype, not None")
    output = shared(array_of_buffer(buffer, checked, count, offset))
    return output.requires_grad_() if requires_grad else output


@short_errors
def scalar_tensor(
    s: Any, *, dtype: DType | None = None, device: DeviceLike = None, layout: layout | None = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The 0-d tensor of a number, of the default float type unless `dtype` says otherwise."""
    options = Options("scalar_tensor", dtype, device, layout, requires_grad, pin_memory)
    wanted = options.dtype or dtypes.get_default_dtype()
    return finished(
        "scalar_tensor", ops.full((), _number("scalar_tensor", s), dtype=wanted), options
    )


# --- of constants ---------------------------------------------------------------------------------


def sizes_of(op: str, size: tuple[Any, ...], named_size: Any = None) -> tuple[int, ...]:
    """The extents of a call `f(2, 3)`, `f((2, 3))` or `f(size=(2, 3))`. Raises on other types."""
    if named_size is not None:
        if size:
            raise ArgumentTypeError(f"{op}: the size is given twice, by position and by size=")
        size = (named_size,)
    elif not size:
        raise ArgumentTypeError(f"{op}: argument 'size' is missing; give () for a 0-d tensor")
    plain = size[0] if len(size) == 1 and type(size[0]) is tuple else size
    for n in plain:
        if type(n) is not int and not isinstance(n, SymInt):
            break
    else:
        return plain
    if len(size) == 1 and not is_index(size[0]):
        size = size[0]
        if isinstance(size, Tensor):
            size = size.tolist()
    try:
        # As PyTorch does, only the first item may be no bool.
        ints: list[Any] = [
            n if type(n) is int or isinstance(n, SymInt) else operator.index(n) if i else int_of(n)
            for i, n in enumerate(size)
        ]
        return tuple(ints)
    except TypeError:
        wrong = next((n for n in size if not is_index(n)), size) if _is_iterable(size) else size
        raise ArgumentTypeError(
            f"{op}: argument 'size' must be tuple of ints, and it contains a {type(wrong).__name__}"
        ) from None


def is_index(value: Any) -> bool:
    """Whether a value can stand for an extent: an int, or a 0-d tensor or array."""
    if isinstance(value, Tensor) or is_array(value):
        return bool(value.ndim == 0)
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_iterable(value: object) -> bool:
    return hasattr(value, "__iter__")


def _number(op: str, value: object) -> Any:
    """A fill value as a Python number, also from one-element tensors and NumPy's numbers."""
    if type(value) in (int, float, bool, complex) or isinstance(value, (SymInt, SymNumber)):
        return value
    if hasattr(value, "item"):
        number = value.item()
        if not isinstance(value, Tensor):
            number = weak_number(number)
        if number is not None:
            return number
    if isinstance(value, (bool, int, float, complex)):
        return value
    raise ArgumentTypeError(f"{op}: a number is needed, not a {type(value).__name__}")


def empty(*size: int | Sequence[int], **keywords: Unpack[TensorOptions]) -> Tensor:
    """A tensor of a size, with arbitrary elements (zeros, in fact).

    size: ints, or a sequence of ints. dtype, device, layout, requires_grad, pin_memory, out,
    memory_format: as in PyTorch.
    """
    return _constant("empty", size, 0, keywords)


def zeros(*size: int | Sequence[int], **keywords: Unpack[TensorOptions]) -> Tensor:
    """y[...] = 0. size: ints, or a sequence of ints; keywords as in `empty`."""
    return _constant("zeros", size, 0, keywords)


def ones(*size: int | Sequence[int], **keywords: Unpack[TensorOptions]) -> Tensor:
    """y[...] = 1. size: ints, or a sequence of ints; keywords as in `empty`."""
    return _constant("ones", size, 1, keywords)


def _constant(op: str, size: tuple[Any, ...], value: int, keywords: Any) -> Tensor:
    try:
        if not keywords and not AWAY:
            output: Tensor = ops.full(sizes_of(op, size), value, dtype=dtypes.get_default_dtype())
            return output
        extents = sizes_of(op, size, keywords.pop("size", None))
        keywords.pop("names", None)
        layout = keywords.get("layout")
        if value == 0 and is_sparse_layout(layout):
            keywords["layout"] = None
        options = Options(op, **checked_keywords(op, keywords))
        if value == 0 and is_sparse_layout(layout):
            make = SparsePackage.load().creation.empty_of_layout
            output = make(op, extents, layout, options.dtype or dtypes.get_default_dtype())
            return output.requires_grad_() if options.requires_grad else output
        dtype = options.dtype or dtypes.get_default_dtype()
        output = as_asked(
            ops.full(extents, value, dtype=dtype), None, keywords.get("memory_format"), op
        )
        return finished(op, output, options)
    except WendError as error:
        error.shorten()
        raise


KEYWORDS = frozenset(Options.__init__.__code__.co_varnames[2:9])


def checked_keywords(op: str, keywords: Any) -> dict[str, Any]:
    """`keywords`, if creation functions take all of them. Raises ArgumentTypeError."""
    for name in keywords:
        if name not in KEYWORDS:
            raise ArgumentTypeError(f"{op}: got an unexpected keyword argument '{name}'")
    return keywords


def check_fits(op: str, value: Any, dtype: DType) -> None:
    """Raise ValueRefused for a number beyond the range of `dtype`; minus a uint's is wrapped."""
    if isinstance(value, (SymInt, SymNumber)):  # known when a graph runs
        return
    if value == 0 or value == 1:  # which all types hold
        return
    if dtype.category == dtypes.INT and not isinstance(value, complex):
        info = dtypes.iinfo(dtype)
        fits = (-info.max if info.min == 0 else info.min) <= value <= info.max
    elif dtype.category == dtypes.FLOAT and isinstance(value, (int, float)):
        fits = not dtypes.finfo(dtype).max < abs(value) < math.inf
    else:
        return
    if not fits:
        raise ValueRefused(f"{op}: {value} cannot be converted to {dtype} without overflow")


def full(size: int | Sequence[int], fill_value: Any, **keywords: Unpack[TensorOptions]) -> Tensor:
    """y[...] = fill_value, of the number's type unless `dtype` says otherwise."""
    options = Options("full", **checked_keywords("full", keywords))
    if is_index(size):
        raise ArgumentTypeError("full: argument 'size' must be a tuple of ints, not one")
    extents = sizes_of("full", (size,))
    value = _number("full", fill_value)
    dtype = options.dtype or dtypes.dtype_of_scalar_category(category_of(value))
    check_fits("full", value, dtype)
    return finished("full", ops.full(extents, value, dtype=dtype), options)


@short_errors
def empty_strided(
    size: int | Sequence[int], stride: int | Sequence[int], **keywords: Unpack[TensorOptions]
) -> Tensor:
    """A tensor of a size with the given strides, with arbitrary elements."""
    options = Options("empty_strided", **checked_keywords("empty_strided", keywords))
    extents, steps = sizes_of("empty_strided", (size,)), sizes_of("empty_strided", (stride,))
    if len(extents) != len(steps):
        raise ArgumentError(
            f"empty_strided: {len(extents)} extents {extents} and {len(steps)} strides {steps}"
        )
    last = sum((n - 1) * s for n, s in zip(extents, steps, strict=True))
    count = 0 if 0 in extents else last + 1
    memory = ops.full((count,), 0, dtype=options.dtype or dtypes.get_default_dtype())
    return finished("empty_strided", ops.as_strided(memory, extents, steps), options)


@short_errors
def empty_permuted(
    size: int | Sequence[int], physical_layout: Sequence[int], **keywords: Unpack[TensorOptions]
) -> Tensor:
    """A dense tensor of a size, its dims in memory in the order `physical_layout`.

    Raises ValueRefused unless that order names each dim once.
    """
    extents, order = sizes_of("empty_permuted", (size,)), tuple(physical_layout)
    rank = len(extents)
    if len(order) != rank:
        raise ValueRefused(
            "empty_permuted: Number of dimensions in size does not match the length of the "
            f"physical_layout: {rank} and {len(order)}"
        )
    for place, dim in enumerate(order):
        if not 0 <= dim < rank:
            raise ValueRefused(
                f"empty_permuted: Dimension out of range (expected to be between 0 and {rank - 1},"
                f" but got {dim} at index {place}); negative dims are not taken"
            )
        if dim in order[:place]:
            raise ValueRefused(f"empty_permuted: Duplicate dim not allowed: {dim} in {order}")
    steps, step = [0] * rank, 1
    for dim in reversed(order):
        steps[dim] = step
        step *= max(extents[dim], 1)
    return empty_strided(extents, tuple(steps), **keywords)


def is_away(source: Tensor) -> bool:
    """Whether a tensor made like this one would not lie there if no device was named."""
    return bool(AWAY) or source.value.type.device is not CPU


def _like(op: str, source: object, value: object, keywords: Any) -> Tensor:
    try:
        if not keywords and type(source) is Tensor:
            check_fits(op, value, source.dtype)
            return like(full_beside(source, source.shape, value), source)
        if not isinstance(source, Tensor):
            raise ArgumentTypeError(
                f"{op}: argument 'input' must be Tensor, not {type(source).__name__}"
            )
        if _hot.has_override(source):
            arguments = (source, value) if op == "full_like" else (source,)
            return _hot.slot("torch_function")(globals()[op], arguments, keywords)  # type: ignore[no-any-return]
        if keywords.get("device") is None and is_away(source):
            keywords["device"] = source.device
        options = Options(op, **checked_keywords(op, keywords))
        dtype = options.dtype or source.dtype
        check_fits(op, value, dtype)
        output = ops.full(tuple(source.shape), value, dtype=dtype)
        output = as_asked(output, source, keywords.get("memory_format"), op)
        return finished(op, output, options)
    except WendError as error:
        error.shorten()
        raise


def empty_like(input: Tensor, **keywords: Unpack[TensorOptions]) -> Tensor:
    """A tensor of input's size and type, with arbitrary elements."""
    return _like("empty_like", input, 0, keywords)


def zeros_like(input: Tensor, **keywords: Unpack[TensorOptions]) -> Tensor:
    """y[...] = 0, of input's size and type; not part of input's history."""
    if not keywords and type(input) is Tensor:
        return like(full_beside(input, input.shape, 0), input)
    return _like("zeros_like", input, 0, keywords)


def ones_like(input: Tensor, **keywords: Unpack[TensorOptions]) -> Tensor:
    """y[...] = 1, of input's size and type; not part of input's history."""
    return _like("ones_like", input, 1, keywords)


@short_errors
def full_like(input: Tensor, fill_value: Any, **keywords: Unpack[TensorOptions]) -> Tensor:
    """y[...] = fill_value, of input's size and type; not part of input's history."""
    return _like("full_like", input, _number("full_like", fill_value), keywords)


# --- of ranges ------------------------------------------------------------------------------------


@short_errors
def arange(
    start: Any = None, end: Any = None, step: Any = 1, **keywords: Unpack[TensorOptions]
) -> Tensor:
    """start, start + step, ... below end. `arange(end)` begins at 0.

    dtype: int64 if all three are ints, else the default float type. Numbers for an int type are
    truncated; the count of the elements is that of the numbers given, but for int64.
    Raises ArgumentError for a step of 0, or a step that leads away from the end.
    """
    if start is None or end is None:
        if start is None and end is None:
            raise ArgumentTypeError("arange() missing 1 required argument: 'end'")
        start, end = 0, end if start is None else start
    options = Options("arange", **checked_keywords("arange", keywords))
    start, end, step = (_number("arange", n) for n in (start, end, step))
    if any(isinstance(n, complex) for n in (start, end, step)):
        raise ArgumentTypeError("arange: not implemented for complex numbers")
    count = None
    if options.dtype is not None and options.dtype.category < dtypes.FLOAT:
        if options.dtype is not dtypes.int64:
            count = arange_count(start, end, step)
        start, end, step = (n if isinstance(n, SymInt) else int(n) for n in (start, end, step))
    if options.dtype is dtypes.bool_:
        raise DTypeNotImplemented("arange: not implemented for torch.bool")
    integral = not any(isinstance(n, (float, SymNumber)) for n in (start, end, step))
    dtype = options.dtype or (dtypes.int64 if integral else dtypes.get_default_dtype())
    if count is None:
        count = arange_count(start, end, step)
    return finished("arange", ops.arange(start, end, step, count, dtype=dtype), options)


@short_errors
def range(start: Any, end: Any = None, step: Any = 1, **keywords: Unpack[TensorOptions]) -> Tensor:
    """start, start + step, ... up to end, which is included: PyTorch's deprecated form of arange.

    dtype: the default float type.
    """
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior "
        "is inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    options = Options("range", **checked_keywords("range", keywords))
    start, end, step = (_number("range", n) for n in (start, end, step))
    dtype = options.dtype or dtypes.get_default_dtype()
    arange_count(start, end, step)  # the same errors
    count = int((end - start) / step + 1)
    return finished("range", ops.arange(start, end, step, count, dtype=dtype), options)


@short_errors
def linspace(start: Any, end: Any, steps: int, **keywords: Unpack[TensorOptions]) -> Tensor:
    """`steps` numbers at equal distances, the first start, the last end.

    start, end: numbers or 0-d tensors.   dtype: the default float type, or complex for complex
    bounds. Raises ArgumentError for a negative number of steps.
    """
    options = Options("linspace", **checked_keywords("linspace", keywords))
    start, end = _number("linspace", start), _number("linspace", end)
    array = interop_arrays.spaced("linspace", start, end, steps, options.dtype)
    return finished("linspace", held(array), options)


@short_errors
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, **keywords: Unpack[TensorOptions]
) -> Tensor:
    """`base` to the power of each of `linspace(start, end, steps)`."""
    options = Options("logspace", **checked_keywords("logspace", keywords))
    start, end = _number("logspace", start), _number("logspace", end)
    array = interop_arrays.spaced("logspace", start, end, steps, options.dtype, float(base))
    return finished("logspace", held(array), options)


@short_errors
def eye(n: int, m: int | None = None, **keywords: Unpack[TensorOptions]) -> Tensor:
    """y[i, j] = 1 if i == j else 0, of shape (n, m); m is n if left out."""
    options = Options("eye", **checked_keywords("eye", keywords))
    rows, columns = sizes_of("eye", (n, n if m is None else m))
    for name, extent in (("n", rows), ("m", columns)):
        if extent < 0:
            raise ValueRefused(f"eye: {name} must be greater or equal to 0, got {extent}")
    dtype = options.dtype or dtypes.get_default_dtype()
    if options.place is META:  # no array of that size is made
        return finished("eye", ops.full((rows, columns), 0, dtype=dtype), options)
    return finished("eye", held(interop_arrays.identity(rows, columns, dtype)), options)


# --- methods --------------------------------------------------------------------------------------


def _new(op: str, self: Tensor, size: tuple[Any, ...], value: object, keywords: Any) -> Tensor:
    try:
        extents = sizes_of(op, size, keywords.pop("size", None))
        if keywords.get("device") is None and is_away(self):
            keywords["device"] = self.device
        options = Options(op, **checked_keywords(op, keywords))
        output = ops.full(extents, value, dtype=options.dtype or self.dtype)
        return finished(op, output, options)
    except WendError as error:
        error.shorten()
        raise


def new_zeros(
    self: Tensor, *size: int | Sequence[int], **keywords: Unpack[TensorOptions]
) -> Tensor:
    """Zeros of this tensor's type."""
    return _new("new_zeros", self, size, 0, keywords)


def new_ones(self: Tensor, *size: int | Sequence[int], **keywords: Unpack[TensorOptions]) -> Tensor:
    """Ones of this tensor's type."""
    return _new("new_ones", self, size, 1, keywords)


def new_empty(
    self: Tensor, *size: int | Sequence[int], **keywords: Unpack[TensorOptions]
) -> Tensor:
    """A tensor of this tensor's type, with arbitrary elements."""
    return _new("new_empty", self, size, 0, keywords)


@short_errors
def new_full(
    self: Tensor, size: int | Sequence[int], fill_value: Any, **keywords: Unpack[TensorOptions]
) -> Tensor:
    """A constant of this tensor's type."""
    return _new("new_full", self, (size,), _number("new_full", fill_value), keywords)


@short_errors
def new_tensor(self: Tensor, data: Any, **keywords: Unpack[TensorOptions]) -> Tensor:
    """`tensor(data)` of this tensor's type."""
    keywords.setdefault("dtype", self.dtype)
    if keywords.get("device") is None and is_away(self):
        keywords["device"] = self.device
    if isinstance(data, Tensor):
        options = Options("new_tensor", **checked_keywords("new_tensor", keywords))
        return finished("new_tensor", _copy(data, options.dtype), options)
    return tensor(data, **keywords)  # type: ignore[misc]  # tells of `layout` and its like


for _method in (new_zeros, new_ones, new_empty, new_full, new_tensor):
    setattr(Tensor, _method.__name__, _method)
