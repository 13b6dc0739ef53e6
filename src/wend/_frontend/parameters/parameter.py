"""Parameters and buffers: the tensors that a module owns.

Public as `wend.nn.parameter`; files and processes know of parameters without knowing layers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import GraphError
from wend._frontend.interop.exchange import user_attributes
from wend._frontend.tensor import disabled_torch_function
from wend._frontend.toolkit import Tensor, empty, meta_face, native_new, no_grad

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]

_PUBLIC = "wend.nn.parameter"


def _instance(cls: type, data: Tensor, requires_grad: bool) -> Any:
    """A tensor of class `cls` that shares the values of `data`, and is a leaf."""
    if type(data) is not Tensor and data.is_meta:
        instance = meta_face(cls, data)
        if requires_grad:
            instance.requires_grad_()
        return instance
    shared = data.detach()
    instance = native_new(cls)
    instance.value, instance._layout = shared.value, shared._layout
    instance.alias, instance.version = shared.alias, shared.version
    if requires_grad:
        instance.requires_grad_()
    return instance


def fresh_parameter(data: Tensor, requires_grad: bool = True) -> Parameter:
    """A parameter with the values of a tensor that nobody else holds.

    Without a second handle on the values, writing to the parameter has nothing to keep in step.
    """
    if type(data) is not Tensor and data.is_meta:
        return _instance(Parameter, data, requires_grad)  # type: ignore[no-any-return]
    parameter = native_new(Parameter)
    parameter.value = data.value
    if requires_grad:
        parameter.requires_grad_()
    return parameter


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """Makes instances of other subclasses of Tensor that were passed to Parameter count as such."""

    def __instancecheck__(cls, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        return (
            cls is Parameter and isinstance(instance, Tensor) and "_is_param" in instance.__dict__
        )


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module lists among its parameters when it becomes an attribute.

    data: the values; the parameter is a view of `data`, as in PyTorch (None: an empty tensor). An
    instance of another subclass of Tensor keeps its class. Raises RuntimeError if its `detach` does
    not give such an instance.
    """

    __module__ = _PUBLIC

    __torch_function__: ClassVar[Any] = classmethod(disabled_torch_function)

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = empty(0)
        if type(data) is Tensor or type(data) is Parameter or data.is_meta:
            return _instance(cls, data, requires_grad)
        instance = data.detach().requires_grad_(requires_grad)
        if type(instance) is not type(data):
            raise GraphError(
                f"Parameter: detach() of a {type(data).__name__} gives a "
                f"{type(instance).__name__}; it must give an instance of the same class: "
                "see its __torch_function__"
            )
        instance.__dict__["_is_param"] = True
        return instance  # type: ignore[return-value]

    def __init__(self, *args: object, **kwargs: object) -> None:
        """All is done in `__new__`: the base class would make a tensor of sizes."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        with no_grad():
            result = _instance(type(self), self.clone(), self.requires_grad)
        memo[id(self)] = result
        result.__dict__.update(user_attributes(self))
        return result

    text_before = "Parameter containing:\n"

    def __repr__(self) -> str:
        return self.text_before + super().__repr__()

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        state = user_attributes(self)
        if state:
            return (
                rebuild_parameter_with_state,
                (self.detach(), self.requires_grad, OrderedDict(), state),
            )
        return rebuild_parameter, (self.detach(), self.requires_grad, OrderedDict())


def rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: object) -> Parameter:
    """The parameter of a pickle; hooks are not kept, as in PyTorch."""
    return Parameter(data, requires_grad)


def rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: object, state: dict[str, Any]
) -> Parameter:
    """The parameter of a pickle with further attributes."""
    parameter = Parameter(data, requires_grad)
    parameter.__dict__.update(state)
    return parameter


class Buffer(Tensor):
    """A tensor that a module lists among its buffers when it becomes an attribute.

    persistent: whether the buffer is part of the module's `state_dict`.
    """

    __module__ = _PUBLIC

    __torch_function__: ClassVar[Any] = classmethod(disabled_torch_function)

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = empty(0)
        buffer = _instance(cls, data, data.requires_grad)
        buffer.persistent = persistent
        return buffer

    def __init__(self, *args: object, **kwargs: object) -> None:
        """All is done in `__new__`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) in memo:
            return memo[id(self)]
        with no_grad():
            result = type(self)(self.detach().clone(), persistent=self.persistent)
        memo[id(self)] = result
        return result


class UninitializedTensorMixin:
    """A parameter or buffer of unknown shape; `materialize` gives the shape."""

    __module__ = _PUBLIC

    cls_to_become: type = Tensor
    __torch_function__: ClassVar[Any] = classmethod(disabled_torch_function)
    data: Any
    _allowed = ("device", "dtype", "requires_grad")

    def materialize(
        self, shape: Sequence[int], device: DeviceLike = None, dtype: DType | None = None
    ) -> None:
        """Become an ordinary, uninitialised tensor of that shape."""
        dtype = self.data.dtype if dtype is None else dtype
        device = self.data.device if device is None else device
        self.data = empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """Raises RuntimeError: the shape is not known yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. "
            "This error usually happens in `load_state_dict` when trying to load an "
            "uninitialized parameter into an initialized one. Call `forward` to initialize "
            "the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Tensor:
        """Raises RuntimeError: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a lazy module, of a shape decided by the first input."""

    __module__ = _PUBLIC

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: DeviceLike = None, dtype: DType | None = None
    ) -> UninitializedParameter:
        return _instance(cls, empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) in memo:
            return memo[id(self)]
        memo[id(self)] = result = type(self)(self.requires_grad, dtype=self.data.dtype)
        return result

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, None, self.data.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy module, of a shape decided by the first input."""

    __module__ = _PUBLIC

    cls_to_become = Buffer  # an object of a Python class cannot become an object of a native class
    persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: DeviceLike = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        buffer = _instance(cls, empty(0, device=device, dtype=dtype), requires_grad)
        buffer.persistent = persistent
        return buffer

    def __init__(self, *args: object, **kwargs: object) -> None:
        """All is done in `__new__`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) in memo:
            return memo[id(self)]
        memo[id(self)] = result = type(self)(*self.__reduce_ex__(2)[1])
        return result

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, None, self.data.dtype, self.persistent)


def is_lazy(param: object) -> bool:
    """Whether the parameter still waits for a shape."""
    return isinstance(param, UninitializedTensorMixin)
