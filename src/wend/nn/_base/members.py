"""Members of a module: parameters, buffers and submodules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wend._frontend.toolkit import ModuleBase, Tensor
from wend.nn._base.hooks import HookTable, RemovableHandle
from wend.nn._base.registry import Registry, registry, replace_registry
from wend.nn.parameter import Buffer, Parameter, is_lazy

_MEMBERS = (Parameter, Buffer, ModuleBase)

_parameter_registration_hooks = HookTable()
_buffer_registration_hooks = HookTable()
_module_registration_hooks = HookTable()


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever a module gets a parameter."""
    return _parameter_registration_hooks.add(hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a module gets a buffer."""
    return _buffer_registration_hooks.add(hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever a module gets a submodule."""
    return _module_registration_hooks.add(hook)


def _pass_through(hooks: HookTable, module: object, name: str, value: object) -> Any:
    """The new member after all registration hooks."""
    for hook in hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


# Settled by a look at the type; isinstance of three classes costs as much as the assignment.
_NEVER_MEMBERS = frozenset({bool, int, float, str, type(None), tuple, list, dict, Tensor})
_set = object.__setattr__


def _refuse_before_init(value: object) -> None:
    for kind, what in ((Parameter, "parameters"), (ModuleBase, "module"), (Buffer, "buffers")):
        if isinstance(value, kind):
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")


class _Member:
    """A registry of a module as an attribute: a read brings the registry up to date with
    `__dict__`."""

    def __init__(self, admits: Callable[[Any], bool]) -> None:
        self.admits = admits

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        if module is None:
            return self
        return registry(module, self.name, self.admits)

    def __set__(self, module: ModuleBase, members: Mapping[str, Any]) -> None:
        replace_registry(module, self.name, members)

    def __delete__(self, module: ModuleBase) -> None:
        replace_registry(module, self.name, {})


def _is_module(value: object) -> bool:
    return isinstance(value, ModuleBase)


def modules_of(module: ModuleBase) -> Mapping[str, Any]:
    """`module._modules`, in one step."""
    return registry(module, "_modules", _is_module)


def _is_parameter(value: object) -> bool:
    return isinstance(value, Parameter)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _type_name(value: object) -> str:
    """The type's name in the spelling of PyTorch's messages."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


class MembersMixin:
    """Attribute access, registration and look-up of a module's members."""

    _parameters = _Member(_is_parameter)
    _buffers = _Member(_is_tensor)
    _modules = _Member(_is_module)
    _non_persistent_buffers_set: set[str]

    def __getattr__(self, name: str) -> Any:
        # Only names absent from `__dict__` and class come here: members that a foreign
        # `__setstate__` brought without a mirror, or a mistake.
        attributes = self.__dict__
        for key in ("_parameters", "_buffers", "_modules"):
            members = attributes.get(key)
            if members is None or name not in members:
                continue
            # Classes that hand on attributes call this method for names that are there.
            # A name in a live registry of ours was deleted from `__dict__` directly.
            if name in attributes or type(members) is not Registry or not members.owned_by(self):
                value = attributes[name] = members[name]
                return value
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: object) -> None:
        attributes = self.__dict__
        if type(value) not in _NEVER_MEMBERS and isinstance(value, _MEMBERS):
            if "_parameters" not in attributes:
                _refuse_before_init(value)
            self._set_member(name, value)
            return
        if name in attributes:
            try:
                member = (
                    name in attributes["_parameters"]
                    or name in attributes["_modules"]
                    or name in attributes["_buffers"]
                )
            except KeyError:  # before Module.__init__()
                member = False
            if member:
                self._set_member(name, value)
                return
        _set(self, name, value)

    def _set_member(self, name: str, value: object) -> None:
        if isinstance(value, Parameter):
            self._release(name, keep="_parameters")
            self.register_parameter(name, value)
        elif name in self._parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, ModuleBase):
            self._release(name, keep="_modules")
            self._modules[name] = _pass_through(_module_registration_hooks, self, name, value)
        elif name in self._modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            self._modules[name] = _pass_through(_module_registration_hooks, self, name, None)
        elif isinstance(value, Buffer):
            self._release(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            self._buffers[name] = _pass_through(_buffer_registration_hooks, self, name, value)
        else:  # the name was a member until `__dict__` was changed directly
            _set(self, name, value)

    def _release(self, name: str, keep: str) -> None:
        """Make a name free for a member of a kind."""
        for key in ("_parameters", "_buffers", "_modules"):
            if key != keep:
                getattr(self, key).pop(name, None)
        if name not in getattr(self, keep):
            self.__dict__.pop(name, None)
            if keep != "_buffers":
                self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for key in ("_parameters", "_buffers", "_modules"):
            members = getattr(self, key)
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        return sorted(name for name in names if not name[0].isdigit())

    def _check_name(self, what: str, name: object, members: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {_type_name(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in members:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None for a parameter that is absent."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        members = self._parameters
        self._check_name("parameter", name, members)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_type_name(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and not is_lazy(param) and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, "
                "compute the value in the forward() method."
            )
        members[name] = _pass_through(_parameter_registration_hooks, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module but is not a parameter.

        persistent: whether the buffer is part of `state_dict`.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        members = self._buffers
        self._check_name("buffer", name, members)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        members[name] = _pass_through(_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: object) -> None:
        """Add a submodule under a name."""
        if module is not None and not isinstance(module, ModuleBase):
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        members = self._modules
        self._check_name("module", name, members)
        members[name] = _pass_through(_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: ModuleBase) -> None:
        """Another name of `add_module`."""
        self.add_module(name, module)

    # -- looking up by path ----------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The submodule at a dotted path; "" is the module itself."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleBase):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: ModuleBase, strict: bool = False) -> None:
        """Put a module at a dotted path; `strict` demands that something is there already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        parent_path, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), ModuleBase):
            raise AttributeError(f"`{name}` is not an nn.Module")
        if not isinstance(module, ModuleBase):
            raise ValueError(f"{_type_name(module)} is not a Module subclass")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        value = getattr(module, name)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]
