"""torch.ops: operators by namespace. `aten` has Wend's functions, programs define the rest."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from typing import Any, Final

from wend._engine.base.errors import NotAvailable
from wend._engine.core._hot import Tensor

__all__ = ["OpOverload", "OpOverloadPacket", "aten", "load_library", "loaded_libraries"]

#: Asks the finders for modules that lay here once: see `former_names`.
__path__: list[str] = []

Function = Callable[..., Any]
loaded_libraries: set[str] = set()
_OWN: Final = ("aten", "prims")
#: Python functions of operators, where the names differ.
_OTHER_NAMES: Final = {
    "_to_copy": "to",
    "_pin_memory": "pin_memory",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "alias": "view_as",
    "_unsafe_view": "view",
}
_NAME: Final = re.compile(r"_{0,2}[a-z][a-z0-9_]*$")


class OpOverload:
    """A form of an operator: `torch.ops.aten.add.Tensor`."""

    def __init__(self, packet: OpOverloadPacket, form: str) -> None:
        self.packet = packet
        self.overloadpacket = packet
        self._overloadname = form
        self.__name__ = f"{packet.__name__}.{form}"

    @property
    def namespace(self) -> str:
        """`aten`."""
        return self.packet.namespace

    def name(self) -> str:
        """`aten::add.Tensor`."""
        tail = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.packet._qualified_op_name}{tail}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.packet(*args, **kwargs)

    def __repr__(self) -> str:
        name = f"{self.packet.namespace}.{self.packet.__name__}.{self._overloadname}"
        return f"<OpOverload(op='{name}')>"


class OpOverloadPacket:
    """An operator with all forms: `torch.ops.aten.add`."""

    def __init__(self, namespace: str, name: str, function: Function | None) -> None:
        self.namespace = namespace
        self.__name__ = name
        self._qualified_op_name = f"{namespace}::{name}"
        self._function = function

    def __getattr__(self, form: str) -> OpOverload:
        if form.startswith("__"):
            raise AttributeError(form)
        overload = vars(self)[form] = OpOverload(self, form)
        return overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            raise NotAvailable(f"torch.ops.{self.namespace}.{self.__name__}: not part of Wend")
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.__name__}')>"


class Namespace:
    """The operators of a namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        own = self._name in _OWN and _NAME.match(name) is not None
        if not own:
            raise AttributeError(f"torch.ops.{self._name} has no operator {name!r}")
        return self._define(name, _function_of(name))

    def _define(self, name: str, function: Function | None) -> OpOverloadPacket:
        """Put a new operator here."""
        packet = OpOverloadPacket(self._name, name, function)
        vars(self)[name] = packet
        return packet


def _max_pool_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """The gradient of max pooling, from the places of the greatest elements.

    grad_output, indices: of the result's shape   self: the input   ->   of the input's shape
    The windows are said again by the other arguments, as PyTorch's kernel takes these.
    """
    nd = 2 if isinstance(kernel_size, int) else len(kernel_size)
    front = self.shape[: self.dim() - nd]
    flat: Tensor = grad_output.new_zeros((*front, math.prod(self.shape[self.dim() - nd :])))
    values, places = grad_output.reshape(*front, -1), indices.reshape(*front, -1)
    return flat.scatter_add(-1, places, values).reshape(self.shape)


#: Operators that only `aten` has, not the package.
_KERNELS: Final[dict[str, Function]] = {
    "max_pool2d_with_indices_backward": _max_pool_backward,
    "max_pool3d_with_indices_backward": _max_pool_backward,
}


def _function_of(name: str) -> Function | None:
    """Wend's function for an operator of `aten`; None if there is none, which a call tells."""
    if name in _KERNELS:
        return _KERNELS[name]
    name = _OTHER_NAMES.get(name, name)
    for module in ("wend", "wend.nn.functional", "wend.special", "wend.linalg"):
        candidate = getattr(importlib.import_module(module), name, None)
        if callable(candidate):
            function: Function = candidate
            return function
    method: Function | None = getattr(Tensor, name, None)
    return method if callable(method) else None


def namespace(name: str) -> Namespace:
    """The namespace of that name, which comes into being when asked for."""
    space = globals()
    if not isinstance(space.get(name), Namespace):
        space[name] = Namespace(name)
    entry: Namespace = space[name]
    return entry


def load_library(path: str) -> None:
    """Raises OSError: libraries made for PyTorch's binary cannot be loaded."""
    raise OSError(f"torch.ops.load_library: {path!r} needs PyTorch's binary")


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return namespace(name)


aten = namespace("aten")
