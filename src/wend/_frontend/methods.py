"""Methods and properties of Tensor that are neither ops nor in a module of their own."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.devices import (
    CPU,
    META,
    DeviceLike,
    MetaPackage,
    accelerator_kind,
    placement,
    usable,
)
from wend._engine.base.devices import device as Device
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import (
    ArgumentTypeError,
    DataRefused,
    DeviceError,
    DTypeError,
    GraphError,
    ShapeError,
    ValueRefused,
    WendError,
)
from wend._engine.base.shapes import Size, contiguous_strides
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot, _indexing
from wend._engine.core._hot import Tensor
from wend._engine.core._types import CallPlan
from wend._engine.core.primitive import ops
from wend._engine.core.signature import parse_signature
from wend._engine.core.whole import one_at_a_time
from wend._engine.ops.indexing import subscript
from wend._engine.ops.placing import beside, full_beside
from wend._engine.ops.sugar import spelled
from wend._frontend import creation, formats
from wend._frontend.aliasing import rebinding as aliasing
from wend._frontend.aliasing.outside_memory import expose
from wend._frontend.aliasing.pinned import is_in_pinned, pinned
from wend._frontend.aliasing.versions import base_now, count_write, keep_count, leave_memory
from wend._frontend.autograd.grad_modes import is_inference
from wend._frontend.formats import memory_format
from wend._frontend.interop.shared import is_shared, share_memory_
from wend._frontend.memory_order import in_format
from wend._frontend.typed import type_name

# -- conversions ----------------------------------------------------------------------------


def _converted(x: Tensor, dtype: DType | None, copy: bool) -> Tensor:
    if dtype is None or dtype is x.dtype:
        return ops.clone(x) if copy else x  # type: ignore[no-any-return]
    return ops.cast(x, dtype)  # type: ignore[no-any-return]


def _to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Calls of `to` that are no plain change of dtype."""
    if _dtype_asked(args[1:], kwargs) is not None:
        return NotImplemented
    return to(*args, **kwargs)


def to(self: Tensor, *args: object, **kwargs: object) -> Tensor:
    """to(dtype), to(device[, dtype]), to(other): this tensor converted, or itself.

    Keywords: dtype, device, non_blocking, copy, memory_format.  Raises DeviceError for a device
    that is not available, ArgumentTypeError for further arguments.
    """
    dtype = kwargs.pop("dtype", None)
    place = kwargs.pop("device", None)
    for word in ("other", "tensor"):
        if word in kwargs:
            args = (kwargs.pop(word), *args)
    copy = bool(kwargs.pop("copy", False))
    memory_format = kwargs.pop("memory_format", None)
    kwargs.pop("non_blocking", None)
    if kwargs:
        raise ArgumentTypeError(f"to() got an unexpected keyword argument {next(iter(kwargs))!r}")
    flags = []
    for a in args:
        if isinstance(a, Tensor):
            dtype, place = a.dtype, a.device
        elif isinstance(a, bool):
            flags.append(a)
        elif isinstance(a, DType) or a in (float, int, bool) or formats.is_float8(a):
            dtype = a
        elif isinstance(a, (str, Device, int)):
            place = a
        elif a is not None:
            raise ArgumentTypeError(
                f"to(): expected a dtype, a device or a Tensor, not {type(a).__name__}"
            )
    if len(flags) > 1:
        copy = copy or flags[1]
    if place is not None:
        there = placement(place, "to")
        if there is META or (type(self) is not Tensor and self.is_meta):
            moved: Tensor = MetaPackage.load().moved(self, dtype, there, copy)
            return moved
    if formats.is_float8(dtype):
        return formats.Float8Package.load().cast(self, dtype)  # type: ignore[no-any-return]
    if place is not None and there is not self.device:
        self, copy = creation.at_place(self, there), False
    output = _converted(self, creation.checked_dtype("to", dtype), copy)
    return in_format(output, memory_format, "to", fresh=output is not self)


def _dtype_asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> DType | None:
    """The dtype, if a conversion to a dtype is all that is asked for."""
    if len(args) == 1 and not kwargs and isinstance(args[0], DType):
        return args[0]
    if not args and list(kwargs) == ["dtype"] and isinstance(kwargs["dtype"], DType):
        return kwargs["dtype"]
    return None


