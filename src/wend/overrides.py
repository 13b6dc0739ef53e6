"""torch.overrides: the calls that a class with its own `__torch_function__` is asked about."""

from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.modes.function_modes import BaseTorchFunctionMode, TorchFunctionMode
from wend._frontend.overrides import (
    get_default_nowrap_functions,
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    is_tensor_method_or_property,
    redispatch_function,
    resolve_name,
    wrap_torch_function,
)

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]
