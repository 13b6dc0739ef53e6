"""Functions in Python and members of `Tensor`, which ask modes although these are no ops.

Nothing stands in the way of a call while no mode is on. As the first mode begins, functions get
other code, which asks, and members of the class are replaced; as the last mode ends, all is put
back. The function that a mode is asked about is the one that users know in either state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any, Protocol

import wend
from wend._engine.core import _hot
from wend._engine.core._hot import OpFunction, Tensor
from wend._engine.core._indexing import PartsFunction
from wend._engine.core.primitive import PUBLIC, REGISTRY
from wend._frontend import creation, random
from wend._frontend.methods import entered_modes, through_mode, torch_function
from wend._frontend.overrides import namespaces, plain_member, takes_tensors

__all__ = ["Switch", "public_ops", "switches"]

#: Members that never ask: fields of the core, and what makes and describes classes.
_SILENT = frozenset(
    "__new__ __init__ __hash__ __dict__ __doc__ __array_priority__ __buffer__ "
    "__torch_function__ __init_subclass__ _make_subclass as_subclass alias value leaf version "
    "_layout _views _moved _repr_html_ __array_namespace__".split()
)
#: Functions with tensors as parameters, or of the makers of tensors, that do not ask.
_QUIET = frozenset(
    "manual_seed seed initial_seed fork_rng get_rng_state set_rng_state from_numpy frombuffer "
    "has_torch_function has_torch_function_unary has_torch_function_variadic assert_int_or_pair "
    "symeig".split()
)
#: Modules all of whose functions ask.
_WHOLLY = ("wend.nn.functional", "wend.fft")


class Switch(Protocol):
    """Something that asks modes while it is on."""

    def turn_on(self) -> None:
        """Ask from now on."""

    def turn_off(self) -> None:
        """Be as if nothing had been."""


def _asked(function: Any, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The call: by the mode, if this thread has one and computes; rules of ops do not ask.

    A mode that lets the call go on comes by here again, and then classes are asked.
    """
    if _hot.current_trace().symbolic is None:
        if entered_modes():
            return through_mode(function, args, kwargs)
        if any(type(a) is not Tensor and _hot.has_override(a) for a in (*args, *kwargs.values())):
            return torch_function(function, args, kwargs)
    return plain(*args, **kwargs)


# -- functions in Python --------------------------------------------------------------------


def _template(*args: object, **kwargs: object) -> Any:
    ask: Any = "asking"
    return ask(args, kwargs)


class CodeSwitch:
    """A function in Python: under every name, old or new, its code asks the mode first.

    A twin keeps the function's own code. The template gets the names of free variables because
    Python wants as many as the function has cells.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.plain = function.__code__
        twin = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        twin.__kwdefaults__ = function.__kwdefaults__
        ask = functools.partial(_asked, function, twin)
        code = _template.__code__
        self.asking = code.replace(
            co_consts=tuple(ask if c == "asking" else c for c in code.co_consts),
            co_freevars=self.plain.co_freevars,
            co_name=self.plain.co_name,
        )

    def turn_on(self) -> None:
        """Ask from now on."""
        self.function.__code__ = self.asking

    def turn_off(self) -> None:
        """The function's own code again."""
        self.function.__code__ = self.plain


# -- members of the class -------------------------------------------------------------------


