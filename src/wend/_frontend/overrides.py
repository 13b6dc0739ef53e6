"""`torch.overrides`: the calls that a class with its own `__torch_function__` is asked about.

Ops ask the classes of operands in the core. All else (attributes, `size`, `backward`, `x[0] = v`)
is asked about by members that such a class gets when made. Plain tensors are never looked at.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

from wend._engine.core import _hot, _indexing
from wend._engine.core._hot import OpFunction, Tensor
from wend._frontend.methods import (
    DisableTorchFunctionSubclass,
    entered_modes,
    torch_function,
)
from wend._frontend.tensor import is_plain

Function = Callable[..., Any]

#: Methods with underscores that ask; those of numbers and comparisons are ops, and do so anyway.
_SPECIAL = frozenset(
    f"__{name}__"
    for name in "setitem len bool int float complex index contains repr format reversed deepcopy "
    "array reduce_ex dlpack dlpack_device".split()
)
#: Names of parameters that are tensors.
_TENSORS = frozenset(
    "input self tensor tensors tensor1 other x weight inputs elements indices A".split()
)
#: Members that do not ask: fields of the core, and the way out of a class.
_INTERNAL = frozenset(("value", "leaf", "alias", "version", "as_subclass"))
_MODULES = ("wend", "wend.nn.functional", "wend.linalg", "wend.special", "wend.fft")


def namespaces() -> list[ModuleType]:
    """The modules whose functions may be asked about."""
    return [importlib.import_module(name) for name in _MODULES]


def plain_member(member: Any) -> Any:
    """A member of `Tensor` as it is while no mode is on."""
    return getattr(member, "plain_of_member", member)


def _public(name: str) -> bool:
    return name in _SPECIAL or not (name.startswith("_") or name in _INTERNAL)


def _asks(x: object) -> bool:
    return _hot.slot("override_enabled")() and not is_plain(type(x))


def _asking_method(plain: Function, name: str) -> Function:
    def method(self: object, *args: object, **kwargs: object) -> Any:
        if _asks(self):
            return torch_function(getattr(Tensor, name), (self, *args), kwargs)
        return plain(self, *args, **kwargs)

    return functools.update_wrapper(method, plain)


def _asking_attribute(plain: object) -> property:
    def through(access: str) -> Function:
        def accessor(self: object, *value: object) -> Any:
            function = getattr(plain, access)
            return (
                torch_function(function, (self, *value), {})
                if _asks(self)
                else function(self, *value)
            )

        return accessor

    return property(
        through("__get__"), through("__set__"), through("__delete__"), getattr(plain, "__doc__", "")
    )


def _prepare(cls: Any, **options: object) -> None:
    """Called for each new subclass of Tensor."""
    super(Tensor, cls).__init_subclass__(**options)
    if cls.__torch_function__ == _inherited(cls) or is_plain(cls):
        return
    for name, member in vars(Tensor).items():
        plain = plain_member(member)
        # A member of a class beside Tensor comes first, if that class stands before Tensor.
        if not _public(name) or _static(cls, name) is not member:
            continue
        if hasattr(type(plain), "__set__") and not getattr(cls, "asks_about_attributes", True):
            continue
        if hasattr(type(plain), "__set__") or type(plain) is _indexing.OpProperty:
            setattr(cls, name, _asking_attribute(plain))
        elif callable(plain) and not isinstance(plain, (OpFunction, type)):
            setattr(cls, name, _asking_method(plain, name))


def _inherited(cls: object) -> Any:
    return Tensor.__torch_function__.__func__.__get__(cls)  # type: ignore[attr-defined]


def _static(cls: type, name: str) -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


Tensor.__init_subclass__ = classmethod(_prepare)  # type: ignore[arg-type]
if isinstance(_get := _indexing.OpProperty.__get__, FunctionType):
    _get.__defaults__ = (None,)  # as in the compiled class
for _name in _SPECIAL:
    if isinstance(_plain := vars(Tensor).get(_name), FunctionType):
        _plain.__name__ = _name  # the name that overrides compare


# -- queries --------------------------------------------------------------------------------


class _Skips(threading.local):
    once: bool = False  # whether the next question of this thread is answered with no


_SKIPS = _Skips()


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an argument's class has a `__torch_function__` that is to be asked."""
    if _SKIPS.once:
        _SKIPS.once = False
        return False
    by_mode = bool(entered_modes())
    return any(by_mode or (type(a) is not Tensor and _asked(a)) for a in relevant_args)


def _asked(a: object) -> bool:
    """Whether a class of the user's is to be asked: not that of a tensor on the device meta."""
    plain = getattr(type(a), "plain_class", None)
    return _hot.has_override(a) if plain is None else not is_plain(plain)


