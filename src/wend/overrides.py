"""torch.overrides: the calls that a class with its own `__torch_function__` is asked about."""

from typing import Any

from wend.base.errors import NotImplementedInWend
from wend.frontend.methods import DisableTorchFunctionSubclass
from wend.frontend.overrides import (
    get_default_nowrap_functions,
    get_overridable_functions,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


class TorchFunctionMode:
    """A block in which all calls go to `__torch_function__`: can be defined, not entered."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        raise NotImplementedInWend(
            "torch.overrides.TorchFunctionMode: calls cannot be led elsewhere; give the tensors a "
            "class with __torch_function__"
        )

    def __exit__(self, *exception: object) -> None:
        pass


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls the functions themselves."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))
