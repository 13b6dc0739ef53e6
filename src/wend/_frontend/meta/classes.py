"""The classes of tensors on the device `meta`: one beside each class of ordinary tensors.

`type(x)` of a parameter without data is a subclass of Parameter, of the same name. Ops on plain
tensors never look at these classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from wend._engine.base.devices import CPU, META, DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import (
    ArgumentTypeError,
    ExecutionError,
    GraphError,
    NoDataError,
    NotImplementedInWend,
)
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor, Value
from wend._engine.transforms.hooks import accumulate
from wend._frontend.autograd import backward as autograd
from wend._frontend.autograd import nodes
from wend._frontend.components import OpTable
from wend._frontend.formats import memory_format
from wend._frontend.interop.exchange import user_attributes
from wend._frontend.meta.gradients import GradientOf, reached
from wend._frontend.meta.values import Facts, has_data, meta_value
from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.printing import meta_text
from wend._frontend.strides import Layout

__all__ = ["MetaTensor", "face", "meta_class", "rebuild", "run_backward"]

#: The rules of ops on such tensors, entered in `meta.table`.
TABLE = OpTable()
NO_ITEM = "Tensor.item() cannot be called on meta tensors"


def _no_item(name: str) -> Callable[..., Any]:
    def refuse(self: Tensor, *args: object) -> Any:
        raise NoDataError(NO_ITEM)

    refuse.__name__ = name
    refuse.__doc__ = "Raises RuntimeError: there is no data."
    return refuse


class MetaTensor:
    """Members that all tensors without data share, whatever their class."""

    plain_class: ClassVar[type]
    asks_about_attributes = False
    is_meta = True
    is_cpu = False
    device = META
    value: Value
    leaf: Any
    _layout: Any

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        return cls.plain_class(*args, **kwargs)

    __torch_function__ = TABLE.torch_function

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self).plain_class

    @__class__.setter
    def __class__(self, cls: type) -> None:
        object.__dict__["__class__"].__set__(self, meta_class(cls))

    # -- reads, which are refused -------------------------------------------------------------

    item = _no_item("item")
    __bool__ = _no_item("__bool__")
    __int__ = _no_item("__int__")
    __float__ = _no_item("__float__")
    __complex__ = _no_item("__complex__")
    __index__ = _no_item("__index__")
    is_nonzero = _no_item("is_nonzero")
    __contains__ = _no_item("__contains__")

    def numpy(self, *, force: bool = False) -> Any:
        """Raises TypeError, or NotImplementedError with `force`: there is no data."""
        if force:
            raise NoDataError("Cannot copy out of meta tensor; no data!")
        raise ArgumentTypeError(
            "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )

    def __array__(self, *args: object, **kwargs: object) -> Any:
        return self.numpy()

    def __dlpack__(self, **kwargs: object) -> Any:
        raise BufferError("Cannot pack tensors on meta")

    def cpu(self, memory_format: memory_format | None = None) -> Tensor:
        """Raises NotImplementedError: there is no data."""
        raise NoDataError("Cannot copy out of meta tensor; no data!")

    def data_ptr(self) -> int:
        """0: there is no memory."""
        return 0

    def get_device(self) -> int:
        """-1: the device has no number."""
        return -1

    def is_shared(self) -> bool:
        """False: there is no memory."""
        return False

    def share_memory_(self) -> Tensor:
        """Raises RuntimeError: there is no memory."""
        raise ExecutionError("share_memory_: a tensor on the device meta has no memory to share")

    def pin_memory(self, device: DeviceLike = None) -> Tensor:
        """Raises RuntimeError: there is no memory."""
        raise ExecutionError("cannot pin a tensor on the device meta: only dense CPU tensors")

    # -- text and copies ----------------------------------------------------------------------

    def __repr__(self, *, tensor_contents: object = None) -> str:
        text = meta_text(self)  # type: ignore[arg-type]
        named = getattr(type(self).plain_class, "text_before", "")
        return f"{named}{text}"

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def as_subclass(self, cls: type[Tensor]) -> Tensor:
        """This tensor as an instance of a subclass of Tensor, without data as well."""
        tensor = face(cls, self.value, self._layout)
        tensor.leaf = self.leaf
        return tensor

    def __copy__(self) -> Tensor:
        tensor = face(type(self), meta_value(self.value.type), self._layout)
        if self.requires_grad:  # type: ignore[attr-defined]
            tensor.requires_grad_()
        tensor.__dict__.update(user_attributes(self))  # type: ignore[arg-type]
        return tensor

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if self.leaf is None and self.value.requires_grad:
            raise GraphError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment"
            )
        memo[id(self)] = tensor = self.__copy__()
        return tensor

    def __reduce_ex__(self, protocol: object) -> Any:
        facts = (tuple(self.value.type.shape), self.value.type.dtype, self._layout)
        requires = bool(self.requires_grad)  # type: ignore[attr-defined]
        state = user_attributes(self)  # type: ignore[arg-type]
        return rebuild, (type(self).plain_class, *facts, requires, state)

    def type(self, dtype: DType | str | type | None = None, non_blocking: bool = False) -> Any:
        """The name of this tensor's type; with a dtype, a conversion."""
        if dtype is not None:
            return TABLE(Tensor.type, (self, dtype), {})
        with DisableTorchFunctionSubclass():
            name = str(Tensor.type(self))  # type: ignore[call-overload]
        return name.replace("torch.", "torch.meta.")

    # -- variables ----------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """This tensor without its history."""
        return self.detach()  # type: ignore[attr-defined]

    @data.setter
    def data(self, other: Any) -> None:
        if has_data(other):
            raise GraphError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                "incompatible tensor type."
            )
        self._layout = other._layout
        self.value = meta_value(other.value.type)
        if self.leaf is not None:
            self.value = Facts.relabelled(self.value, self.leaf)

    @property
    def grad_fn(self) -> Any:
        """A node that names the op which made this tensor, or None."""
        if self.leaf is not None or not self.value.requires_grad:
            return None
        return GradientOf(self.value)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Give the leaves that this tensor depends on a gradient, which has no data either."""
        autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad)` when a backward pass reaches this leaf. Refused for other tensors."""
        if self.leaf is None and self.value.requires_grad:
            raise NotImplementedInWend(
                "register_hook: on the device meta only leaves have hooks; no gradient is computed "
                "on the way to the leaves"
            )
        return nodes.register_hook(self, hook)  # type: ignore[arg-type]

    def retain_grad(self) -> None:
        """Refused for a tensor that is no leaf: only leaves get a gradient here."""
        if self.leaf is None:
            raise NotImplementedInWend(
                "retain_grad: on the device meta only leaves get a gradient; "
                "use torch.autograd.grad"
            )


