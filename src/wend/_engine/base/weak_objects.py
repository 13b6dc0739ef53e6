"""Objects that are listed as long as others hold them, in any thread."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

T = TypeVar("T")


class WeakObjects(Generic[T]):
    """A set of objects, told apart by identity, that does not keep them alive.

    Unlike `weakref.WeakSet`, it may be read while another thread adds or drops an object: the
    list of references is copied in one step of the interpreter.
    """

    def __init__(self) -> None:
        self._objects: weakref.WeakValueDictionary[int, T] = weakref.WeakValueDictionary()

    def add(self, item: T) -> None:
        """List an object."""
        self._objects[id(item)] = item

    def discard(self, item: T) -> None:
        """Take an object off the list, if it is there."""
        self._objects.pop(id(item), None)

    def clear(self) -> None:
        """Take all objects off the list."""
        self._objects.clear()

    def alive(self) -> list[T]:
        """Return the objects that still exist."""
        return [item for ref in self._objects.valuerefs() if (item := ref()) is not None]