class _Conversion:
    """Binds calls that only change the dtype: after the first, these go through the core."""

    params = parse_signature("input")
    cls = None  # there is no single op

    def __init__(self, fixed: DType | None) -> None:
        self.fixed = fixed

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """(primitive, tensors, args, plan); tensors of that dtype are returned unchanged."""
        kwargs = {k: v for k, v in kwargs.items() if k != "memory_format"}
        dtype = self.fixed or _dtype_asked(args[1:], kwargs)
        prim = ops.cast.primitive.of(("T",), dtype=dtype)
        constants = [(i + 1, v) for i, v in enumerate((*args[1:], *kwargs.values()))]
        plan = CallPlan(prim, len(args), tuple(kwargs) or None, ((0, 0, None),), tuple(constants))
        plan.same_dtype = dtype
        return prim, [args[0]], [], plan


def _conversion(name: str, dtype: DType | None) -> Callable[..., Any]:
    function = _hot.OpFunction(name, _Conversion(dtype), False)
    if dtype is None:
        function.general = _to
        function.__doc__ = to.__doc__
    else:
        function.__doc__ = f"This tensor as {dtype}."
    return function


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor in the dtype of `other`, on the device of `other`."""
    plain = type(self) is Tensor and type(other) is Tensor
    if not plain and self.is_meta is not other.is_meta:
        return to(self, other)
    return _converted(beside(other, self), other.dtype, False)


_TYPE_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of this tensor's type, or the tensor converted to `dtype` (or type name)."""
    if dtype is None:
        place = self.device.type
        package = "torch" if place in ("cpu", "meta") else f"torch.{place}"
        return f"{package}.{_TYPE_NAMES[self.dtype.name]}Tensor"
    if isinstance(dtype, DType):
        return _converted(self, dtype, False)
    name = type_name("type", dtype)
    word = name.removesuffix("Tensor")
    for dtype_name, title in _TYPE_NAMES.items():
        if title == word or (word == "" and dtype_name == "float32"):
            return _converted(self, dtypes.NAMES[dtype_name], False)
    raise DataRefused(f"type: invalid type: {name!r}")


