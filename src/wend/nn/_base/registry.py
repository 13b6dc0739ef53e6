"""The named members of a module, mirrored into its ``__dict__``.

A module's parameters, buffers and submodules live twice. ``_parameters``, ``_buffers`` and
``_modules`` hold kind and order. The instance's ``__dict__`` makes ``self.weight`` a plain
attribute read. A `Registry` writes through to the ``__dict__``; `registry` undoes writes to the
``__dict__`` alone. So the two never disagree for longer than a look takes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wend._engine.core._modules import ModuleBase, mirrored

_MISSING: Any = object()


class Registry(dict[str, Any]):
    """A dict whose writes also go to the ``__dict__`` of a module."""

    __slots__ = ("_owner",)

    def __init__(self, owner: ModuleBase, members: Mapping[str, Any] | None = None) -> None:
        # A strong reference would make every module part of a cycle, freed late.
        self._owner = weakref.ref(owner)
        super().__init__()
        if members:
            self.update(members)

    def owned_by(self, module: object) -> bool:
        """Whether this registry mirrors the ``__dict__`` of the module."""
        return self._owner() is module

    def _mirror(self, name: str, value: object) -> None:
        owner = self._owner()
        if owner is not None:
            owner.__dict__[name] = value

    def _forget(self, name: str, value: object) -> None:
        owner = self._owner()
        if owner is not None and owner.__dict__.get(name, _MISSING) is value:
            del owner.__dict__[name]

    def __setitem__(self, name: str, value: object) -> None:
        dict.__setitem__(self, name, value)
        self._mirror(name, value)

    def __delitem__(self, name: str) -> None:
        self._forget(name, self[name])
        dict.__delitem__(self, name)

    def pop(self, name: str, default: object = _MISSING) -> Any:
        if name in self:
            value = dict.pop(self, name)
            self._forget(name, value)
            return value
        if default is _MISSING:
            raise KeyError(name)
        return default

    def popitem(self) -> tuple[str, Any]:
        name, value = dict.popitem(self)
        self._forget(name, value)
        return name, value

    def clear(self) -> None:
        for name, value in self.items():
            self._forget(name, value)
        dict.clear(self)

    def setdefault(self, name: str, default: object = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others: Mapping[str, Any] | Iterable[Any], **members: object) -> None:  # type: ignore[override]
        for name, value in dict(*others, **members).items():
            self[name] = value

    def __ior__(self, other: Any) -> Registry:  # type: ignore[override,misc]
        self.update(other)
        return self

    def adopt(self, name: str, value: object) -> None:
        """Take over a value that was written to the ``__dict__`` directly."""
        dict.__setitem__(self, name, value)

    def drop(self, name: str) -> None:
        """Forget a name that was removed from the ``__dict__`` directly, or reused."""
        dict.__delitem__(self, name)

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        # Copies and pickles are plain dicts: the receiving module makes a registry of its own.
        return dict, (), None, None, iter(list(self.items()))


def registry(module: ModuleBase, key: str, admits: Callable[[Any], bool]) -> Registry:
    """The module's registry of that kind, in agreement with the ``__dict__``.

    Raises AttributeError if the module's ``__init__`` has not run.
    """
    attributes = module.__dict__
    members = attributes.get(key, _MISSING)
    if members is _MISSING:
        raise AttributeError(
            f"'{type(module).__name__}' object has no attribute '{key}': "
            "call super().__init__() first"
        )
    if type(members) is not Registry or not members.owned_by(module):
        # A plain dict from a pickle or a copy, or the registry of the module copied from.
        attributes[key] = fresh = Registry(module, members)
        return fresh
    if mirrored(attributes, members):
        return members
    for name, value in list(members.items()):
        current = attributes.get(name, _MISSING)
        if current is value:
            continue
        if current is not _MISSING and (current is None or admits(current)):
            members.adopt(name, current)
        else:
            members.drop(name)
    return members


def replace_registry(module: ModuleBase, key: str, members: Mapping[str, Any]) -> None:
    """Make `members` the module's registry of that kind; names of the former registry go."""
    attributes = module.__dict__
    for name, value in list(attributes.get(key, {}).items()):
        if attributes.get(name, _MISSING) is value:
            del attributes[name]
    attributes[key] = Registry(module, members)
