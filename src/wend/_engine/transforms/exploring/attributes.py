"""The attributes of a function's objects: a run of exploring leaves them as they were.

Each run begins with the same attributes, so that an attribute in which `forward` leaves a result is
no change of state between two runs.  A number that a call counts up, or a tensor that a call
reads and replaces, is state that a graph does not have.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wend._engine.core._hot import Tensor
from wend._engine.core.symbolic import SymInt, SymNumber

MOST_OBJECTS = 20_000
MANY_CALLS = 1_000_000
_CONTAINERS = (list, dict, set)
_PLAIN = (int, float, complex, str, bytes, bool)
_NO_OBJECTS = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, Tensor)


def objects_of(function: object, arguments: list[Any]) -> list[Any]:
    """The objects whose attributes a function can reach without a call of other code.

    These are its own object, what closures, partial functions and globals name, the arguments, and
    the objects in the attributes of all of these.
    """
    waiting = [*_named_by(function), *arguments]
    objects: dict[int, Any] = {}
    while waiting and len(objects) < MOST_OBJECTS:
        x = waiting.pop()
        if isinstance(x, (list, tuple)):
            waiting.extend(x)
        elif isinstance(x, dict):
            waiting.extend(x.values())
        elif isinstance(x, (types.FunctionType, types.MethodType, functools.partial)):
            pass
        elif _has_state(x) and id(x) not in objects:
            objects[id(x)] = x
            waiting.extend(vars(x).values())
    return list(objects.values())


def _named_by(function: Any) -> Iterator[Any]:
    """The objects that a function names."""
    if isinstance(function, functools.partial):
        yield from _named_by(function.func)
        yield from function.args
        yield from function.keywords.values()
        return
    if isinstance(function, types.MethodType):
        yield function.__self__
        function = function.__func__
    if not isinstance(function, types.FunctionType):
        yield function
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    names = function.__globals__
    yield from [names[n] for n in function.__code__.co_names if n in names]


def _has_state(x: object) -> bool:
    """Whether an object is an instance with attributes, which are not those of a library."""
    if isinstance(x, _NO_OBJECTS) or not isinstance(getattr(x, "__dict__", None), dict):
        return False
    library = type(x).__module__.partition(".")[0]
    return library not in ("builtins", "numpy") and (library != "wend" or hasattr(x, "_parameters"))


class ChangedAttribute(NamedTuple):
    """An attribute that a call changes.

    value: a number, text or truth that the call has set; None for a tensor or a container
    """

    holder: object
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{type(self.holder).__name__}.{self.name}"

    def further(self) -> list[Any]:
        """Values that later calls might find."""
        counts = isinstance(self.value, (int, float)) and not isinstance(self.value, bool)
        return [self.value, self.value + MANY_CALLS] if counts else [self.value]


class Attributes:
    """The attributes of objects, as they were when this was made."""

    def __init__(self, objects: list[Any]) -> None:
        self.saved: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
        for x in objects:
            names = dict(vars(x))
            contents = {k: v.copy() for k, v in names.items() if type(v) in _CONTAINERS}
            self.saved.append((x, names, contents))

    def restore(self) -> None:
        """Give all objects their attributes back; lists, dicts and sets their items too."""
        for x, names, contents in self.saved:
            attributes = vars(x)
            if not _same_items(attributes, names):
                attributes.clear()
                attributes.update(names)
            for k, items in contents.items():
                held = names[k]
                if held != items if type(held) is set else not _same_items(held, items):
                    held.clear()
                    held.extend(items) if type(held) is list else held.update(items)

    def changed(self, was_read: Callable[[Tensor], bool]) -> list[ChangedAttribute]:
        """The attributes that are state from call to call.

        was_read: whether the call has read a tensor from outside
        """
        changes = []
        for x, names, contents in self.saved:
            attributes = vars(x)
            for k, old in names.items():
                new = attributes.get(k)
                if k in contents and new is old:
                    if _is_state_of(old, contents[k], was_read):
                        changes.append(ChangedAttribute(x, k, None))
                elif new is not old and _is_state(old, new, was_read):
                    changes.append(ChangedAttribute(x, k, new if isinstance(new, _PLAIN) else None))
        return changes


def _same_items(a: Any, b: Any) -> bool:
    """Whether two lists or dicts hold the same objects in the same places."""
    if len(a) != len(b):
        return False
    if type(a) is list:
        return all(x is y for x, y in zip(a, b, strict=True))
    return list(a) == list(b) and all(a[k] is b[k] for k in a)


def _is_state_of(now: Any, before: Any, was_read: Callable[[Tensor], bool]) -> bool:
    """Whether the items of a list, dict or set are state from call to call."""
    if type(now) is dict:
        return any(
            now.get(k) is not old and _is_state(old, now.get(k), was_read)
            for k, old in before.items()
        )
    if type(now) is set:
        return bool(now != before)
    return any(a is not b and _is_state(b, a, was_read) for a, b in zip(now, before, strict=False))


def _is_state(old: object, new: object, was_read: Callable[[Tensor], bool]) -> bool:
    """Whether an attribute that a call has set is state from call to call."""
    if isinstance(old, Tensor):
        return was_read(old)
    if isinstance(old, (list, tuple)):
        return any(isinstance(x, Tensor) and was_read(x) for x in old)
    if isinstance(new, (SymInt, SymNumber)):
        return False
    return isinstance(old, _PLAIN) and isinstance(new, _PLAIN) and bool(new != old)
