"""Modules that take the shapes of their parameters from the first input."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import ValueRefused
from wend.nn.modules.module import Module
from wend.nn.parameter import UninitializedTensorMixin, is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Mixed into a module before the base: calls `initialize_parameters` with the first input.

    cls_to_become: the class that the module has from then on.
    """

    cls_to_become: type | None = None
    _parameters: Any
    _buffers: Any
    _non_persistent_buffers_set: set[str]
    _register_load_state_dict_pre_hook: Any
    register_forward_pre_hook: Any

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters shapes; defined by every lazy module."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still waits for a shape."""
        members = [*self._parameters.values(), *self._buffers.values()]
        return any(isinstance(tensor, UninitializedTensorMixin) for tensor in members)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        for members in (self._parameters, self._buffers):
            for name, tensor in members.items():
                if tensor is None or name in self._non_persistent_buffers_set:
                    continue
                as_is = is_lazy(tensor) or keep_vars
                destination[prefix + name] = tensor if as_is else tensor.detach()

    def _lazy_load_hook(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Give waiting parameters the shapes of the tensors about to be loaded."""
        for members in (self._parameters, self._buffers):
            for name, tensor in members.items():
                source = state_dict.get(prefix + name)
                if is_lazy(tensor) and source is not None and not is_lazy(source):
                    tensor.materialize(source.shape)

    def _infer_parameters(self, module: Module, args: Any, kwargs: Any = None) -> None:
        self.initialize_parameters(*args, **(kwargs or {}))
        if self.has_uninitialized_params():
            raise ValueRefused(f"module {type(self).__name__} has not been fully initialized")
        self._initialize_hook.remove()
        self._load_hook.remove()
        del self._initialize_hook, self._load_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become