def cpu(self: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """This tensor on the CPU: itself if it lies there."""
    return creation.at_place(self, CPU)


@short_errors
def cuda(
    self: Tensor, device: DeviceLike = None, non_blocking: bool = False, memory_format: Any = None
) -> Tensor:
    """This tensor on a CUDA device.  Raises DeviceError if there is no such device."""
    return creation.at_place(self, usable(Device("cuda") if device is None else device, "cuda"))


@short_errors
def xpu(
    self: Tensor, device: DeviceLike = None, non_blocking: bool = False, memory_format: Any = None
) -> Tensor:
    """This tensor on an OpenCL device.  Raises DeviceError if there is no such device."""
    return creation.at_place(self, usable(Device("xpu") if device is None else device, "xpu"))


# -- in-place -------------------------------------------------------------------------------


@spelled(src="other")
def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite this tensor by `other`, broadcast and cast.  Gradients flow to `other`."""
    src = beside(self, other if isinstance(other, Tensor) else creation.as_tensor(other))
    aliasing.check_writable(self, "copy_")
    if tuple(src.shape) != tuple(self.shape):
        try:
            src = ops.expand(src, tuple(self.shape))
        except (ShapeError, RuntimeError):
            raise ShapeError(
                f"copy_: the source of shape {tuple(src.shape)} does not broadcast to the "
                f"destination's shape {tuple(self.shape)}"
            ) from None
    contents = ops.cast(src, self.dtype) if src.dtype is not self.dtype else ops.identity(src)
    aliasing.assign(self, subscript.overwritten(self, contents), copy_)
    return self


def fill_(self: Tensor, value: object) -> Tensor:
    """Overwrite every element by `value`, a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        if value.dim() != 0:
            raise ShapeError(
                f"fill_: only supports 0-dimension value tensor but got tensor with "
                f"{value.dim()} dimensions."
            )
        if value.dtype is not self.dtype:
            value = ops.cast(value, self.dtype)
        aliasing.check_writable(self, "fill_")
        contents = ops.clone(ops.expand(beside(self, value), tuple(self.shape)))
        aliasing.assign(self, subscript.overwritten(self, contents), fill_)
        return self
    aliasing.check_writable(self, "fill_")
    creation.check_fits("fill_", value, self.dtype)
    aliasing.assign(self, full_beside(self, tuple(self.shape), value), fill_)
    return self


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element by 0."""
    return fill_(self, 0)


@short_errors
def index_put_(self: Tensor, indices: Any, values: object, accumulate: bool = False) -> Tensor:
    """self[indices] = values, or += with accumulate."""
    aliasing.check_writable(self, "index_put_")
    with one_at_a_time():
        contents = subscript.index_put(self, tuple(indices), values, accumulate)
        aliasing.assign(self, contents, index_put_)
    return self


@short_errors
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Overwrite the elements whose indices are all equal.

    wrap: of a matrix of more rows than columns, begin anew behind an empty row
    Raises ShapeError for less than 2 dims, or for more with sizes that differ.
    """
    rank, shape = self.dim(), tuple(self.shape)
    if rank < 2:
        raise ShapeError("fill_diagonal_: dimensions must larger than 1")
    if rank > 2 and len(set(shape)) > 1:
        raise ShapeError("fill_diagonal_: all dimensions of input must be of equal length")
    if rank == 2 and not wrap:
        fill_(ops.diagonal(self), fill_value)
        return self
    steps = contiguous_strides(shape)
    places = creation.arange(0, self.numel(), sum(steps))
    self[tuple([(places // step) % n for step, n in zip(steps, shape, strict=True)])] = fill_value
    return self


def set_(self: Tensor, source: Any = None, *unused: object, **more: object) -> Tensor:
    """Share the data of `source`; without arguments, become empty."""
    if source is None:
        source = creation.empty(0, dtype=self.dtype, device=self.device)
    aliasing.share(self, source)
    alias = self.alias
    count_write(self if alias is None or alias.base is None else alias.base)
    return self


@short_errors
def resize_(
    self: Tensor, *sizes: object, size: Any = None, memory_format: memory_format | None = None
) -> Tensor:
    """Give this tensor a new shape; elements are kept in row-major order, new elements are 0.

    The tensor keeps its memory, and shares it with the same tensors, unless more is needed.
    """
    shape = creation.sizes_of("resize_", sizes, size)
    if self.requires_grad:
        raise GraphError("resize_: cannot resize variables that require grad")
    count = 1
    for extent in shape:
        count *= extent
    if tuple(shape) == tuple(self.shape):
        return self
    start = self.storage_offset()
    root = self if self.alias is None or self.alias.base is None else base_now(self.alias)
    memory = ops.reshape(ops.detach(root), (-1,))
    have = max(memory.numel() * root.dtype.itemsize // self.dtype.itemsize - start, 0)
    if count <= have and root.dtype is self.dtype and root.is_contiguous():
        view = ops.as_strided_in_base(self, shape, contiguous_strides(tuple(shape)), start)
        return aliasing.become_view(self, view, "resize_")
    flat = ops.reshape(self, (-1,)) if self.numel() else full_beside(self, (0,), 0)
    have = self.numel()
    if root.dtype is self.dtype and root.is_contiguous() and memory.numel() > start:
        flat = ops.narrow(memory, 0, start, memory.numel() - start)
        have = flat.numel()
    if count <= have:
        flat = ops.narrow(flat, 0, 0, count)
    else:
        flat = ops.cat([flat, full_beside(self, (count - have,), 0)])
    contents = ops.clone(ops.reshape(flat, shape))
    writes = leave_memory(self)
    self.value = contents.value
    keep_count(self, writes)
    count_write(self)
    return self


def resize_as_(
    self: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None
) -> Tensor:
    """resize_ to the shape of `the_template`."""
    return resize_(self, tuple(the_template.shape))


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Overwrite each element by callable(element): Python speed."""
    flat = [callable(v) for v in ops.reshape(self, (-1,)).tolist()]
    elements = creation.tensor(flat, dtype=self.dtype, device=self.device)
    aliasing.assign(self, ops.reshape(elements, tuple(self.shape)), apply_)
    return self


@spelled(tensor="other")
def map_(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Overwrite each element by callable(element, element of `other`): Python speed."""
    wide = ops.expand(other, tuple(self.shape))
    pairs = zip(ops.reshape(self, (-1,)).tolist(), ops.reshape(wide, (-1,)).tolist(), strict=True)
    numbers = [callable(a, b) for a, b in pairs]
    elements = creation.tensor(numbers, dtype=self.dtype, device=self.device)
    aliasing.assign(self, ops.reshape(elements, tuple(self.shape)), map_)
    return self


# -- queries --------------------------------------------------------------------------------


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor viewed in the shape of `other`."""
    return ops.view(self, tuple(other.shape))  # type: ignore[no-any-return]


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return tuple(input.shape) == tuple(other.shape)


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shape and all elements are equal, whatever their dtypes."""
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool(ops.all(ops.eq(input, other)))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether |input - other| <= atol + rtol * |other| everywhere."""
    return bool(ops.all(ops.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def element_size(self: Tensor) -> int:
    """Bytes of an element."""
    return int(self.dtype.itemsize)


def get_device(self: Tensor) -> int:
    """The number of the device, -1 on the CPU."""
    index = self.device.index
    return -1 if index is None else index


def data_ptr(self: Tensor) -> int:
    """Address of the first element, 0 without elements; the memory stays shared until freed."""
    array = expose(self, watch=False)
    return int(array.ctypes.data) if array.size else 0


@short_errors
def new(self: Tensor, *args: Any, **kwargs: object) -> Tensor:
    """A tensor of this dtype from sizes or data."""
    if args and not isinstance(args[0], int) and not isinstance(args[0], Size):
        return creation.tensor(args[0], dtype=self.dtype, device=self.device)
    return creation.new_zeros(self, *(args or (0,)))


@spelled(y="other")
def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """self where condition holds, else other."""
    return ops.where(condition, self, other)  # type: ignore[no-any-return]


def as_subclass(self: Tensor, cls: type) -> Tensor:
    """This tensor as an instance of a subclass of Tensor, with the same value."""
    instance = _hot.native_new(cls)
    instance.value = _hot.refreshed(self)
    instance.leaf = self.leaf
    with DisableTorchFunctionSubclass():
        instance.alias = ops.alias(self).alias
    return instance


def make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Tensor:
    """An instance of a subclass of Tensor that shares the values of `data`, without history."""
    instance = as_subclass(data.detach(), cls)
    return instance.requires_grad_() if require_grad else instance


def reversed_(self: Tensor) -> Tensor:
    """The tensor with the first dim in reverse order, for `reversed`."""
    return ops.flip(self, (0,)) if self.dim() else self  # type: ignore[no-any-return]


def pin_memory(self: Tensor, device: DeviceLike = None) -> Tensor:
    """A copy that counts as pinned if an accelerator is there, else this tensor.

    Accelerators read the processor's memory as it is. Raises DeviceError on an accelerator.
    """
    if not self.is_cpu:
        raise DeviceError(
            f"pin_memory: cannot pin '{self.type()}': only dense CPU tensors can be pinned"
        )
    return pinned(self) if accelerator_kind() is not None and not is_pinned(self) else self


def is_pinned(self: Tensor, device: DeviceLike = None) -> bool:
    """Whether the tensor is a copy by `pin_memory`, or in the memory of such a copy."""
    return is_in_pinned(self)


@short_errors
def to_dense(
    self: Tensor, dtype: DType | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """This tensor, dense already, in that dtype."""
    return _converted(self, creation.checked_dtype("to_dense", dtype), False)


def is_nonzero(input: Tensor) -> bool:
    """Truth of a one-element tensor."""
    return bool(input)


def typename(obj: object) -> str:
    """The name of an object's type, in PyTorch's spelling."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    cls = type(obj)
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return f"{module}{cls.__qualname__}"


def positive(input: Tensor) -> Tensor:
    """The tensor itself.  Raises DTypeError for bool."""
    if input.dtype.category == 0:
        raise DTypeError("positive: the + operator is not implemented for bool tensors")
    return input


def _itself(self: Tensor) -> Tensor:
    """This tensor: dense, with nothing put off."""
    return self


def _never(self: Tensor) -> bool:
    """False: there are no such tensors here."""
    return False


def _of_kind(kind: str) -> property:
    """The attribute that tells whether a tensor lies on a device of a kind."""

    def lies_there(self: Tensor) -> bool:
        return bool(self.value.type.device.type == kind)

    return property(lies_there, doc=f"Whether on a device of the kind {kind!r}.")


def _by_sparse(name: str) -> Callable[..., Any]:
    """A method that is part of `wend.sparse`, which is imported at the first call."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return formats.SparsePackage.load().methods.call(name, self, *args, **kwargs)
        except WendError as error:
            error.shorten()
            raise

    method.__name__ = name
    method.__doc__ = f"`torch.Tensor.{name}`: see `wend.sparse`."
    return method


def is_floating_point(self: Tensor) -> bool:
    """Whether the dtype is a floating-point dtype."""
    return self.dtype.is_floating_point


def is_complex(self: Tensor) -> bool:
    """Whether the dtype is complex."""
    return self.dtype.is_complex


def is_signed(self: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return self.dtype.is_signed


def _named(name: str, function: Callable[..., Any]) -> FunctionType:
    """The function under a new name, which overrides compare."""
    alias = FunctionType(function.__code__, function.__globals__, name)
    alias.__doc__, alias.__annotations__ = function.__doc__, function.__annotations__
    return alias


@short_errors
def to_device(self: Tensor, device: DeviceLike, /, *, stream: Any = None) -> Tensor:
    """This tensor on a device: the array API's name of `to`."""
    return to(self, device)


def array_namespace(self: Tensor, *, api_version: str | None = None) -> ModuleType:
    """`wend.xp`, the array API over tensors. Raises ValueRefused for an unknown version."""
    namespace = importlib.import_module("wend.xp")
    if api_version not in (None, "2021.12", "2022.12", "2023.12", namespace.__array_api_version__):
        raise ValueRefused(
            f"__array_namespace__: version {api_version!r} of the array API is not available; "
            f"the namespace is that of {namespace.__array_api_version__}"
        )
    return namespace


def ndimension(self: Tensor) -> int:
    """Number of dims."""
    return int(self.dim())


def torch_function(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], relevant: Any = None
) -> Any:
    """Hand a call to the innermost mode, or to the class of the most derived operand.

    relevant: the operands whose classes are asked, if not all
    """
    if _STATE.modes:
        return through_mode(function, args, kwargs)
    overloaded: list[Any] = []
    for a in _flat(args) + _flat(tuple(kwargs.values())) if relevant is None else relevant:
        cls = type(a)
        known = not hasattr(cls, "__torch_function__") or _hot.slot("is_plain")(cls)
        if not known and all(type(o) is not cls for o in overloaded):
            position = next(
                (i for i, o in enumerate(overloaded) if issubclass(cls, type(o))), len(overloaded)
            )
            overloaded.insert(position, a)
    types = tuple(type(a) for a in overloaded)
    for a in overloaded:
        result = type(a).__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise ArgumentTypeError(
        f"{function.__name__}: no implementation found for types {[t.__name__ for t in types]}"
    )


def _flat(values: Any) -> list[Any]:
    out: list[Any] = []
    for v in values:
        out.extend(_flat(v) if isinstance(v, (list, tuple)) else [v])
    return out


def through_mode(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The answer of this thread's innermost mode, which is off meanwhile.

    Raises TypeError if the mode answers NotImplemented.
    """
    stack = _STATE.modes
    mode = stack.pop()
    try:
        types = tuple({type(a): None for a in (*args, *kwargs.values()) if _asks_itself(a)})
        answer = mode.__torch_function__(function, types, args, kwargs)
    finally:
        stack.append(mode)
    if answer is NotImplemented:
        raise TypeError(
            f"{mode!r} answered NotImplemented for {getattr(function, '__name__', function)}: a "
            "mode must call the function itself, or give a result"
        )
    return answer


def _asks_itself(a: object) -> bool:
    return type(a) is not Tensor and _hot.has_override(a) and not isinstance(a, (list, tuple))


class _Overriding(threading.local):
    """A thread's state of overrides: how often they are disabled, the modes that it has entered,
    and the functions under way in `default_torch_function`."""

    def __init__(self) -> None:
        self.disabled = 0
        self.modes: list[Any] = []
        self.under_way: list[Any] = []


_STATE = _Overriding()


def entered_modes() -> list[Any]:
    """The modes of this thread, the outermost first: the list itself."""
    return _STATE.modes


class DisableTorchFunctionSubclass:
    """Inside the block, this thread treats subclasses as plain tensors."""

    def __enter__(self) -> None:
        _STATE.disabled += 1

    def __exit__(self, *exc: object) -> None:
        _STATE.disabled -= 1


@classmethod  # type: ignore[misc]
def default_torch_function(
    cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Call the op on plain tensors; results become instances of the subclass.

    NotImplemented if the class of an operand is no base of `cls`, or if this is asked for in the
    course of the same call: `func` is then of another framework, and does not know Wend's tensors.
    """
    if not all(issubclass(cls, other) for other in types) or func in _STATE.under_way:
        return NotImplemented
    _STATE.under_way.append(func)
    try:
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
    finally:
        _STATE.under_way.pop()
    if cls is Tensor or func == _GRAD:
        return result
    return _as_class(result, cls)


#: Functions whose results the default leaves unchanged.
_GRAD = Tensor.grad.__get__  # type: ignore[attr-defined]


def _as_class(result: object, cls: Any) -> Any:
    if isinstance(result, Tensor):
        if not isinstance(result, cls):
            instance = _hot.native_new(cls)
            instance.value = result.value
            instance.alias = result.alias
            instance.leaf = result.leaf
            return instance
        return result
    if isinstance(result, tuple) and hasattr(result, "_make"):
        return result._make(_as_class(r, cls) for r in result)
    if isinstance(result, (list, tuple)):
        return type(result)(_as_class(r, cls) for r in result)
    return result


_hot.set_slot("torch_function", torch_function)
_hot.set_slot("override_enabled", lambda: _STATE.disabled == 0)

#: Names of dtypes by the methods that convert to these.
CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8",
    "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
for _name, _dtype in CASTS.items():
    setattr(Tensor, _name, _conversion(_name, dtypes.NAMES[_dtype]))
Tensor.to = _conversion("to", None)
for _function in (
    type_as, cpu, cuda, xpu, copy_, fill_, zero_, index_put_, fill_diagonal_, set_, resize_,
    resize_as_, apply_, map_, view_as, is_same_size, equal, allclose, element_size, get_device,
    data_ptr, new, as_subclass, is_shared, share_memory_, pin_memory, is_nonzero, ndimension,
    is_pinned, to_dense, is_floating_point, is_complex, is_signed, is_inference,
    to_device,
):  # fmt: skip
    setattr(Tensor, _function.__name__, _function)
Tensor.type = type_
Tensor.__array_namespace__ = array_namespace  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[attr-defined]
Tensor.__reversed__ = reversed_
Tensor.where = where_method
Tensor.positive = positive
for _name in ("__div__", "__rdiv__", "__idiv__"):  # Python 2's names, which PyTorch keeps
    setattr(Tensor, _name, getattr(Tensor, _name.replace("div", "truediv")))
Tensor.__torch_function__ = default_torch_function
_hot.set_operator("__pos__", ops.positive)
for _name in ("resolve_conj", "resolve_neg", "coalesce"):
    setattr(Tensor, _name, _named(_name, _itself))
Tensor.T = _indexing.OpProperty(ops.reverse_dims)
Tensor.mT = _indexing.OpProperty(ops.matrix_transpose)
Tensor.itemsize = property(element_size)
Tensor.nbytes = property(lambda self: self.numel() * self.dtype.itemsize, doc="Bytes in all.")
Tensor.layout = property(lambda self: formats.strided, doc="torch.strided.")
Tensor.is_cpu = property(lambda self: self.value.type.device is CPU, doc="Whether on the CPU.")
Tensor.is_cuda = _of_kind("cuda")
Tensor.is_xpu = _of_kind("xpu")
for _name in (
    "is_sparse", "is_sparse_csr", "is_quantized", "is_meta", "is_mps",
    "is_xla", "is_mkldnn", "is_nested", "is_vulkan", "is_ipu", "is_mtia", "is_maia",
):  # fmt: skip
    setattr(Tensor, _name, property(_never))
for _name in (
    "to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr",
    "to_sparse_bsc", "sparse_mask", "sparse_dim", "dense_dim", "smm", "sspaddmm", "indices",
    "values", "_indices", "_values", "_nnz", "crow_indices", "col_indices", "ccol_indices",
    "row_indices", "sparse_resize_", "sparse_resize_and_clear_", "resize_as_sparse_",
):  # fmt: skip
    setattr(Tensor, _name, _by_sparse(_name))
for _name in ("is_conj", "is_neg", "is_coalesced", "is_distributed"):
    setattr(Tensor, _name, _named(_name, _never))
