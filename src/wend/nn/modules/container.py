"""Modules that hold modules or parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self, overload

from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexOutOfRange,
    RequirementError,
    ValueRefused,
)
from wend._frontend.toolkit import Tensor
from wend.nn._base.members import modules_of
from wend.nn.modules.module import Module, _indented
from wend.nn.parameter import Parameter

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Container(Module):
    """A module with submodules given by keyword."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """Modules under the names "0", "1", ...: common part of `Sequential` and `ModuleList`."""

    def _place(self, index: int) -> int:
        """A list index as a position. Raises IndexError beyond the ends."""
        index = operator.index(index)
        count = len(self)
        if not -count <= index < count:
            raise IndexOutOfRange(f"index {index} is out of range")
        return index % count

    def _rebuild(self, modules: Iterable[Module]) -> None:
        """Hold these modules, numbered anew."""
        members = self._modules
        members.clear()
        for i, module in enumerate(modules):
            members[str(i)] = module

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(modules_of(self).values()))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Numbered):
    """y = the modules applied in a row, in the order given (or of the OrderedDict)."""

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: OrderedDict[str, Module], /) -> None: ...
    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Tensor:
        # The names are the registry's, the modules `__dict__`'s: direct writes there count.
        attributes = self.__dict__
        for name in attributes["_modules"]:
            input = attributes[name](input)
        return input

    def _name_at(self, index: int) -> str:
        return list(self._modules)[self._place(index)]

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Module | Self:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._name_at(index)]:
            delattr(self, name)
        if all(name.isdigit() for name in names):
            self._rebuild(list(self._modules.values()))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ArgumentError(
                "add operator supports only objects of Sequential class, "
                f"but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ArgumentError(
                "add operator supports only objects of Sequential class, "
                f"but {type(other)} is given."
            )
        for module in list(other):
            self.append(module)
        return self

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*_repeated(self, times))

    def __rmul__(self, times: int) -> Sequential:
        return self * times

    def __imul__(self, times: int) -> Self:
        for module in _repeated(self, times)[len(self) :]:
            self.append(module)
        return self

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the module at `index`."""
        if not isinstance(module, Module):
            raise RequirementError(f"module should be of type: {Module}")
        count = len(self)
        if not -count <= index <= count:
            raise IndexOutOfRange(f"Index out of range: {index}")
        _put_before(self, index if index >= 0 else index + count, module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Remove and return the module at an index."""
        module = self[key]
        del self[key]
        return module


def _put_before(holder: Module, index: int, module: Module) -> None:
    """Put a module at an index, and move the later ones on; modules with names keep theirs.

    Raises KeyError if a module that would move has a name.
    """
    modules = holder._modules
    for place in range(len(modules), index, -1):
        modules[str(place)] = modules[str(place - 1)]
    modules[str(index)] = module


def _repeated(modules: Iterable[Module], times: int) -> list[Module]:
    if not isinstance(times, int):
        raise ArgumentTypeError(
            f"unsupported operand type(s) for *: {type(modules)} and {type(times)}"
        )
    if times <= 0:
        raise ArgumentError(f"Non-positive multiplication factor {times} for {type(modules)}")
    return list(modules) * times


class ModuleList(_Numbered):
    """A list of modules whose parameters count as the owner's."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Module | Self:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(self._place(index))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(self._place(index)), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        if not isinstance(index, slice):
            index = self._place(index)
        del modules[index]
        self._rebuild(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the module at `index`."""
        count = len(self)
        _put_before(self, min(max(index if index >= 0 else index + count, 0), count), module)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Remove and return the module at an index."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise ArgumentTypeError(
                "ModuleList.extend should be called with an iterable, "
                "but got " + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        if len(self) == 0:
            return self._get_name() + "()"
        blocks: list[tuple[str, int, int]] = []  # text, first and last index of equal neighbours
        for i, module in enumerate(self):
            text = repr(module)
            if blocks and blocks[-1][0] == text:
                blocks[-1] = (text, blocks[-1][1], i)
            else:
                blocks.append((text, i, i))
        lines = []
        for text, first, last in blocks:
            label = f"({first})" if first == last else f"({first}-{last})"
            times = "" if first == last else f"{last - first + 1} x "
            lines.append(_indented(f"{label}: {times}{text}", 2))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules whose parameters count as the owner's."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return a module."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[Any]) -> None:
        """Add modules from a mapping or from pairs of name and module."""
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _pairs(entries: object, who: str) -> list[tuple[str, Any]]:
    if not isinstance(entries, Iterable):
        raise ArgumentTypeError(
            f"{who}.update should be called with an iterable of key/value pairs, "
            f"but got {type(entries).__name__}"
        )
    if hasattr(entries, "items"):
        return list(entries.items())
    pairs = []
    for i, pair in enumerate(entries):
        if not isinstance(pair, Iterable):
            raise ArgumentTypeError(
                f"{who} update sequence element #{i} should be Iterable; is {type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ArgumentError(
                f"{who} update sequence element #{i} has length {len(pair)}; 2 is required"
            )
        pairs.append(pair)
    return pairs


def _as_parameter(value: object) -> Any:
    """Tensors become parameters; anything else is held unchanged."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _described(name: object, value: object, dtype: str | None) -> str:
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else type(value).__name__
    size = "x".join(str(n) for n in value.size())
    return f"  ({name}): {kind} containing: [{dtype or value.type()} of size {size}]"


class ParameterList(Module):
    """A list of parameters (tensors become parameters, all else is held unchanged)."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _place(self, index: int) -> str:
        index = operator.index(index)
        count = len(self)
        if not -count <= index < count:
            raise IndexOutOfRange(f"index {index} is out of range")
        return str(index % count)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._place(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._place(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise ArgumentTypeError(
                "ParameterList.extend should be called with an iterable, "
                f"but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            _described(i, value, str(value.dtype) if isinstance(value, Tensor) else None)
            for i, value in enumerate(self)
        )

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise ValueRefused("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters (tensors become parameters, all else is held unchanged)."""

    def __init__(self, parameters: Mapping[str, Any] | Iterable[Any] | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: object) -> str:
        if not isinstance(key, str):
            raise ArgumentTypeError(
                "Index given to ParameterDict cannot be used as a key as it is "
                f"not a string (type is '{type(key).__name__}'). Open an issue on "
                "github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, self._attribute(key), _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value under a key; `default` is put there if the key is new."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Module:
        """Remove and return a value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair."""
        key = list(self._keys)[-1]
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value under a key, or `default`."""
        if key not in self:
            return default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with the same value under all keys."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, value) pairs."""
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Iterable[Any]:
        """The values."""
        return [self[key] for key in self._keys]

    def update(self, parameters: Mapping[str, Any] | Iterable[Any]) -> None:
        """Add values from a mapping or from pairs of name and value."""
        pairs = _pairs(parameters, "ParameterDict")
        if not isinstance(parameters, (OrderedDict, ParameterDict)) and isinstance(
            parameters, Mapping
        ):
            pairs.sort()
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_described(key, value, None) for key, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise ValueRefused("ParameterDict should not be called.")

    def __or__(self, other: Mapping[str, Any] | Iterable[Any]) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Any) -> ParameterDict:
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other: Mapping[str, Any] | Iterable[Any]) -> Self:
        self.update(other)
        return self