#: The class of plain tensors without data, and of parameters, and so on: by the class beside.
_CLASSES: dict[type, type] = {}


def meta_class(cls: type) -> type:
    """The class beside `cls` whose instances have no data."""
    plain = getattr(cls, "plain_class", cls)
    twin = _CLASSES.get(plain)
    if twin is None:
        kind = type(plain)
        asked = {"__instancecheck__": lambda cls, x: isinstance(x, cls.plain_class)}
        metaclass = type(kind.__name__, (kind,), asked)
        names = {
            "__doc__": plain.__doc__,
            "__module__": plain.__module__,
            "__qualname__": plain.__qualname__,
            "plain_class": plain,
        }
        twin = _CLASSES[plain] = metaclass(plain.__name__, (MetaTensor, plain), names)
    return twin


def face(cls: type, value: Value, layout: Layout | None = None) -> Tensor:
    """A tensor of the class beside `cls` with a value that has no data.

    layout: (strides, offset), None for elements in row-major order
    """
    tensor = _hot.native_new(meta_class(cls))
    tensor.value = value
    tensor._layout = layout
    return tensor


def rebuild(
    cls: type, shape: Any, dtype: DType, layout: Any, requires_grad: bool, state: dict[str, Any]
) -> Tensor:
    """The tensor of a pickle."""
    tensor = face(cls, meta_value(_types.intern_type(tuple(shape), dtype, CPU)), layout)
    if requires_grad:
        tensor.requires_grad_()
    tensor.__dict__.update(state)
    return tensor


def run_backward(
    roots: list[Any], wanted: list[Any] | None, keep: bool, gather: bool
) -> list[Any] | None:
    """A backward pass: the leaves get gradients, or those of `wanted` come back with `gather`."""
    leaves, values = reached(roots, keep)
    if gather:
        known = [leaves if t.leaf is not None else values for t in wanted or ()]
        ids = [id(t.value if t.leaf is None else t.leaf) for t in wanted or ()]
        return [
            face(Tensor, meta_value(t.value.type), None) if key in there else None
            for t, key, there in zip(wanted or (), ids, known, strict=True)
        ]
    among = None if wanted is None else {id(t.leaf) for t in wanted if t.leaf is not None}
    for key, leaf in leaves.items():
        handle = leaf.ref()
        if handle is not None and (among is None or key in among):
            accumulate(leaf, face(Tensor, meta_value(handle.value.type)), False)
    return None
