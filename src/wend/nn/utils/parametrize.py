"""Parameters that are computed from other parameters whenever they are read."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend._frontend.toolkit import Tensor, no_grad
from wend.nn.modules.container import ModuleDict, ModuleList
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_depth = 0
_cache: dict[tuple[Any, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside the block each parametrized tensor is computed once."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of a tensor, and the tensor (or tensors) that they start from."""

    def __init__(self, modules: Any, original: Tensor, unsafe: bool = False) -> None:
        listed = list(modules)
        if not listed:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(listed)
        self.unsafe = unsafe
        value: Any = original
        with no_grad():
            for module in reversed(listed):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        # A parametrization without `right_inverse`: PyTorch leaves the value as it
                        # is, too.
                        pass
        self.is_tensor: bool = isinstance(value, Tensor)
        if self.is_tensor:
            self._hold("original", value, original)
        else:
            self.ntensors: int = len(value)
            for i, part in enumerate(value):
                self._hold(f"original{i}", part, original)

    def _hold(self, name: str, value: Tensor, original: Tensor) -> None:
        if not isinstance(original, Parameter):
            self.register_buffer(name, value)
        elif value is original:
            self.register_parameter(name, original)
        else:
            self.register_parameter(name, Parameter(value, original.requires_grad))

    def originals(self) -> list[Tensor]:
        """The tensors that the parametrizations start from."""
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            parts = [value] if self.is_tensor else list(value)
            for original, part in zip(self.originals(), parts, strict=True):
                original.copy_(part)

    def forward(self) -> Tensor:
        modules = list(self)
        value = modules[0](*self.originals())
        for module in modules[1:]:
            value = module(value)
        return value


def _parametrized_class(module: Module) -> type:
    """A class for this module alone, whose properties compute the parametrized tensors."""
    base = type(module)

    def getstate(self: Module) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). "
            "See: https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        )

    def deepcopy(self: Module, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__setstate__(copy.deepcopy(Module.__getstate__(self), memo))
        return replica

    return type(
        f"Parametrized{base.__name__}",
        (base,),
        {"__getstate__": getstate, "__deepcopy__": deepcopy, "__module__": base.__module__},
    )


def _property(name: str) -> property:
    def read(self: Module) -> Tensor:
        if not _cache_depth:
            return self.parametrizations[name]()
        key = (self, name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def write(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make `module.tensor_name` the result of a module applied to the former tensor.

    The original is in `module.parametrizations.tensor_name.original`. If the parametrization has a
    `right_inverse`, the tensor keeps its value. unsafe: skip the checks of shape and dtype.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain = module.parametrizations[tensor_name]
        if hasattr(parametrization, "right_inverse") and chain.is_tensor:
            current = getattr(module, tensor_name)
            with no_grad():
                chain.append(parametrization)
                chain.right_inverse(current.detach().clone())
        else:
            chain.append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    chain = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.__class__ = _parametrized_class(module)
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = chain
    setattr(type(module), tensor_name, _property(tensor_name))
    if not unsafe:
        _check_result(getattr(module, tensor_name), original, tensor_name)
    return module


def _check_result(value: object, original: Tensor, name: str) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    if value.dtype is not original.dtype:
        raise ValueError(
            f"Registering a parametrization may not change the dtype of the tensor, unless "
            f"`unsafe` flag is enabled.\nmodule.{name}.dtype is: {original.dtype}\n"
            f"parametrization(module.{name}).dtype is {value.dtype}"
        )
    if value.shape != original.shape:
        raise ValueError(
            f"Registering a parametrization may not change the shape of the tensor, unless "
            f"`unsafe` flag is enabled.\nmodule.{name}.shape is: {original.shape}\n"
            f"parametrization(module.{name}).shape is {value.shape}"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or the named tensor, is parametrized."""
    chains = module.__dict__.get("parametrizations")
    if not isinstance(chains, ModuleDict):
        return False
    return len(chains) > 0 if tensor_name is None else tensor_name in chains


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor ordinary again, with the present (or original) value."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    originals = chain.originals()
    result: Any = originals[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach().clone()
        is_parameter = any(isinstance(original, Parameter) for original in originals)
        result = Parameter(value, originals[0].requires_grad) if is_parameter else value
    elif not chain.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(result, Parameter):
        module.register_parameter(tensor_name, result)
    else:
        module.register_buffer(tensor_name, result)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module before parametrization."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` the parametrizations of `from_module`, with the tensors behind them.

    tensor_name: of this tensor alone
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        chain = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for function in chain:
            register_parametrization(to_module, name, function)
        target_chain = to_module.parametrizations[name]
        if chain.is_tensor:
            target_chain.original = chain.original
        else:
            for i in range(chain.ntensors):
                setattr(target_chain, f"original{i}", getattr(chain, f"original{i}"))
    return to_module