class AskingMember:
    """A member of `Tensor` that asks the mode; `Tensor.member` itself is the plain one."""

    def __init__(self, plain: Any, asked: object = None) -> None:
        self.plain = self.plain_of_member = plain
        self.asked = asked or plain
        self.__doc__ = getattr(plain, "__doc__", None)

    def __get__(self, x: Any, owner: Any = None) -> Any:
        if x is None:
            return self.plain.__get__(None, owner)
        return functools.partial(self.call, x)

    def call(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """x.member(*args, **kwargs)"""
        return _asked(self.asked, self.plain, (x, *args), kwargs)


class AskingAttribute(AskingMember):
    """An attribute of `Tensor` that asks the mode when it is read, written or deleted."""

    def __get__(self, x: Any, owner: Any = None) -> Any:
        plain = self.plain.__get__
        return plain(None, owner) if x is None else _asked(plain, plain, (x,), {})

    def __set__(self, x: Any, value: Any) -> None:
        plain = self.plain.__set__
        _asked(plain, plain, (x, value), {})

    def __delete__(self, x: Any) -> None:
        plain = self.plain.__delete__
        _asked(plain, plain, (x,), {})


class AskingIteration(AskingMember):
    """Iteration asks about `unbind`, as PyTorch's does."""

    def call(self, x: Any, *args: object, **kwargs: object) -> Any:
        """iter(x)"""
        if not entered_modes() or not x.dim():
            return self.plain(x)
        return iter(x.unbind(0))


class AttributeSwitch:
    """A name of a class or module: what asks takes the place of what is there."""

    def __init__(self, owner: object, name: str, asking: object) -> None:
        self.owner, self.name, self.asking = owner, name, asking
        self.plain = vars(owner)[name]

    def turn_on(self) -> None:
        """Ask from now on."""
        setattr(self.owner, self.name, self.asking)

    def turn_off(self) -> None:
        """As before."""
        setattr(self.owner, self.name, self.plain)


def _by_code(name: str, member: object) -> bool:
    """Whether a member asks by other code; in the uncompiled core operators are functions, too."""
    special = name in _OPERATORS or name in _METHODS or name == "__iter__"
    return isinstance(member, FunctionType) and not special


def _members() -> Iterator[AttributeSwitch]:
    for name, attribute in vars(Tensor).items():
        member = plain_member(attribute)
        if name in _SILENT or name in _OPERATORS or isinstance(member, OpFunction):
            continue
        if not hasattr(type(member), "__get__") or _by_code(name, member):
            continue  # a constant of the class, or a function
        if name == "__iter__":
            yield AttributeSwitch(Tensor, name, AskingIteration(member))
        elif hasattr(type(member), "__set__") or not callable(member):
            yield AttributeSwitch(Tensor, name, AskingAttribute(member))
        else:
            asked = getattr(Tensor, _METHODS[name]) if name in _METHODS else None
            yield AttributeSwitch(Tensor, name, AskingMember(member, asked))


#: Operators that are ops, and ask as such. (Python's class would keep slower slots afterwards.)
_OPERATORS = frozenset(
    f"__{side}{name}__"
    for name in "add sub mul div truediv floordiv mod pow matmul lshift rshift and or xor".split()
    for side in ("", "r")
) | frozenset(f"__{name}__" for name in "lt le eq ne gt ge neg pos abs invert".split())
#: In-place operators that are asked about as methods.
_METHODS = {"__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_"}


# -- all of them ----------------------------------------------------------------------------


def public_ops() -> list[OpFunction]:
    """Every op that users can call, by whatever name."""
    functions: list[OpFunction] = [op.function for op in REGISTRY.values() if op.torch.operators]
    for place in (PUBLIC, vars(Tensor), *map(vars, namespaces())):
        functions += [f for f in place.values() if isinstance(f, OpFunction)]
    return functions


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    creators = {*creation.__all__, *random.__all__, "tril_indices", "triu_indices"}
    for name in {*getattr(module, "__all__", ()), *vars(module)}:
        function = getattr(module, name)
        if not isinstance(function, FunctionType) or name.startswith("_") or name in _QUIET:
            continue
        wholly = module.__name__ in _WHOLLY or (module is wend and name in creators)
        if wholly or takes_tensors(function):
            yield function


def switches() -> list[Switch]:
    """Everything but ops that asks: each once."""
    code_switches: dict[int, Switch] = {}
    functions = [m for n, m in vars(Tensor).items() if n not in _SILENT and _by_code(n, m)]
    for module in namespaces():
        functions += _functions(module)
    for function in functions:
        if isinstance(function, FunctionType) and id(function) not in code_switches:
            code_switches[id(function)] = CodeSwitch(function)
    parts = [
        AttributeSwitch(module, name, _asking_part(part))
        for module in namespaces()
        for name, part in vars(module).items()
        if isinstance(part, PartsFunction)
    ]
    return [*code_switches.values(), *_members(), *parts]


def _asking_part(part: PartsFunction) -> Callable[..., Any]:
    """`chunk`, `split` or `unbind`, asking; these are no functions whose code could be replaced."""

    @functools.wraps(part)
    def asking(*args: object, **kwargs: object) -> Any:
        return _asked(part, part, args, kwargs)

    return asking
