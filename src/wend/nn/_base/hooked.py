"""Calls of users' hooks by a module: its own hooks and those for all modules."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from wend._engine.core import _hot
from wend._engine.core._modules import ModuleBase
from wend._engine.core.provenance import module_path
from wend._engine.runtime.measure.taps import SOURCES, Taps
from wend._frontend.toolkit import ACTIVE_HOOKS
from wend.nn._base.hooks import BackwardHooks, HookTable, RemovableHandle


class GlobalHooks(HookTable):
    """Hooks that the calls of all modules run; the core asks for their number."""

    def _count(self, change: int) -> None:
        ACTIVE_HOOKS[0] += change


_global_forward_pre_hooks = GlobalHooks()
_global_forward_hooks = GlobalHooks()
_global_forward_hooks_with_kwargs: dict[int, bool] = {}
_global_forward_hooks_always_called: dict[int, bool] = {}
_global_backward_pre_hooks = GlobalHooks()
_global_backward_hooks = GlobalHooks()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the `forward` of every module."""
    return _global_forward_pre_hooks.add(hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the `forward` of every module."""
    handle = _global_forward_hooks.add(
        hook, extra=[_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called]
    )
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward pass of every module."""
    return _global_backward_pre_hooks.add(hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after the backward pass of every module."""
    return _global_backward_hooks.add(hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older form of `register_module_full_backward_hook`; here both do the same."""
    return register_module_full_backward_hook(hook)


CALL_HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")


class CallHooks(HookTable):
    """Hooks that the call of a module runs; the module keeps their number in `n_hooks`."""

    def __init__(self, owner: Any, hooks: Any = ()) -> None:
        self._owner = weakref.ref(owner)
        super().__init__(hooks)

    def _count(self, change: int) -> None:
        owner = self._owner()
        if owner is not None:
            owner.n_hooks += change

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        # A copy becomes a `CallHooks` again in the module's `__setstate__`.
        return HookTable, (), None, None, iter(list(self.items()))


def _apply_pre_hook(
    module: object,
    hook: Callable[..., Any],
    with_kwargs: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not with_kwargs:
        new_args = hook(module, args)
        if new_args is None:
            return args, kwargs
        return (new_args if isinstance(new_args, tuple) else (new_args,)), kwargs
    answer = hook(module, args, kwargs)
    if answer is None:
        return args, kwargs
    if isinstance(answer, tuple) and len(answer) == 2:
        return answer[0], answer[1]
    raise RuntimeError(
        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {answer}."
    )


class HooksMixin:
    """Registration of hooks, and the call of a module that has some."""

    _forward_pre_hooks: HookTable
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _forward_hooks: HookTable
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _backward_pre_hooks: HookTable
    _backward_hooks: HookTable
    _is_full_backward_hook: bool | None
    n_hooks: int
    forward: Callable[..., Any]

    def _call_hooks(self, table: str) -> CallHooks:
        """A table of hooks; a plain dict in its place becomes a counted table again."""
        hooks = self.__dict__[table]
        if type(hooks) is not CallHooks:
            hooks = self.__dict__[table] = CallHooks(self, hooks)
            self.n_hooks = sum(len(self.__dict__[name]) for name in CALL_HOOKS)
        return hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; a returned value replaces the arguments."""
        handle = self._call_hooks("_forward_pre_hooks").add(
            hook, first=prepend, extra=self._forward_pre_hooks_with_kwargs
        )
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after `forward`; a returned value replaces the output.

        always_call: also where `forward` or another hook raised.
        """
        handle = self._call_hooks("_forward_hooks").add(
            hook,
            first=prepend,
            extra=[self._forward_hooks_with_kwargs, self._forward_hooks_always_called],
        )
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the module's backward pass."""
        return self._call_hooks("_backward_pre_hooks").add(hook, first=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` after the module's backward pass."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a "
                "single Module. Please use only one of them."
            )
        self._is_full_backward_hook = True
        return self._call_hooks("_backward_hooks").add(hook, first=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form of `register_full_backward_hook`; here both do the same."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a "
                "single Module. Please use only one of them."
            )
        self._is_full_backward_hook = False
        return self._call_hooks("_backward_hooks").add(hook)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `forward` with the hooks around it."""
        called: set[int] = set()
        if not self._forward_hooks_always_called and not _global_forward_hooks_always_called:
            return self._run_hooked(args, kwargs, called)
        try:
            return self._run_hooked(args, kwargs, called)
        except Exception:
            self._run_always_called(args, kwargs, called)
            raise

    def _run_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
        for hook, with_kwargs in self._hooks("_forward_pre_hooks", _global_forward_pre_hooks):
            args, kwargs = _apply_pre_hook(self, hook, with_kwargs, args, kwargs)
        boundary = None
        backward_hooks = [*_global_backward_hooks.values(), *self._backward_hooks.values()]
        pre_hooks = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        if backward_hooks or pre_hooks:
            boundary = BackwardHooks(self, backward_hooks, pre_hooks)
            args = boundary.on_inputs(args)
        result = self.forward(*args, **kwargs)
        forward_hooks = [*_global_forward_hooks.items(), *self._forward_hooks.items()]
        for key, hook in forward_hooks:
            called.add(key)
            if key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
                replaced = hook(self, args, kwargs, result)
            else:
                replaced = hook(self, args, result)
            if replaced is not None:
                result = replaced
        return result if boundary is None else boundary.on_outputs(result)

    def _hooks(self, table: str, shared: HookTable) -> list[tuple[Any, bool]]:
        with_kwargs = getattr(self, table + "_with_kwargs")
        pairs = [(hook, False) for hook in shared.values()]
        return pairs + [(hook, key in with_kwargs) for key, hook in getattr(self, table).items()]

    def _run_always_called(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]
    ) -> None:
        """After an error: the hooks that were promised to run, with an output of None."""
        tables = (
            (_global_forward_hooks, _global_forward_hooks_always_called),
            (self._forward_hooks, self._forward_hooks_always_called),
        )
        for hooks, always in tables:
            for key in always:
                if key in called or key not in hooks:
                    continue
                with_kwargs = key in self._forward_hooks_with_kwargs
                if with_kwargs or key in _global_forward_hooks_with_kwargs:
                    hooks[key](self, args, kwargs, None)
                else:
                    hooks[key](self, args, None)


def measure_modules(recorder: Any, taps: Taps) -> None:
    """Have calls of modules measured: they go the way of modules with hooks meanwhile."""

    known: dict[Any, tuple[Any, str]] = {}  # by path of the module around and id: module, path

    def path_of(module: ModuleBase, outer: str) -> str:
        entry = known.get((outer, id(module)))
        if entry is None or entry[0] is not module:
            path = module_path(_hot.current_trace().modules) or type(module).__name__
            entry = known[outer, id(module)] = module, path
        return entry[1]

    def call(original: Callable[..., Any]) -> Any:
        def measured(module: Any, args: Any, kwargs: Any) -> Any:
            name = type(module).__name__
            path = path_of(module, recorder.module_path())
            scope = recorder.enter("module", f"nn.Module: {name}", path)
            try:
                if ACTIVE_HOOKS[0] == 1 and module.n_hooks == 0:  # nobody else has hooks
                    return module.forward(*args, **kwargs)
                return original(module, args, kwargs)
            finally:
                recorder.leave(scope)

        return measured

    taps.replace(HooksMixin, "_call_with_hooks", call)
    ACTIVE_HOOKS[0] += 1

    def restore() -> None:
        ACTIVE_HOOKS[0] -= 1

    taps.undo.append(restore)


SOURCES.append(measure_modules)
