"""Frozen records whose classes cost next to nothing to make."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, NoReturn, dataclass_transform


@dataclass_transform(frozen_default=True)
class Record:
    """The methods that `dataclass(frozen=True)` makes for a class, written once for all classes.

    The decorator compiles six methods for each class, as long as it takes to import a module.
    """

    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._names = (*cls._names, *inspect.get_annotations(cls))

    def __init__(self, *positional: Any, **named: Any) -> None:
        names = self._names
        values = dict(zip(names, positional))
        if len(positional) > len(names) or not values.keys().isdisjoint(named):
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}, each once")
        values |= named
        if named or len(values) < len(names):
            for name in names:
                if name not in values:
                    if not hasattr(type(self), name):
                        raise TypeError(f"{type(self).__name__} needs {name}")
                    values[name] = getattr(type(self), name)
            if len(values) > len(names):
                raise TypeError(f"{type(self).__name__} has only {', '.join(names)}")
        self.__dict__.update(values)

    def _values(self) -> tuple[Any, ...]:
        content = self.__dict__
        return tuple([content[name] for name in self._names])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        pairs = zip(self._names, self._values(), strict=True)
        return f"{type(self).__qualname__}({', '.join([f'{name}={x!r}' for name, x in pairs])})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")