def has_torch_function_unary(obj: object) -> bool:
    """has_torch_function of `obj` alone."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: object) -> bool:
    """has_torch_function of the arguments."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Function, relevant_args: Iterable[Any], *args: object, **kwargs: object
) -> Any:
    """Ask the classes of the relevant arguments, the most derived first, to make this call.

    Raises ArgumentTypeError if all answer NotImplemented.
    """
    return torch_function(public_api, args, kwargs, relevant_args)


def redispatch_function(
    func: Function, types: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function without being asked about this call; ops inside of the function ask again.

    For a `__torch_function__` that lets a call go on. An op is computed at once.
    """
    keywords = kwargs or {}
    if isinstance(func, OpFunction) or getattr(Tensor, getattr(func, "__name__", ""), None) is func:
        with DisableTorchFunctionSubclass():
            return func(*args, **keywords)
    before, _SKIPS.once = _SKIPS.once, True
    try:
        return func(*args, **keywords)
    finally:
        _SKIPS.once = before


def wrap_torch_function(dispatcher: Function) -> Callable[[Function], Function]:
    """Decorator for a user's function: `dispatcher`, called alike, names the relevant arguments."""

    def inner(func: Function) -> Function:
        @functools.wraps(func)
        def wrapped(*args: object, **kwargs: object) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return inner


def is_tensor_like(inp: Any) -> bool:
    """Whether `inp` is a Tensor, or of a class with a `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Function]:
    """Functions whose results the default `__torch_function__` leaves unchanged."""
    return {Tensor.grad.__get__}  # type: ignore[attr-defined]


def get_overridable_functions() -> dict[Any, list[Function]]:
    """The functions that `__torch_function__` may be asked about, by namespace."""
    functions: dict[Any, list[Function]] = {}
    for module in namespaces():
        functions[module] = [
            f
            for name, f in vars(module).items()
            if isinstance(f, OpFunction)
            or (isinstance(f, FunctionType) and not name.startswith("_") and takes_tensors(f))
        ]
    members = [
        plain_member(m) for name, m in vars(Tensor).items() if _public(name) or name[-2:] == "__"
    ]
    functions[Tensor] = [m if callable(m) else m.__get__ for m in members if hasattr(m, "__get__")]
    return functions


@functools.lru_cache(maxsize=1)
def get_testing_overrides() -> dict[Function, Function]:
    """For each overridable function one of the same signature that returns -1."""
    return {
        f: _stand_in(f) for functions in get_overridable_functions().values() for f in functions
    }


def _stand_in(function: Callable[..., Any]) -> Function:
    def stand_in(*args: object, **kwargs: object) -> int:
        return -1

    try:
        shown = inspect.signature(function)
    except (TypeError, ValueError):  # accessors in C have none
        return stand_in
    facts: Any = stand_in
    facts.__signature__ = shown
    return stand_in


@functools.lru_cache(maxsize=1)
def get_ignored_functions() -> set[Function]:
    """Public functions that no class is asked about: no parameter of these is a tensor."""
    asked = {f for functions in get_overridable_functions().values() for f in functions}
    candidates: set[Any] = {Tensor.as_subclass, Tensor.__torch_function__}
    for module in namespaces():
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name)
            if isinstance(value, FunctionType) and not name.startswith("_"):
                candidates.add(value)
    return {f for f in candidates if f not in asked and not takes_tensors(f)}


def takes_tensors(function: Callable[..., Any]) -> bool:
    """Whether a parameter is a tensor, by its annotation or name, or may be anything."""
    if function in (Tensor.as_subclass, Tensor.__torch_function__):
        return False
    return any(
        "Tensor" in str(p.annotation) or p.name in _TENSORS or p.kind is p.VAR_POSITIONAL
        for p in inspect.signature(function).parameters.values()
    )


@functools.lru_cache(maxsize=1)
def _names() -> dict[Any, str]:
    names: dict[Any, str] = {}
    for name, attribute in vars(Tensor).items():
        member = plain_member(attribute)
        for access in ("__get__", "__set__") if not callable(member) else ():
            if hasattr(member, access):
                names[getattr(member, access)] = f"torch.Tensor.{name}.{access}"
        if callable(member):
            names[member] = f"torch.Tensor.{name}"
    for module in namespaces():
        owner = module.__name__.replace("wend", "torch", 1)
        names.update((f, f"{owner}.{n}") for n, f in vars(module).items() if callable(f))
    return names


def resolve_name(f: Function) -> str | None:
    """The full name of a public function, method or accessor: 'torch.Tensor.shape.__get__'."""
    return _names().get(f, str(f) if isinstance(f, OpFunction) else None)


def is_tensor_method_or_property(func: Function) -> bool:
    """Whether `func` is a member of Tensor, or an accessor of an attribute of Tensor."""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func
