"""torch.utils.hooks: handles of hooks, and marks of hooks that pickles leave out."""

from __future__ import annotations

import warnings
from typing import Any

from wend._engine.core._hot import Tensor
from wend._frontend.removable import RemovableHandle
from wend.nn._base.hooks import BackwardHooks
from wend.nn.modules.module import Module

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


class BackwardHook(BackwardHooks):
    """The backward hooks of a call of a module, set at the inputs and at the outputs.

    user_hooks: hook(module, grad_inputs, grad_outputs)   user_pre_hooks: hook(module, grad_outputs)
    A result of a hook takes the place of the gradients that go on.
    """

    def __init__(self, module: Module, user_hooks: list[Any], user_pre_hooks: list[Any]) -> None:
        super().__init__(module, user_hooks, user_pre_hooks)

    @property
    def user_hooks(self) -> list[Any]:
        """The hooks behind the module's backward pass."""
        return self.hooks

    @property
    def user_pre_hooks(self) -> list[Any]:
        """The hooks before the module's backward pass."""
        return self.pre_hooks

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The module's positional inputs, which this object sees in the backward pass."""
        return self.on_inputs(args)

    def setup_output_hook(self, args: Any) -> Any:
        """The module's result, which this object sees in the backward pass."""
        return self.on_outputs(args)


def unserializable_hook(f: Any) -> Any:
    """Mark a hook that need not be saved: there is no warning when a file lacks the hook."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook of a tensor that a file would lack."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                stacklevel=2,
            )
