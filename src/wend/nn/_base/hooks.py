"""Hooks: user functions that modules call around `forward` and around the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._frontend.removable import HookTable, RemovableHandle
from wend._frontend.toolkit import Function, Tensor, is_grad_enabled

__all__ = ["HookTable", "RemovableHandle"]


class _Boundary(Function):
    """The identity, whose backward pass shows the gradients to a callback.

    The callback receives all gradients at once and returns those to pass on.
    """

    @staticmethod
    def forward(ctx: Any, callback: Callable[..., Any], *tensors: Tensor) -> Any:
        ctx.callback = callback
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.callback(grads))


def _cross(callback: Callable[..., Any], values: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """Pass the tensors among `values` through a boundary; whether any of them needs a gradient."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    if not is_grad_enabled() or not any(values[i].requires_grad for i in places):
        return values, False
    crossed = _Boundary.apply(callback, *[values[i] for i in places])
    result = list(values)
    for place, tensor in zip(places, crossed, strict=True):
        result[place] = tensor
    return tuple(result), True


def _scatter(count: int, places: list[int], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    full: list[Any] = [None] * count
    for place, grad in zip(places, grads, strict=True):
        full[place] = grad
    return tuple(full)


def _as_tuple(value: object) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class BackwardHooks:
    """The backward hooks of a call of a module, between its inputs and its outputs.

    `grad_output` reaches the pre-hooks first, then the module's operations, then `grad_input`
    together with `grad_output` reaches the hooks. Where no input needs a gradient the hooks run
    with `grad_input` of None as soon as `grad_output` is known.
    """

    def __init__(self, module: object, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_output: tuple[Any, ...] | None = None
        self.inputs_need_gradients = False
        self.input_count = 0

    def on_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The module's positional inputs, seen by this object in the backward pass."""
        places = [i for i, value in enumerate(args) if isinstance(value, Tensor)]
        self.input_count = len(args)

        def receive(grads: tuple[Any, ...]) -> Any:
            if self.grad_output is None:  # no output of this module was used
                return grads
            result = self._run_hooks(_scatter(len(args), places, grads))
            self.grad_output = None
            return tuple(result[i] for i in places)

        args, self.inputs_need_gradients = _cross(receive, args)
        return args

    def on_outputs(self, result: object) -> Any:
        """The module's result, seen by this object in the backward pass."""
        outputs = _as_tuple(result)
        places = [i for i, value in enumerate(outputs) if isinstance(value, Tensor)]
        count = len(outputs)

        def receive(grads: tuple[Any, ...]) -> Any:
            full = self._run_pre_hooks(_scatter(count, places, grads))
            self.grad_output = full
            if not self.inputs_need_gradients:
                input_grads = self._run_hooks((None,) * self.input_count)
                if any(grad is not None for grad in input_grads):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should "
                        "always return None or None for all gradients."
                    )
                self.grad_output = None
            return tuple(full[i] for i in places)

        crossed, _ = _cross(receive, outputs)
        if isinstance(result, tuple):
            return crossed
        return crossed[0]

    def _run_pre_hooks(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            new_grads = hook(self.module, grads)
            if new_grads is not None:
                grads = _checked(_as_tuple(new_grads), grads, "Backward pre hook")
        return grads

    def _run_hooks(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.hooks:
            new_grads = hook(self.module, grads, self.grad_output)
            if new_grads is not None:
                grads = _checked(_as_tuple(new_grads), grads, "Backward hook")
        return grads


def _checked(new_grads: tuple[Any, ...], grads: tuple[Any, ...], who: str) -> tuple[Any, ...]:
    if len(new_grads) != len(grads):
        raise RuntimeError(
            f"{who} returned an invalid number of grad_input, got {len(new_grads)}, "
            f"but expected {len(grads)}"
        )
    return new_grads
