"""torch.compile: the program itself, which Wend compiles as it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar, Unpack, overload

from wend._engine.base.errors import ValueRefused
from wend._frontend.static.compiling import Settings, StaticCheck
from wend._frontend.static.errors import NotCallable
from wend.nn.modules.module import Module

__all__ = ["OptimizedModule", "compile", "innermost"]

_OWN = frozenset({"_orig_mod", "_check", "_settings", "forward", "__dict__"})


class OptimizedModule(Module):
    """A compiled module: the module itself under the name `_orig_mod`, as in PyTorch.

    Attributes are those of the module, both ways.  Names in `state_dict()` begin with `_orig_mod.`,
    so that files of PyTorch's programs load; save `compiled._orig_mod.state_dict()` for plain
    names. It is no instance of the module's class, and shares `training`.
    """

    def __init__(self, mod: Module, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._check = StaticCheck(mod) if settings.fullgraph else None
        self._orig_mod = mod

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module."""
        if self._check is not None:
            self._check(args, kwargs)
        return self._orig_mod(*args, **kwargs)

    @property
    def _torchdynamo_orig_callable(self) -> Any:
        return self._orig_mod.forward

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the module is training."""
        return bool(self._orig_mod.training)

    @training.setter
    def training(self, value: bool) -> None:
        inner = self.__dict__.get("_orig_mod")
        if inner is not None:  # else Module.__init__ is at work
            inner.training = value

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> Any:
        return OptimizedModule, (self._orig_mod, self._settings)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or "_orig_mod" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        inner = self.__dict__.get("_orig_mod")
        if inner is None or name in _OWN or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(inner, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *super().__dir__()})


M = TypeVar("M", bound=Callable[..., Any])


class CompileOptions(TypedDict, total=False):
    """The keyword arguments of `compile`."""

    fullgraph: bool
    dynamic: bool | None
    backend: str | Callable[..., Any] | None
    mode: str | None
    options: dict[str, Any] | None
    name: str | None
    disable: bool
    recompile_limit: int | None
    isolate_recompiles: bool
    shapes_spec: Any


@overload
def compile(model: M, **settings: Unpack[CompileOptions]) -> M: ...
@overload
def compile(model: None = None, **settings: Unpack[CompileOptions]) -> Callable[[M], M]: ...
def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """A function or module that runs as ever: Wend compiles each path that comes back, unasked.

    fullgraph: whether the function must have a static graph; the first call for each kind of
    arguments explores the function, and raises Unsupported, with the user's line and the remedy, if
    there is none
    backend: a name of `torch._dynamo.list_backends(None)`, or a callable, which is not called
    mode, options: not both; without effect, and names of options are not checked
    disable: give the model back unchanged

    Further arguments change nothing, as no size is ever compiled in.  A module comes back as an
    `OptimizedModule` around it, as in PyTorch; `Module.compile` keeps the module.  Without a model,
    a decorator.

    Raises ValueRefused (a RuntimeError) for modes that do not exist, or mode and options together;
    InvalidBackend; NotCallable (an AssertionError).
    """
    settings = Settings(
        fullgraph,
        dynamic,
        backend,
        mode,
        options,
        name,
        disable,
        recompile_limit,
        isolate_recompiles,
        shapes_spec,
    )
    if model is None:
        return functools.partial(_compiled_later, settings)
    return _compiled(settings, model)


def _compiled_later(settings: Settings, model: Any) -> Any:
    if model is None:
        raise ValueRefused("Model can't be None")
    return _compiled(settings, model)


def _compiled(settings: Settings, model: Any) -> Any:
    """The model, with the check that the settings ask for."""
    if not callable(model):
        raise NotCallable(f"A callable function is expected, but {type(model)} is provided.")
    if settings.disable or isinstance(model, type):
        return model
    model = innermost(model)
    if isinstance(model, Module):
        return OptimizedModule(model, settings)
    check = StaticCheck(model) if settings.fullgraph else None

    def compiled(*args: Any, **kwargs: Any) -> Any:
        if check is not None:
            check(args, kwargs)
        return model(*args, **kwargs)

    updated = getattr(model, "__dict__", None) is not None
    functools.update_wrapper(compiled, model, updated=("__dict__",) if updated else ())
    compiled._torchdynamo_orig_callable = model  # type: ignore[attr-defined]
    return compiled


def innermost(function: Any) -> Any:
    """The function or module that was given to `compile`; anything else as given."""
    if isinstance(function, OptimizedModule):
        return function._orig_mod
    if isinstance(function, Module):
        return function
    return getattr(function, "_torchdynamo_orig_callable", function)
