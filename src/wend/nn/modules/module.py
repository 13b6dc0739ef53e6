"""`Module`: parameters, buffers, submodules and a `forward`."""

from __future__ import annotations

import copyreg
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._modules import note_module_class
from wend._engine.core.holdings import NAMERS
from wend._frontend.toolkit import ModuleBase, Tensor
from wend.nn._base.convert import ConversionMixin
from wend.nn._base.gradients import clear_gradients
from wend.nn._base.hooked import (
    CALL_HOOKS,
    CallHooks,
    HooksMixin,
    register_module_backward_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from wend.nn._base.hooks import HookTable, RemovableHandle
from wend.nn._base.members import (
    MembersMixin,
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from wend.nn._base.registry import Registry
from wend.nn._base.state import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from wend.nn._base.state import StateMixin
from wend.nn._base.state import _IncompatibleKeys as _IncompatibleKeys
from wend.nn.parameter import Parameter

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_HOOK_TABLES = (
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class _CallSignature:
    """The result of `inspect.signature(module)`: any arguments, for native calls show none.

    Classes are left to their `__init__`.
    """

    def __get__(self, module: object, owner: type) -> inspect.Signature:
        if module is None:
            raise AttributeError("__signature__")
        call = owner.__call__
        if call is ModuleBase.__call__:
            return _ANY_ARGUMENTS
        return inspect.signature(call.__get__(module, owner))


_ANY_ARGUMENTS = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)


class Module(MembersMixin, HooksMixin, StateMixin, ConversionMixin, ModuleBase):
    """The base class of all networks and layers.

    Subclasses call `super().__init__()`, assign parameters and submodules as attributes, and
    define `forward`. Calling the module runs the hooks and `forward`.
    """

    dump_patches: bool = False
    T_destination = TypeVar("T_destination", bound=dict[str, Any])
    call_super_init: bool = False
    _version: int = 1
    training: bool
    __signature__: _CallSignature = _CallSignature()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        note_module_class(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        if not self.call_super_init:
            self._refuse(args, kwargs)
        self._prepare()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def _refuse(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        name = type(self).__name__
        if kwargs:
            unexpected = next(iter(kwargs))
            raise ArgumentTypeError(
                f"{name}.__init__() got an unexpected keyword argument '{unexpected}'"
            )
        if args:
            raise ArgumentTypeError(
                f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )

    def _prepare(self) -> None:
        """Give the module the common attributes: empty registries and tables of hooks."""
        put = object.__setattr__
        put(self, "training", True)
        attributes = self.__dict__
        for key in ("_parameters", "_buffers", "_modules"):
            attributes[key] = Registry(self)
        put(self, "_non_persistent_buffers_set", set())
        put(self, "_is_full_backward_hook", None)
        put(self, "n_hooks", 0)
        for table in CALL_HOOKS:
            attributes[table] = CallHooks(self)
        for table in _HOOK_TABLES:
            attributes[table] = HookTable()

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        # The native base is no obstacle to copying: all state is in `__dict__`.
        if type(self).__reduce__ is not ModuleBase.__reduce__:
            return self.__reduce__()
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        """The instance's attributes, with members named once, in the registries."""
        state = dict(self.__dict__)
        state.pop("n_hooks", None)  # in the compiled core no entry of `__dict__`
        for key in ("_parameters", "_buffers", "_modules"):
            members = getattr(self, key)
            for name in members:
                state.pop(name, None)
            state[key] = dict(members)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        members = {key: state.pop(key, {}) for key in ("_parameters", "_buffers", "_modules")}
        self._prepare()
        # A pickle of PyTorch's brings plain OrderedDicts, an old pickle not all of them.
        taken = {}
        for table in (*CALL_HOOKS, *_HOOK_TABLES):
            hooks = state.pop(table, {})
            self.__dict__[table].update(hooks)
            taken[id(hooks)] = self.__dict__[table]
        for name, value in state.items():
            if isinstance(value, RemovableHandle):
                value.follow(taken)
            object.__setattr__(self, name, value)
        for key, named in members.items():
            self.__dict__[key].update(named)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module; defined by every subclass."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # -- traversal -------------------------------------------------------------------------

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, value in list(get_members_fn(module)):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once; `recurse` includes those of submodules."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with dotted paths."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once; `recurse` includes those of submodules."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with dotted paths."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[Module]:
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with names, each module once."""
        seen: set[Module] = set()
        for name, module in list(self._modules.items()):
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all modules below, each once unless duplicates are to be kept."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self,
        memo: set[Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:
        """This module and all modules below with dotted paths, parents first."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in list(self._modules.items()):
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    # -- modes -----------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below to training (or evaluation) mode."""
        if not isinstance(mode, bool):
            raise ArgumentError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Switch to evaluation mode: dropout off, batch norm by running statistics."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set for all parameters whether gradients are recorded."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the parameters' gradients (or fill them with zeros)."""
        clear_gradients(self.parameters(), set_to_none)

    # -- printing --------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text between the parentheses in the module's line of the printed tree."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): {_indented(repr(module), 2)}" for name, module in self._modules.items()
        ]
        head = self._get_name() + "("
        if not lines and not children:
            return head + ")"
        if len(lines) == 1 and not children:
            return head + lines[0] + ")"
        return head + "\n  " + "\n  ".join(lines + children) + "\n)"


def _indented(text: str, spaces: int) -> str:
    """All lines but the first, moved to the right."""
    return text.replace("\n", "\n" + " " * spaces)


def name_members(module: Module) -> Iterator[tuple[Any, str]]:
    """The parameters and buffers of a module, with names for reports of memory."""
    kind = type(module).__name__
    for table, owner in (("_parameters", "parameters"), ("_buffers", "buffers")):
        for name, x in list((vars(module).get(table) or {}).items()):
            if x is not None:
                yield x, f"{owner}: {name} of {kind}"


NAMERS.append((Module, name_members))
